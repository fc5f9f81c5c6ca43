import type { CallLedger, CallResult } from './call-ledger.ts'
import { LengthBounds, snapToRound } from './length-bounds.ts'

/** One way in which a service may count. Answers narrow the bounds of its window's length until they contradict it. */
export interface WindowModel {
  readonly bounds: LengthBounds
  readonly isContradicted: boolean
  /** A length in milliseconds that is not too short if the service counts in this way. */
  readonly safeLength: number
  onAnswer(result: CallResult, limit: number, otherCalls: number): void
  /** Nothing was wanted for a while, until `now`. */
  onIdle(now: number): void
}

/**
 * A sliding window: each call counts until it is one length old. "n are counted" means the last n calls, and so states
 * how far the window reaches back. Every other kind of service contradicts these bounds sooner or later.
 */
export class SlidingWindowModel implements WindowModel {
  readonly bounds = new LengthBounds()
  readonly #ledger: CallLedger
  readonly #isOdd: boolean
  /** Calls completed at the end of the last idle time: what came before it bounds nothing. */
  #idleUntil = 0

  /** @param isOdd a length that was taken for a round one was too short */
  constructor(ledger: CallLedger, isOdd: boolean) {
    this.#ledger = ledger
    this.#isOdd = isOdd
  }

  get isContradicted(): boolean {
    return this.bounds.isEmpty
  }

  get safeLength(): number {
    return this.#isOdd ? this.bounds.max : snapToRound(this.bounds, 100)
  }

  onIdle(): void {
    this.#idleUntil = this.#ledger.completed
  }

  /** @param otherCalls calls of other clients that may be counted as well */
  onAnswer({ call, receivedAt, used }: CallResult, _limit: number, otherCalls: number): void {
    if (used === null) return
    const before = call.completedBefore
    const uncertain = this.#ledger.sent - before - 1 + otherCalls
    // At least this many of the completed calls are counted: the window reaches back to the first of them.
    const reached = used - 1 - uncertain
    const isWithin = before - reached >= this.#idleUntil
    const reachedAt = reached > 0 && isWithin ? this.#ledger.receivedAt(before - reached) : null
    if (reachedAt !== null) this.bounds.raiseMin(call.sentAt - reachedAt)
    // One of the last `used` completed calls is no longer counted.
    const from = this.#ledger.sinceCounted(used, before)
    if (from === null || from >= before || from < this.#idleUntil) return
    if (receivedAt - (this.#ledger.receivedAt(from) ?? receivedAt) >= this.bounds.max) return
    this.bounds.lowerMax(receivedAt - this.#ledger.earliestSent(from, before))
  }
}

interface Sample {
  readonly sentAt: number
  readonly receivedAt: number
  readonly used: number
  /** Calls completed when it was sent and when it was answered; and calls in flight by then. */
  readonly completedBefore: number
  readonly completed: number
  readonly outstanding: number
}

const MAX_SAMPLES = 32

/**
 * A token bucket, refilled rollingTarget. What came back between two answers is the calls made less the fall of Remaining; the
 * limit over that rate is the length, the time in which an empty bucket fills.
 */
export class TokenBucketModel implements WindowModel {
  readonly bounds = new LengthBounds()
  readonly #ledger: CallLedger
  #samples: Sample[] = []
  #spacing = 1

  constructor(ledger: CallLedger) {
    this.#ledger = ledger
  }

  get isContradicted(): boolean {
    return this.bounds.isEmpty
  }

  get safeLength(): number {
    return this.bounds.max
  }

  /** The bucket may have been full for most of the time. */
  onIdle(): void {
    this.#samples = []
    this.#spacing = 1
  }

  onAnswer({ call, receivedAt, used, isCounted }: CallResult, limit: number, otherCalls: number): void {
    if (used === null || !isCounted) return
    const { completed, sent } = this.#ledger
    const { sentAt, completedBefore } = call
    for (const earlier of this.#samples) {
      // A header rounds the tokens down, so one more or less may have come back.
      const min = this.#certainlyBetween(earlier, completedBefore) + earlier.used - used - 1
      if (min > 0) this.bounds.lowerMax((limit * (receivedAt - earlier.sentAt)) / min)
      // Only while it was certainly not full: a full bucket gets nothing back.
      const callsSince = sent - earlier.completedBefore + otherCalls
      const max = callsSince + earlier.used - used
      const time = sentAt - earlier.receivedAt
      if (used > callsSince && time > 0) this.bounds.raiseMin((limit * time) / max)
    }
    this.#keep({ sentAt, receivedAt, used, completedBefore, completed, outstanding: sent - completed })
  }

  /** Calls certainly counted after the earlier answer's call, up to one sent when `completedBefore` were completed. */
  #certainlyBetween(earlier: Sample, completedBefore: number): number {
    const both = Math.min(earlier.completed, completedBefore)
    const after = this.#ledger.countedUpTo(completedBefore) - this.#ledger.countedUpTo(both)
    return after + 1 - (earlier.completed - both) - earlier.outstanding
  }

  /** Keeps few samples, with growing distances. */
  #keep(sample: Sample): void {
    const last = this.#samples.at(-1)
    if (last !== undefined && sample.receivedAt - last.receivedAt < this.#spacing) return
    this.#samples.push(sample)
    if (this.#samples.length <= MAX_SAMPLES) return
    this.#samples = this.#samples.filter((_, index) => index % 2 === 0)
    this.#spacing *= 2
  }
}
