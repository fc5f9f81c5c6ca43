import type { CallLedger, CallResult } from './call-ledger.ts'
import { FixedWindow } from './fixed-window.ts'
import { type Counter, SlidingLog, TokenBucket } from './counter.ts'

/** Time without work that counts as idle, in milliseconds: a fiftieth of the furthest Reset, between these. */
const SHORTEST_IDLE = 500
const LONGEST_IDLE = 30_000

/**
 * How the service may count: every way that no answer has contradicted. What all of them allow is allowed; if all are
 * contradicted, what was measured does not hold any more, and they begin anew.
 */
export class Counters {
  fixed: FixedWindow
  sliding: SlidingLog
  bucket: TokenBucket
  /** A length that was taken for a round one was too short: from then on only observed lengths are used. */
  isOdd = false
  /** Other clients' calls are counted as well. */
  isShared = false
  #idleSince: number | null = null
  readonly #ledger: CallLedger

  constructor(ledger: CallLedger) {
    this.#ledger = ledger
    this.fixed = new FixedWindow(ledger)
    this.sliding = new SlidingLog(ledger)
    this.bucket = new TokenBucket(ledger)
  }

  reset(isShared = this.isShared): void {
    this.isShared = isShared
    this.fixed = new FixedWindow(this.#ledger, this.isOdd, isShared, this.fixed.id + 1)
    this.sliding = new SlidingLog(this.#ledger, this.isOdd)
    this.bucket = new TokenBucket(this.#ledger)
  }

  get all(): readonly Counter[] {
    return [this.fixed, this.sliding, this.bucket]
  }

  /** The greatest, or the least, of all possible counters. */
  #pick(pick: (a: number, b: number) => number, start: number, of: (counter: Counter) => number): number {
    let picked = start
    for (const counter of this.all) if (counter.isPossible) picked = pick(picked, of(counter))
    return picked
  }

  /** Only fixed windows are possible; or only a sliding window or a bucket. */
  get isFixed(): boolean {
    return this.fixed.isPossible && !this.sliding.isPossible && !this.bucket.isPossible
  }

  get isRolling(): boolean {
    return !this.fixed.isPossible
  }

  get isBucket(): boolean {
    return !this.fixed.isPossible && !this.sliding.isPossible
  }

  /** In milliseconds, not too short for any possible counter; infinite while that is not known. */
  get length(): number {
    return this.#pick(Math.max, 0, ({ max }) => max)
  }

  /** No window of a possible counter is shorter; a bucket's length is no time in which anything ends. */
  get min(): number {
    return this.#pick(Math.max, 0, (counter) => (counter === this.bucket ? 0 : counter.min))
  }

  /** The window is no shorter, whichever counter is right. */
  get certainMin(): number {
    return this.#pick(Math.min, Number.POSITIVE_INFINITY, ({ min }) => min)
  }

  cutoff(now: number): number {
    return this.#pick(Math.min, Number.POSITIVE_INFINITY, (counter) => counter.cutoff(now))
  }

  /** When the open window has certainly ended; null if none has begun, or if windows do not end. */
  get windowEnd(): number | null {
    return this.isFixed ? this.fixed.endsAt : null
  }

  /** A call was answered, or lost. */
  onCompleted(result: CallResult, limit: number, others: number): void {
    this.fixed.onAnswer(result, limit, others)
    // What is contradicted stays so.
    if (this.sliding.isPossible) this.sliding.onAnswer(result, limit, others)
    if (this.bucket.isPossible) this.bucket.onAnswer(result, limit, others)
    if (!this.all.some(({ isPossible }) => isPossible)) this.reset()
  }

  /**
   * Idle time, in which nothing was wanted and nothing was in flight, proves nothing.
   * @param furthestReset the furthest that a Reset lay ahead, in milliseconds
   * @returns whether an idle time has just ended
   */
  onDemand(isWanted: boolean, now: number, furthestReset: number): boolean {
    const since = this.#idleSince ?? now
    this.#idleSince = isWanted ? null : since
    const atLeast = Math.min(LONGEST_IDLE, Math.max(SHORTEST_IDLE, furthestReset / 50))
    if (!isWanted || now - since <= atLeast) return false
    for (const counter of this.all) counter.onIdle(now)
    return true
  }
}
