import type { RateHeaders } from '../rate-headers.ts'

/**
 * Whether Remaining counts at all. Some services send the same values with every answer; where these say that
 * little or nothing is left, to believe them would be to stand still. So a Remaining of which only one value was
 * ever seen, and that not the one of a fresh window, is left out until it changes.
 */
export class Counting {
  #only: number | null = null
  #hasVaried = false
  #answers = 0

  /** What can be believed of an answer's headers. */
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
}

const answersNeeded = 4
