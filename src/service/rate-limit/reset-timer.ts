import type { Reset } from './headers.ts'

/** `Date` names a second; and Node and others cache a formatted Date for up to a second, and some milliseconds more. */
const DATE_PRECISION_MS = 1050

/** Two clocks drift apart by up to 0.01% each. */
const DRIFT = 0.0002

/** In milliseconds. */
const TIMER_MARGIN = 2
const ACCURATE_CLOCK = 1000
const FIRST_SILENCE = 1000
const LONGEST_WINDOW = 24 * 60 * 60_000

/** When something is, on our clock: no earlier, and no later. */
interface Moment {
  readonly earliest: number
  readonly latest: number
}

/**
 * How far the service's clock is ahead of ours, as bounds in milliseconds: the second in an answer's `Date` lies between
 * sending and receiving. Clocks that are off by minutes are common, so no instant of the service is compared with our
 * clock without these bounds.
 */
export class ClockOffset {
  #min = Number.NEGATIVE_INFINITY
  #max = Number.POSITIVE_INFINITY
  #at = 0

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

  /** When a Reset comes, which may have been rounded either way; null if it is not credible. */
  locate(reset: Reset, receivedAt: number): Moment | null {
    const at = reset.kind === 'delay' ? receivedAt + reset.ms : reset.at
    const [from, to] = [at - reset.precision, at + reset.precision + TIMER_MARGIN]
    if (reset.kind === 'delay') return { earliest: from, latest: to }
    if (Number.isFinite(this.#max)) return { earliest: from - this.#max, latest: to - this.#min }
    // Without a Date nothing bounds the service's clock. Then Reset counts only if it is plausible on ours.
    const isPlausible = to > receivedAt - ACCURATE_CLOCK && to < receivedAt + LONGEST_WINDOW
    return isPlausible ? { earliest: Number.NEGATIVE_INFINITY, latest: to + ACCURATE_CLOCK } : null
  }

  /** The earliest reading of the service's clock at `at` on ours; ours, if nothing is known. */
  serviceTime(at: number): number {
    return Number.isFinite(this.#max) ? at + this.#min : at
  }
}

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
  /** When the limit is renewed by the latest Reset, and whether no call can have taken the place that it promises. */
  #next: (Moment & { readonly receivedAt: number }) | null = null
  #isUnclaimed = false
  #triedAt = Number.NEGATIVE_INFINITY
  #silenceMs = FIRST_SILENCE

  constructor(offset: ClockOffset) {
    this.#offset = offset
  }

  /** The earliest moment at which the limit may be renewed, on our clock; null if no credible Reset bounds it. */
  get earliestReset(): number | null {
    return this.#next?.earliest ?? null
  }

  /** The latest such moment. */
  get latestReset(): number | null {
    return this.#next?.latest ?? null
  }

  /**
   * Answers arrive out of order: of calls that were in flight together the later Reset counts. An older answer that
   * arrives late would promise a place that another call has taken since.
   */
  record(reset: Reset, sentAt: number, receivedAt: number): void {
    const before = this.#isUnclaimed ? this.#next : null
    const located = this.#offset.locate(reset, receivedAt)
    this.#next = located && { ...located, receivedAt }
    this.#silenceMs = FIRST_SILENCE
    this.#triedAt = receivedAt
    this.#isUnclaimed = true
    if (located !== null) {
      this.certainFurthest = Math.max(this.certainFurthest, located.earliest - receivedAt)
      this.furthest = Math.max(this.furthest, located.latest - receivedAt)
    }
    if (before === null || sentAt >= before.receivedAt) return
    if (before.latest >= (located?.latest ?? 0)) this.#next = before
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
    this.#next = null
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
