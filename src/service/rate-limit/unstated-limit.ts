import type { Call, CallLedger } from './call-ledger.ts'
import { padded } from './length-bounds.ts'
import { SlowStart } from './slow-start.ts'
import type { RateLimitState } from './state.ts'

/** At most this number of calls in any span of this length. */
export interface LearntLimit {
  readonly calls: number
  readonly windowMs: number
}

/** A probe comes this long after a refusal at the earliest, and twice as late after each probe that was refused. */
const FIRST_PROBE_MS = 10_000
const LAST_PROBE_MS = 60 * 60_000

/** The first probe of a shorter span is shorter by this share of it, and each later one by half as much, down to the least. */
const FIRST_SHARE = 1 / 4
const LEAST_SHARE = 1 / 20

/** A shorter span counts as proven after this number of them: windows on the clock refuse the calls of a later one. */
const TRIAL_SPANS = 4

/** After a refusal one call is in flight for this long, in milliseconds. */
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
}

/**
 * A limit that no header states, as refusals show it. From the end of one pause to the end of the next lies at least a
 * whole window; what was accepted between them is let through in any span of that length, in whatever way the service
 * counts. Refusals only ever tighten it, and probes, one call at a time, widen it.
 */
export class UnstatedLimit {
  readonly slowStart = new SlowStart()
  /** Null while nothing was refused. */
  known: LearntLimit | null = null
  /** What is known without the shorter span that is on trial. */
  #proven: LearntLimit | null = null
  /** When the first call that was accepted after the latest pause was sent, and how many were accepted since. */
  #since: number | null = null
  #accepted = 0
  #pause: Pause | null = null
  #refusedAt: number[] = []
  #answeredAt = 0
  /** How long a call takes, in milliseconds. */
  #latency = 0
  /** What the probe in flight shows if it is accepted. */
  #probe: { readonly call: Call; readonly limit: LearntLimit } | null = null
  #probeAt = 0
  #probeMs = FIRST_PROBE_MS
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
    const isCareful = now < (this.#refusedAt.at(-1) ?? 0) + CAREFUL_MS
    const spread = isCareful ? 0 : (HASTE * known.calls * this.#latency) / known.windowMs
    const most = Math.max(1, Math.round(spread))
    return Math.max(0, Math.min(left, most - pending, Math.ceil((left - pending) / 2)))
  }

  /** How many calls the span that ends now has left. Refused calls hold no place in it. */
  left({ calls, windowMs }: LearntLimit, now: number): number {
    return this.#ledger.remainingWithin(calls + this.#refusedWithin(windowMs, now), windowMs, now)
  }

  /** When `grantable` may rise by the passing of time. */
  nextAt(now: number): number | null {
    if (this.known === null) return this.#ledger.grantsExpireAt
    const carefulUntil = (this.#refusedAt.at(-1) ?? 0) + CAREFUL_MS
    const probeAt = this.#probe === null ? this.#probeDueAt(this.known, now) : now
    const times = [this.#leavesAt(this.known, now), probeAt, carefulUntil].filter((at) => at > now)
    const next = Math.min(...times)
    return Number.isFinite(next) ? next : this.#ledger.grantsExpireAt
  }

  onSent(call: Call, now: number): void {
    if (this.known === null || this.left(this.known, now) >= 0) return
    const { calls, windowMs } = this.known
    const limit = this.#isProbeShorter(this.known, now)
      ? { calls, windowMs: windowMs - (this.#leavesAt(this.known, now) - now) }
      : { calls: calls + 1, windowMs }
    this.#probe = { call, limit }
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
    const oldest = now - 2 * (this.known?.windowMs ?? LAST_PROBE_MS)
    this.#refusedAt = [...this.#refusedAt.filter((at) => at > oldest), now]
    const isOnTrial = this.#proven !== this.known && now < this.#probeAt
    const isOfProbe = this.#probe !== null || isOnTrial
    if (isOfProbe) this.#onProbeRejected()
    if (this.#pause === null) {
      if (this.known !== null && !isOfProbe) this.#know(this.#letThrough(this.known, now))
      this.#pause = { since: now, until, isOfProbe }
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

  /** If most calls were made lately, their number was too high, and not the span too short. */
  #letThrough(known: LearntLimit, now: number): LearntLimit {
    const { calls, windowMs } = known
    if (this.#ledger.completedSince(now - windowMs / 2) < calls / 2) return known
    return { calls: Math.max(1, Math.min(calls - this.left(known, now), calls - 1)), windowMs }
  }

  #onPauseEnd({ until, isOfProbe }: Pause, sentAt: number): void {
    const [accepted, since] = [this.#accepted, this.#since]
    const at = Math.min(sentAt, until ?? sentAt)
    this.#pause = null
    this.#since = at
    this.#accepted = 0
    if (since === null || accepted === 0 || isOfProbe) return
    const limit = tighten(this.known, { calls: accepted, windowMs: Math.max(1, at - since) })
    this.#know(limit)
    this.#ledger.rememberFor(limit.calls)
    this.#probeAt = sentAt + Math.max(this.#probeMs, limit.windowMs)
  }

  #onProbeAccepted(limit: LearntLimit, now: number): void {
    const isShorter = limit.calls === this.known?.calls
    this.#probe = null
    if (!isShorter) this.#proven = limit
    this.known = limit
    this.#probeAt = now + (isShorter ? TRIAL_SPANS : 1) * limit.windowMs
  }

  #onProbeRejected(): void {
    const isShorter = this.#probe === null || this.#probe.limit.calls === this.known?.calls
    if (this.#probe === null) this.known = this.#proven
    if (isShorter) this.#share /= 2
    this.#isShorterNext = !isShorter && this.#share > LEAST_SHARE
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
      return this.#ledger.completedSince(now - windowMs / 2) >= calls / 2
        ? this.#probeAt
        : Number.POSITIVE_INFINITY
    const leavesAt = this.#leavesAt(known, now)
    const at = Math.max(this.#probeAt, this.#answeredAt + windowMs / 8, leavesAt - windowMs * this.#share)
    return leavesAt - at > (windowMs * this.#share) / 2 ? at : Number.POSITIVE_INFINITY
  }

  /** Both kinds take turns; one of a shorter span that does not become possible is left out. */
  #isProbeShorter({ windowMs }: LearntLimit, now: number): boolean {
    return this.#isShorterNext && now < this.#probeAt + 2 * windowMs
  }

  #leavesAt({ calls, windowMs }: LearntLimit, now: number): number {
    const within = calls + this.#refusedWithin(windowMs, now)
    return this.#ledger.nextLeavesAt(within, windowMs, now) ?? Number.POSITIVE_INFINITY
  }

  #refusedWithin(windowMs: number, now: number): number {
    const kept = this.#refusedAt.findIndex((at) => at + padded(windowMs) > now)
    return kept === -1 ? 0 : this.#refusedAt.length - kept
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
