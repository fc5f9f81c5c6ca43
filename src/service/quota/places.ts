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
    return this.#other.isSeen ? this.#besideAnother(told, counted, now) : Math.max(told, counted)
  }

  /** No more than the last header says nor than was counted here, and with room for the other client. */
  #besideAnother(told: number, counted: number, now: number): number {
    const end = this.windowEnd
    const { length } = this.#kinds.known
    const share = end === null ? 1 : Math.min(1, (end - now) / length)
    const room = Math.ceil(this.#other.room * (share + 0.25)) + 2
    if (!Number.isFinite(length)) return told - room
    const { outstanding, granted } = this.#calls
    // Where no header says that something is left, a few calls feel the way.
    const felt = this.tranche.isOpen ? Math.max(told, feeling - outstanding - granted) : counted
    return Math.min(counted - room, felt)
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

/** Beside another client, so many calls feel the way when no header says that something is left. */
const feeling = 2

/** What a window is taken for of which nothing is known, in milliseconds. */
const unknownLength = 60_000

/** How long a call may be on its way to the service, in milliseconds. */
export const onTheWay = 1000
