import type { Call, Calls } from './calls.ts'

/**
 * The first reckoning: follow Remaining. It needs to know nothing about windows, because whatever the service's
 * way of counting, Remaining falls only by calls and rises by itself. An answer that says "r left" was preceded
 * by all calls that had been answered when it was sent; every other call may have come after it. So in total
 * `answered before + this one + r` calls are allowed, and that stays true for ever, in whatever order answers come.
 */
export class RemainingReckoning {
  readonly #calls: Calls
  /** Calls allowed in all, since the beginning. */
  #ceiling = 0
  /** The order of the latest call whose answer told Remaining. */
  #latest = 0

  constructor(calls: Calls) {
    this.#calls = calls
  }

  available(): number {
    return this.#ceiling - this.#calls.sent - this.#calls.granted
  }

  learn(call: Call, remaining: number): void {
    this.#ceiling = Math.max(this.#ceiling, call.endedBefore + 1 + remaining)
    if (call.order < this.#latest) return
    this.#latest = call.order
    // Never more than the latest header says is left: the limit was cut, or somebody else uses the key.
    this.#ceiling = Math.min(this.#ceiling, this.#calls.sent + remaining)
  }

  /** The limit was cut: what was allowed by the former one does not hold. */
  cut(): void {
    this.#ceiling = 0
  }

  /** Some calls are known to be allowed although no header says so. */
  allow(count: number): void {
    this.#ceiling = Math.max(this.#ceiling, this.#calls.sent + this.#calls.granted + count)
  }

  /** Trusts nothing that was read before. */
  forget(): void {
    this.#ceiling = this.#calls.sent
  }
}
