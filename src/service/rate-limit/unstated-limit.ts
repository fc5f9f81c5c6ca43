import type { Call, CallLedger, EarlierCalls } from './call-ledger.ts'
import { padded } from './counter.ts'
import type { RateLimitState } from './state.ts'

/** At most this number of calls in any span of this length. */
export interface LearntLimit {
  readonly calls: number
  readonly windowMs: number
}

/** What came before a refusal, and the pause after it. */
export interface RefusedSpan {
  /** Calls accepted since the end of the pause before, and for how long until the refusal. */
  readonly accepted: number
  readonly busyMs: number
  /** From the refusal until a call was accepted, or could have been by what the service stated. */
  readonly pauseMs: number
  /** Calls accepted in this time up to the refusal. */
  readonly acceptedWithin: (ms: number) => number
}

/** The documented windows by their length, with the calls that were believed to be let through in one: as many, or more, were refused. */
export type Guesses = ReadonlyMap<number, number>

/** A measured rate that is faster than that of the documented window by no more than this is that one: clocks and timers. */
const SAME_RATE = 0.97
/** The same after a measured rate was refused: it may be too fast by this. */
const REFUSED_RATE = 0.7

/** A probe comes this long after a refusal at the earliest, and twice as late after each probe that was refused. */
const FIRST_PROBE_MS = 10_000
const LAST_PROBE_MS = 60 * 60_000

/** The first probe of a shorter span is shorter by this share of it, and each later one by half as much, down to the least. */
const FIRST_SHARE = 1 / 4
const LEAST_SHARE = 1 / 20

/** The first call more that is accepted raises the number by this share, and each next one by twice as much, up to the most. */
const FIRST_RISE = 1 / 16
const MOST_RISE = 1 / 2

/** A shorter span counts as proven after this number of them: windows on the clock refuse the calls of a later one. */
const TRIAL_SPANS = 4

/** After a refusal, not of a probe of a documented window, one call is in flight for this long, in milliseconds. */
const CAREFUL_MS = 10_000

/** Calls in flight, as a multiple of what is in flight if they were spread over it. */
const HASTE = 1.6

/** A refusal, until a call that was sent after it is accepted. */
interface Pause {
  readonly since: number
  /** When calls go on, as the service states it; null: it does not. */
  until: number | null
  /** A probe was refused, which says nothing about what was known before. */
  readonly isOfProbe: boolean
  /** What was known when the call was refused. */
  readonly known: LearntLimit | null
}

/**
 * A limit that no header states, as refusals show it. From the end of one pause to the end of the next lies at least a
 * whole window; what was accepted between them is let through in any span of that length, in whatever way the service
 * counts. Refusals only ever tighten it, and probes widen it. Where the service documents a window, that is the first guess of
 * its length.
 */
export class UnstatedLimit {
  readonly slowStart = new SlowStart()
  /** Null while nothing was refused. */
  known: LearntLimit | null = null
  readonly #guesses = new Map<number, number>()
  /** What is known without what is on trial until `#trialUntil`. */
  #proven: LearntLimit | null = null
  #trialUntil = 0
  /** When the first call that was accepted after the latest pause was sent, and how many were accepted since. */
  #since: number | null = null
  #accepted = 0
  #pause: Pause | null = null
  #carefulUntil = 0
  #answeredAt = 0
  /** How long a call takes, in milliseconds. */
  #latency = 0
  /** What the probe in flight shows if it is accepted. */
  #probe: { readonly call: Call; readonly limit: LearntLimit } | null = null
  #probeAt = 0
  #probeMs = FIRST_PROBE_MS
  #rise = FIRST_RISE
  #share = FIRST_SHARE
  #isShorterNext = true
  readonly #ledger: CallLedger

  constructor(ledger: CallLedger) {
    this.#ledger = ledger
  }

  get state(): RateLimitState {
    if (this.known !== null) return 'learnt'
    return this.slowStart.isUnlimited ? 'unlimited' : 'cold'
  }

  /** The service documents windows of these lengths. */
  document(lengths: readonly number[]): void {
    for (const windowMs of lengths) this.#guesses.set(windowMs, Number.POSITIVE_INFINITY)
  }

