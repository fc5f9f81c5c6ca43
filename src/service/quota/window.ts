import type { Call, Calls, Heard } from './calls.ts'
import { Strays } from './strays.ts'
import { WindowName } from './window-name.ts'

interface Undecided {
  readonly sentAt: number
  readonly endedAt: number
  readonly used: number | null
  readonly isCounted: boolean
  /** Sent after the window had opened: not in one before it. */
  readonly isHere: boolean
}

/** The window before this one. */
export interface LastWindow {
  /** It began no earlier, and no later; null: none of its calls was answered. */
  readonly after: number
  readonly by: number | null
  readonly firstSentAt: number
  /** It, or one after it, lasted longer than until then: a call that was sent then is not in this window. */
  until: number
}

/** What an answer showed about the window. */
export type Seen = 'same' | 'next' | 'part' | 'unclear'

/**
 * The third reckoning: one fixed window after the other. Nothing says which window a call was counted in; what
 * says it is the count itself. An answer that says "n are used" is in the next window if n is less than the calls
 * that this one had counted already, and it is in this one if n is more than the next can have by now. Where
 * neither holds, the call is charged to both.
 */
export class Window {
  /** Counted up with each window. */
  id = 0
  /** Calls ended that are charged to this window, and those certainly counted in it. */
  used = 0
  counted = 0
  /** Calls ended that are certainly counted, in this window or in a later one. */
  sure = 0
  /** It began no earlier; and no later, by the earliest answer to a call that is in it or in a later one. */
  startedAfter = Number.NEGATIVE_INFINITY
  startedBy: number | null = null
  /** Calls up to this moment were certainly in this window, or earlier. */
  sameUntil = Number.NEGATIVE_INFINITY
  #undecided: Undecided[] = []
  /** Calls that were on the wire when it opened, and may be its first. */
  readonly #entrants = new Set<Call>()
  /** Calls that have ended, in this window or in one before. */
  readonly #strays = new Strays()
  #firstSentAt = Number.POSITIVE_INFINITY
  /** Calls that may be in it although they are no strays and not on the wire from before. */
  #own = 0
  #foreign = 0
  /** When the latest call that is charged to it had ended; and of those that ended since it opened. */
  #chargedAt: number | null = null
  #ownAt: number | null = null
  /** What is known of the window before. */
  last: LastWindow | null = null
  readonly #calls: Calls
  readonly #name = new WindowName()

  constructor(calls: Calls) {
    this.#calls = calls
  }

