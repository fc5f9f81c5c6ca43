import type { CallLedger, CallResult } from './call-ledger.ts'
import { padded, snapToRound, type Counter } from './counter.ts'

/**
 * A sliding window: each call counts until it is one length old. "n are counted" means the last n calls, and so states how
 * far the window reaches back.
 */
export class SlidingLog implements Counter {
  min = 0
  readonly endsAt = null
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
    return this.#isOdd ? this.#max : snapToRound(this.min, this.#max, 100)
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
    if (last === null || last.index < this.#idleUntil || receivedAt - last.receivedAt >= this.#max) return
    this.#max = Math.min(this.#max, receivedAt - this.#ledger.earliestSent(last.index, before))
  }
}

interface Sample extends CallResult {
  readonly used: number
  readonly completed: number
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
  readonly endsAt = null
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
    for (const earlier of this.#samples) {
      const fall = used - earlier.used
      // A header rounds the tokens down, so one more or less may have come back.
      const least = this.#certainlyBetween(earlier, call.completedBefore) - fall - 1
      if (least > 0) this.max = Math.min(this.max, (limit * (receivedAt - earlier.call.sentAt)) / least)
      // Only while it was certainly not full: a full bucket gets nothing back.
      const calls = sent - earlier.call.completedBefore + others
      const time = call.sentAt - earlier.receivedAt
      if (used > calls && time > 0) this.min = Math.max(this.min, (limit * time) / (calls - fall))
    }
    this.#keep({ ...result, used, completed, outstanding: sent - completed })
  }

  /** Calls certainly counted after the earlier answer's call, up to one sent when `completedBefore` were completed. */
  #certainlyBetween(earlier: Sample, completedBefore: number): number {
    const both = Math.min(earlier.completed, completedBefore)
    const after = this.#ledger.countedUpTo(completedBefore) - this.#ledger.countedUpTo(both)
    return after + 1 - (earlier.completed - both) - earlier.outstanding
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