  /** An earlier leader has learnt it. @param earlier what was called before this leader */
  restore(limit: LearntLimit, earlier: readonly EarlierCalls[], now: number): void {
    this.#know(limit)
    this.#ledger.rememberFor(limit.calls)
    this.#ledger.remember(earlier)
    this.#probeAt = now + FIRST_PROBE_MS
  }

  /**
   * How many calls may be granted now. Few are in flight at once, and fewer the less is left, so that few are refused where
   * another client has used the limit.
   */
  grantable(now: number): number {
    const pending = this.#ledger.outstanding + this.#ledger.granted
    const known = this.known
    if (known === null) return Math.max(0, this.slowStart.allowed - pending)
    const left = this.left(known, now)
    if (left < 1) return left === 0 && this.#probe === null && now >= this.#probeDueAt(known, now) ? 1 : 0
    const spread = now < this.#carefulUntil ? 0 : (HASTE * known.calls * this.#latency) / known.windowMs
    const most = Math.max(1, Math.round(spread))
    return Math.max(0, Math.min(left, most - pending, Math.ceil((left - pending) / 2)))
  }

  /** How many calls the span that ends now has left. */
  left({ calls, windowMs }: LearntLimit, now: number): number {
    return this.#ledger.room(calls, now - padded(windowMs))
  }