  /** When the first call was sent that may be in this window. */
  get firstSentAt(): number {
    let first = Math.min(this.#firstSentAt, this.#strays.firstSentAt)
    for (const call of this.#entrants) first = Math.min(first, call.sentAt)
    return first
  }

  /** The latest moment from which on the window's time runs; null while none of its calls was answered. */
  get runsFrom(): number | null {
    return this.startedBy ?? this.#chargedAt
  }

  /** The same by its own calls alone; null where only calls were answered that may be of the window before. */
  get ownFrom(): number | null {
    return this.startedBy ?? this.#ownAt
  }

  available(limit: number): number {
    return limit - this.used - this.#calls.outstanding - this.#calls.granted
  }

  sent(call: Call): void {
    this.#own++
    if (this.#firstSentAt > call.sentAt) this.#firstSentAt = call.sentAt
  }

  /**
   * An answer came, or none. `heard.call` has been taken off the wire.
   * @param atLeast no window is shorter, in milliseconds
   * @param foreign calls of another client that may be counted besides
   */
  ended(heard: Heard, atLeast: number, foreign: number): Seen {
    this.#foreign = foreign
    this.sameFor(atLeast)
    return heard.call.window === this.id ? this.#endedHere(heard) : this.#endedLate(heard)
  }

  #endedHere({ call, receivedAt, used, isCounted, end }: Heard): Seen {
    const nextCanHave = this.#undecided.length + this.#calls.outstanding + 1 + this.#foreign
    if (isCounted) this.sure++
    // More calls came before it than it counts: they are not all in its window.
    const before = Math.max(call.countedBefore, this.#foreign > 0 ? 0 : call.sureBefore)
    if (used !== null && used <= before) {
      // Some slack: another client may have been the first in the next window.
      if (used > nextCanHave + before / 4) {
        this.counted = used
        this.#charge(receivedAt, isCounted)
        return 'part'
      }
      this.#open(call, Math.min(this.#undecided.length, used - 1 + this.#endedSince(call)))
      this.#charge(receivedAt, isCounted)
      this.counted = isCounted ? 1 : 0
      this.sure = this.counted
      this.#name.begin(end, receivedAt)
      this.#tellStrays(used, call.sentAt)
      return 'next'
    }
    const isFirst = isCounted && this.startedBy === null
    this.#charge(receivedAt, isCounted)
    if (used !== null && (used > nextCanHave || this.#name.isOf(end, call.sentAt))) {
      this.#name.learn(end, receivedAt)
      this.#settle(Math.max(this.sameUntil, call.sentAt))
      this.used = Math.min(this.used, used + this.#endedSince(call))
      if (isCounted) this.counted++
      this.#tellStrays(used, call.sentAt)
      return 'same'
    }
    // Sent before this window's first answer: on the same way as the call that began it.
    const isEarly = this.startedBy !== null && call.sentAt <= this.startedBy
    if (isFirst || isEarly || receivedAt <= this.sameUntil) this.#name.learn(end, receivedAt)
    if (isFirst || receivedAt <= this.sameUntil) {
      if (isCounted) this.counted++
      if (used !== null) this.#tellStrays(used, call.sentAt)
    } else {
      this.#undecided.push({ sentAt: call.sentAt, endedAt: receivedAt, used, isCounted, isHere: true })
    }
    return 'unclear'
  }

  /** The call was sent before this window opened. */
  #endedLate({ call, receivedAt, used, isCounted }: Heard): Seen {
    const canHave = this.used + this.#calls.outstanding + 1 + this.#foreign
    this.#entrants.delete(call)
    if (used !== null && used > canHave) return 'unclear'
    const isNotOfLast = used !== null && used <= call.countedBefore && call.window === this.id - 1
    if (isNotOfLast) this.sent(call)
    else this.#strays.add({ sentAt: call.sentAt, endedAt: receivedAt, isCounted })
    this.#charge(receivedAt, isNotOfLast)
    // It was so long on its way that it may even be in the next.
    if (receivedAt > this.sameUntil)
      this.#undecided.push({
        sentAt: call.sentAt,
        endedAt: receivedAt,
        used,
        isCounted,
        isHere: isNotOfLast,
      })
    return 'unclear'
  }

  #charge(receivedAt: number, isSure: boolean): void {
    this.used++
    this.#chargedAt = receivedAt
    this.#ownAt = receivedAt
    if (isSure) this.startedBy ??= receivedAt
  }

  /** The window's time is over. */
  close(): void {
    this.#open(null, this.#undecided.length)
    this.#name.begin(null, 0)
  }

  /** Nothing that was decided holds: somebody else's calls were counted too. */
  doubt(): void {
    this.startedAfter = Number.NEGATIVE_INFINITY
    this.sameUntil = Number.NEGATIVE_INFINITY
  }

  /** A window lasts at least so long: calls that ended within that are decided. */
  sameFor(atLeast: number): void {
    this.#settle(this.startedAfter + atLeast)
  }

  #open(first: Call | null, charged: number): void {
    this.last = {
      after: this.startedAfter,
      by: this.startedBy,
      firstSentAt: this.firstSentAt,
      until: Number.NEGATIVE_INFINITY,
    }
    this.id++
    this.used = charged
    this.counted = 0
    this.sure = 0
    this.startedAfter = Math.max(this.startedAfter, this.sameUntil)
    this.startedBy = null
    this.#ownAt = null
    this.#chargedAt = charged === 0 ? null : (this.#undecided.at(-1)?.endedAt ?? null)
    this.sameUntil = this.startedAfter
    this.#firstSentAt = first?.sentAt ?? Number.POSITIVE_INFINITY
    this.#own = first === null ? 0 : 1
    this.#strays.begin(this.#undecided)
    this.#undecided = []
    this.#entrants.clear()
    for (const call of this.#calls.onTheWire) this.#entrants.add(call)
  }

  /** Everything up to this moment was in this window; and so is a call that counts more than the next can have. */
  #settle(until: number): void {
    if (until <= this.sameUntil) return
    this.sameUntil = until
    for (let before = -1; before !== this.#undecided.length;) {
      before = this.#undecided.length
      const nextCanHave = before + this.#calls.outstanding + this.#foreign
      this.#undecided = this.#undecided.filter((call) => {
        const isProven = call.used !== null && call.used > nextCanHave
        if (isProven) this.sameUntil = Math.max(this.sameUntil, call.sentAt)
        const isSame = isProven || call.endedAt <= this.sameUntil
        if (isSame && call.isCounted && call.isHere) this.counted++
        return !isSame
      })
    }
  }

  /**
   * A call that is certainly in this window counts so many. Where these are more than its own, the rest are strays, so
   * that it began earlier than its first answer; where they are fewer than all, the rest were in a window before.
   */
  #tellStrays(used: number, sentAt: number): void {
    const strays = used - this.#own - this.#entrants.size
    const by = this.#foreign > 0 ? null : this.#strays.startedBy(strays)
    if (by !== null && this.startedBy !== null) this.startedBy = Math.min(this.startedBy, by)
    const before = this.#strays.notOf(used - 1, sentAt)
    if (before === null) return
    this.startedAfter = Math.max(this.startedAfter, before)
    this.sameUntil = Math.max(this.sameUntil, before)
    if (this.last !== null) this.last.until = Math.max(this.last.until, before)
  }

  /** Calls that ended while this one was on its way. */
  #endedSince(call: Call): number {
    return this.#calls.ended - 1 - call.endedBefore
  }
}
