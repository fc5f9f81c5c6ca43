import type { LearntLimit } from '../../domain/rate-status.ts'
import type { Call, CallLedger, EarlierCalls } from './call-ledger.ts'
import { padded } from './counter.ts'
import type { RateLimitState } from './state.ts'

/** The lengths that a service may count over, in seconds. */
const LENGTHS = [1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 86_400]

/** A stated wait is rounded up, and may be longer than the window, but not by more than this factor. */
const LONGEST_WAIT = 3

/** A call more is tried this long after a refusal at the earliest, and twice as late after each try that was refused. */
const FIRST_TRIAL_MS = 10_000
const LAST_TRIAL_MS = 60 * 60_000

/** The first try raises the number by this share, and each next one that is accepted by twice as much, up to the most. */
const FIRST_RISE = 1 / 16
const MOST_RISE = 1 / 2

/**
 * From this length on, in milliseconds, more is tried soon, again and again, and by several calls at once: its number may be that
 * of an outage, as nothing shorter explains one, and a window is too long to wait for each try.
 */
const LONG_MS = 120_000
/** The most calls in flight at once beyond those that were accepted. */
const MOST_IN_TRIAL = 16

/** A length whose number is what was let through within it, or this much less, explains a refusal. */
const EXACT = 1.1

/** After a refusal one call is in flight for this long, in milliseconds. */
const CAREFUL_MS = 10_000

/** Calls in flight, as a multiple of what is in flight if they were spread over the window. */
const HASTE = 1.25

/** A refusal, until a call that was sent after it is accepted. */
interface Pause {
  readonly since: number
  /** When the latest call was sent that was refused. */
  sentAt: number
  /** How long to wait, as the service states it; 0: it does not. */
  readonly waitMs: number
  /** More was tried than is known: that much was let through. */
  readonly isOfTrial: boolean
}

/**
 * A limit that no header states, as refusals show it: of each length, the most calls that the service let through
 * before a refusal. A length in which nothing was let through is none. Of the others the most generous one holds,
 * and more is tried from time to time: a length that is too short is refused and sorted out, and none that is too
 * long stays.
 */
export class UnstatedLimit {
  readonly slowStart = new SlowStart()
  /** Null while nothing was refused. */
  known: LearntLimit | null = null
  readonly #ledger: CallLedger
  #documented: readonly number[] = []
  /** The lengths that no refusal has contradicted, with the most calls that each lets through. */
  #most = new Map<number, number>()
  #pause: Pause | null = null
  /** When the first call that was accepted after the latest pause was sent. */
  #since: number | null = null
  #carefulUntil = 0
  /** How long a call takes, in milliseconds. */
  #latency = 0
  /** The number before more was tried; null: nothing is tried. */
  #former: number | null = null
  /** The number before the latest try that was accepted, since the latest refusal. */
  #raisedFrom: number | null = null
  #trialAt = 0
  #trialMs = FIRST_TRIAL_MS
  /** Raises that were accepted since the latest refusal. */
  #raises = 0
  /** The most calls that were accepted in a window while more is tried. */
  #proven = 0

  constructor(ledger: CallLedger) {
    this.#ledger = ledger
  }

  get state(): RateLimitState {
    if (this.known !== null) return 'learnt'
    return this.slowStart.isUnlimited ? 'unlimited' : 'cold'
  }

  /** The service documents windows of these lengths: they are tried before any other. */
  document(lengths: readonly number[]): void {
    this.#documented = lengths
  }

  /** An earlier leader has learnt it. @param earlier what was called before this leader */
  restore(limit: LearntLimit, earlier: readonly EarlierCalls[], now: number): void {
    this.#most = new Map([[limit.windowMs, limit.calls]])
    this.#know(now)
    this.#ledger.remember(earlier)
  }

