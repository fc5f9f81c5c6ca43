import { readRateHeaders } from '../rate-headers.ts'
import type { Headers, RateHeaders } from '../rate-headers.ts'
import { parseRetryAfter } from '../retry-after.ts'
import { Calls } from './calls.ts'
import type { Call } from './calls.ts'
import { Counted, isMiss } from './counted.ts'
import { Counting } from './counting.ts'
import { Cut } from './cut.ts'
import { ClockOffset } from './clock-offset.ts'
import { Halt } from './halt.ts'
import { Opening } from './opening.ts'
import { Learning } from './learning.ts'
import { margin, Probes } from './probes.ts'
import type { Outlook } from './probes.ts'
import { Renewal } from './renewal.ts'
import { onTheWay } from './places.ts'
import type { QuotaState } from './state.ts'
import { fewAnswers, Told, usedOf } from './told.ts'
import { whyNot } from './why-not.ts'

/**
 * What a key's limit is and how much of it is left: a state machine over (event, now), without a clock, a timer
 * or a queue. All times are milliseconds since the epoch.
 */
export class Quota {
  limit: number | null = null
  /** How long a window is, as was known lately, or as a policy names it (`w=`): a guess that is tried first. */
  #guess: number | null
  readonly calls = new Calls()
  readonly #offset = new ClockOffset()
  readonly #opening = new Opening()
  readonly #halt = new Halt()
  readonly #renewal = new Renewal(this.#offset)
  readonly #probes = new Probes()
  readonly #learning = new Learning(this.calls)
  readonly #kinds = this.#learning.kinds
  readonly #places = this.#learning.places
  readonly #window = this.#places.window
  readonly #counting = new Counting()
  readonly #counted = new Counted()
  readonly #told = new Told()
  readonly #cut = new Cut()

  /**
   * @param warm what was known of the key's limit lately; null where nothing is, or where it is old
   * @param spentUntil until then the process that called before may have used the limit up
   * @param wasBanned that process was banned: a 403 is no fault of the key
   */
  constructor(
    warm: { readonly limit: number; readonly windowMs: number | null } | null = null,
    spentUntil: number | null = null,
    wasBanned = false,
  ) {
    this.#guess = warm?.windowMs ?? null
    if (warm !== null) this.#opening.careful(warm.limit)
    if (spentUntil !== null) this.#halt.wait(spentUntil)
    if (wasBanned) this.#halt.inheritBan()
  }

