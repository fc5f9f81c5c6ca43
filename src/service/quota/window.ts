import type { Call, Calls, Heard } from './calls.ts'
import { WindowName } from './window-name.ts'

interface Undecided {
  readonly sentAt: number
  readonly endedAt: number
  readonly used: number | null
  readonly isCounted: boolean
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
  /** It began no earlier; and no later, by the earliest answer to a call that is in it or in a later one. */
  startedAfter = Number.NEGATIVE_INFINITY
  startedBy: number | null = null
  /** Calls up to this moment were certainly in this window, or earlier. */
  sameUntil = Number.NEGATIVE_INFINITY
  #undecided: Undecided[] = []
  /** Calls that were on the wire when it opened, and may be its first. */
  readonly #entrants = new Set<Call>()
  #firstSentAt = Number.POSITIVE_INFINITY
  #foreign = 0
  /** When the latest call that is charged to it had ended. */
  #chargedAt: number | null = null
  /** What is known of the window before. */
  last: { readonly after: number; readonly firstSentAt: number } | null = null
  readonly #calls: Calls
  readonly #name = new WindowName()

  constructor(calls: Calls) {
    this.#calls = calls
  }

  /** When the first call was sent that may be in this window. */
  get firstSentAt(): number {
    let first = this.#firstSentAt
    for (const call of this.#entrants) first = Math.min(first, call.sentAt)
    return first
  }

  /** The latest moment from which on the window's time runs; null while none of its calls was answered. */
  get runsFrom(): number | null {
    return this.startedBy ?? this.#chargedAt
  }

  available(limit: number): number {
    return limit - this.used - this.#calls.outstanding - this.#calls.granted
  }

  sent(call: Call): void {
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
    if (used !== null && used <= call.countedBefore) {
      // Some slack: another client may have been the first in the next window.
      if (used > nextCanHave + call.countedBefore / 4) {
        this.counted = used
        this.#charge(receivedAt, isCounted)
        return 'part'
      }
      this.#open(call, Math.min(this.#undecided.length, used - 1 + this.#endedSince(call)))
      this.#charge(receivedAt, isCounted)
      this.counted = isCounted ? 1 : 0
      this.#name.begin(end, receivedAt)
      return 'next'
    }
    const isFirst = isCounted && this.startedBy === null
    this.#charge(receivedAt, isCounted)
    if (used !== null && (used > nextCanHave || this.#name.isOf(end, call.sentAt))) {
      this.#name.learn(end, receivedAt)
      this.#settle(Math.max(this.sameUntil, call.sentAt))
      this.used = Math.min(this.used, used + this.#endedSince(call))
      if (isCounted) this.counted++
      return 'same'
    }
    // Sent before this window's first answer: on the same way as the call that began it.
    const isEarly = this.startedBy !== null && call.sentAt <= this.startedBy
    if (isFirst || isEarly || receivedAt <= this.sameUntil) this.#name.learn(end, receivedAt)
    if (isFirst || receivedAt <= this.sameUntil) {
      if (isCounted) this.counted++
    } else {
      this.#undecided.push({ sentAt: call.sentAt, endedAt: receivedAt, used, isCounted })
    }
    return 'unclear'
  }

  /** The call was sent before this window opened. */
  #endedLate({ call, receivedAt, used, isCounted }: Heard): Seen {
    const canHave = this.used + this.#calls.outstanding + 1 + this.#foreign
    if (used !== null && used > canHave) {
      this.#entrants.delete(call)
      return 'unclear'
    }
    const isNotOfLast = used !== null && used <= call.countedBefore && call.window === this.id - 1
    this.#charge(receivedAt, isNotOfLast)
    // It was so long on its way that it may even be in the next.
    if (receivedAt > this.sameUntil)
      this.#undecided.push({ sentAt: call.sentAt, endedAt: receivedAt, used, isCounted })
    return 'unclear'
  }

  #charge(receivedAt: number, isSure: boolean): void {
    this.used++
    this.#chargedAt = receivedAt
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
    this.last = { after: this.startedAfter, firstSentAt: this.firstSentAt }
    this.id++
    this.used = charged
    this.counted = 0
    this.startedAfter = Math.max(this.startedAfter, this.sameUntil)
    this.startedBy = null
    this.#chargedAt = charged === 0 ? null : (this.#undecided.at(-1)?.endedAt ?? null)
    this.sameUntil = this.startedAfter
    this.#firstSentAt = Math.min(
      first?.sentAt ?? Number.POSITIVE_INFINITY,
      ...this.#undecided.map(({ sentAt }) => sentAt),
    )
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
        if (isSame && call.isCounted) this.counted++
        return !isSame
      })
    }
  }

  /** Calls that ended while this one was on its way. */
  #endedSince(call: Call): number {
    return this.#calls.ended - 1 - call.endedBefore
  }
}
