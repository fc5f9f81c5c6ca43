import {
  CircuitOpenError,
  ForbiddenError,
  OutOfCreditsError,
  ServiceError,
  UnexpectedStatusError,
} from './errors.ts'
import { OUT_OF_CREDITS } from './response-errors.ts'
import {
  FaultHistory,
  type FaultSummary,
  summarizeFault,
  type CallSubject,
  type AttemptCounts,
} from './fault-history.ts'
import { InputsInARow } from './inputs-in-a-row.ts'
import type { CircuitSnapshot } from '../domain/rate-status.ts'

export type BreakerState = 'closed' | 'open' | 'half_open'

interface BreakerOptions {
  /** Consecutive faults that open it. Five would open it now and then with a fault rate of one in ten. */
  readonly failureThreshold: number
  /** The same while no other call is in flight, when no response can contradict them. */
  readonly idleFailureThreshold: number
  /** The pause before the first probe, in milliseconds, doubled by each failed probe. */
  readonly initialPauseMs: number
  /** The longest pause, in milliseconds, so that an end is seen within ten seconds. A longer Retry-After is honoured. */
  readonly maxPauseMs: number
}

const DEFAULTS: BreakerOptions = {
  failureThreshold: 10,
  idleFailureThreshold: 3,
  initialPauseMs: 5_000,
  maxPauseMs: 8_000,
}

/** How often a call finds out whether the account has credits again, in milliseconds. Each run that begins finds out, too. */
const CREDITS_PAUSE_MS = 60 * 60_000

/**
 * Stops calling a failing service, and probes it with single calls at growing intervals.
 *
 *     closed ──── consecutive faults ────▶ open ──── pause over, next call ────▶ half_open
 *       ▲ calls pass         or restore()   ▲ calls are refused                    │ one call, the probe
 *       │                                   └───────── fault or abort: longer ─────┤
 *       └─────────────────────────────────────────────── any response ─────────────┘
 *
 * Only faults of the service count (5xx, 408, 423, timeouts, lost connections, malformed responses): most 4xx show
 * that it works, and an aborted call, or an input that fails while others succeed, shows nothing. An account
 * without credits opens it at once, and only an answer closes it then. Of the calls that were under way when it opened
 * none changes it: the probe alone decides.
 */
export class Breaker {
  readonly #options: BreakerOptions
  readonly #history = new FaultHistory()
  readonly #unusable = new UnusableAnswers()
  /** The latest pause; null while closed. */
  #pause: Pause | null = null
  #isProbing = false
  #lastFault: FaultSummary = { reason: null, cause: 'failing' }
  #consecutiveFaults = 0
  /** When the account was last said to have no credits. Nothing is known of before. */
  #creditsMissedAt = Date.now()
  #inFlight = 0

  constructor(options: Partial<BreakerOptions> = {}) {
    this.#options = { ...DEFAULTS, ...options }
  }

