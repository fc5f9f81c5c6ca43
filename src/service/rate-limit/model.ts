import type { PreviousLeader } from '../../domain/rate-status.ts'
import type { AnswerHead } from '../../domain/service/head.ts'
import { CallLedger, type Call } from './call-ledger.ts'
import { Capacity, TRANSIT_MS } from './capacity.ts'
import { Cooldown } from './cooldown.ts'
import type { StatedUsage } from './endpoint-evidence.ts'
import { GrantPolicy } from './grant-policy.ts'
import { HeaderEvidence, isClientError, usedFromHeaders } from './header-evidence.ts'
import { parseRetryAfter, readRateHeaders, type Headers, type RateHeaders } from './headers.ts'
import type { LearntLimit } from './learnt-limit.ts'
import { padded } from './length-bounds.ts'
import { ClockOffset, ResetTimer } from './reset-timer.ts'
import { SharedKeyDetector } from './shared-key.ts'
import { stallReason, type RateLimitState } from './state.ts'
import { UnstatedLimit } from './unstated-limit.ts'
import { WindowModels } from './window-models.ts'

/** Without a Reset the limit counts as exhausted for at most this time, in milliseconds. */
const MAX_UNCONFIRMED_MS = 60_000

/** A length is known, and not only bounded from above, once the window is certainly no shorter than this share of it. */
const KNOWN_FROM = 0.75

/** A longer bound says nothing, in milliseconds. */
const LONGEST_REPORTED = 24 * 60 * 60_000

/**
 * What a key's limit is and how much of it is left: a state machine over (event, now), without a clock, a timer or a
 * queue, so that a simulated service in virtual time can drive it. All times are milliseconds since the epoch.
 */
export class RateLimitModel {
  limit: number | null = null
  readonly calls = new CallLedger()
  readonly #clock = new ClockOffset()
  readonly unstated = new UnstatedLimit(this.calls)
  readonly #cooldown = new Cooldown()
  readonly #reset = new ResetTimer(this.#clock)
  readonly #shared = new SharedKeyDetector()
  readonly models = new WindowModels(this.calls, this.#shared)
  readonly #capacity = new Capacity(this.calls, this.models, this.#shared)
  readonly #headers = new HeaderEvidence(this.calls)
  readonly #policy: GrantPolicy

  /**
   * @param warm what an earlier run knew; null if there is none, or if it is outdated
   * @param exhaustedUntil until then the previous leader may have exhausted the limit
   */
  constructor(
    warm: { readonly limit: number; readonly windowMs: number | null } | null = null,
    exhaustedUntil: number | null = null,
    previous: PreviousLeader = {},
  ) {
    this.#policy = new GrantPolicy(
      {
        calls: this.calls,
        models: this.models,
        capacity: this.#capacity,
        cooldown: this.#cooldown,
        unstated: this.unstated,
        reset: this.#reset,
        coverage: this.#headers.coverage,
      },
      warm?.windowMs ?? null,
    )
    if (warm !== null) this.unstated.slowStart.capAt(warm.limit)
    if (exhaustedUntil !== null) this.#cooldown.waitUntil(exhaustedUntil)
    if (previous.wasBanned) this.#cooldown.inheritBan()
    if (previous.wasShared) this.#shared.inherit()
  }

