import type { Heard } from './calls.ts'

/** How many calls are remembered; a limit beyond that is never told from its own rate. */
export const remembered = 16_384

/** The calls that have ended, in the order of their answers: when each was sent and answered, and which count. */
export class History {
  readonly #sentAt = new Float64Array(remembered)
  readonly #receivedAt = new Float64Array(remembered)
  /** How many of the calls up to and with this one were certainly counted. */
  readonly #counted = new Float64Array(remembered)
  #length = 0

  /** Calls ended in all. */
  get length(): number {
    return this.#length
  }

  add({ call, receivedAt, isCounted }: Heard): void {
    const at = this.#length % remembered
    this.#sentAt[at] = call.sentAt
    this.#receivedAt[at] = receivedAt
    this.#counted[at] = this.countedUpTo(this.#length) + (isCounted ? 1 : 0)
    this.#length++
  }

  /** Of the first `count` calls that ended, how many were certainly counted. */
  countedUpTo(count: number): number {
    return count <= 0 ? 0 : (this.#counted[(count - 1) % remembered] ?? 0)
  }

  /** When the answer to the `index`th call (from 0) came; null where it is forgotten or has not ended. */
  receivedAt(index: number): number | null {
    return this.#has(index) ? (this.#receivedAt[index % remembered] ?? null) : null
  }

  /** How many calls ended at or after a moment. */
  endedSince(at: number): number {
    let low = Math.max(0, this.#length - remembered)
    let high = this.#length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#receivedAt[middle % remembered] ?? 0) < at) low = middle + 1
      else high = middle
    }
    return this.#length - low
  }

  /** The earliest sending among the calls from `from` up to and without `to`. */
  earliestSent(from: number, to: number): number | null {
    if (!this.#has(from)) return null
    let earliest = Number.POSITIVE_INFINITY
    for (let index = from; index < to; index++) {
      earliest = Math.min(earliest, this.#sentAt[index % remembered] ?? Number.POSITIVE_INFINITY)
    }
    return earliest
  }

  /** The latest index from which on, up to `to`, at least `count` calls were certainly counted. */
  sinceCounted(count: number, to: number): number | null {
    const wanted = this.countedUpTo(to) - count
    let low = Math.max(0, this.#length - remembered)
    let high = to
    if (wanted < this.countedUpTo(low)) return null
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (this.countedUpTo(middle) <= wanted) low = middle
      else high = middle - 1
    }
    return low
  }

  #has(index: number): boolean {
    return index >= 0 && index < this.#length && index >= this.#length - remembered
  }
}
