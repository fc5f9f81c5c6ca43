import type { Call, CallLedger, CallResult } from './call-ledger.ts'

/** What an answer showed about the open window. */
export type WindowEvidence = 'same' | 'next' | 'partial' | 'ambiguous'

/**
 * One fixed window after the other. No header says which window a call was counted in; the count does. "n are used" is
 * the next window if n is at most the number of calls that this one had counted before, and it is this window if n is
 * more than the next one can have by now. If neither holds, the call is charged to both.
 */
export class FixedWindow {
  /** Counted up with each window. */
  id = 0
  /** Completed calls charged to this window, and those confirmed to be counted in it. */
  charged = 0
  confirmed = 0
  /** Completed calls that are certainly counted, in this window or a later one. */
  certain = 0
  /** It started no earlier; and no later, by the earliest answer to a call that is in it or a later one. */
  startedAfter = Number.NEGATIVE_INFINITY
  startedBy: number | null = null
  /** Calls completed up to here are in this window or an earlier one. */
  confirmedUntil = Number.NEGATIVE_INFINITY
  /** When the first call was sent that may have been in the window before this one; −∞ if it may not have been ours. */
  previousFirstSentAt = Number.NaN
  /** The end of the last idle time: a window that began before it may have ended in it. */
  idleUntil = Number.NEGATIVE_INFINITY
  /** Completed calls that are in this window, or in the next one; and those that are in this one, or in the one before. */
  #ambiguous: CallResult[] = []
  #unattributed: readonly CallResult[] = []
  /** Calls that were in flight when it opened. */
  readonly #carriedOver = new Set<Call>()
  /** Calls sent since it opened. */
  #own = 0
  /** It counts more calls than ours: a predecessor's, or another client's, may have started it. */
  #countsOthers = false
  /** An answer that may not be counted stated its first calls: the next counted call may be in the window after it. */
  #hasUncountedStart = false
  #firstOwnSentAt = Number.POSITIVE_INFINITY
  #otherCalls = 0
  /** When the latest charged call was completed; and the latest of those completed since the window opened. */
  #chargedAt: number | null = null
  #ownChargedAt: number | null = null
  readonly #identity = new WindowIdentity()
  readonly #ledger: CallLedger

  constructor(ledger: CallLedger) {
    this.#ledger = ledger
  }

