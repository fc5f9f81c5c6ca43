import type { LearntLimit, PreviousLeader } from '../../domain/rate-status.ts'
import type { AnswerHead } from '../../domain/service/head.ts'
import { CallLedger, type Call } from './call-ledger.ts'
import { Cooldown } from './cooldown.ts'
import { padded } from './counter.ts'
import { Counters } from './counters.ts'
import type { StatedUsage } from './endpoint-evidence.ts'
import { HeaderEvidence, isClientError, usedFromHeaders } from './header-evidence.ts'
import { parseRetryAfter, readRateHeaders, type Headers, type RateHeaders } from './headers.ts'
import { OtherClient } from './other-client.ts'
import { Probes, type ProbeContext } from './probes.ts'
import { Remaining } from './remaining.ts'
import { ClockOffset, ResetTimer } from './reset-timer.ts'
import { stallReason, type RateLimitState } from './state.ts'
import { UnstatedLimit } from './unstated-limit.ts'

/** Without a Reset the limit counts as exhausted for at most this time, in milliseconds. */
const MAX_UNCONFIRMED_MS = 60_000
/** How long a call may be on its way to the service, in milliseconds. */
export const TRANSIT_MS = 1000
/** A length is known, and not only bounded from above, once the window is certainly no shorter than this share of it. */
const KNOWN_FROM = 0.75
/** A window that the time has opened begins with a third of the limit in flight, between these, until a header of it is seen. */
const LEAST_AT_FIRST = 4
const MOST_AT_FIRST = 32
/** Beside another client a single call is made while the latest header leaves this many. */
const PROBE_CALLS_BESIDE_OTHERS = 2
const BELIEVED_MS = 500

/**
 * What a key's limit is and how much of it is left: a state machine over (event, now), without a clock, a timer or a
 * queue, so that a simulated service in virtual time can drive it. All times are milliseconds since the epoch.
 */
export class RateLimitModel {
  limit: number | null = null
  readonly calls = new CallLedger()
  readonly counters = new Counters(this.calls)
  readonly unstated = new UnstatedLimit(this.calls)
  readonly #remaining = new Remaining(this.calls)
  readonly #headers = new HeaderEvidence(this.calls)
  readonly #clock = new ClockOffset()
  readonly #reset = new ResetTimer(this.#clock)
  readonly #cooldown = new Cooldown()
  readonly #other = new OtherClient()
  readonly #probes = new Probes()
  /** The window's length by a policy's `w=`: tried first. */
  #guess: number | null = null
  /** When the first call was sent. */
  #since: number | null = null
  /** The window that the time has opened, until a header of it is seen. */
  #fresh: number | null = null

  /** @param exhaustedUntil until then the previous leader may have exhausted the limit */
  constructor(exhaustedUntil: number | null = null, previous: PreviousLeader = {}) {
    if (exhaustedUntil !== null) this.#cooldown.waitUntil(exhaustedUntil)
    if (previous.wasBanned) this.#cooldown.inheritBan()
    if (previous.wasShared) this.#other.inherit()
  }