  state(now: number): QuotaState {
    if (this.#halt.isBan) return 'banned'
    if (this.#halt.isOn(now)) return 'cooldown'
    if (this.limit === null) return this.#opening.isUnlimited ? 'unlimited' : 'cold'
    const { length, isFixed, isRolling } = this.#kinds.known
    if (!Number.isFinite(length)) return 'calibrating'
    if (isFixed) return 'fixed_window'
    return isRolling ? 'sliding' : 'calibrating'
  }

  /** How long a window is; null while it is not known, or no more than a bound of it. */
  get windowMs(): number | null {
    const { length, surely } = this.#kinds.known
    const isKnown = Number.isFinite(length) && Math.max(surely, this.#renewal.surely) >= knownFrom * length
    return isKnown ? Math.round(length) : null
  }

  /** A window is no longer; null where it is known, or where no bound of use is. */
  get windowAtMostMs(): number | null {
    const { length } = this.#kinds.known
    return this.windowMs === null && length <= longestShown ? Math.round(length) : null
  }

  get throttled(): number {
    return this.#halt.refusals
  }

  /** The service refuses the key for a while, with 403, because it refused calls for the rate before. */
  get isBanned(): boolean {
    return this.#halt.isBan
  }

  /** Another client seems to spend the key. */
  get isShared(): boolean {
    return this.#learning.other.isProven
  }

  /** Calls charged to the window that runs now. */
  windowUsed(now: number): number {
    const { length, isFixed } = this.#kinds.known
    if (this.limit === null || !Number.isFinite(length)) return this.calls.outstanding
    this.#places.close(this.limit, now)
    if (isFixed) return this.#window.used + this.calls.outstanding
    const { log } = this.#places
    const free = log.available(this.limit, length + margin(length), now) + this.calls.granted
    return this.limit - free
  }

  /** When more may be called by the passing of time, on our clock. */
  nextWindowAt(now: number): number | null {
    if (this.#halt.isOn(now)) return this.#halt.until
    if (this.limit === null) return null
    if (this.#kinds.known.isFixed && this.windowMs !== null) return this.#places.windowEnd
    return this.windowMs === null ? this.#renewal.knownUntil : this.#places.nextAt
  }

  /** How much of the window is still to come, 0 to 1; 1 where windows do not end. */
  windowLeft(now: number): number {
    const end = this.#places.windowEnd
    return end === null ? 1 : Math.min(1, Math.max(0, (end - now) / this.#kinds.known.length))
  }

  /** Why nothing is granted now, in words; null where something is. */
  whyNot(now: number): string | null {
    if (this.grantable(now) > 0) return null
    return whyNot({
      state: this.state(now),
      at: this.nextWindowAt(now),
      now,
      isMoving: this.calls.isMoving,
      wasRefused: this.throttled > 0,
      wasCut: this.#cut.wasMade,
    })
  }

  describe(): string {
    return this.#kinds.describe()
  }

  /**
   * Whether calls are wanted, or on their way. What comes after a rest proves nothing of how long a window is: the time
   * in which nothing was wanted would count as the service's.
   */
  wanted(isWanted: boolean, now: number): void {
    if (!this.#learning.restedUntil(now, isWanted, this.#renewal.longest)) return
    this.#probes.rested()
    this.#renewal.rested()
  }

  /**
   * How many permits may be granted now, beyond those that are.
   * @param kept calls to keep for somebody else
   */
  grantable(now: number, kept = 0): number {
    this.calls.lapse(now)
    if (this.#halt.isOn(now)) return 0
    if (this.#halt.isBan) return this.calls.isMoving ? 0 : 1
    if (this.limit === null) {
      return Math.max(0, this.#opening.open - this.calls.outstanding - this.calls.granted)
    }
    const left = this.#places.left(this.limit, now)
    const outlook = this.#outlook(this.limit)
    const free = left - this.#probes.held(outlook, now) - kept
    if (free >= 1) return Math.floor(free)
    if (left >= 1) {
      const probeAt = this.#probes.nextAt(outlook, now)
      if (probeAt !== null && now >= probeAt) return 1
    }
    // What is held back, and what is believed of a window's length, never holds up more than Reset says.
    const renewal = this.#renewalDue(left)
    if (renewal === null || now < renewal.at) return 0
    if (renewal.isPromised || left >= 1) return 1
    // After a full silence as much is renewed as was used when Reset was told; several calls, so that one answer may
    // carry headers.
    const { mostUsed } = this.#told
    return Math.max(1, Math.min(Math.floor(this.limit / 4), Math.ceil(2 / this.#headerShare), mostUsed))
  }

  /** When `grantable` may rise by the passing of time alone; null where only an answer can raise it. */
  nextLook(now: number): number | null {
    if (this.#halt.isOn(now)) return this.#halt.until
    if (this.limit === null) return this.calls.lapsesAt
    const left = this.#places.left(this.limit, now)
    const looks: (number | null)[] = [this.#places.windowEnd, this.#places.nextAt, this.calls.lapsesAt]
    looks.push(this.#renewalDue(left)?.at ?? null)
    if (left >= 1) looks.push(this.#probes.nextAt(this.#outlook(this.limit), now))
    const next = Math.min(...looks.map((look) => look ?? Number.POSITIVE_INFINITY))
    return Number.isFinite(next) ? next : null
  }

  /** How much of the limit is free, whether or not it may be granted now; null while there is none. */
  free(now: number): number | null {
    return this.limit === null ? null : this.#places.free(this.limit, now)
  }

  /**
   * When the process that comes after this one can make a call for certain, if all that is free now is used; null where
   * Remaining says that most is left. No later than one Reset was ever ahead, whatever is believed of the length; where
   * none was told, nothing proves that the limit is spent for long, and a call finds it out.
   */
  spentUntil(now: number): number | null {
    if (this.#halt.isOn(now)) return this.#halt.until
    if (this.limit === null || this.#places.remaining.available() > this.limit / 2) return null
    const { longest, knownUntil } = this.#renewal
    const proven = longest > 0 ? onTheWay + longest : unproven
    return Math.min(this.#places.spentUntil(now, knownUntil), now + proven)
  }

  grant(count: number, now: number): void {
    if (this.limit !== null && !this.#halt.isOn(now)) {
      const left = this.#places.left(this.limit, now)
      if (left < 1) {
        this.#renewal.spend(now)
        this.#places.remaining.allow(count)
      } else if (left - this.#probes.held(this.#outlook(this.limit), now) < 1) {
        const renewal = this.#renewalDue(left)
        if (renewal !== null && now >= renewal.at) this.#renewal.spend(now)
        this.#probes.spend(now)
      }
    }
    this.calls.grant(count, now)
  }

  giveBack(count: number): void {
    this.calls.giveBack(count)
  }

  sent(now: number): Call {
    this.#places.close(this.limit, now)
    const call = this.calls.send(now, this.#window, this.#places.remaining.covered)
    this.#window.sent(call)
    return call
  }

  lost(call: Call, now: number): void {
    this.#learning.ended({ call, receivedAt: now, used: null, isCounted: false, end: null }, this.limit)
    this.#renewal.learnNothing(now)
    this.#places.tranche.answered(call, false)
  }

  answered(call: Call, answer: { status: number; headers: Headers }, now: number): void {
    this.#places.close(this.limit, now)
    const read = this.#read(call, answer.headers, now)
    const told = answer.status === 429 ? read : this.#counting.credible(read)
    const rate = this.#cut.read(told, call, this.limit)
    if (told !== read) this.limit = null
    if (rate.date !== null) this.#offset.learn(rate.date, call.sentAt, now)
    this.#learnLimit(rate, now)
    if (rate.reset === null) this.#renewal.learnNothing(now)
    else this.#renewal.learn(rate.reset, call.sentAt, now)
    const isBan = answer.status === 403 && this.#halt.followsRefusal(call.sentAt)
    const isHalted = answer.status === 403 && answer.headers['retry-after'] !== undefined
    const isRefused = answer.status === 429 || isBan || isHalted
    if (rate.reset !== null && !isRefused) this.#kinds.told(rate.reset, call.sentAt, now)
    const heard = {
      call,
      receivedAt: now,
      used: isRefused || answer.status >= 500 || rate !== told ? null : usedOf(rate, this.limit),
      isCounted: !isRefused && this.#counted.isCounted(answer.status),
      end: rate.reset?.kind === 'instant' && !isRefused ? rate.reset.at : null,
    }
    if (rate.reset !== null) this.#told.reset(heard.used)
    this.#learning.ended(heard, this.limit)
    if (isMiss(answer.status)) this.calls.misses++
    if (isBan) {
      this.#halt.banned(call.sentAt, now, this.#retryAfter(answer.headers, now))
      return
    }
    if (isRefused) {
      this.#refused(call, answer.headers, now)
      return
    }
    this.#halt.accepted(call.sentAt)
    this.#counted.learn(heard, answer.status, this.calls.sent)
    if (rate.remaining !== null) {
      this.#told.remaining(call)
      if (rate === told)
        this.#learning.fell(this.#places.remaining.excess(call, rate.remaining), this.limit, now)
      this.#places.remaining.learn(call, rate.remaining, now)
    }
    this.#places.tranche.answered(call, rate.remaining !== null)
    if (this.limit === null) this.#opening.answered()
  }

  #read(call: Call, headers: Headers, now: number): RateHeaders {
    const read = readRateHeaders(headers, now)
    this.#guess = read.windowMs ?? this.#guess
    const wasInMs = this.#counting.isInMs
    const reset = this.#counting.inUnit(read.reset, call, now)
    if (this.#counting.isInMs && !wasInMs) {
      this.#renewal.wasInMs()
      this.#kinds.forget()
    }
    return { ...read, reset }
  }

  #learnLimit(rate: RateHeaders, now: number): void {
    const told =
      rate.limit ?? (rate.remaining === null ? null : Math.max(this.limit ?? 0, rate.remaining + 1))
    if (told === null || rate.remaining === null || told === this.limit) return
    if (this.limit !== null && told < this.limit) this.#learnCut(rate.remaining, now)
    if (this.limit !== null && !this.#kinds.known.isFixed) this.#kinds.forget()
    this.limit = told
  }

  /**
   * More may be counted than the new limit allows. A fixed window ends as ever; a sliding log or a bucket is waited out,
   * because Reset promises a place as if no more than the limit were counted.
   */
  #learnCut(remaining: number, now: number): void {
    this.#cut.made(now)
    this.#places.remaining.cut()
    const { isFixed, length, least } = this.#kinds.known
    if (remaining > 0 || isFixed) return
    const isKnown = Number.isFinite(length)
    this.#halt.wait(now + (isKnown ? length + margin(length) : Math.max(this.#renewal.longest, least)))
  }

  #refused(call: Call, headers: Headers, now: number): void {
    const wait = this.#retryAfter(headers, now)
    const isNew = this.#halt.refused(call.sentAt, now, wait, this.#renewal.knownUntil)
    this.#renewal.notBefore(this.#halt.until)
    this.#places.remaining.forget()
    // What was sent before the cut was told says nothing of how long the window is, nor of somebody else.
    if (this.limit !== null && isNew && this.#cut.isKnownTo(call))
      this.#learning.refused(call, this.limit, now)
    if (this.#learning.other.isSeen) this.#halt.spareTheKey(now)
    if (this.limit === null) this.#opening.refused(this.calls.outstanding + 1)
    else this.#window.used = Math.max(this.#window.used, this.limit)
  }

  #retryAfter(headers: Headers, now: number): number | null {
    return parseRetryAfter(headers['retry-after'], this.#offset.read(now))
  }

  /**
   * When calls are due although none is left, or none but those that are held back, if nothing is on its way that will
   * tell more. A call that is held back cannot be refused, so it may be tried where only a bound of the length is known.
   */
  #renewalDue(left: number): ReturnType<Renewal['due']> {
    if (this.calls.isMoving) return null
    const { length, least } = this.#kinds.known
    return this.#renewal.due(Number.isFinite(length) && left < 1 ? null : least)
  }

  get #headerShare(): number {
    return this.#told.share(this.calls.ended)
  }

  #outlook(limit: number): Outlook {
    const { bounds } = this.#kinds.fixed
    return {
      limit,
      window: this.#window.id,
      runsFrom: this.#window.ownFrom,
      firstSentAt: this.#window.firstSentAt,
      least: bounds.least,
      most: bounds.most,
      seenMost: this.#kinds.fixed.seenMost,
      hoped: this.#kinds.fixed.hoped,
      endsFrom: this.#renewal.knownFrom ?? Number.NEGATIVE_INFINITY,
      endsBy: this.#renewal.knownUntil ?? Number.POSITIVE_INFINITY,
      headerShare: this.#headerShare,
      isUnsure: this.calls.ended < fewAnswers && limit >= 20,
      toldAt: this.#told.sentAt,
      guess: this.#guess,
    }
  }
}

/** For so long at most a limit is taken for spent without a Reset that says so, in milliseconds. */
const unproven = 60_000

/** A length is known, and not only bounded from above, once the window is no shorter than this share of it. */
const knownFrom = 0.75

/** A bound of more than a day says nothing, in milliseconds. */
const longestShown = 24 * 60 * 60_000
