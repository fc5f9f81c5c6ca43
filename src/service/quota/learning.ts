import type { Call, Calls, Heard } from './calls.ts'
import { History } from './history.ts'
import { Kinds } from './kinds.ts'
import { OtherClient } from './other-client.ts'
import { Places } from './places.ts'

/** What each answer teaches: how long the window is and of what kind, who else spends it, and what is free. */
export class Learning {
  readonly kinds: Kinds
  readonly other = new OtherClient()
  readonly places: Places
  readonly #calls: Calls
  readonly #history = new History()
  /** The window whose beginning was last told to the fixed length. */
  #begun = -1
  #begunBy = Number.POSITIVE_INFINITY
  #restsSince: number | null = null
  #restedUntil = Number.NEGATIVE_INFINITY

  constructor(calls: Calls) {
    this.#calls = calls
    this.kinds = new Kinds(this.#history)
    this.places = new Places(calls, this.kinds, this.other)
  }

  /**
   * A rest, in which nothing was wanted and nothing on its way, proves nothing: no window that began before it bounds a
   * length any more.
   * @param longest the furthest that a Reset lay ahead, in milliseconds
   * @returns whether a rest is over by now
   */
  restedUntil(now: number, isWanted: boolean, longest: number): boolean {
    const since = this.#restsSince ?? now
    this.#restsSince = isWanted ? null : since
    const atLeast = Math.min(longestRest, Math.max(shortestRest, longest / 50))
    if (!isWanted || now - since <= atLeast) return false
    this.#restedUntil = now
    this.kinds.rested()
    return true
  }

  /** A call has ended. */
  ended(heard: Heard, limit: number | null): void {
    this.#calls.end(heard.call)
    this.other.answered(heard.receivedAt - heard.call.sentAt)
    this.#history.add(heard)
    if (limit === null) return
    this.places.log.ended(heard.receivedAt, limit)
    const foreign = this.other.isSeen ? Math.ceil(limit / 4) : 0
    this.#tellFixed(heard, foreign)
    if (heard.used === null) return
    this.kinds.learn(heard, limit, this.#calls.sent, foreign)
    this.other.counted(heard.used - this.#ownSince(heard.call.sentAt), this.places.window.id, limit)
    this.#share()
  }

  /** What it says about a fixed window. */
  #tellFixed(heard: Heard, foreign: number): void {
    const { fixed } = this.kinds
    const { window } = this.places
    const seen = window.ended(heard, fixed.bounds.least, foreign)
    if (seen === 'part') fixed.rosePartly()
    if (seen === 'next') this.other.windowPassed()
    const { startedBy, last, startedAfter, id } = window
    if (seen === 'same' && startedBy !== null && startedBy >= this.#restedUntil)
      fixed.atLeast(heard.call.sentAt - startedBy)
    // Only one window can have ended since that one began, so what is not in this one was in that one.
    if (
      last?.by != null &&
      last.by >= this.#restedUntil &&
      heard.receivedAt < last.after + 2 * fixed.bounds.least
    )
      fixed.atLeast(last.until - last.by)
    if (startedBy === null) return
    if (id === this.#begun && startedBy < this.#begunBy) {
      this.#begunBy = startedBy
      this.kinds.begunBy(startedBy)
    }
    if (id <= this.#begun) return
    this.#begun = id
    this.#begunBy = startedBy
    this.kinds.begun({
      after: startedAfter,
      by: startedBy,
      lastFirstSentAt: last?.firstSentAt ?? Number.NaN,
    })
  }

  /** Remaining fell by more than our own calls. */
  fell(excess: number, limit: number | null, now: number): void {
    if (excess < 1 || limit === null) return
    this.other.fell(excess, this.places.window.id, limit, now)
    this.#share()
  }

  /** A call was refused: by somebody else's calls, or because what was learnt is wrong. */
  refused(call: Call, limit: number, now: number): void {
    const missing = limit - this.#ownSince(call.sentAt)
    if (call.isCovered || missing > 0 || this.other.isSeen)
      this.other.refused(Math.max(1, missing), limit, now)
    else this.kinds.refuted()
    this.#share()
  }

  #share(): void {
    if (this.kinds.share(this.other.isSeen)) this.places.window.doubt()
  }

  /** Our calls that the service can have counted when a call came that was sent then. */
  #ownSince(sentAt: number): number {
    return this.#history.endedSince(sentAt - this.kinds.known.length) + this.#calls.outstanding
  }
}

/** So long without work is a rest, in milliseconds: a fiftieth of how far Reset lies ahead, between these. */
const shortestRest = 500
const longestRest = 30_000