  state(now: number): RateLimitState {
    if (this.#cooldown.isBan) return 'banned'
    if (this.#cooldown.isActive(now)) return 'cooldown'
    if (this.limit === null) return this.unstated.state
    const { length, isFixed, isRolling } = this.models.estimate
    if (!Number.isFinite(length)) return 'calibrating'
    if (isFixed) return 'fixed_window'
    return isRolling ? 'sliding' : 'calibrating'
  }

  /** The window's length; null while it is not known, or only bounded from above. */
  get windowMs(): number | null {
    const { length, certainMin } = this.models.estimate
    const isKnown = Math.max(certainMin, this.#reset.certainFurthest) >= KNOWN_FROM * length
    return Number.isFinite(length) && isKnown ? Math.round(length) : null
  }

  /** An upper bound of the window's length; null if the length is known, or if no useful bound is. */
  get windowAtMostMs(): number | null {
    const { length } = this.models.estimate
    return this.windowMs === null && length <= LONGEST_REPORTED ? Math.round(length) : null
  }

  /** What refusals have shown; null if nothing was refused, or if a header states the limit. */
  get learnt(): LearntLimit | null {
    return this.limit === null ? this.unstated.known : null
  }

  /** 429s seen. */
  get throttled(): number {
    return this.#cooldown.rejections
  }

  /** The service answers 403 for a while, because it refused calls with 429 before. */
  get isBanned(): boolean {
    return this.#cooldown.isBan
  }

  /** How long no call is made because of a 429 or a ban, in milliseconds. */
  cooldownMs(now: number): number {
    return Math.max(0, this.#cooldown.until - now)
  }

  /** Another client spends the key now. */
  get isShared(): boolean {
    return this.#shared.isPresent
  }

  /** Calls charged to the current window. */
  windowUsed(now: number): number {
    const { length, isFixed } = this.models.estimate
    if (this.learnt !== null) return this.learnt.calls - this.unstated.left(this.learnt, now)
    if (this.limit === null || !Number.isFinite(length)) return this.calls.outstanding
    this.#capacity.advanceWindow(this.limit, now)
    if (isFixed) return this.models.window.charged + this.calls.outstanding
    const remaining = this.calls.remainingWithin(this.limit, length, now)
    return this.limit - remaining - this.calls.granted
  }

  /** When more calls are possible by the passing of time, on our clock. */
  nextWindowAt(now: number): number | null {
    if (this.#cooldown.isActive(now)) return this.#cooldown.until
    if (this.limit === null) return this.learnt && this.unstated.nextAt(now)
    if (this.windowMs === null) return this.#reset.latestReset
    return this.models.estimate.isFixed
      ? this.#capacity.windowEnd
      : this.#capacity.nextLeavesAt(this.limit, now)
  }

  /** The share of the window that is still to come, 0 to 1; 1 if windows do not end. */
  #windowLeft(now: number): number {
    const end = this.#capacity.windowEnd
    return end === null ? 1 : Math.min(1, Math.max(0, (end - now) / this.models.estimate.length))
  }

  /** Why nothing is granted now, in words; null if something is. */
  stallReason(now: number): string | null {
    if (this.grantable(now) > 0) return null
    return stallReason({
      state: this.state(now),
      at: this.nextWindowAt(now),
      now,
      hasPending: this.calls.hasPending,
      wasRejected: this.throttled > 0,
      wasDecreased: this.#headers.decrease.hasHappened,
    })
  }

  /** Reports whether calls are wanted or pending. */
  onDemand(isWanted: boolean, now: number): void {
    if (!this.models.onDemand(isWanted, now, this.#reset.furthest)) return
    this.#policy.onIdle()
    this.#reset.onIdle()
    this.unstated.onIdle()
  }

  /**
   * How many permits may be granted now, beyond those that are.
   * @param share of the limit, to keep for urgent work; it is released as the window passes, so that none is wasted
   */
  grantable(now: number, share = 0): number {
    const reserved = share === 0 ? 0 : Math.floor(share * (this.limit ?? 0) * this.#windowLeft(now))
    return this.#policy.grantable(this.limit, now, reserved)
  }

  /** When `grantable` may rise by the passing of time alone; null if only an answer can raise it. */
  nextCheckAt(now: number): number | null {
    return this.#policy.nextCheckAt(this.limit, now)
  }

  grant(count: number, now: number): void {
    this.#policy.grant(count, this.limit, now)
  }

  /** How much of the limit is left, whether or not it may be granted now; null while there is no limit. */
  remaining(now: number): number | null {
    return this.limit === null ? null : this.#capacity.remaining(this.limit, now)
  }

  /**
   * When the next leader can certainly make a call, if all that is left now is used; null if Remaining says that most is
   * left. No later than a Reset was ever ahead, whatever is believed of the length; without a Reset nothing proves that
   * the limit is exhausted for long, and a call finds it out.
   */
  exhaustedUntil(now: number): number | null {
    if (this.#cooldown.isActive(now)) return this.#cooldown.until
    if (this.limit === null || this.#capacity.tracker.remaining > this.limit / 2) return null
    const { furthest, latestReset } = this.#reset
    const proven = furthest > 0 ? TRANSIT_MS + furthest : MAX_UNCONFIRMED_MS
    return Math.min(this.#capacity.exhaustedUntil(this.limit, now, latestReset), now + proven)
  }

  sent(now: number): Call {
    this.#capacity.advanceWindow(this.limit, now)
    const call = this.calls.send(now, this.models.window, this.#capacity.tracker.allowed)
    this.models.window.onSent(call)
    if (this.limit === null) this.unstated.onSent(call, now)
    return call
  }

  /** No answer will come; the service may have counted the call. */
  lost(call: Call, now: number): void {
    const result = { call, receivedAt: now, used: null, isCounted: false, resetAt: null }
    this.models.onCompleted(result, this.limit)
    this.#reset.onUninformativeAnswer(now)
    this.#capacity.ramp.onCompleted(call, false)
  }

  /** @returns what the answer states of the limit; null if it states none, or nothing that counts */
  answered(call: Call, answer: AnswerHead, now: number): StatedUsage | null {
    const { status, headers } = answer
    this.#capacity.advanceWindow(this.limit, now)
    const read = this.#read(call, headers, now)
    const credible = status === 429 ? read : this.#headers.statics.filter(read)
    const rate = this.#headers.decrease.apply(credible, call, this.limit)
    if (credible !== read) this.limit = null
    if (rate.date !== null) this.#clock.record(rate.date, call.sentAt, now)
    this.#updateLimit(rate, now)
    if (rate.reset === null) this.#reset.onUninformativeAnswer(now)
    else this.#reset.record(rate.reset, call.sentAt, now)
    const isBan = status === 403 && this.#cooldown.isBanResponse(call.sentAt)
    const isRejected = status === 429 || isBan || (status === 403 && headers['retry-after'] !== undefined)
    if (rate.reset !== null && !isRejected) this.models.onReset(rate.reset, call.sentAt, now)
    const isStale = rate !== credible
    const result = {
      call,
      receivedAt: now,
      used: isRejected || status >= 500 || isStale ? null : usedFromHeaders(rate, this.limit),
      isCounted: !isRejected && this.#headers.statuses.isCounted(status),
      resetAt: rate.reset?.kind === 'instant' && !isRejected ? rate.reset.at : null,
    }
    if (rate.reset !== null) this.#headers.coverage.recordReset(result.used)
    this.models.onCompleted(result, this.limit)
    if (isClientError(status)) this.calls.clientErrors++
    if (isBan) this.#cooldown.onBanned(call.sentAt, now, this.#retryAfter(headers, now))
    else if (isRejected) this.#onRejected(call, headers, now)
    if (isRejected) return null
    if (status !== 403) this.#cooldown.onAccepted(call.sentAt)
    this.#headers.statuses.record(result, status, this.calls.sent)
    const { tracker, ramp } = this.#capacity
    if (rate.remaining !== null) {
      this.#headers.coverage.recordRemaining(call)
      const excess = tracker.excess(call, rate.remaining)
      if (!isStale) this.models.onRemaining(call, excess, this.limit, this.#reset.furthest, now)
      tracker.record(call, rate.remaining, now)
    }
    ramp.onCompleted(call, rate.remaining !== null)
    if (this.limit === null) this.unstated.onAccepted(call, now)
    return credible.limit === null ? null : { limit: credible.limit, used: result.used }
  }

  #read(call: Call, headers: Headers, now: number): RateHeaders {
    const rate = readRateHeaders(headers, now)
    this.#policy.warmGuess = rate.windowMs ?? this.#policy.warmGuess
    const wasMs = this.#headers.delayUnit.isMs
    const reset = this.#headers.delayUnit.convert(rate.reset, call, now)
    if (this.#headers.delayUnit.isMs && !wasMs) {
      this.#reset.onUnitIsMs()
      this.models.reset()
    }
    return { ...rate, reset }
  }

  #updateLimit({ limit, remaining }: RateHeaders, now: number): void {
    if (remaining === null) return
    const stated = limit ?? Math.max(this.limit ?? 0, remaining + 1)
    if (stated === this.limit) return
    if (this.limit !== null && stated < this.limit) this.#onDecrease(remaining, now)
    if (this.limit !== null && !this.models.estimate.isFixed) this.models.reset()
    this.limit = stated
    this.calls.rememberFor(stated)
  }

  /**
   * More may be counted than the new limit allows. A fixed window ends as ever; a sliding window or a bucket is waited
   * out, because Reset promises a place as if no more than the limit were counted.
   */
  #onDecrease(remaining: number, now: number): void {
    this.#headers.decrease.record(now)
    this.#capacity.tracker.onDecrease()
    const { isFixed, length, min } = this.models.estimate
    if (remaining > 0 || isFixed) return
    const wait = Number.isFinite(length) ? padded(length) : Math.max(this.#reset.furthest, min)
    this.#cooldown.waitUntil(now + wait)
  }

  #onRejected(call: Call, headers: Headers, now: number): void {
    const retryAfter = this.#retryAfter(headers, now)
    const isNew = this.#cooldown.onRejected(call.sentAt, now, retryAfter, this.#reset.latestReset)
    this.#reset.notBefore(this.#cooldown.until)
    this.#capacity.tracker.reset()
    // What was sent before a cut was known says nothing about the window's length, nor about another client.
    if (this.limit !== null && isNew && this.#headers.decrease.isVisibleTo(call))
      this.models.onRejected(call, this.limit, now)
    if (this.#shared.isDetected || this.learnt !== null) this.#cooldown.limitRejections()
    if (this.limit !== null) return this.models.window.exhaust(this.limit)
    this.unstated.onRejected(retryAfter === null ? null : now + retryAfter, now)
    if (retryAfter === null) this.#cooldown.waitUntil(this.unstated.pauseUntil(now, this.#cooldown.until))
  }

  #retryAfter(headers: Headers, now: number): number | null {
    return parseRetryAfter(headers['retry-after'], this.#clock.serviceTime(now))
  }
}
