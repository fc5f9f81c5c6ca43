import type { Reset } from '../rate-reset.ts'

/**
 * What Reset says about a fixed window's length without any clock but the service's own: the ends of two windows
 * lie at least a length apart, whatever starts them. Where Reset is told to the millisecond this is as good as
 * told outright; where it is rounded to the second, it is too long by up to a second.
 */
export class WindowEnds {
  most = Number.POSITIVE_INFINITY
  #ends: number[] = []

  learn(reset: Reset, sentAt: number, receivedAt: number): void {
    const end = reset.kind === 'instant' ? reset.at : receivedAt + reset.ms
    const slack = reset.precision + (reset.kind === 'instant' ? jitter : receivedAt - sentAt)
    // Some services reckon the end anew for each answer: it must differ by more than by that to be another.
    const same = Math.max(shortest, 1.5 * slack)
    for (const earlier of this.#ends) {
      const apart = Math.abs(end - earlier)
      if (apart < same) return
      this.most = Math.min(this.most, apart + slack)
    }
    this.#ends.push(end)
    if (this.#ends.length > kept) this.#ends.shift()
  }
}

/** In milliseconds. */
const jitter = 5
const shortest = 400
const kept = 6
