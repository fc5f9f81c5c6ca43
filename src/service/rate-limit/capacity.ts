import type { Call, CallLedger } from './call-ledger.ts'
import type { FixedWindow } from './fixed-window.ts'
import { padded } from './length-bounds.ts'
import type { SharedKeyDetector } from './shared-key.ts'
import type { WindowModels } from './window-models.ts'

/**
 * Follows Remaining, which needs to know nothing about windows: however the service counts, Remaining falls only by
 * calls, and rises by itself. An answer that says "r left" was preceded by all calls that were completed when its call
 * was sent; every other call may have come after it. So `completed before + this one + r` calls are allowed in total,
 * and that stays true for ever, in whatever order answers arrive.
 */
export class RemainingTracker {
  /** Calls allowed in total by headers alone. If one of them is refused, another client has used the key. */
  allowed = 0
  #allowedAt = Number.NEGATIVE_INFINITY
  /** The same, and what is known to be allowed without a header. */
  #ceiling = 0
  /** The order of the latest call whose answer stated Remaining. */
  #latest = 0
  #latestRemaining = Number.POSITIVE_INFINITY
  #latestAllowed = Number.POSITIVE_INFINITY
  #latestAllowedAt = Number.NEGATIVE_INFINITY
  readonly #ledger: CallLedger

  constructor(ledger: CallLedger) {
    this.#ledger = ledger
  }

  get #taken(): number {
    return this.#ledger.sent + this.#ledger.granted
  }

  get remaining(): number {
    return this.#ceiling - this.#taken
  }

  /** What the latest header leaves, less all calls sent after its own: an upper bound while its window lasts. */
  get latestRemaining(): number {
    return this.#latestRemaining + this.#latest - this.#taken
  }

  /** The same, if none of the calls in flight together with it had been counted. */
  get latestCertain(): number {
    return this.#latestAllowed - this.#taken
  }

  get latestCertainAt(): number {
    return this.#latestAllowedAt
  }

  /**
   * How many calls another client has certainly made since the header that allowed the most: Remaining fell by more than
   * all our calls. Only for a call that was sent after that header arrived, because a window may have ended between.
   */
  excess(call: Call, remaining: number): number {
    return call.sentAt < this.#allowedAt ? 0 : Math.max(0, this.allowed - this.#ledger.sent - remaining)
  }

  record(call: Call, remaining: number, receivedAt: number): void {
    const allowed = call.completedBefore + 1 + remaining
    // Answers to calls in flight together arrive in any order: the one that leaves the least was the last.
    if (call.sentAt >= this.#latestAllowedAt || allowed < this.#latestAllowed) {
      this.#latestAllowed = allowed
      this.#latestAllowedAt = receivedAt
    }
    if (allowed > this.allowed || this.excess(call, remaining) > 0) {
      this.allowed = allowed
      this.#allowedAt = receivedAt
    }
    this.#ceiling = Math.max(this.#ceiling, allowed)
    if (call.order < this.#latest) return
    this.#latest = call.order
    this.#latestRemaining = remaining
    // Never more than the latest header leaves: the limit was cut, or another client spends the key.
    this.#ceiling = Math.min(this.#ceiling, this.#ledger.sent + remaining)
  }

  /** The limit was cut: what the former one allowed does not hold. */
  onDecrease(): void {
    this.#ceiling = 0
    this.allowed = 0
  }

  /** Calls known to be allowed although no header says so. */
  allow(count: number): void {
    this.#ceiling = Math.max(this.#ceiling, this.#taken + count)
    this.#latestAllowed = Math.max(this.#latestAllowed, this.#ceiling)
  }

  /** A call was refused: nothing that was read before is trusted. */
  reset(): void {
    const { sent } = this.#ledger
    this.#ceiling = sent
    this.allowed = 0
    this.#latest = sent
    this.#latestRemaining = 0
    this.#latestAllowed = sent
  }
}

const MIN_RAMP = 4
const MAX_RAMP = 32

/**
 * A new window begins with a few calls, and the rest waits for its first header: the limit may have been cut, or another
 * client may have spent it. It costs next to nothing, because the rest is spent in the same window.
 */
export class WindowRamp {
  #window: number | null = null
  #until = 0
  readonly #ledger: CallLedger

  constructor(ledger: CallLedger) {
    this.#ledger = ledger
  }

  /** Calls in flight, of any window, may be the first of this one: they are among the few. */
  start(window: number, limit: number): void {
    const { completed, sent, granted } = this.#ledger
    const size = Math.min(MAX_RAMP, Math.max(MIN_RAMP, Math.floor(limit / 3)))
    this.#window = window
    this.#until = Math.max(completed + size, sent + granted + MIN_RAMP)
  }