  get state(): BreakerState {
    if (this.#pause === null) return 'closed'
    return this.#isProbing ? 'half_open' : 'open'
  }

  /** The account has no credits left, as far as is known. Calls that cost none pass. */
  get isOutOfCredits(): boolean {
    return this.state !== 'closed' && this.#lastFault.cause === 'out_of_credits'
  }

  /** Whether a job that ended without credits says something new: of one that was submitted before they were missed it is known. */
  isNewsOfCredits(submittedAt: Date): boolean {
    return submittedAt.getTime() > this.#creditsMissedAt
  }

  /** When the next call may pass as a probe, in milliseconds since the epoch; null while closed. */
  get nextProbeAt(): number | null {
    return this.#pause?.probeAt ?? null
  }

  /** The open circuit, for the next leader; null while it is closed. */
  snapshot(): CircuitSnapshot | null {
    if (this.#pause === null) return null
    const { probeAt, backoffMs } = this.#pause
    return { probeInMs: probeAt - Date.now(), backoffMs, ...this.#lastFault }
  }

  /** Takes over the open circuit of the previous leader, unless this breaker is open itself. */
  restore({ probeInMs, backoffMs, reason, cause }: CircuitSnapshot): void {
    if (this.state !== 'closed') return
    this.#lastFault = { reason, cause }
    this.#pause = { probeAt: Date.now() + Math.max(0, probeInMs), backoffMs: Math.max(1, backoffMs) }
  }

  /** Lets the next call find out whether the service works, or the account has credits again. */
  probe(): void {
    if (this.#pause !== null && !this.#isProbing) this.#pause = { ...this.#pause, probeAt: Date.now() }
  }

  /** The attempts to store with a lookup whose call has just failed. @see FaultHistory.countAttempts */
  countAttempts(subject: CallSubject, isCounted: boolean): AttemptCounts {
    return this.#history.countAttempts(subject, isCounted)
  }

  /** Whose fault it is that the limit has refused a call. @see FaultHistory.judgeRefusal */
  judgeRefusal(subject: CallSubject): ReturnType<FaultHistory['judgeRefusal']> {
    return this.#history.judgeRefusal(subject)
  }

  /**
   * Runs the call, or throws a CircuitOpenError without running it. Errors of the call are rethrown unchanged.
   * @param subject the lookup or job: an input that fails while others succeed does not open the circuit
   */
  async execute<T>(call: () => Promise<T>, subject?: CallSubject): Promise<T> {
    // A poll. It costs no credits, and proves nothing about them.
    if (subject === undefined && this.isOutOfCredits) return call()
    const isProbe = this.#pause !== null
    if (this.#pause !== null) {
      // A run that begins may find credits at any time: no lookup waits for the hour.
      if (this.#isProbing || Date.now() < this.#pause.probeAt)
        throw circuitOpenError(this.isOutOfCredits ? null : this.nextProbeAt)
      this.#isProbing = true
    }
    const startMark = this.#history.startCall()
    this.#inFlight++
    try {
      const value = await call()
      this.#recordAnswer(subject)
      this.#onResponse(isProbe)
      return value
    } catch (error) {
      const judged = this.#judge(error, subject, startMark)
      if (judged.shows === 'response') this.#onResponse(isProbe)
      else if (isProbe || judged.shows === 'fault') this.#onFault(judged.error, isProbe)
      throw judged.error
    } finally {
      this.#inFlight--
      if (isProbe) this.#isProbing = false
    }
  }

  /** What the error of a call shows of the service. Any response is a sign of life, a rejection too. */
  #judge(error: unknown, subject: CallSubject | undefined, startMark: number): JudgedError {
    if (error instanceof OutOfCreditsError) return this.#countOutOfCredits(error)
    if (isUnusable(error)) return this.#judgeUnusable(error, subject, startMark)
    if (isResponse(error)) {
      if (isAnswer(error)) this.#recordAnswer(subject)
      else this.#recordResponse()
      // A 429, for example, says nothing about credits.
      return { error, shows: this.isOutOfCredits && !isAnswer(error) ? 'nothing' : 'response' }
    }
    if (!isFault(error)) return { error, shows: 'nothing' }
    if (!this.isOutOfCredits) this.#lastFault = summarizeFault(error)
    // A connection that cannot be opened is never the input's fault.
    const isCounted = !error.maybeSent || this.#history.recordFault(subject, startMark)
    return { error, shows: isCounted ? 'fault' : 'nothing' }
  }

  #countOutOfCredits(error: OutOfCreditsError): JudgedError {
    this.#lastFault = { reason: null, cause: 'out_of_credits' }
    this.#creditsMissedAt = Date.now()
    return { error, shows: 'fault' }
  }

  #judgeUnusable(
    error: UnexpectedStatusError,
    subject: CallSubject | undefined,
    startMark: number,
  ): JudgedError {
    const verdict = subject === undefined ? 'endpoint' : this.#unusable.recordUnusable(subject)
    const { endpoint, status, detail } = error
    // Of a poll it is about that alone.
    const isPayment = status === 402 && subject !== undefined
    if (verdict === 'endpoint' || (isPayment && this.isOutOfCredits)) {
      const details = { endpoint, status, detail, cause: error }
      return isPayment
        ? this.#countOutOfCredits(new OutOfCreditsError(OUT_OF_CREDITS, details))
        : { error, shows: 'nothing' }
    }
    const action = verdict === 'input' ? error.ofInput : 'retry'
    if (action === 'reject') {
      this.#recordResponse(subject)
      return { error: error.withAction(action), shows: 'response' }
    }
    // The circuit stays closed: what the endpoint answers to the next inputs decides.
    this.#history.recordFault(subject, startMark)
    return { error: error.withAction(action), shows: 'nothing' }
  }

  #recordAnswer(subject: CallSubject | undefined): void {
    if (subject !== undefined) this.#unusable.recordAnswer(subject)
    this.#recordResponse(subject)
  }

  #recordResponse(answered?: CallSubject): void {
    this.#history.recordResponse(answered, this.state !== 'closed')
  }

