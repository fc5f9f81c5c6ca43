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
  #latestRemaining = Number.POSITIVE_INFINITY
  /** By headers alone so many are allowed in all; and when that was told. */
  #covered = 0
  #coveredAt = Number.NEGATIVE_INFINITY
  #sureAt = Number.NEGATIVE_INFINITY
  #latestSure = Number.POSITIVE_INFINITY

  constructor(calls: Calls) {
    this.#calls = calls
  }

  /**
   * What the latest header leaves, less all calls that were sent after its own: no more than that is left while its
   * window lasts, whoever else calls.
   */
  get latestLeft(): number {
    return this.#latestRemaining - (this.#calls.sent - this.#latest) - this.#calls.granted
  }

  /** The same, if none of the calls that were on the wire with it had been counted. */
  get latestSure(): number {
    return this.#latestSure - this.#calls.sent - this.#calls.granted
  }

  available(): number {
    return this.#ceiling - this.#calls.sent - this.#calls.granted
  }

  /** Calls allowed in all by what headers said, and by nothing else: refused, it was somebody else who took the place. */
  get covered(): number {
    return this.#covered
  }

  /**
   * How many calls another client has made for certain since the header that allowed the most: Remaining fell by more
   * than all calls of ours. Only for a call that was sent when that had come, because a window may have ended between.
   */
  excess(call: Call, remaining: number): number {
    return call.sentAt < this.#coveredAt ? 0 : Math.max(0, this.#covered - this.#calls.sent - remaining)
  }

  learn(call: Call, remaining: number, receivedAt: number): void {
    const covered = call.endedBefore + 1 + remaining
    // Answers to calls that were on the wire together come in any order: the one that leaves the least came last.
    if (call.sentAt >= this.#sureAt || covered < this.#latestSure) {
      this.#latestSure = covered
      this.#sureAt = receivedAt
    }
    if (covered > this.#covered || this.excess(call, remaining) > 0) {
      this.#covered = covered
      this.#coveredAt = receivedAt
    }
    this.#ceiling = Math.max(this.#ceiling, call.endedBefore + 1 + remaining)
    if (call.order < this.#latest) return
    this.#latest = call.order
    this.#latestRemaining = remaining
    // Never more than the latest header says is left: the limit was cut, or somebody else uses the key.
    this.#ceiling = Math.min(this.#ceiling, this.#calls.sent + remaining)
  }

  /** The limit was cut: what was allowed by the former one does not hold. */
  cut(): void {
    this.#ceiling = 0
    this.#covered = 0
  }

  /** Some calls are known to be allowed although no header says so. */
  allow(count: number): void {
    this.#ceiling = Math.max(this.#ceiling, this.#calls.sent + this.#calls.granted + count)
    this.#latestSure = Math.max(this.#latestSure, this.#ceiling)
  }

  /** Trusts nothing that was read before. */
  forget(): void {
    this.#ceiling = this.#calls.sent
    this.#covered = 0
    this.#latest = this.#calls.sent
    this.#latestRemaining = 0
    this.#latestSure = this.#calls.sent
  }
}
