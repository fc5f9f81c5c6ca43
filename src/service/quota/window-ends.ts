import type { Reset } from '../rate-reset.ts'

interface End {
  readonly at: number
  readonly slack: number
  /** Counted up with each rest: between the ends of two stretches of work any number of windows may lie. */
  readonly stretch: number
}

/**
 * What Reset says about a fixed window's length without any clock but the service's own: the ends of windows lie
 * at least a length apart, whatever starts them. Where Reset is told to the millisecond this is as good as told
 * outright; where it is rounded to the second, it is too long by up to a second over so many windows.
 */
export class WindowEnds {
  most = Number.POSITIVE_INFINITY
  #ends: readonly End[] = []
  #stretch = 0
  #searched = { least: 0, most: 0, ends: this.#ends, found: 0 }

  /** Nothing was wanted for a while. */
  rested(): void {
    this.#stretch++
  }

  learn(reset: Reset, sentAt: number, receivedAt: number): void {
    const at = reset.kind === 'instant' ? reset.at : receivedAt + reset.ms
    const slack = reset.precision + (reset.kind === 'instant' ? jitter : receivedAt - sentAt)
    // Some services reckon the end anew for each answer: it must differ by more than by that to be another.
    const same = Math.max(shortest, 1.5 * slack)
    if (this.#ends.some((earlier) => Math.abs(at - earlier.at) < same)) return
    const ends = [...this.#ends, { at, slack, stretch: this.#stretch }].sort((a, b) => a.at - b.at)
    const index = ends.findIndex((end) => end.at === at)
    for (const [other, earlier] of ends.entries()) {
      if (other === index || earlier.stretch !== this.#stretch) continue
      this.most = Math.min(this.most, (Math.abs(at - earlier.at) + slack) / Math.abs(index - other))
    }
    this.#ends = ends.slice(-kept)
  }

  /**
   * The longest length on which all ends can lie if the clock starts the windows, so that each end is a whole
   * number of lengths from every other; 0 where there is none, and then the clock does not start them.
   */
  onClock(least: number, most: number, step: number): number {
    if (most > longest || this.#ends.length === 0) return most
    const { ends, found } = this.#searched
    const isKept = ends === this.#ends && (found === 0 ? least >= this.#searched.least : found > least)
    if (isKept && found <= most && most <= this.#searched.most) return found
    this.#searched = { least, most, ends: this.#ends, found: this.#search(least, most, step) }
    return this.#searched.found
  }

  #search(least: number, most: number, step: number): number {
    for (let length = Math.floor(most / step) * step; length > least; length -= step) {
      if (this.#isLattice(length)) return length
    }
    return 0
  }

  #isLattice(length: number): boolean {
    const slack = Math.max(...this.#ends.map((end) => end.slack))
    const first = this.#ends[0]?.at ?? 0
    if (2 * slack >= length) return true
    const offs = this.#ends.map(({ at }) => {
      const off = (at - first) % length
      return off > length / 2 ? off - length : off
    })
    // All are rounded the same way, so no two differ by more than the slack of one.
    return Math.max(...offs) - Math.min(...offs) <= slack
  }
}

/** In milliseconds. */
const jitter = 5
const shortest = 400
const kept = 12

/** Of a longer window a second, which is what is to be gained, is next to nothing. */
const longest = 120_000