  get remaining(): number {
    if (this.#window === null) return Number.POSITIVE_INFINITY
    return this.#until - this.#ledger.sent - this.#ledger.granted
  }

  /** A header of this window was seen. */
  get isReleased(): boolean {
    return this.#window === null
  }

  /** A call was answered, or lost. */
  onCompleted(call: Call, hasHeader: boolean): void {
    if (call.window !== this.#window) this.#until++
    else if (hasHeader) this.#window = null
    else this.#until += 2
  }
}

/** Beside another client a single call is made while the latest header leaves this many. */
const PROBE_CALLS_BESIDE_OTHERS = 2

/** What a window is taken for of which nothing is known, in milliseconds. */
const UNKNOWN_LENGTH = 60_000

/** How long a call may be on its way to the service, in milliseconds. */
export const TRANSIT_MS = 1000

/**
 * How many calls the limit still allows, by two estimates: what Remaining said, and what every possible window model
 * allows. Neither allows too much, so the one that allows more counts.
 */
export class Capacity {
  readonly tracker: RemainingTracker
  readonly ramp: WindowRamp
  readonly #ledger: CallLedger
  readonly #models: WindowModels
  readonly #shared: SharedKeyDetector

  constructor(ledger: CallLedger, models: WindowModels, shared: SharedKeyDetector) {
    this.#ledger = ledger
    this.#models = models
    this.#shared = shared
    this.tracker = new RemainingTracker(ledger)
    this.ramp = new WindowRamp(ledger)
  }

  get #window(): FixedWindow {
    return this.#models.window
  }

  /** Calls that may be made now: all that remain, but few before a new window's first header. */
  spendable(limit: number, now: number): number {
    return Math.min(this.remaining(limit, now), this.ramp.remaining)
  }

  remaining(limit: number, now: number): number {
    this.advanceWindow(limit, now)
    const { isFixed } = this.#models.estimate
    const counted = this.#models.remaining(limit, now)
    if (this.#shared.isDetected) return this.#besideOthers(counted, now)
    // If a header of this window leaves less than was counted here, another client or a predecessor has called.
    const hasHeader = isFixed ? this.ramp.isReleased : this.#ledger.hasPending
    return Math.max(
      this.tracker.remaining,
      hasHeader ? Math.min(counted, this.tracker.latestRemaining) : counted,
    )
  }

  /**
   * No more than the latest header leaves, less what the other client may call while ours are in flight. If that is
   * nothing, one call at a time: while the header leaves some, and when by our count a window is new.
   */
  #besideOthers(counted: number, now: number): number {
    const { latestCertain, latestCertainAt } = this.tracker
    const { length, isFixed } = this.#models.estimate
    const left = latestCertain - this.#shared.allowance(length, latestCertainAt, now)
    if (left >= 1) return left
    if (this.#ledger.hasPending) return Math.min(0, left)
    if (latestCertain >= PROBE_CALLS_BESIDE_OTHERS) return 1
    if (!Number.isFinite(length) || this.#shared.isRecentlyRejected(now)) return 0
    const isNew = isFixed ? !this.ramp.isReleased : counted - this.#shared.headroom >= 1
    return isNew ? 1 : 0
  }

  /** Begins the next window if this one is certainly over. */
  advanceWindow(limit: number | null, now: number): void {
    const end = this.windowEnd
    if (end === null || now < end || limit === null) return
    this.#window.advance()
    this.ramp.start(this.#window.id, limit)
  }

  /** The latest end of the window; null if it has not begun, or if windows do not end. */
  get windowEnd(): number | null {
    const { latestStart } = this.#window
    const { length, isFixed } = this.#models.estimate
    if (latestStart === null || !isFixed || !Number.isFinite(length)) return null
    return latestStart + padded(length)
  }

  /** When the oldest call has certainly left the window; null if none is in it, or if no length is known. */
  nextLeavesAt(limit: number, now: number): number | null {
    return this.#ledger.nextLeavesAt(limit, this.#models.estimate.length, now)
  }

  /**
   * When one call is certainly possible, if all that is left now is used and nothing more.
   * @param latestReset the end by Reset; null if it is not known
   */
  exhaustedUntil(limit: number, now: number, latestReset: number | null): number {
    const { length, isFixed, isRolling } = this.#models.estimate
    if (!Number.isFinite(length)) return Math.max(latestReset ?? now + UNKNOWN_LENGTH, now)
    const windowEnd = (this.#window.latestStart ?? now + TRANSIT_MS) + padded(length)
    if (isFixed) return windowEnd
    const next = this.nextLeavesAt(limit, now) ?? now + TRANSIT_MS + length
    return isRolling ? next : Math.max(next, windowEnd)
  }
}
