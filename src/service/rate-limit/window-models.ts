import type { Call, CallLedger, CallResult } from './call-ledger.ts'
import { FixedWindow } from './fixed-window.ts'
import { FixedWindowModel } from './fixed-window-length.ts'
import type { Reset } from './headers.ts'
import { SlidingWindowModel, TokenBucketModel, type WindowModel } from './rolling-windows.ts'
import type { SharedKeyDetector } from './shared-key.ts'

/** What is known about the window. */
export interface WindowEstimate {
  /** Only fixed windows are possible; or only a sliding window or a bucket. */
  readonly isFixed: boolean
  readonly isRolling: boolean
  /** A length in milliseconds that is not too short for any possible model; infinite if there is none. */
  readonly length: number
  /** No window of a possible model is shorter. */
  readonly min: number
  /** The window is no shorter, whichever model is right: shows how far `length` is more than a bound. */
  readonly certainMin: number
}

/** Time without work that counts as idle, in milliseconds: a fiftieth of the furthest Reset, between these. */
const SHORTEST_IDLE = 500
const LONGEST_IDLE = 30_000

/**
 * How the service counts and how long its window is: three models, of which answers contradict the wrong ones. While
 * several are possible the longest length counts, which is safe for each.
 */
export class WindowModels {
  /** Which fixed window a call is counted in. */
  readonly window: FixedWindow
  /** The ways in which the service may count. */
  all: {
    readonly fixed: FixedWindowModel
    readonly sliding: SlidingWindowModel
    readonly bucket: TokenBucketModel
  }
  /** Other clients' calls are counted as well. */
  #isShared = false
  /** A length that was taken for a round one was too short: from then on only observed lengths are used. */
  #isOdd = false
  #estimate: WindowEstimate | null = null
  #idleSince: number | null = null
  readonly #ledger: CallLedger
  readonly #shared: SharedKeyDetector

  constructor(ledger: CallLedger, shared: SharedKeyDetector) {
    this.#ledger = ledger
    this.#shared = shared
    this.window = new FixedWindow(ledger)
    this.all = this.#createModels()
  }

  #createModels(): WindowModels['all'] {
    return {
      fixed: new FixedWindowModel(this.window, this.#shared, this.#isOdd),
      sliding: new SlidingWindowModel(this.#ledger, this.#isOdd),
      bucket: new TokenBucketModel(this.#ledger),
    }
  }

  get estimate(): WindowEstimate {
    this.#estimate ??= this.#computeEstimate()
    return this.#estimate
  }

  get #possible(): WindowModel[] {
    return Object.values<WindowModel>(this.all).filter((model) => !model.isContradicted)
  }

  /** How many calls every possible model allows, by the longest length; −∞ while none is known. */
  remaining(limit: number, now: number): number {
    const { isFixed, length } = this.estimate
    const counted = this.#ledger.remainingWithin(limit, length, now)
    return isFixed ? Math.max(counted, this.window.remaining(limit)) : counted
  }

  /**
   * Idle time, in which nothing was wanted and nothing was in flight, proves nothing: no window that began before it
   * bounds a length any more, or the time without work would count as the service's.
   * @param furthestReset the furthest that a Reset lay ahead, in milliseconds
   * @returns whether an idle time has just ended
   */
  onDemand(isWanted: boolean, now: number, furthestReset: number): boolean {
    const since = this.#idleSince ?? now
    this.#idleSince = isWanted ? null : since
    const atLeast = Math.min(LONGEST_IDLE, Math.max(SHORTEST_IDLE, furthestReset / 50))
    if (!isWanted || now - since <= atLeast) return false
    for (const model of Object.values<WindowModel>(this.all)) model.onIdle(now)
    this.#estimate = null
    return true
  }

  /** A call was answered, or lost. */
  onCompleted(result: CallResult, limit: number | null): void {
    this.#ledger.complete(result)
    this.#shared.onCompleted(result.receivedAt - result.call.sentAt)
    if (limit === null) {
      if (result.isCounted)
        this.#shared.onUsage(result.call.sentAt, result.receivedAt, Number.POSITIVE_INFINITY)
      return
    }
    const otherCalls = this.#shared.isDetected ? Math.ceil(limit / 4) : 0
    for (const model of Object.values<WindowModel>(this.all)) model.onAnswer(result, limit, otherCalls)
    this.#estimate = null
    if (this.#possible.length === 0) this.reset()
    const { sentAt, window } = result.call
    // A late answer belongs to the window that was open when its call was sent.
    this.#shared.onExcessCount((result.used ?? 0) - this.#ownCallsSince(sentAt), window, limit)
    this.#updateShared()
  }

  onReset(reset: Reset, sentAt: number, receivedAt: number): void {
    this.all.fixed.onReset(reset, sentAt, receivedAt)
    this.#estimate = null
  }

  /**
   * An answer has stated what remains.
   * @param excess by how much that fell more than by our own calls
   * @param furthestReset the furthest that a Reset lay ahead, in milliseconds; 0: there was none
   */
  onRemaining(call: Call, excess: number, limit: number | null, furthestReset: number, now: number): void {
    if (limit === null) return
    if (excess >= 1) {
      this.#shared.onExcessDecrease(excess, this.window.id, limit, now)
      this.#updateShared()
    }
    const { length } = this.estimate
    this.#shared.onUsage(call.sentAt, now, furthestReset > 0 ? Math.min(length, furthestReset) : length)
  }

  /** A call was refused with 429: because of another client's calls, or because an estimate is wrong. */
  onRejected(call: Call, limit: number, now: number): void {
    const missing = limit - this.#ownCallsSince(call.sentAt)
    if (call.isCovered || missing > 0 || this.#shared.isDetected)
      this.#shared.onRejected(Math.max(1, missing), limit, now)
    else {
      if (Number.isFinite(this.estimate.length)) this.#isOdd = true
      this.reset()
    }
    this.#updateShared()
  }

  /** Starts over: the estimates contradict each other, or do not hold any more. */
  reset(): void {
    this.all = this.#createModels()
    this.#estimate = null
  }

  #updateShared(): void {
    if (this.#isShared === this.#shared.isDetected) return
    this.#isShared = this.#shared.isDetected
    this.reset()
    this.window.invalidate()
  }

  /** Our calls that the service can have counted when a call that was sent then arrived. */
  #ownCallsSince(sentAt: number): number {
    return this.#ledger.completedSince(sentAt - this.estimate.length) + this.#ledger.outstanding
  }

  #computeEstimate(): WindowEstimate {
    const { fixed, sliding, bucket } = this.all
    const possible = this.#possible
    const isFixed = !fixed.isContradicted
    const isRolling = !sliding.isContradicted || !bucket.isContradicted
    return {
      isFixed: isFixed && !isRolling,
      isRolling: !isFixed && isRolling,
      length: Math.max(0, ...possible.map((model) => model.safeLength)),
      // A bucket's length is no time in which anything ends.
      min: Math.max(0, ...possible.filter((model) => model !== bucket).map(({ bounds }) => bounds.min)),
      certainMin: Math.min(...possible.map(({ bounds }) => bounds.min)),
    }
  }
}