  /** When the first call was sent that may be in this window. */
  get firstSentAt(): number {
    let first = this.#firstOwnSentAt
    for (const { call } of this.#unattributed) first = Math.min(first, call.sentAt)
    for (const { sentAt } of this.#carriedOver) first = Math.min(first, sentAt)
    return first
  }

  /** The latest possible start of the window; null while none of its calls was answered. */
  get latestStart(): number | null {
    return this.startedBy ?? this.#chargedAt
  }

  /** The same by its own calls; null while all answers may belong to the window before. */
  get latestOwnStart(): number | null {
    return this.startedBy ?? this.#ownChargedAt
  }

  remaining(limit: number): number {
    return limit - this.charged - this.#ledger.outstanding - this.#ledger.granted
  }

  /** The service refused a call: nothing is left of this window. */
  exhaust(limit: number): void {
    this.charged = Math.max(this.charged, limit)
  }

  onSent(call: Call): void {
    this.#own++
    this.#firstOwnSentAt = Math.min(this.#firstOwnSentAt, call.sentAt)
  }

  /**
   * A call was completed, and is no longer in flight.
   * @param minLength no window is shorter, in milliseconds
   * @param otherCalls calls of other clients that may be counted as well
   */
  onCompleted(result: CallResult, minLength: number, otherCalls: number): WindowEvidence {
    this.#otherCalls = otherCalls
    this.#confirm(this.startedAfter + minLength)
    return result.call.window === this.id ? this.#onOwn(result) : this.#onEarlier(result)
  }

  #onOwn(result: CallResult): WindowEvidence {
    const { call, receivedAt, used, isCounted, resetAt } = result
    const nextCanHave = this.#ambiguous.length + this.#ledger.outstanding + 1 + this.#otherCalls
    if (isCounted) this.certain++
    // If more calls came before it than it counts, not all of them are in its window.
    const before = Math.max(call.confirmedBefore, this.#otherCalls > 0 ? 0 : call.certainBefore)
    if (used !== null && used <= before) {
      // Some slack: another client's call may have been the first in the next window.
      if (used > nextCanHave + before / 4) {
        this.confirmed = used
        this.#charge(receivedAt, isCounted)
        return 'partial'
      }
      this.#open(call, Math.min(this.#ambiguous.length, used - 1 + this.#completedSince(call)))
      this.#charge(receivedAt, isCounted)
      this.#hasUncountedStart = !isCounted && used > 0
      this.confirmed = isCounted ? 1 : 0
      this.certain = this.confirmed
      this.#identity.open(resetAt, receivedAt)
      this.#resolveUnattributed(used, call.sentAt)
      return 'next'
    }
    const isFirst = isCounted && this.startedBy === null && !this.#hasUncountedStart
    this.#charge(receivedAt, isCounted)
    if (used !== null && (used > nextCanHave || this.#identity.isSame(resetAt, call.sentAt))) {
      this.#identity.record(resetAt, receivedAt)
      this.#confirm(call.sentAt)
      this.charged = Math.min(this.charged, used + this.#completedSince(call))
      if (isCounted) this.confirmed++
      this.#resolveUnattributed(used, call.sentAt)
      return 'same'
    }
    const isConfirmed = isFirst || receivedAt <= this.confirmedUntil
    if (isConfirmed) {
      this.#identity.record(resetAt, receivedAt)
      if (isCounted) this.confirmed++
      if (used !== null) this.#resolveUnattributed(used, call.sentAt)
    } else this.#addAmbiguous(result)
    return 'ambiguous'
  }

  /** The call was sent before this window opened. */
  #onEarlier(result: CallResult): WindowEvidence {
    const { call, receivedAt, used } = result
    this.#carriedOver.delete(call)
    if (used !== null && used > this.charged + this.#ledger.outstanding + 1 + this.#otherCalls)
      return 'ambiguous'
    this.#unattributed = [...this.#unattributed, result]
    this.#charge(receivedAt, false)
    // It was in flight long enough to be in the next window, perhaps.
    this.#addAmbiguous(result)
    return 'ambiguous'
  }

  #addAmbiguous(result: CallResult): void {
    if (result.receivedAt > this.confirmedUntil) this.#ambiguous.push(result)
  }

  #charge(receivedAt: number, isCertain: boolean): void {
    this.charged++
    this.#chargedAt = receivedAt
    this.#ownChargedAt = receivedAt
    if (isCertain) this.startedBy ??= receivedAt
  }

  /** The window's time is over. */
  advance(): void {
    this.#open(null, this.#ambiguous.length)
    this.#identity.open(null, 0)
  }

  /** Nothing that was decided holds: another client's calls were counted as well. */
  invalidate(): void {
    this.startedAfter = Number.NEGATIVE_INFINITY
    this.confirmedUntil = Number.NEGATIVE_INFINITY
  }

  #open(first: Call | null, charged: number): void {
    this.previousFirstSentAt = this.#countsOthers ? Number.NEGATIVE_INFINITY : this.firstSentAt
    this.#countsOthers = false
    this.#hasUncountedStart = false
    this.id++
    this.charged = charged
    this.confirmed = 0
    this.certain = 0
    this.startedAfter = Math.max(this.startedAfter, this.confirmedUntil)
    this.confirmedUntil = this.startedAfter
    this.startedBy = null
    this.#ownChargedAt = null
    this.#chargedAt = charged === 0 ? null : (this.#ambiguous.at(-1)?.receivedAt ?? null)
    this.#firstOwnSentAt = first?.sentAt ?? Number.POSITIVE_INFINITY
    this.#own = first === null ? 0 : 1
    this.#unattributed = this.#ambiguous
    this.#ambiguous = []
    this.#carriedOver.clear()
    for (const call of this.#ledger.inFlight) this.#carriedOver.add(call)
  }

  /** Confirms what was completed up to a moment, and what counts more than the next window can have by now. */
  #confirm(until: number): void {
    if (until <= this.confirmedUntil) return
    this.confirmedUntil = until
    for (let before = -1; before !== this.#ambiguous.length;) {
      before = this.#ambiguous.length
      const nextCanHave = before + this.#ledger.outstanding + this.#otherCalls
      this.#ambiguous = this.#ambiguous.filter(({ call, receivedAt, used, isCounted }) => {
        const isProven = used !== null && used > nextCanHave
        if (isProven) this.confirmedUntil = Math.max(this.confirmedUntil, call.sentAt)
        const isSame = isProven || receivedAt <= this.confirmedUntil
        // One that was sent before the window opened may be in the one before.
        if (isSame && isCounted && call.window === this.id) this.confirmed++
        return !isSame
      })
    }
  }

  /**
   * A call that is certainly in this window counts `used`. If that is more than the window's own calls, the rest are
   * unattributed ones, and it started before the earliest of these was answered; if it is fewer than all, the others
   * are in an earlier window.
   */
  #resolveUnattributed(used: number, sentAt: number): void {
    const earlier = used - this.#own - this.#carriedOver.size
    if (earlier > this.#unattributed.length) this.#countsOthers = true
    if (this.#otherCalls === 0 && earlier >= 1 && earlier <= this.#unattributed.length) {
      const completed = this.#unattributed.map(({ receivedAt }) => receivedAt).sort((a, b) => b - a)
      const by = completed[earlier - 1]
      if (by !== undefined && this.startedBy !== null) this.startedBy = Math.min(this.startedBy, by)
    }
    const before = this.#excludeOlder(used - 1, sentAt)
    this.startedAfter = Math.max(this.startedAfter, before)
    this.confirmedUntil = Math.max(this.confirmedUntil, before)
  }

  /**
   * The window counts the `n`-th call: at most n − 1 of those completed before it was sent are in it, the last ones.
   * @returns the latest sending of a call that is not in this window; −∞ if none is known
   */
  #excludeOlder(max: number, sentAt: number): number {
    // Most calls find none, and a long window has thousands to sort.
    if (this.#unattributed.length <= max) return Number.NEGATIVE_INFINITY
    const isCandidate = ({ isCounted, receivedAt }: CallResult): boolean => isCounted && receivedAt <= sentAt
    const candidates = this.#unattributed.filter(isCandidate)
    if (candidates.length <= max) return Number.NEGATIVE_INFINITY
    const sorted = candidates.map(({ call }) => call.sentAt).sort((a, b) => a - b)
    const before = sorted[candidates.length - 1 - max] ?? Number.NEGATIVE_INFINITY
    this.#unattributed = this.#unattributed.filter(
      (result) => result.receivedAt > before && !(max === 0 && isCandidate(result)),
    )
    return before
  }

  /** Calls completed while this one was in flight. */
  #completedSince(call: Call): number {
    return this.#ledger.completed - 1 - call.completedBefore
  }
}

/** In milliseconds. */
const LONGER_THAN_ROUNDING = 1500

/**
 * A window known by its Reset: calls whose headers give the same instant are in the same window. Believed once one Reset
 * was seen for longer than a second, because some services send `now + length` with each answer; and never again once
 * the count restarted under the same Reset.
 */
class WindowIdentity {
  #resetAt: number | null = null
  #seenAt = 0
  #isCredible = false
  #isContradicted = false

  /** Another window; null if its Reset is not known yet. */
  open(resetAt: number | null, receivedAt: number): void {
    if (resetAt !== null && resetAt === this.#resetAt) this.#isContradicted = true
    this.#resetAt = resetAt
    this.#seenAt = receivedAt
  }

  /** The answer of a call that is certainly in this window. */
  record(resetAt: number | null, receivedAt: number): void {
    if (this.#resetAt === null && resetAt !== null) this.open(resetAt, receivedAt)
  }

  /** Whether a call with this Reset is certainly in this window. */
  isSame(resetAt: number | null, sentAt: number): boolean {
    if (resetAt === null || resetAt !== this.#resetAt) return false
    if (sentAt - this.#seenAt > LONGER_THAN_ROUNDING) this.#isCredible = true
    return this.#isCredible && !this.#isContradicted
  }
}
