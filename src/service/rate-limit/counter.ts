import type { CallLedger, CallResult } from './call-ledger.ts'

/**
 * One way in which a service may count: a hypothesis. Answers narrow how long its window can be; where nothing is left
 * between the bounds, the service does not count in this way.
 */
export interface Counter {
  /** The window is no shorter, and no longer than `max`, in milliseconds. */
  readonly min: number
  readonly max: number
  readonly isPossible: boolean
  /** Of a call that the ledger has completed. @param others calls of other clients that may be counted as well */
  onAnswer(result: CallResult, limit: number, others: number): void
  /** Nothing was wanted for a while, until `now`: what was seen before says nothing about what comes after. */
  onIdle(now: number): void
  /** Calls answered up to then certainly hold no place any more; −∞ if that is not known of any. */
  cutoff(now: number): number
}

/** A length with its margin: two clocks drift apart by up to 0.01%, and a timer may fire a moment early. */
export const padded = (length: number): number => length + 2 + length / 10_000

/**
 * The length that was probably configured: the longest multiple of `step` within the bounds, because a window of
 * 1.037 s is not configured; the maximum if there is none.
 */
export function snapToRound(min: number, max: number, step: number): number {
  const multiple = Math.floor(max / step) * step
  return multiple > min && multiple > 0 ? multiple : max
}

/** Windows that the clock starts are whole or half seconds long; of others the short ones are tenths. */
export const CLOCK_STEP = 500
export const stepFor = (length: number): number => (length < 5000 ? 100 : CLOCK_STEP)

const STEPS = [3_600_000, 600_000, 60_000, 30_000, 10_000, 5000, 1000, 500, 100]

/** The roundest length above `min` and up to `max`, the shorter of equals; null if only odd ones are left. */
export const roundestBetween = (min: number, max: number): number | null =>
  STEPS.map((step) => Math.floor(min / step) * step + step).find((length) => length <= max) ?? null

/** The same, the longer of equals. */
export const roundestBelow = (min: number, max: number): number | null =>
  STEPS.map((step) => Math.floor(max / step) * step).find((length) => length > min) ?? null

/**
 * A sliding window: each call counts until it is one length old. "n are counted" means the last n calls, and so states how
 * far the window reaches back.
 */
export class SlidingLog implements Counter {
  min = 0
  #max = Number.POSITIVE_INFINITY
  /** Calls completed at the end of the last idle time: what came before it bounds nothing. */
  #idleUntil = 0
  readonly #ledger: CallLedger
  readonly #isOdd: boolean

  constructor(ledger: CallLedger, isOdd = false) {
    this.#ledger = ledger
    this.#isOdd = isOdd
  }

  get max(): number {
    return this.#isOdd ? this.#max : snapToRound(this.min, this.#max, stepFor(this.#max))
  }

  get isPossible(): boolean {
    return this.min <= this.#max
  }

  cutoff(now: number): number {
    return now - padded(this.max)
  }

  onIdle(): void {
    this.#idleUntil = this.#ledger.completed
  }

  onAnswer({ call, receivedAt, used }: CallResult, _limit: number, others: number): void {
    if (used === null) return
    const before = call.completedBefore
    // At least this many of the completed calls are counted: the window reaches back to the first of them.
    const reached = used - 1 - others - (this.#ledger.sent - before - 1)
    if (reached > 0 && before - reached >= this.#idleUntil)
      this.min = Math.max(this.min, call.sentAt - (this.#ledger.receivedAt(before - reached) ?? call.sentAt))
    // One of the last `used` completed calls is no longer counted.
    const last = this.#ledger.lastCounted(used, before)
    if (last === null || last.index < this.#idleUntil || receivedAt - last.sentAt >= this.#max) return
    this.#max = Math.min(this.#max, receivedAt - this.#ledger.earliestSent(last.index, before))
  }
}

interface Sample extends CallResult {
  readonly used: number
  /** Calls completed by then, and of these certainly counted. */
  readonly completed: number
  readonly counted: number
  readonly outstanding: number
}

const MOST_SAMPLES = 32

/**
 * A token bucket, refilled evenly. What came back between two answers is the calls made less the fall of Remaining; the
 * limit over that rate is the length, the time in which an empty bucket fills.
 */
export class TokenBucket implements Counter {
  min = 0
  max = Number.POSITIVE_INFINITY
  #samples: Sample[] = []
  #spacing = 1
  readonly #ledger: CallLedger

  constructor(ledger: CallLedger) {
    this.#ledger = ledger
  }

  get isPossible(): boolean {
    return this.min <= this.max
  }

  cutoff(now: number): number {
    return now - padded(this.max)
  }

  /** The bucket may have been full for most of the time. */
  onIdle(): void {
    this.#samples = []
    this.#spacing = 1
  }

  onAnswer(result: CallResult, limit: number, others: number): void {
    const { call, receivedAt, used, isCounted } = result
    if (used === null || !isCounted) return
    const { completed, sent } = this.#ledger
    const counted = this.#ledger.countedUpTo(call.completedBefore)
    for (const earlier of this.#samples) {
      const fall = used - earlier.used
      // A header rounds the tokens down, so one more or less may have come back.
      const least = this.#certainlyBetween(earlier, call.completedBefore, counted) - fall - 1
      if (least > 0) this.max = Math.min(this.max, (limit * (receivedAt - earlier.call.sentAt)) / least)
      // Only while it was certainly not full: a full bucket gets nothing back.
      const calls = sent - earlier.call.completedBefore + others
      const time = call.sentAt - earlier.receivedAt
      if (used > calls && time > 0) this.min = Math.max(this.min, (limit * time) / (calls - fall))
    }
    const all = this.#ledger.countedUpTo(completed)
    this.#keep({ ...result, used, completed, counted: all, outstanding: sent - completed })
  }

  /** Calls certainly counted after the earlier answer's call, up to one sent when `completedBefore` were completed. */
  #certainlyBetween(earlier: Sample, completedBefore: number, counted: number): number {
    const missing = Math.max(0, earlier.completed - completedBefore)
    const after = missing > 0 ? 0 : counted - earlier.counted
    return after + 1 - missing - earlier.outstanding
  }

  /** Few samples, with growing distances. */
  #keep(sample: Sample): void {
    const last = this.#samples.at(-1)
    if (last !== undefined && sample.receivedAt - last.receivedAt < this.#spacing) return
    this.#samples.push(sample)
    if (this.#samples.length <= MOST_SAMPLES) return
    this.#samples = this.#samples.filter((_, index) => index % 2 === 0)
    this.#spacing *= 2
  }
}
