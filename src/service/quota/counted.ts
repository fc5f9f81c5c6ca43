import type { Heard } from './calls.ts'

/**
 * Which calls the service has certainly counted. Faults (5xx) are counted by some services and not by others, so
 * they prove nothing. Misses and refused inputs (4xx) are counted by most: it is believed when more are counted
 * than all other calls together, or when a call with nothing else on the wire counts one more than the miss
 * before it; and never again once one counts the same.
 */
export class Counted {
  #isProven = false
  #isRefuted = false
  /** Calls that were counted before the first of ours: a predecessor's. */
  #before: number | null = null
  /** The latest call, if it was a miss and alone on the wire. */
  #miss: { readonly order: number; readonly used: number } | null = null

  /** @param status no 429 */
  isCounted(status: number): boolean {
    return status < 400 || (status < 500 && this.#isProven && !this.#isRefuted)
  }

  /** @param sent calls sent in all by the time of the answer */
  learn({ call, used }: Heard, status: number, sent: number): void {
    if (used === null) {
      this.#miss = null
      return
    }
    this.#before ??= Math.max(0, used - sent)
    if (used - this.#before > sent - call.missesBefore) this.#isProven = true
    const isAlone = call.endedBefore === call.order - 1 && sent === call.order
    const last = this.#miss
    this.#miss = isAlone && isMiss(status) ? { order: call.order, used } : null
    if (!isAlone || last === null || call.order !== last.order + 1) return
    if (used === last.used + 1) this.#isProven = true
    if (used === last.used) this.#isRefuted = true
  }
}

export const isMiss = (status: number): boolean => status >= 400 && status < 500 && status !== 429
