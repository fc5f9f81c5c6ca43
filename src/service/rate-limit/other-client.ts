/** What a previous process had in flight when it ended is counted within this time, in milliseconds. */
const PREDECESSOR_MS = 1000
const RECENT_MS = 10_000
/** It is gone after a window without a sign of it, within these bounds, or more than its longest pause, up to a minute. */
const SHORTEST_QUIET_MS = 2_000
const LONGEST_QUIET_MS = 10_000
const LONGEST_PAUSE_MS = 60_000
/** What is quiet for this many of its longest pauses is gone. */
const PAUSES = 1.7
/** Then its share of the limit is left to it for some time more. */
const FORGOTTEN_AFTER_MS = 300_000
/** The share of what a header leaves that it may use while our calls are on their way. */
const ITS_SHARE = 1 / 3
const MARGIN_AFTER_REFUSAL = 4

/**
 * Whether another client spends the key: calls were counted that are not ours. Then only what the latest header leaves is
 * believed, less a share of it, so that the last calls of a window are made one by one.
 */
export class OtherClient {
  isDetected = false
  /** It is another client, and not what a previous process had in flight when it ended, and our calls have not shown that it is gone. */
  isPresent = false
  #isProven = false
  /** The most of its calls that were counted in a window. */
  #most = 0
  /** Its calls, as far as headers fell by them, since the first. */
  #seen = 0
  #firstAt: number | null = null
  #lastAt = Number.NEGATIVE_INFINITY
  #rejectedAt = Number.NEGATIVE_INFINITY
  /** How long our answers have shown no sign of it since the last one, up to when, and the longest such time so far. */
  #quietMs = 0
  #quietSince = 0
  #longestPause = 0

  isRecentlyRejected(now: number): boolean {
    return now - this.#rejectedAt < RECENT_MS
  }

  /** How many of the calls that a header leaves are left to it: twice what it has called since then, or its share. */
  margin(remaining: number, headerAt: number, length: number, now: number): number {
    const called = Math.ceil(2 * Math.max(this.#perMs(now), this.#most / length) * (now - headerAt))
    return (
      Math.max(1, called, Math.ceil(remaining * ITS_SHARE)) +
      (this.isRecentlyRejected(now) ? MARGIN_AFTER_REFUSAL : 0)
    )
  }

  /** Its calls of a window. */
  callsOf(length: number, now: number): number {
    return Math.max(this.#most, this.#perMs(now) * length)
  }

  #perMs(now: number): number {
    return this.#seen / (now - (this.#firstAt ?? now) + 1000)
  }

  /** Remaining fell by calls that are not ours. */
  onDecrease(calls: number, limit: number, now: number): void {
    this.#seen += calls
    this.onSign(calls, limit, now)
  }

  /** Calls were counted that are not ours. */
  onSign(calls: number, limit: number, now: number): void {
    this.#firstAt ??= now
    this.#lastAt = now
    this.isDetected = true
    this.#isProven ||= now - this.#firstAt >= PREDECESSOR_MS
    this.isPresent = this.#isProven
    this.#longestPause = this.#quietMs > LONGEST_PAUSE_MS ? 0 : Math.max(this.#longestPause, this.#quietMs)
    this.#quietMs = 0
    this.#most = Math.min(limit / 2, Math.max(calls + 1, this.#most * 0.99))
  }

  /** A call was refused although ours have not used all of the limit. */
  onRejected(missing: number, limit: number, now: number): void {
    this.#rejectedAt = now
    this.#isProven = true
    this.onSign(Math.min(missing, 2 * this.#most + 2), limit, now)
  }

  /** The previous leader has seen it a moment ago. */
  inherit(): void {
    this.isPresent = this.#isProven = true
  }

  /** An answer has stated how many calls are counted: if those were ours alone, no other came between. */
  onUsage(sentAt: number, receivedAt: number, windowMs: number): void {
    if (this.#lastAt === receivedAt) {
      this.#quietSince = receivedAt
      return
    }
    if (sentAt <= this.#quietSince) return
    const quiet = Math.min(LONGEST_QUIET_MS, Math.max(SHORTEST_QUIET_MS, windowMs))
    // Nothing is known of a long time without calls.
    this.#quietMs += Math.min(sentAt - this.#quietSince, quiet / 2)
    this.#quietSince = sentAt
    if (this.#quietMs >= Math.min(LONGEST_PAUSE_MS, Math.max(quiet, PAUSES * this.#longestPause)))
      this.isPresent = false
    if (!this.isDetected || sentAt - this.#lastAt < FORGOTTEN_AFTER_MS) return
    this.isDetected = this.#isProven = this.isPresent = false
    this.#most = this.#seen = this.#longestPause = 0
    this.#firstAt = null
  }
}