  state(now: number): RateLimitState {
    if (this.#cooldown.isBan) return 'banned'
    if (this.#cooldown.isActive(now)) return 'cooldown'
    if (this.limit === null) return this.unstated.state
    if (!Number.isFinite(this.counters.length)) return 'calibrating'
    if (this.counters.isFixed) return 'fixed_window'
    return this.counters.isRolling ? 'sliding' : 'calibrating'
  }

  /** The window's length; null while it is not known, or only bounded from above. */
  get windowMs(): number | null {
    const { length, certainMin } = this.counters
    const isKnown = Math.max(certainMin, this.#reset.certainFurthest) >= KNOWN_FROM * length
    return Number.isFinite(length) && isKnown ? Math.round(length) : null
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
    return this.#other.isPresent
  }

  /** Calls charged to the current window. */
  windowUsed(now: number): number {
    if (this.learnt !== null) return this.learnt.calls - this.unstated.left(this.learnt, now)
    if (this.limit === null || !Number.isFinite(this.counters.length)) return this.calls.outstanding
    this.#advance(now)
    return this.calls.completedAfter(this.counters.cutoff(now)) + this.calls.outstanding
  }

  /** When more calls are possible by the passing of time, on our clock. */
  nextWindowAt(now: number): number | null {
    if (this.#cooldown.isActive(now)) return this.#cooldown.until
    if (this.limit === null) return this.learnt && this.unstated.nextAt(now)
    if (this.windowMs === null) return this.#reset.latestReset
    return this.counters.windowEnd ?? this.#nextLeavesAt(this.limit, now)
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
    if (!this.counters.onDemand(isWanted, now, this.#reset.furthest)) return
    this.#probes.onIdle()
    this.#reset.onIdle()
    this.unstated.onIdle()
  }

  /**
   * How many permits may be granted now, beyond the granted ones.
   * @param share of the limit, to keep for urgent work; it is released as the window passes, so that none is wasted
   */
  grantable(now: number, share = 0): number {
    this.calls.expireGrants(now)
    if (this.#cooldown.isActive(now)) return 0
    if (this.#cooldown.isBan) return this.calls.hasPending ? 0 : 1
    if (this.limit === null) return this.unstated.grantable(now)
    const spendable = this.#spendable(this.limit, now)
    const context = this.#probeContext(this.limit)
    const urgent = share === 0 ? 0 : Math.floor(share * this.limit * this.#windowLeft(now))
    const free = spendable - this.#probes.reserved(context, now) - urgent
    if (free >= 1) return Math.floor(free)
    if (spendable >= 1 && now >= (this.#probes.nextAt(context, now) ?? Number.POSITIVE_INFINITY)) return 1
    // Neither reserved calls nor an estimate of the length hold anything up for longer than Reset says.
    const attempt = this.#nextAttempt(spendable)
    if (attempt === null || now < attempt.at) return 0
    if (attempt.isFromHeader || spendable >= 1) return 1
    // After a full silence as much is renewed as was used at the last Reset; several calls, because some answers carry
    // no headers.
    const { share: headerShare, maxUsedAtReset } = this.#headers.coverage
    return Math.max(1, Math.min(Math.floor(this.limit / 4), Math.ceil(2 / headerShare), maxUsedAtReset))
  }

  /** When `grantable` may rise by the passing of time alone; null if only an answer can raise it. */
  nextCheckAt(now: number): number | null {
    if (this.#cooldown.isActive(now)) return this.#cooldown.until
    if (this.limit === null) return this.unstated.nextAt(now)
    const spendable = this.#spendable(this.limit, now)
    const times = [
      this.counters.windowEnd,
      this.#nextLeavesAt(this.limit, now),
      this.calls.grantsExpireAt,
      this.#nextAttempt(spendable)?.at,
      spendable >= 1 ? this.#probes.nextAt(this.#probeContext(this.limit), now) : null,
    ]
    const next = Math.min(...times.map((at) => at ?? Number.POSITIVE_INFINITY))
    return Number.isFinite(next) ? next : null
  }

  grant(count: number, now: number): void {
    if (this.limit !== null && !this.#cooldown.isActive(now)) {
      const spendable = this.#spendable(this.limit, now)
      const attempt = this.#nextAttempt(spendable)
      const isDue = attempt !== null && now >= attempt.at
      if (spendable < 1) this.#reset.consume(now)
      else if (spendable - this.#probes.reserved(this.#probeContext(this.limit), now) < 1) {
        if (isDue) this.#reset.consume(now)
        this.#probes.consume()
      }
    }
    this.calls.grant(count, now)
  }

  /** How much of the limit is left, whether or not it may be granted now; null while there is no limit. */
  remaining(now: number): number | null {
    return this.limit === null ? null : this.#left(this.limit, now)
  }

  /**
   * When the next leader can certainly make a call, if all that is left now is used; null if Remaining says that most is
   * left. No later than a Reset was ever ahead, whatever is believed of the length; without a Reset nothing proves that
   * the limit is exhausted for long, and a call finds it out.
   */
  exhaustedUntil(now: number): number | null {
    if (this.#cooldown.isActive(now)) return this.#cooldown.until
    if (this.limit === null || this.#remaining.left > this.limit / 2) return null
    const { furthest, latestReset } = this.#reset
    const proven = furthest > 0 ? TRANSIT_MS + furthest : MAX_UNCONFIRMED_MS
    const { length, isFixed, isRolling, fixed } = this.counters
    const leavesAt = this.#nextLeavesAt(this.limit, now) ?? now + TRANSIT_MS + length
    const windowEnd = (Number.isFinite(fixed.by) ? fixed.by : now + TRANSIT_MS) + padded(length)
    const known = isFixed ? windowEnd : isRolling ? leavesAt : Math.max(leavesAt, windowEnd)
    const until = Number.isFinite(length) ? known : Math.max(latestReset ?? now + MAX_UNCONFIRMED_MS, now)
    return Math.min(until, now + proven)
  }

  sent(now: number): Call {
    this.#advance(now)
    const { id, certain } = this.counters.fixed
    const call = this.calls.send({ sentAt: now, window: id, certainBefore: certain }, this.#remaining.allowed)
    this.counters.fixed.onSent(call)
    this.#since ??= now
    if (this.limit === null) this.unstated.onSent(now)
    return call
  }

  /** No answer will come; the service may have counted the call. */
  lost(call: Call, now: number): void {
    this.#complete({ call, receivedAt: now, used: null, isCounted: false, isRefused: false })
    this.#reset.onUninformativeAnswer(now)
    this.#remaining.onSilent(now)
  }

  /** A call was refused, and its headers say that it was not for this limit. All calls wait all the same. */
  refusedForOther(call: Call, { headers }: AnswerHead, now: number): void {
    this.lost(call, now)
    this.#cooldown.onRejected(call.sentAt, now, this.#retryAfter(headers, now), null)
  }

  /** @returns what the answer states of the limit; null if it states none, or nothing that counts */
  answered(call: Call, answer: AnswerHead, now: number): StatedUsage | null {
    const { status, headers } = answer
    this.#advance(now)
    const read = this.#read(call, headers, now)
    const credible = status === 429 ? read : this.#headers.statics.filter(read)
    const rate = this.#headers.decrease.apply(credible, call, this.limit)
    const isStale = rate !== credible
    if (credible !== read) this.limit = null
    if (rate.date !== null) this.#clock.record(rate.date, call.sentAt, now)
    this.#updateLimit(rate, now)
    if (rate.reset === null) this.#reset.onUninformativeAnswer(now)
    else this.#reset.record(rate.reset, call.sentAt, now)
    const isBan = status === 403 && this.#cooldown.isBanResponse(call.sentAt)
    const isRejected = status === 429 || isBan || (status === 403 && headers['retry-after'] !== undefined)
    if (rate.reset !== null && !isRejected) this.counters.fixed.onReset(rate.reset, call.sentAt, now)
    const result = {
      call,
      receivedAt: now,
      used: isRejected || status >= 500 || isStale ? null : usedFromHeaders(rate, this.limit),
      isCounted: !isRejected && this.#headers.statuses.isCounted(status),
      isRefused: isRejected,
    }
    if (rate.reset !== null) this.#headers.coverage.recordReset(result.used)
    this.#complete(result)
    if (isBan) this.#cooldown.onBanned(call.sentAt, now, this.#retryAfter(headers, now))
    else if (isRejected) this.#onRejected(call, headers, now)
    if (isRejected) return null
    if (isClientError(status)) this.calls.clientErrors++
    if (status !== 403) this.#cooldown.onAccepted(call.sentAt)
    this.#headers.statuses.record(result, status, this.calls.sent)
    if (rate.remaining !== null) {
      this.#headers.coverage.recordRemaining()
      if (!isStale && this.limit !== null) this.#noteOthers(call, rate.remaining, this.limit, now)
      this.#remaining.record(call, rate.remaining, now)
      if (call.window === this.#fresh) this.#fresh = null
    } else this.#remaining.onSilent(now)
    if (this.limit === null) {
      this.#other.onUsage(call.sentAt, now, Number.POSITIVE_INFINITY)
      this.unstated.onAccepted(call, now)
    }
    return credible.limit === null ? null : { limit: credible.limit, used: result.used }
  }

  /** Calls that may be made now: all that are left, but few before a new window's first header, because the limit may be another. */
  #spendable(limit: number, now: number): number {
    const left = this.#left(limit, now)
    if (!this.#isFresh) return left
    const few = Math.min(MOST_AT_FIRST, Math.max(LEAST_AT_FIRST, Math.floor(limit / 3)))
    return Math.min(left, few - this.calls.outstanding - this.calls.granted)
  }

  /**
   * How many calls the limit still allows, by two estimates: what Remaining said, and what every possible counter allows.
   * Neither allows too much, so the one that allows more counts; but not more than the headers of this window leave, or of calls
   * in flight: another client or a predecessor may have called.
   */
  #left(limit: number, now: number): number {
    this.#advance(now)
    const counted = this.calls.room(limit, this.counters.cutoff(now))
    if (this.#other.isDetected) return this.#leftBesideOthers(counted, now)
    const hasHeader = this.counters.isFixed ? !this.#isFresh : this.calls.hasPending
    return Math.max(this.#remaining.left, hasHeader ? Math.min(counted, this.#remaining.most) : counted)
  }

  /**
   * No more than the latest header leaves, less what the other client may call while ours are in flight. If that is
   * nothing, one call at a time: while the header leaves some, and when by our count a window is new.
   */
  #leftBesideOthers(counted: number, now: number): number {
    const { certain, least, at } = this.#remaining
    const { length, isFixed } = this.counters
    const left = certain - this.#other.margin(least, at, length, now)
    if (left >= 1) return left
    if (this.calls.hasPending) return Math.min(0, left)
    if (certain >= PROBE_CALLS_BESIDE_OTHERS && now - at < BELIEVED_MS) return 1
    if (!Number.isFinite(length) || this.#other.isRecentlyRejected(now)) return 0
    return (isFixed ? this.#isFresh : counted - this.#other.callsOf(length, now) >= 1) ? 1 : 0
  }

  get #isFresh(): boolean {
    return this.#fresh === this.counters.fixed.id
  }

  /** Begins the next window if this one is certainly over. */
  #advance(now: number): void {
    if (this.limit === null || !this.counters.isFixed || !this.counters.fixed.advance(now)) return
    this.#fresh = this.counters.fixed.id
  }

  /** The share of the window that is still to come, 0 to 1; 1 if windows do not end. */
  #windowLeft(now: number): number {
    const end = this.counters.windowEnd
    return end === null ? 1 : Math.min(1, Math.max(0, (end - now) / this.counters.length))
  }

  /** When the oldest call has certainly left the window; null if none is in it, or if no length is known. */
  #nextLeavesAt(limit: number, now: number): number | null {
    const length = padded(this.counters.length)
    if (!Number.isFinite(length)) return null
    const at = this.calls.nextToLeave(limit, now - length)
    return at === null ? null : at + length
  }

  /**
   * When to try a call although nothing is left, or only reserved calls are, if no call is pending that will tell more. A
   * reserved call cannot be refused, so it may be tried while only a bound of the length is known.
   */
  #nextAttempt(spendable: number): ReturnType<ResetTimer['nextAttempt']> {
    if (this.calls.hasPending) return null
    const { length, min } = this.counters
    return this.#reset.nextAttempt(Number.isFinite(length) && spendable < 1 ? null : min)
  }

  #probeContext(limit: number): ProbeContext {
    return {
      limit,
      fixed: this.counters.fixed,
      bucket: this.counters.isBucket ? this.counters.bucket : null,
      answeredAt: this.calls.receivedAt(this.calls.completed - 1) ?? 0,
      isAmbiguous: !this.counters.isFixed,
      earliestReset: this.#reset.earliestReset ?? Number.NEGATIVE_INFINITY,
      latestReset: this.#reset.latestReset ?? Number.POSITIVE_INFINITY,
      headerShare: this.#headers.coverage.share,
      hasFewSamples: this.#headers.coverage.hasFewSamples,
      guess: this.#guess,
    }
  }

  #read(call: Call, headers: Headers, now: number): RateHeaders {
    const rate = readRateHeaders(headers, now)
    this.#guess = rate.windowMs ?? this.#guess
    const wasMs = this.#headers.delayUnit.isMs
    const reset = this.#headers.delayUnit.convert(rate.reset, call, now)
    if (this.#headers.delayUnit.isMs && !wasMs) {
      this.#reset.onUnitIsMs()
      this.counters.reset()
    }
    return { ...rate, reset }
  }

  #updateLimit({ limit, remaining }: RateHeaders, now: number): void {
    if (remaining === null) return
    const stated = limit ?? Math.max(this.limit ?? 0, remaining + 1)
    if (stated === this.limit) return
    if (this.limit !== null && stated < this.limit) this.#onDecrease(remaining, now)
    if (this.limit !== null && !this.counters.isFixed) this.counters.reset()
    this.limit = stated
    this.calls.rememberFor(stated)
  }

  /**
   * More may be counted than the new limit allows. A fixed window ends as ever; a sliding window or a bucket is waited
   * out, because Reset promises a place as if no more than the limit were counted.
   */
  #onDecrease(remaining: number, now: number): void {
    this.#headers.decrease.record(now)
    this.#remaining.reset(now)
    const { isFixed, length, min } = this.counters
    if (remaining > 0 || isFixed) return
    this.#cooldown.waitUntil(
      now + (Number.isFinite(length) ? padded(length) : Math.max(this.#reset.furthest, min)),
    )
  }

  #complete(result: Parameters<CallLedger['complete']>[0]): void {
    const { call, receivedAt, used } = result
    this.calls.complete(result)
    if (this.limit === null) return
    this.counters.onCompleted(result, this.limit, this.#other.isDetected ? Math.ceil(this.limit / 4) : 0)
    // Calls that came before our first one are a former leader's, for as long as a window.
    const excess = (used ?? 0) - this.#ownCallsSince(call.sentAt)
    if (excess >= 1 && call.sentAt - this.counters.length > (this.#since ?? 0))
      this.#other.onSign(excess, this.limit, receivedAt)
    this.#updateShared()
  }

  /** An answer has stated what remains: whether that fell by more than our own calls. */
  #noteOthers(call: Call, remaining: number, limit: number, now: number): void {
    const excess = this.#remaining.excess(call, remaining)
    if (excess >= 1) this.#other.onDecrease(excess, limit, now)
    const { length } = this.counters
    const { furthest } = this.#reset
    this.#other.onUsage(call.sentAt, now, furthest > 0 ? Math.min(length, furthest) : length)
    this.#updateShared()
  }

  #updateShared(): void {
    if (this.counters.isShared !== this.#other.isDetected) this.counters.reset(this.#other.isDetected)
  }

  /** Our calls that the service can have counted when a call that was sent then arrived. */
  #ownCallsSince(sentAt: number): number {
    return this.calls.completedAfter(sentAt - this.counters.length) + this.calls.outstanding
  }

  #onRejected(call: Call, headers: Headers, now: number): void {
    const retryAfter = this.#retryAfter(headers, now)
    const isNew = this.#cooldown.onRejected(call.sentAt, now, retryAfter, this.#reset.latestReset)
    this.#remaining.reset(now)
    // What was sent before a cut was known says nothing about the window's length, nor about another client.
    if (this.limit !== null && isNew && this.#headers.decrease.isVisibleTo(call))
      this.#doubt(call, this.limit, now)
    if (this.#other.isDetected || this.learnt !== null) this.#cooldown.limitRejections()
    if (this.limit !== null) return
    this.unstated.onRejected(call.sentAt, retryAfter === null ? null : now + retryAfter, now)
    if (retryAfter === null) this.#cooldown.waitUntil(this.unstated.pauseUntil(now, this.#cooldown.until))
  }

  /** A call was refused with 429: because of another client's calls, or because an estimate is wrong. */
  #doubt(call: Call, limit: number, now: number): void {
    const missing = limit - this.#ownCallsSince(call.sentAt)
    if (call.isCovered || missing > 0 || this.#other.isDetected)
      this.#other.onRejected(Math.max(1, missing), limit, now)
    else {
      this.counters.isOdd ||= Number.isFinite(this.counters.length)
      this.counters.reset()
    }
    this.#updateShared()
  }

  #retryAfter(headers: Headers, now: number): number | null {
    return parseRetryAfter(headers['retry-after'], this.#clock.serviceTime(now))
  }
}