  /**
   * How many calls may be granted now. Few are in flight at once, and fewer the less is left, so that few are refused where
   * another client has used the limit.
   */
  grantable(now: number): number {
    const pending = this.#ledger.outstanding + this.#ledger.granted
    const known = this.known
    if (known === null) return Math.max(0, this.slowStart.allowed - pending)
    const left = this.left({ ...known, calls: this.#former ?? known.calls }, now)
    const few = Math.min(left, Math.ceil((left - pending) / 2))
    if (left < 1 || (few < 1 && isLong(known))) return this.#triable(known, now)
    const spread = now < this.#carefulUntil ? 0 : (HASTE * known.calls * this.#latency) / known.windowMs
    const most = Math.max(1, Math.round(spread))
    return Math.max(0, Math.min(few, most - pending))
  }

  /** How many calls the span that ends now has left. */
  left({ calls, windowMs }: LearntLimit, now: number): number {
    return this.#ledger.room(calls, now - padded(windowMs))
  }

  /** When `grantable` may rise by the passing of time. */
  nextAt(now: number): number | null {
    if (this.known === null) return this.#ledger.grantsExpireAt
    const { calls, windowMs } = this.known
    const first = this.#ledger.nextToLeave(calls, now - padded(windowMs))
    const leavesAt = first === null ? Number.POSITIVE_INFINITY : first + padded(windowMs)
    const next = Math.min(...[leavesAt, this.#trialAt, this.#carefulUntil].filter((at) => at > now))
    return Number.isFinite(next) ? next : this.#ledger.grantsExpireAt
  }

  /**
   * Until when to wait after a refusal that states no time, and not only until the pause ends: the documented window that the
   * calls are in ends after that, and before the pause after the next one does.
   */
  pauseUntil(now: number, pauseEnd: number): number {
    const since = this.#since
    if (since === null) return pauseEnd
    const ends = this.#documented.map((windowMs) => since + padded(windowMs) + 2 * this.#latency)
    const latest = now + 3 * (pauseEnd - now)
    return ends.find((end) => end > pauseEnd && end < latest) ?? pauseEnd
  }

  /** A call was sent: one more than is known begins to try more. */
  onSent(now: number): void {
    if (this.known === null || this.#former !== null || this.left(this.known, now) >= 0) return
    const { calls, windowMs } = this.known
    const rise = Math.min(MOST_RISE, FIRST_RISE * 2 ** this.#raises)
    this.#former = calls
    this.known = { calls: calls + Math.max(1, Math.round(calls * rise)), windowMs }
    this.#ledger.rememberFor(this.known.calls)
  }

  onAccepted(call: Call, now: number): void {
    this.slowStart.onAnswer()
    this.#latency += (now - call.sentAt - this.#latency) / (this.#latency === 0 ? 1 : 8)
    if (this.#pause !== null && call.sentAt > this.#pause.since) this.#onPauseEnd(this.#pause, call.sentAt)
    this.#since ??= call.sentAt
    const { known } = this
    if (this.#former === null || known === null) return
    this.#proven = Math.max(this.#proven, this.#ledger.completedAfter(now - known.windowMs))
    if (this.#proven >= known.calls) this.#endTrial(true, now)
  }

  /**
   * @param sentAt when the call was sent
   * @param until when calls go on, as the refusal states it; null: it does not
   */
  onRejected(sentAt: number, until: number | null, now: number): void {
    this.slowStart.onRejected(this.#ledger.outstanding + 1)
    const isOfTrial = this.#former !== null
    if (isOfTrial) this.#endTrial(false, now)
    else {
      this.#carefulUntil = now + CAREFUL_MS
      this.#raises = 0
      if (this.known !== null && this.#raisedFrom !== null)
        this.#most.set(this.known.windowMs, this.#raisedFrom)
      this.#raisedFrom = null
    }
    this.#pause ??= { since: now, sentAt, waitMs: until === null ? 0 : until - now, isOfTrial }
    this.#pause.sentAt = sentAt
    this.#trialAt = now + this.#trialMs
  }

  /** What was accepted before a time in which nothing was wanted is no measurement. */
  onIdle(): void {
    this.#since = null
  }

  #onPauseEnd(pause: Pause, at: number): void {
    this.#pause = null
    this.#since = at
    if (this.#most.size === 0) this.#most = unbounded(this.#documented)
    this.#most = this.#narrow(this.#most, pause)
    // None is documented, or another length is to explain what was let through.
    if (this.#most.size === 0) this.#most = this.#narrow(unbounded(LENGTHS.map((s) => s * 1_000)), pause)
    if (this.#most.size > 0) this.#know(at)
  }

  /** Of each length what it can let through at most, now that a call was refused. */
  #narrow(lengths: ReadonlyMap<number, number>, pause: Pause): Map<number, number> {
    const { known } = this
    // Without the call that has just ended the pause.
    const accepted = (ms: number): number => this.#ledger.completedAfter(pause.sentAt - ms) - 1
    const narrowed = new Map<number, number>()
    for (const [windowMs, most] of lengths) {
      const isKnown = windowMs === known?.windowMs
      const isUnexplained = isKnown && !pause.isOfTrial && accepted(windowMs) >= most
      const calls = isUnexplained ? most - 1 : Math.min(most, accepted(windowMs))
      const isRefuted = isKnown && accepted(windowMs) < most && isExplained(lengths, windowMs, accepted)
      if (calls >= 1 && !isRefuted && pause.waitMs <= LONGEST_WAIT * windowMs) narrowed.set(windowMs, calls)
    }
    return narrowed
  }

  /** The length that lets through most; of two that let through the same, the longer one. */
  #know(now: number): void {
    const [fastest] = [...this.#most].toSorted(([a, m], [b, n]) => n / b - m / a || b - a)
    if (fastest === undefined) return
    const [windowMs, calls] = fastest
    this.known = { calls, windowMs }
    this.#former = null
    this.#proven = 0
    this.#ledger.rememberFor(calls)
    this.#trialAt = now + (isLong(this.known) ? this.#trialMs : Math.max(this.#trialMs, windowMs))
  }

  /**
   * How many calls beyond the known number may be made: while more is tried, or soon after the known number, before the next
   * window begins. The first ones are made one by one.
   */
  #triable(known: LearntLimit, now: number): number {
    const { calls, windowMs } = known
    if (!isLong(known) && this.#ledger.outstanding + this.#ledger.granted > 0) return 0
    const inTrial = isLong(known) ? Math.min(MOST_IN_TRIAL, 2 ** this.#raises) : 1
    const proven = Math.max(this.#former ?? calls, this.#proven)
    const free = Math.max(0, Math.min(inTrial, inTrial + this.left({ calls: proven, windowMs }, now)))
    if (this.#former !== null) return Math.max(0, Math.min(free, this.left(known, now)))
    const isEarly = this.#ledger.completedAfter(now - windowMs / 2) >= calls / (isLong(known) ? 3 : 2)
    return isEarly && this.#pause === null && now >= this.#trialAt ? free : 0
  }

  #endTrial(isAccepted: boolean, now: number): void {
    if (this.known === null || this.#former === null) return
    const { windowMs } = this.known
    if (isAccepted) {
      this.#most.set(windowMs, this.known.calls)
      this.#raisedFrom = this.#former
      this.#raises++
      this.#trialAt = isLong(this.known) ? now : now + Math.max(FIRST_TRIAL_MS, windowMs)
    } else {
      this.known = { calls: this.#former, windowMs }
      this.#raises = 0
      this.#trialMs = Math.min(LAST_TRIAL_MS, this.#trialMs * 2)
    }
    this.#former = null
    this.#proven = 0
  }
}

const isLong = ({ windowMs }: Pick<LearntLimit, 'windowMs'>): boolean => windowMs >= LONG_MS

/** Whether a longer length had let through just as many calls as it can. */
const isExplained = (
  lengths: ReadonlyMap<number, number>,
  than: number,
  accepted: (ms: number) => number,
): boolean =>
  [...lengths].some(([ms, most]) => ms > than && accepted(ms) >= most && accepted(ms) <= most * EXACT)

const unbounded = (lengths: readonly number[]): Map<number, number> =>
  new Map(lengths.map((windowMs) => [windowMs, Number.POSITIVE_INFINITY]))

/** After this many answers without a limit the service is taken to have none. */
const UNLIMITED_AFTER = 100

/**
 * While no limit is known: one call, then one more in flight with each answer, so that the number doubles with each
 * round trip. After a hundred answers without a limit there is none until a header states one. A 429 halves what was in
 * flight, and from there the number grows by one a round trip, because the next 429 is near.
 */
export class SlowStart {
  #allowed = 1
  #headerlessAnswers = 0
  #linearFrom = Number.POSITIVE_INFINITY

  get isUnlimited(): boolean {
    return this.#headerlessAnswers >= UNLIMITED_AFTER && this.#linearFrom === Number.POSITIVE_INFINITY
  }

  /** How many calls may be in flight at once. */
  get allowed(): number {
    return this.isUnlimited ? Number.POSITIVE_INFINITY : Math.floor(this.#allowed)
  }

  /** An answer without a limit. */
  onAnswer(): void {
    this.#headerlessAnswers++
    this.#allowed += this.#allowed < this.#linearFrom ? 1 : 1 / this.#allowed
  }

  /** A 429 without a limit. */
  onRejected(inFlight: number): void {
    this.#linearFrom = Math.max(1, Math.floor(Math.min(this.#allowed, inFlight) / 2))
    this.#allowed = 1
  }
}
