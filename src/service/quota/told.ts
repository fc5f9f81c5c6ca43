import type { RateHeaders } from '../rate-headers.ts'
import type { Call } from './calls.ts'

/** Which answers tell something: some services send headers with some of their answers only. */
export class Told {
  /** Answers that told Remaining. */
  #count = 0
  /** When the latest of their calls was sent. */
  sentAt = Number.NEGATIVE_INFINITY
  /**
   * The most that was used by an answer that told Reset. A bucket's Reset is no further off than it takes until so much
   * has come back, and of one that only the first answer told, that is one call.
   */
  mostUsed = 0

  remaining(call: Call): void {
    this.#count++
    this.sentAt = Math.max(this.sentAt, call.sentAt)
  }

  reset(used: number | null): void {
    this.mostUsed = Math.max(this.mostUsed, used ?? 0)
  }

  /** The share of answers that carry headers, of `ended` calls. */
  share(ended: number): number {
    return Math.max(0.05, this.#count / Math.max(1, ended))
  }
}

/** Of so few answers all may have had headers by chance. */
export const fewAnswers = 8

/** Calls counted by the service, this one included; null where the headers do not say, or say nothing credible. */
export function usedOf({ limit, remaining }: RateHeaders, known: number | null): number | null {
  const total = limit ?? known
  if (total === null || remaining === null || remaining >= total) return null
  return total - remaining
}
