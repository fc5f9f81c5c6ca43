import type { Calls } from './calls.ts'
import type { Kinds } from './kinds.ts'
import { LogReckoning } from './log.ts'
import type { OtherClient } from './other-client.ts'
import { margin } from './probes.ts'
import { RemainingReckoning } from './remaining.ts'
import { Tranche } from './tranche.ts'
import { Window } from './window.ts'

/**
 * How many of the limit's places are free: by three reckonings (what Remaining said, a log of all calls, the
 * window that is open), of which the one that allows the most counts, because none of them allows too much.
 */
export class Places {
  readonly remaining: RemainingReckoning
  readonly log: LogReckoning
  readonly window: Window
  readonly tranche: Tranche
  readonly #calls: Calls
  readonly #kinds: Kinds
  readonly #other: OtherClient

  constructor(calls: Calls, kinds: Kinds, other: OtherClient) {
    this.#calls = calls
    this.#kinds = kinds
    this.#other = other
    this.remaining = new RemainingReckoning(calls)
    this.log = new LogReckoning(calls)
    this.window = new Window(calls)
    this.tranche = new Tranche(calls)
  }

  /** Calls that may be made now: all that are free, but few before a new window's first header. */
  left(limit: number, now: number): number {
    return Math.min(this.free(limit, now), this.tranche.left)
  }

  free(limit: number, now: number): number {
    this.close(limit, now)
    const { length, isFixed } = this.#kinds.known
    const told = this.remaining.available()
    let counted = Number.NEGATIVE_INFINITY
    if (Number.isFinite(length)) {
      counted = this.log.available(limit, length + margin(length), now)
      if (isFixed) counted = Math.max(counted, this.window.available(limit))
    }
    if (this.#other.isSeen) return this.#besideAnother(counted, now)
    // A header of this window leaves less than was counted here: another client, or a predecessor, has called.
    const isTold = isFixed ? this.tranche.isOpen : this.#calls.isMoving
    return Math.max(told, isTold ? Math.min(counted, this.remaining.latestLeft) : counted)
  }

  /**
   * No more than the latest header leaves, less what the other client may call while ours are on their way. Where that
   * is nothing, one call at a time feels the way: while the header leaves some, and when by our reckoning more is free.
   */
  #besideAnother(counted: number, now: number): number {
    const { latestSure } = this.remaining
    const { length, isFixed } = this.#kinds.known
    const left = Math.min(latestSure - this.#other.allowance(length, now), counted)
    if (left >= 1) return left
    if (this.#calls.isMoving) return Math.min(0, left)
    if (latestSure >= leastFelt) return 1
    if (!Number.isFinite(length) || this.#other.isRecent(now)) return 0
    const isNew = isFixed ? !this.tranche.isOpen : counted - this.#other.room >= 1
    return isNew ? 1 : 0
  }

  /** Begins the next window where this one is certainly over. */
  close(limit: number | null, now: number): void {
    const end = this.windowEnd
    if (end === null || now < end || limit === null) return
    this.window.close()
    this.tranche.begin(this.window.id, limit)
  }

  /** The latest moment at which the window ends; null while it has not begun, or where windows do not end. */
  get windowEnd(): number | null {
    const { runsFrom } = this.window
    const { length, isFixed } = this.#kinds.known
    if (runsFrom === null || !isFixed || !Number.isFinite(length)) return null
    return runsFrom + length + margin(length)
  }

  /** When the oldest call has certainly left the window; null where no call is in it, or no length is known. */
  get nextAt(): number | null {
    const { length } = this.#kinds.known
    return Number.isFinite(length) ? this.log.nextAt(length + margin(length)) : null
  }

  /**
   * When one call is possible for certain, if all that is free now is used and nothing more.
   * @param toldUntil the end that Reset tells; null where it tells none
   */
  spentUntil(now: number, toldUntil: number | null): number {
    const { length, isFixed, isRolling } = this.#kinds.known
    if (!Number.isFinite(length)) return Math.max(toldUntil ?? now + unknownLength, now)
    const windowEnd = (this.window.runsFrom ?? now + onTheWay) + length + margin(length)
    if (isFixed) return windowEnd
    const next = this.nextAt ?? now + onTheWay + length
    return isRolling ? next : Math.max(next, windowEnd)
  }
}

/** Beside another client a single call is made while the latest header leaves so many. */
const leastFelt = 2

/** What a window is taken for of which nothing is known, in milliseconds. */
const unknownLength = 60_000

/** How long a call may be on its way to the service, in milliseconds. */
export const onTheWay = 1000
