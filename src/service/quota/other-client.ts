/**
 * Whether somebody else spends the same key, and how much room to leave for that. The service counts more calls
 * than were made here: told in two windows, it is another client (told once, it may have been this one's
 * predecessor). The room is what was seen, more after each refusal, and slowly less while there is none.
 */
export class OtherClient {
  room = 0
  #isSeen = false
  #isProven = false
  #seenIn: number | null = null
  #quietWindows = 0
  #flight = 0
  #fellAt: number | null = null
  /** Calls of another client in the window of this name. */
  #fallen = 0
  #fellIn = -1
  #refusedAt = Number.NEGATIVE_INFINITY

  /** A call that was on its way for so long, in milliseconds. */
  answered(flightMs: number): void {
    this.#flight = Math.max(this.#flight * 0.99, flightMs)
  }

  /** How much of what a header leaves is left to the other client, which calls on while ours are on their way. */
  allowance(length: number, now: number): number {
    const share = Number.isFinite(length) ? Math.min(1, (1.3 * this.#flight) / length) : 1
    const isRecent = this.isRecent(now)
    return Math.ceil(this.room * share * (isRecent ? 2 : 1)) + (isRecent ? 4 : 1)
  }

  /** A call was refused moments ago. */
  isRecent(now: number): boolean {
    return now - this.#refusedAt < recent
  }

  /** It is another client, and not what a process before this one had on the wire when it ended. */
  get isProven(): boolean {
    return this.#isProven
  }

  get isSeen(): boolean {
    return this.#isSeen
  }

  /**
   * @param excess calls that the service counted beyond those that can be ours
   * @param window which window it was, by our reckoning
   */
  counted(excess: number, window: number, limit: number): void {
    if (excess < 1) return
    this.#quietWindows = 0
    if (this.#seenIn !== null && this.#seenIn !== window) this.#isSeen = this.#isProven = true
    this.#seenIn = window
    if (this.#isSeen) this.room = Math.max(this.room, Math.min(excess + 1, limit / 2))
  }

  /**
   * Remaining fell by calls that are not ours. What a process before this one had on the wire when it ended comes within
   * moments; what comes later is another client's.
   */
  fell(excess: number, window: number, limit: number, now: number): void {
    this.#fellAt ??= now
    if (now - this.#fellAt >= comesLate) this.#isProven = true
    this.#isSeen = true
    this.#fallen = window === this.#fellIn ? this.#fallen + excess : excess
    this.#fellIn = window
    this.#quietWindows = 0
    this.room = Math.max(this.room, Math.min(this.#fallen + 1, limit / 2))
  }

  /** A call was refused although too few were ours. */
  refused(missing: number, limit: number, now: number): void {
    this.#refusedAt = now
    this.#isSeen = this.#isProven = true
    this.#quietWindows = 0
    this.room = Math.min(limit / 2, Math.max(this.room * 1.25 + 1, Math.min(missing, this.room * 2 + 2)))
  }

  windowPassed(): void {
    this.room *= 0.98
    this.#quietWindows++
    if (this.#quietWindows <= (this.#isProven ? quietWindows : fewWindows)) return
    this.#isSeen = this.#isProven = false
    this.#fellAt = null
    this.#seenIn = null
    this.room = 0
  }
}

/** In milliseconds. */
const recent = 10_000
const comesLate = 1000

/** After so many windows without a sign of it, the other client is gone. */
const quietWindows = 30
const fewWindows = 3
