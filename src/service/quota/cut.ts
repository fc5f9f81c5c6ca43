import type { RateHeaders } from '../rate-headers.ts'
import type { Call } from './calls.ts'

/**
 * The limit was cut. What was on the wire by then may come too much, which nothing can help; but it proves nothing, and
 * answers of before the cut that come after it must not bring the former limit back.
 */
export class Cut {
  #at = Number.NEGATIVE_INFINITY

  get wasMade(): boolean {
    return Number.isFinite(this.#at)
  }

  /** An answer told it. */
  made(now: number): void {
    this.#at = now
  }

  /** Whether a call was sent when it had been told. */
  isKnownTo(call: Call): boolean {
    return call.sentAt > this.#at
  }

  /** The headers as they are to be read: an answer of before the cut counts as many, so that fewer are left. */
  read(rate: RateHeaders, call: Call, known: number | null): RateHeaders {
    const { limit, remaining } = rate
    if (limit === null || remaining === null || known === null) return rate
    if (limit <= known || this.isKnownTo(call)) return rate
    return { ...rate, limit: known, remaining: Math.max(0, known - (limit - remaining)) }
  }
}