  #onResponse(isProbe: boolean): void {
    this.#consecutiveFaults = 0
    if (isProbe) this.#pause = null
  }

  /** Opens the circuit after enough faults, and anew after a probe that has shown nothing better. */
  #onFault(error: unknown, isProbe: boolean): void {
    this.#consecutiveFaults++
    if (isProbe || (this.#pause === null && (error instanceof OutOfCreditsError || this.#isRowOfFaults())))
      this.#beginPause(error)
  }

  #isRowOfFaults(): boolean {
    const { failureThreshold, idleFailureThreshold } = this.#options
    const faults = this.#consecutiveFaults
    return faults >= failureThreshold || (faults >= idleFailureThreshold && this.#inFlight === 1)
  }

  /** Begins a pause: the first, or twice the one before. */
  #beginPause(error: unknown): void {
    const { initialPauseMs, maxPauseMs } = this.#options
    const isOfCredits = error instanceof OutOfCreditsError
    const doubledMs = this.#pause === null ? initialPauseMs : Math.min(this.#pause.backoffMs * 2, maxPauseMs)
    const backoffMs = isOfCredits ? CREDITS_PAUSE_MS : doubledMs
    const retryAfterMs = error instanceof ServiceError && !isOfCredits ? (error.retryAfterMs ?? 0) : 0
    this.#pause = { probeAt: Date.now() + Math.max(backoffMs, retryAfterMs), backoffMs }
  }
}

interface Pause {
  readonly probeAt: number
  readonly backoffMs: number
}

interface JudgedError {
  /** To be thrown. */
  readonly error: unknown
  readonly shows: 'response' | 'fault' | 'nothing'
}

/** Every error that is retried counts, or a lookup could be retried for ever. A 403 has a classifier of its own. */
const isFault = (error: unknown): error is ServiceError =>
  error instanceof ServiceError && error.action === 'retry' && !(error instanceof ForbiddenError)

/** An answer as from a wrong setting: a missing route, a redirect, a 402. */
const isUnusable = (error: unknown): error is UnexpectedStatusError =>
  error instanceof UnexpectedStatusError && error.action === 'abort_run'

/** An error that the endpoint itself gives to an input. */
const isAnswer = (error: unknown): boolean => error instanceof ServiceError && error.action === 'reject'

const isResponse = (error: unknown): boolean =>
  !isFault(error) && error instanceof ServiceError && error.status !== null

/** During a probe the time of the next one is unknown; waiting a second keeps loops from spinning. */
function circuitOpenError(nextProbeAt: number | null): CircuitOpenError {
  return new CircuitOpenError('not sent: too many consecutive failures. The service is probed periodically', {
    endpoint: 'any',
    maybeSent: false,
    retryAfterMs: Math.max(1_000, (nextProbeAt ?? 0) - Date.now()),
  })
}

/** What is at fault: the endpoint, so that every further call would fail in the same way, or this input. */
type UnusableVerdict = 'endpoint' | 'input' | 'unknown'

/**
 * Decides whether an answer such as a missing route, a redirect or a 402 is about the endpoint or about one input. An
 * endpoint that answers other inputs exists; if it answers several inputs in a row like this, a setting is wrong.
 */
class UnusableAnswers {
  readonly #byEndpoint = {
    person: new InputsInARow<CallSubject['id']>(),
    company: new InputsInARow<CallSubject['id']>(),
    bulk: new InputsInARow<CallSubject['id']>(),
    companyBulk: new InputsInARow<CallSubject['id']>(),
  }

  recordAnswer(subject: CallSubject): void {
    this.#of(subject).answer()
  }

  recordUnusable(subject: CallSubject): UnusableVerdict {
    const row = this.#of(subject)
    // Other inputs were answered after an earlier failure of this one, possibly in an earlier run.
    if (!row.hasAnswered && subject.attempts > 0) return 'input'
    // An input comes a second time before another one only if there is no other.
    const isAlone = !row.hasAnswered && row.has(subject.id)
    row.add(subject.id)
    if (isAlone || row.isProof) return 'endpoint'
    return row.hasAnswered ? 'input' : 'unknown'
  }

  #of({ kind }: CallSubject): InputsInARow<CallSubject['id']> {
    if (kind === 'bulk' || kind === 'companyBulk') return this.#byEndpoint[kind]
    return this.#byEndpoint[kind === 'domain' ? 'company' : 'person']
  }
}
