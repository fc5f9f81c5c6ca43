import type { RateHeaders } from '../rate-headers.ts'
import type { Reset } from '../rate-reset.ts'
import type { Call } from './calls.ts'

/**
 * What can be believed of an answer's headers.
 *
 * - Whether Remaining counts at all: some services send the same values with every answer; where these say that little
 *   or nothing is left, to believe them would be to stand still. So a Remaining of which only one value was ever seen,
 *   and that not the one of a fresh window, is left out until it changes.
 * - The unit of a Reset that is a delay: some services tell it in milliseconds, a thousand times too long if it is taken
 *   for seconds. It falls as time passes, and so tells its own unit.
 */
export class Counting {
  #only: number | null = null
  #hasVaried = false
  #answers = 0
  #last: { readonly ms: number; readonly sentAt: number; readonly receivedAt: number } | null = null
  /** How often a delay fell as if it were milliseconds. */
  #fell = 0

  /** Delays are told in milliseconds. */
  get isInMs(): boolean {
    return this.#fell >= fallsNeeded
  }

  credible(rate: RateHeaders): RateHeaders {
    const { limit, remaining } = rate
    if (remaining === null || this.#hasVaried) return rate
    if (this.#only !== null && remaining !== this.#only) {
      this.#hasVaried = true
      return rate
    }
    this.#only = remaining
    this.#answers++
    const isFresh = limit === null || limit === 1 || remaining >= limit - 1
    if (isFresh || this.#answers < answersNeeded) return rate
    return { ...rate, limit: null, remaining: null, reset: null }
  }

  /** A Reset in its own unit. */
  inUnit(reset: Reset | null, { sentAt }: Call, receivedAt: number): Reset | null {
    if (reset === null || reset.kind !== 'delay') return reset
    this.#learnUnit(reset.ms, sentAt, receivedAt)
    return this.isInMs ? { kind: 'delay', ms: reset.ms / 1000, precision: 1 } : reset
  }

  /** Of two calls, one after the other, the delay fell by the milliseconds between the two, and not by the seconds. */
  #learnUnit(ms: number, sentAt: number, receivedAt: number): void {
    const last = this.#last
    if (last !== null && sentAt < last.receivedAt) return
    const isRenewed = last === null || ms >= last.ms
    if (isRenewed || receivedAt - last.receivedAt > comparedFor) this.#last = { ms, sentAt, receivedAt }
    if (isRenewed) return
    const fell = (last.ms - ms) / 1000
    const isAsMs = fell >= sentAt - last.receivedAt - 1 && fell <= receivedAt - last.sentAt + 1
    if (!isAsMs) this.#fell = 0
    else if (fell >= leastFall) this.#fell++
  }
}

const answersNeeded = 4

const fallsNeeded = 3

/** Answers are held against the same one for so long, in milliseconds. */
const comparedFor = 1000

/** In milliseconds: a delay in seconds falls by one now and then, and by no more between two calls. */
const leastFall = 10