  /** When `grantable` may rise by the passing of time. */
  nextAt(now: number): number | null {
    if (this.known === null) return this.#ledger.grantsExpireAt
    const probeAt = this.#probe === null ? this.#probeDueAt(this.known, now) : now
    const times = [this.#leavesAt(this.known, now), probeAt, this.#carefulUntil].filter((at) => at > now)
    const next = Math.min(...times)
    return Number.isFinite(next) ? next : this.#ledger.grantsExpireAt
  }

  /**
   * Until when to wait after a refusal that states no time, and not only until the pause ends: the documented window that the
   * calls are in ends after that, and before the pause after the next one does.
   */
  pauseUntil(now: number, pauseEnd: number): number {
    const since = this.#since
    if (since === null) return pauseEnd
    const ends = [...this.#guesses.keys()].map((windowMs) => since + padded(windowMs) + 2 * this.#latency)
    const latest = now + 3 * (pauseEnd - now)
    return ends.find((end) => end > pauseEnd && end < latest) ?? pauseEnd
  }

  onSent(call: Call, now: number): void {
    if (this.known === null || this.left(this.known, now) >= 0) return
    const { calls, windowMs } = this.known
    const limit = this.#isProbeShorter(this.known, now)
      ? { calls, windowMs: windowMs - (this.#leavesAt(this.known, now) - now) }
      : { calls: calls + (this.#isGuess ? Math.max(1, Math.round(calls * this.#rise)) : 1), windowMs }
    this.#probe = { call, limit }
    // All of it was let through.
    this.#proven = this.known
  }

  onAccepted(call: Call, now: number): void {
    this.slowStart.onAnswer()
    this.#latency += (now - call.sentAt - this.#latency) / (this.#latency === 0 ? 1 : 8)
    this.#answeredAt = now
    if (this.#pause !== null && call.sentAt > this.#pause.since) this.#onPauseEnd(this.#pause, call.sentAt)
    this.#since ??= call.sentAt
    this.#accepted++
    if (this.#probe?.call === call) this.#onProbeAccepted(this.#probe.limit, now)
  }

  /** @param until when calls go on, as the refusal states it; null: it does not */
  onRejected(until: number | null, now: number): void {
    this.slowStart.onRejected(this.#ledger.outstanding + 1)
    const isOnTrial = this.#proven !== this.known && now < this.#trialUntil
    const isOfProbe = this.#probe !== null || isOnTrial
    if (isOfProbe) this.#onProbeRejected()
    const isOfGuess = this.#isGuess && (isOfProbe || this.#pause?.isOfProbe === true)
    if (!isOfGuess) this.#carefulUntil = now + CAREFUL_MS
    if (this.#pause === null) {
      this.#pause = { since: now, until, isOfProbe, known: this.known }
      if (this.known !== null && !isOfProbe) this.#know(this.#letThrough(this.known, now))
    } else this.#pause.until = until
    this.#probeAt = now + this.#probeMs
  }

  /** What was accepted before a time in which nothing was wanted is no measurement. */
  onIdle(): void {
    this.#since = null
    this.#accepted = 0
  }

  #know(limit: LearntLimit): void {
    this.known = limit
    this.#proven = limit
  }

  /** What is known has a documented window. */
  get #isGuess(): boolean {
    return this.known !== null && this.#guesses.has(this.known.windowMs)
  }

  /** If most calls were made lately, their number was too high, and not the span too short. */
  #letThrough(known: LearntLimit, now: number): LearntLimit {
    const { calls, windowMs } = known
    if (this.#ledger.completedAfter(now - windowMs / 2) < calls / 2) return known
    return { calls: Math.max(1, Math.min(calls - this.left(known, now), calls - 1)), windowMs }
  }

  #onPauseEnd({ since: refusedAt, until, isOfProbe, known }: Pause, sentAt: number): void {
    const [accepted, since] = [this.#accepted, this.#since]
    const at = Math.min(sentAt, until ?? sentAt)
    this.#pause = null
    this.#since = at
    this.#accepted = 0
    if (since === null || accepted === 0 || isOfProbe) return
    const span = {
      accepted,
      busyMs: refusedAt - since,
      pauseMs: Math.max(0, at - refusedAt),
      // Without the call that has just ended the pause.
      acceptedWithin: (ms: number) => this.#ledger.completedAfter(refusedAt - ms) - 1,
    }
    const corrected = correctGuess(known, span, this.#guesses)
    const limit =
      corrected ?? fitToDocumented(tighten(this.known, spanLimit(span)), known, span, this.#guesses)
    if (this.#guesses.has(limit.windowMs)) this.#guesses.set(limit.windowMs, limit.calls)
    this.#know(limit)
    // A probe of what was known before shows nothing any more.
    this.#probe = null
    this.#ledger.rememberFor(limit.calls)
    this.#probeAt = sentAt + Math.max(this.#probeMs, limit.windowMs)
  }

  #onProbeAccepted(limit: LearntLimit, now: number): void {
    const isShorter = limit.calls === this.known?.calls
    this.#probe = null
    if (!isShorter && this.#isGuess) this.#rise = Math.min(MOST_RISE, this.#rise * 2)
    else if (!isShorter) this.#proven = limit
    this.known = limit
    this.#probeAt = now + (isShorter ? TRIAL_SPANS : 1) * limit.windowMs
    this.#trialUntil = isShorter ? this.#probeAt : Number.POSITIVE_INFINITY
  }

  #onProbeRejected(): void {
    const former = this.#probe?.limit ?? this.#proven
    const isShorter = former?.windowMs !== this.known?.windowMs
    if (this.#probe === null) this.known = this.#proven
    if (isShorter) this.#share /= 2
    this.#isShorterNext = !isShorter && this.#share > LEAST_SHARE
    this.#rise = FIRST_RISE
    this.#probeMs = Math.min(LAST_PROBE_MS, this.#probeMs * 2)
    this.#probe = null
  }

  /**
   * One call more in the same span shows something only soon after the others; a call in a shorter span only where nothing
   * was called for a while before it.
   */
  #probeDueAt(known: LearntLimit, now: number): number {
    const { calls, windowMs } = known
    if (!this.#isProbeShorter(known, now))
      return this.#ledger.completedAfter(now - windowMs / 2) >= calls / 2
        ? this.#probeAt
        : Number.POSITIVE_INFINITY
    const leavesAt = this.#leavesAt(known, now)
    const at = Math.max(this.#probeAt, this.#answeredAt + windowMs / 8, leavesAt - windowMs * this.#share)
    return leavesAt - at > (windowMs * this.#share) / 2 ? at : Number.POSITIVE_INFINITY
  }

  /** Both kinds take turns; one of a shorter span that does not become possible is left out, and so is one of a documented span. */
  #isProbeShorter({ windowMs }: LearntLimit, now: number): boolean {
    return this.#isShorterNext && now < this.#probeAt + 2 * windowMs && !this.#guesses.has(windowMs)
  }

  #leavesAt({ calls, windowMs }: LearntLimit, now: number): number {
    const first = this.#ledger.nextToLeave(calls, now - padded(windowMs))
    return first === null ? Number.POSITIVE_INFINITY : first + padded(windowMs)
  }
}

/** The slower of both, in as few calls at once; one call less where what was measured does not explain the refusal. */
export function tighten(known: LearntLimit | null, measured: LearntLimit): LearntLimit {
  if (known === null) return measured
  const calls = Math.min(known.calls, measured.calls)
  const windowMs = calls * Math.max(known.windowMs / known.calls, measured.windowMs / measured.calls)
  const isTighter = calls < known.calls || windowMs > known.windowMs * (1 + 1 / known.calls)
  return isTighter ? { calls, windowMs } : { ...known, calls: Math.max(1, known.calls - 1) }
}

/** Up to the end of the pause, the least that is let through: no window that is shorter refuses it. */
const spanLimit = ({ accepted, busyMs, pauseMs }: RefusedSpan): LearntLimit => ({
  calls: accepted,
  windowMs: Math.max(1, busyMs + pauseMs),
})

/**
 * The calls of a window of this length are gone before the pause ends: it is longer. Retry-After is rounded up by less than a
 * second, and pauses of our own double.
 */
const isOutlasted = (windowMs: number, { pauseMs }: RefusedSpan): boolean =>
  pauseMs > Math.max(windowMs + 950, windowMs * 1.25)

/**
 * What is known has a documented window, and a call was refused: its number was too high, and is what was accepted within it
 * up to the refusal. Null: the window was no such guess, or is wrong.
 */
function correctGuess(known: LearntLimit | null, span: RefusedSpan, guesses: Guesses): LearntLimit | null {
  if (known === null || !guesses.has(known.windowMs) || isOutlasted(known.windowMs, span)) return null
  const lately = span.acceptedWithin(known.windowMs)
  return { calls: Math.max(1, Math.min(lately, known.calls - 1)), windowMs: known.windowMs }
}

/**
 * What was accepted within a documented window up to the refusal, if that is more than what was measured: the documented
 * length is most likely right, and the number too high. A pause is often longer than it had to be, and a bucket refuses calls
 * in spans that are no windows.
 * @param known what held when the call was refused
 * @returns what was measured, if no documented window explains it
 */
export function fitToDocumented(
  measured: LearntLimit,
  known: LearntLimit | null,
  span: RefusedSpan,
  guesses: Guesses,
): LearntLimit {
  const { acceptedWithin } = span
  for (const [windowMs, refused] of [...guesses].toSorted(([a], [b]) => a - b)) {
    const lately = acceptedWithin(windowMs)
    // A much shorter span let calls through several times within such a window.
    const hasHeld = known !== null && known.windowMs < windowMs / 2 && lately > 2 * known.calls
    if (isOutlasted(windowMs, span) || hasHeld) continue
    const share = known === null ? SAME_RATE : REFUSED_RATE
    const isFaster = lately / windowMs >= (measured.calls / measured.windowMs) * share
    if (lately >= 1 && lately < refused && isFaster) return { calls: lately, windowMs }
  }
  return measured
}

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
  #cap = Number.POSITIVE_INFINITY

  get isUnlimited(): boolean {
    return this.#headerlessAnswers >= UNLIMITED_AFTER && this.#linearFrom === Number.POSITIVE_INFINITY
  }

  /** How many calls may be in flight at once. */
  get allowed(): number {
    return this.isUnlimited ? Number.POSITIVE_INFINITY : Math.min(this.#cap, Math.floor(this.#allowed))
  }

  /** A limit was known recently, and part of it may be used: at most a quarter of it at once. */
  capAt(limit: number): void {
    this.#cap = Math.max(1, Math.floor(limit / 4))
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
