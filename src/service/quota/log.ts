import type { Calls } from './calls.ts'

/**
 * The second reckoning: every call takes one of the limit's places from its sending until it is certainly older
 * than the window, which is one length after its answer. That holds for a sliding window, a bucket and a fixed
 * window alike, so it needs only a length that is not too short. It wastes the time that a call is on the wire.
 */
export class LogReckoning {
  readonly #calls: Calls
  /** Calls ended, the earliest first; what ended within a few milliseconds is one entry, at the last of them. */
  readonly #ended: { readonly from: number; at: number; count: number }[] = []
  #first = 0
  #count = 0

  constructor(calls: Calls) {
    this.#calls = calls
  }

  ended(at: number, limit: number): void {
    const last = this.#ended.at(-1)
    this.#count++
    if (last !== undefined && this.#ended.length > this.#first && at - last.from < grain) {
      last.at = at
      last.count++
    } else {
      this.#ended.push({ from: at, at, count: 1 })
    }
    // While as many later calls as the limit are counted, an earlier one makes no difference.
    for (let first = this.#ended[this.#first]; first !== undefined; first = this.#ended[this.#first]) {
      if (this.#count - first.count < limit) break
      this.#drop(first.count)
    }
  }

  available(limit: number, length: number, now: number): number {
    for (let first = this.#ended[this.#first]; first !== undefined; first = this.#ended[this.#first]) {
      if (first.at + length > now) break
      this.#drop(first.count)
    }
    return limit - this.#count - this.#calls.outstanding - this.#calls.granted
  }

  /** When the next place is free. */
  nextAt(length: number): number | null {
    const first = this.#ended[this.#first]
    return first === undefined ? null : first.at + length
  }

  #drop(count: number): void {
    this.#count -= count
    this.#first++
    if (this.#first > 1024 && this.#first * 2 > this.#ended.length) {
      this.#ended.splice(0, this.#first)
      this.#first = 0
    }
  }
}

/** In milliseconds. */
const grain = 3
