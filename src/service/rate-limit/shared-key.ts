/** In milliseconds. */
const RECENT_MS = 10_000

/** What a previous process had in flight when it ended is counted within this time, in milliseconds. */
const PREDECESSOR_MS = 1000

/** After this many windows without a sign of the other client no headroom is left to it. */
const QUIET_WINDOWS = 30
const QUIET_WINDOWS_UNPROVEN = 3

/** It is said to be gone after a window without a sign of it, within these bounds, and twice its longest pause. */
const SHORTEST_QUIET_MS = 2_000
const LONGEST_QUIET_MS = 10_000
/** What comes back within a window, or within this, has paused. Longer than that nothing waits for it. */
const LONGEST_PAUSE_MS = 60_000
/** How much of that an answer shows at most, however long nothing was called before it. */
const SHARE_OF_ANSWER = 1 / 3

/**
 * Whether another client spends the same key, and how much headroom to leave it. It is there if
 * the service counts more calls than were made here in two windows; in one, they may be a former leader's. The headroom is
 * what was observed, more after each 429, and slowly less without one. The client counts as gone as soon as our own
 * calls show no others; the headroom lasts longer.
 */
export class SharedKeyDetector {
  headroom = 0
  isDetected = false
  /** It is another client, and not what a previous process had in flight when it ended. */
  isProven = false
  #detectedIn: number | null = null
  #quietWindows = 0
  #roundTripMs = 0
  #firstDecreaseAt: number | null = null
  /** The other client's calls in the window with this id. */
  #decrease = 0
  #decreasedIn = -1
  #rejectedAt = Number.NEGATIVE_INFINITY
  /** Since the latest sign: how long our calls showed none, and up to when. */
  #quietMs = 0
  #quietUntil = 0
  #isGone = false
  #hasSign = false
  /** The longest that it was quiet before it came back, and what would be too long for a pause. */
  #longestPause = 0
  #pauseLimit = LONGEST_PAUSE_MS

  /** It is proven, and our calls have not shown since that it is gone. */
  get isPresent(): boolean {
    return this.isProven && !this.#isGone
  }

  /** The previous leader has proven it a moment ago: it is there until our own calls show that it is gone. */
  inherit(): void {
    this.isProven = true
  }

  onCompleted(roundTripMs: number): void {
    this.#roundTripMs = Math.max(this.#roundTripMs * 0.99, roundTripMs)
  }

  /**
   * How much of what a header left is left to the other client, which has called since and keeps calling while ours are in
   * flight: its calls of a window, or since it was first seen if that is shorter, by their share of that time.
   */
  allowance(length: number, headerAt: number, now: number): number {
    const seenFor = now - (this.#firstDecreaseAt ?? Number.NEGATIVE_INFINITY)
    const span = Math.max(1, Math.min(length, seenFor))
    const ahead = 1.3 * (this.#roundTripMs + now - headerAt)
    const share = Number.isFinite(span) ? Math.min(1, ahead / span) : 1
    const isRecent = this.isRecentlyRejected(now)
    return Math.ceil(this.headroom * share * (isRecent ? 2 : 1)) + (isRecent ? 4 : 1)
  }

  isRecentlyRejected(now: number): boolean {
    return now - this.#rejectedAt < RECENT_MS
  }

  /**
   * @param excess calls that the service counted beyond those that can be ours
   * @param window the id of the window
   */
  onExcessCount(excess: number, window: number, limit: number): void {
    if (excess < 1) return
    this.#onSign()
    if (this.#detectedIn !== null && this.#detectedIn !== window) this.isDetected = this.isProven = true
    this.#detectedIn = window
    if (this.isDetected) this.headroom = Math.max(this.headroom, Math.min(excess + 1, limit / 2))
  }

  /** Remaining fell by calls that are not ours. */
  onExcessDecrease(excess: number, window: number, limit: number, now: number): void {
    this.#firstDecreaseAt ??= now
    if (now - this.#firstDecreaseAt >= PREDECESSOR_MS) this.isProven = true
    this.isDetected = true
    this.#decrease = window === this.#decreasedIn ? this.#decrease + excess : excess
    this.#decreasedIn = window
    this.#onSign()
    this.headroom = Math.max(this.headroom, Math.min(this.#decrease + 1, limit / 2))
  }

  /** A call was refused although `missing` of the limit was not used by ours. */
  onRejected(missing: number, limit: number, now: number): void {
    this.#rejectedAt = now
    this.isDetected = this.isProven = true
    this.#onSign()
    const more = Math.max(this.headroom * 1.25 + 1, Math.min(missing, this.headroom * 2 + 2))
    this.headroom = Math.min(limit / 2, more)
  }

  /**
   * An answer has stated how many calls were counted. If that were ours alone, no other came between.
   * @param windowMs the window's length, or a bound of it; infinite if none is known
   */
  onUsage(sentAt: number, receivedAt: number, windowMs: number): void {
    if (this.#hasSign) {
      this.#hasSign = false
      this.#quietUntil = receivedAt
      return
    }
    if (!this.isProven || sentAt <= this.#quietUntil) return
    this.#pauseLimit = Math.max(LONGEST_PAUSE_MS, Number.isFinite(windowMs) ? windowMs : 0)
    const window = Math.min(LONGEST_QUIET_MS, Math.max(SHORTEST_QUIET_MS, windowMs))
    this.#quietMs += Math.min(sentAt - this.#quietUntil, window * SHARE_OF_ANSWER)
    this.#quietUntil = sentAt
    this.#isGone = this.#quietMs >= Math.min(this.#pauseLimit, Math.max(window, 2 * this.#longestPause))
  }

  #onSign(): void {
    // What was away for longer is another visit, and says nothing about the pauses within one.
    const hasPaused = this.#quietMs <= this.#pauseLimit
    this.#longestPause = hasPaused ? Math.max(this.#longestPause, this.#quietMs) : 0
    this.#quietWindows = 0
    this.#quietMs = 0
    this.#isGone = false
    this.#hasSign = true
  }

  onNewWindow(): void {
    this.headroom *= 0.98
    this.#quietWindows++
    if (this.#quietWindows <= (this.isProven ? QUIET_WINDOWS : QUIET_WINDOWS_UNPROVEN)) return
    this.isDetected = this.isProven = false
    this.#firstDecreaseAt = null
    this.#detectedIn = null
    this.#longestPause = 0
    this.headroom = 0
  }
}
