import type { Reset } from './headers.ts'

/** `Date` names a second; and Node and others cache a formatted Date for up to a second, and some milliseconds more. */
const DATE_PRECISION_MS = 1050

/** Two clocks drift apart by up to 0.01% each. */
const DRIFT = 0.0002

/**
 * How far the service's clock is ahead of ours, as bounds in milliseconds: the second in an answer's `Date` lies between
 * sending and receiving. Clocks that are off by minutes are common, so no instant of the service is compared with our
 * clock without these bounds.
 */
export class ClockOffset {
  #min = Number.NEGATIVE_INFINITY
  #max = Number.POSITIVE_INFINITY
  #at = 0

  get isKnown(): boolean {
    return this.#max !== Number.POSITIVE_INFINITY
  }

  /** @param date the answer's `Date`, rounded down to the second */
  record(date: number, sentAt: number, receivedAt: number): void {
    const min = date - receivedAt
    const max = date + DATE_PRECISION_MS - sentAt
    const drift = Math.max(0, receivedAt - this.#at) * DRIFT
    this.#at = receivedAt
    this.#min = Math.max(this.#min - drift, min)
    this.#max = Math.min(this.#max + drift, max)
    if (this.#min <= this.#max) return
    // A clock was set: what was known before is void.
    this.#min = min
    this.#max = max
  }

  /** The latest, and the earliest, moment on our clock at which the service's clock can show `instant`. */
  latest(instant: number): number {
    return instant - this.#min
  }

  earliest(instant: number): number {
    return instant - this.#max
  }

  /** The earliest reading of the service's clock at `at` on ours; ours, if nothing is known. */
  serviceTime(at: number): number {
    return this.isKnown ? at + this.#min : at
  }
}

interface ReceivedReset {
  readonly reset: Reset
  readonly receivedAt: number
}

/** In milliseconds. */
const TIMER_MARGIN = 2
const ACCURATE_CLOCK = 1000
const FIRST_SILENCE = 1000
const LONGEST_WINDOW = 24 * 60 * 60_000

/**
 * When the limit has certainly been renewed, by what Reset says. Reset may have been rounded down by nearly a second and
 * the service's clock is known within bounds only, so this is up to two seconds late and never early. Then one call is
 * allowed although Remaining was 0: at Reset a fixed window is over, the oldest call has left a sliding window, and a
 * bucket has a token, so one call cannot be refused, and its answer shows more.
 */
export class ResetTimer {
  /** The furthest that a Reset lay ahead, and lay ahead for certain, in milliseconds: about a window. */
  furthest = 0
  certainFurthest = 0
  readonly #offset: ClockOffset
  /** The latest Reset, and whether no call can have taken the place that it promises. */
  #last: ReceivedReset | null = null
  #isUnclaimed = false
  #triedAt = Number.NEGATIVE_INFINITY
  #silenceMs = FIRST_SILENCE

  constructor(offset: ClockOffset) {
    this.#offset = offset
  }

  /**
   * Answers arrive out of order: of calls that were in flight together the later Reset counts. An older answer that
   * arrives late would promise a place that another call has taken since.
   */
  record(reset: Reset, sentAt: number, receivedAt: number): void {
    const before = this.#isUnclaimed ? this.#last : null
    this.#silenceMs = FIRST_SILENCE
    this.#triedAt = receivedAt
    this.#last = { reset, receivedAt }
    this.#isUnclaimed = true
    this.certainFurthest = Math.max(this.certainFurthest, (this.earliestReset ?? receivedAt) - receivedAt)
    const until = this.latestReset
    if (until !== null) this.furthest = Math.max(this.furthest, until - receivedAt)
    if (before === null || sentAt >= before.receivedAt) return
    if ((this.#latest(before) ?? 0) >= (until ?? 0)) this.#last = before
  }

  /** An answer without a Reset: its call may have taken the target place. */
  onUninformativeAnswer(now: number): void {
    this.#isUnclaimed = false
    this.#triedAt = now
  }

  /** Failed attempts from before an idle time do not count any more. */
  onIdle(): void {
    this.#silenceMs = FIRST_SILENCE
  }

  /** Every Reset so far was a thousand times too long. */
  onUnitIsMs(): void {
    this.furthest = 0
    this.certainFurthest = 0
    this.#last = null
  }

  /** The latest moment at which the limit may be renewed, on our clock; null if no credible Reset is known. */
  get latestReset(): number | null {
    return this.#latest(this.#last)
  }

  /** The earliest such moment. */
  get earliestReset(): number | null {
    if (this.#last === null) return null
    const { reset, receivedAt } = this.#last
    if (reset.kind === 'delay') return receivedAt + reset.ms - reset.precision
    return this.#offset.isKnown ? this.#offset.earliest(reset.at - reset.precision) : null
  }

  #latest(received: ReceivedReset | null): number | null {
    if (received === null) return null
    const { reset, receivedAt } = received
    if (reset.kind === 'delay') return receivedAt + reset.ms + reset.precision + TIMER_MARGIN
    const end = reset.at + reset.precision + TIMER_MARGIN
    if (this.#offset.isKnown) return this.#offset.latest(end)
    // Without a Date nothing bounds the service's clock. Then Reset counts only if it is plausible on ours.
    const isPlausible = end > receivedAt - ACCURATE_CLOCK && end < receivedAt + LONGEST_WINDOW
    return isPlausible ? end + ACCURATE_CLOCK : null
  }

  /**
   * When to try a call although nothing is left, and whether Reset promises it; null if nothing is known.
   * @param minLength the window is no shorter, in milliseconds; null if it is known well enough, so that nothing is
   *   tried that Reset does not promise
   */
  nextAttempt(minLength: number | null): { readonly at: number; readonly isFromHeader: boolean } | null {
    const target = this.latestReset
    if (this.#isUnclaimed && target !== null) return { at: target, isFromHeader: true }
    if (minLength === null) return null
    const silence = Math.max(this.#silenceMs, this.furthest, minLength)
    return { at: this.#triedAt + silence, isFromHeader: false }
  }

  /** A call is granted: the next attempt needs another Reset, or twice the time. */
  consume(now: number): void {
    this.#silenceMs = Math.min(LONGEST_WINDOW, this.#silenceMs * 2)
    this.#triedAt = now
    this.#isUnclaimed = false
  }
}
