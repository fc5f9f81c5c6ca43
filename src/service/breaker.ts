import {
  circuitBreaker,
  CircuitState,
  handleWhen,
  isBrokenCircuitError,
  isHydratingCircuitError,
  type CircuitBreakerPolicy,
  type FailureReason,
  type IBackoff,
  type IHalfOpenAfterBackoffContext,
} from 'cockatiel'
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

const BREAKER_STATES: Readonly<Record<CircuitState, BreakerState>> = {
  [CircuitState.Closed]: 'closed',
  [CircuitState.Open]: 'open',
  [CircuitState.HalfOpen]: 'half_open',
  [CircuitState.Isolated]: 'open',
}

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
 * without credits opens it at once, and only an answer closes it then.
 *
 * Three workarounds for cockatiel: its clock is `Date.now`; a call during a probe would wait while holding a
 * permit; an unhandled error, such as an abort, would close the circuit from half open.
 */
export class Breaker {
  readonly #options: BreakerOptions
  readonly #history = new FaultHistory()
  readonly #unusable = new UnusableAnswers()
  /** Errors that count against the service. */
  readonly #counted = new WeakSet<object>()
  #policy: CircuitBreakerPolicy
  /** The latest pause; null while closed. */
  #pause: Pause | null = null
  #lastFault: FaultSummary = { reason: null, cause: 'failing' }
  #consecutiveFaults = 0
  /** When the account was last said to have no credits. Nothing is known of before. */
  #creditsMissedAt = Date.now()
  #inFlight = 0

  constructor(options: Partial<BreakerOptions> = {}) {
    this.#options = { ...DEFAULTS, ...options }
    this.#policy = this.#createPolicy()
  }

  get state(): BreakerState {
    return BREAKER_STATES[this.#policy.state]
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
    this.#open({ probeAt: Date.now() + Math.max(0, probeInMs), backoffMs: Math.max(1, backoffMs) })
  }

  /** Lets the next call find out whether the service works, or the account has credits again. */
  probe(): void {
    if (this.state === 'open' && this.#pause !== null) this.#open({ ...this.#pause, probeAt: Date.now() })
  }

  #open(pause: Pause): void {
    this.#pause = pause
    const ownState = { value: CircuitState.Open, openedAt: Date.now(), attemptNo: 1 }
    this.#policy = this.#createPolicy({ ownState, breakerState: undefined })
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
    // Cockatiel would let it wait for the probe, holding a permit of the rate limit.
    if (this.state === 'half_open') throw circuitOpenError(this.nextProbeAt)
    try {
      const settled = await this.#policy.execute(() => this.#settle(call, subject))
      if (settled.ok) return settled.value
      throw settled.error
    } catch (error) {
      // A run that begins may find credits at any time: no lookup waits for the hour.
      const probeAt = this.isOutOfCredits ? null : this.nextProbeAt
      throw isBrokenCircuitError(error) ? circuitOpenError(probeAt) : error
    }
  }

  /** For cockatiel any response is a success, a rejection too: it ends the row of faults. */
  async #settle<T>(call: () => Promise<T>, subject: CallSubject | undefined): Promise<SettledCall<T>> {
    const startMark = this.#history.startCall()
    this.#inFlight++
    try {
      const value = await call()
      this.#recordAnswer(subject)
      return { ok: true, value }
    } catch (error) {
      if (error instanceof OutOfCreditsError) throw this.#countOutOfCredits(error)
      if (isUnusable(error)) return this.#settleUnusable(error, subject, startMark)
      if (isResponse(error)) {
        if (isAnswer(error)) this.#recordAnswer(subject)
        else this.#recordResponse()
        // A 429, for example, says nothing about credits.
        if (this.isOutOfCredits && !isAnswer(error)) throw error
        return { ok: false, error }
      }
      if (isFault(error)) {
        if (!this.isOutOfCredits) this.#lastFault = summarizeFault(error)
        // A connection that cannot be opened is never the input's fault.
        if (!error.maybeSent || this.#history.recordFault(subject, startMark)) this.#counted.add(error)
      }
      throw error
    } finally {
      this.#inFlight--
    }
  }

  #countOutOfCredits(error: OutOfCreditsError): OutOfCreditsError {
    this.#lastFault = { reason: null, cause: 'out_of_credits' }
    this.#creditsMissedAt = Date.now()
    this.#counted.add(error)
    return error
  }

  #settleUnusable(
    error: UnexpectedStatusError,
    subject: CallSubject | undefined,
    startMark: number,
  ): SettledCall<never> {
    const verdict = subject === undefined ? 'endpoint' : this.#unusable.recordUnusable(subject)
    const { endpoint, status, detail } = error
    // Of a poll it is about that alone.
    const isPayment = status === 402 && subject !== undefined
    if (verdict === 'endpoint' || (isPayment && this.isOutOfCredits)) {
      throw isPayment
        ? this.#countOutOfCredits(
            new OutOfCreditsError(OUT_OF_CREDITS, { endpoint, status, detail, cause: error }),
          )
        : error
    }
    const action = verdict === 'input' ? error.ofInput : 'retry'
    if (action === 'reject') {
      this.#recordResponse(subject)
      return { ok: false, error: error.withAction(action) }
    }
    // The circuit stays closed: what the endpoint answers to the next inputs decides.
    this.#history.recordFault(subject, startMark)
    throw error.withAction(action)
  }

  #recordAnswer(subject: CallSubject | undefined): void {
    if (subject !== undefined) this.#unusable.recordAnswer(subject)
    this.#recordResponse(subject)
  }

  #recordResponse(answered?: CallSubject): void {
    this.#history.recordResponse(answered, this.state !== 'closed')
  }

  #createPolicy(initialState?: object): CircuitBreakerPolicy {
    const policy = circuitBreaker(
      // While half open every error counts: an aborted probe must not close the circuit.
      handleWhen((error: unknown) => this.#counted.has(error as object) || this.state === 'half_open'),
      {
        breaker: {
          state: undefined,
          success: () => (this.#consecutiveFaults = 0),
          failure: () =>
            this.#lastFault.cause === 'out_of_credits' || this.#isRowOfFaults(++this.#consecutiveFaults),
        },
        halfOpenAfter: { next: this.#beginPause },
        initialState,
      },
    )
    policy.onReset(() => (this.#pause = null))
    return policy
  }

  #isRowOfFaults(faults: number): boolean {
    const { failureThreshold, idleFailureThreshold } = this.#options
    return faults >= failureThreshold || (faults >= idleFailureThreshold && this.#inFlight === 0)
  }

  /** Begins a pause: the restored one, the first, or twice the one before. */
  readonly #beginPause = ({
    result,
  }: IHalfOpenAfterBackoffContext): IBackoff<IHalfOpenAfterBackoffContext> => {
    const { initialPauseMs, maxPauseMs } = this.#options
    const now = Date.now()
    const isRestored = 'error' in result && isHydratingCircuitError(result.error)
    if ('error' in result && result.error instanceof OutOfCreditsError)
      this.#pause = { probeAt: now + CREDITS_PAUSE_MS, backoffMs: CREDITS_PAUSE_MS }
    else if (this.#pause === null || !isRestored) {
      const backoffMs =
        this.#pause === null ? initialPauseMs : Math.min(this.#pause.backoffMs * 2, maxPauseMs)
      this.#pause = { probeAt: now + Math.max(backoffMs, toRetryAfterMs(result)), backoffMs }
    }
    return { duration: this.#pause.probeAt - now, next: this.#beginPause }
  }
}

interface Pause {
  readonly probeAt: number
  readonly backoffMs: number
}

type SettledCall<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: unknown }

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

function toRetryAfterMs(reason: FailureReason<unknown>): number {
  const error = 'error' in reason ? reason.error : null
  return error instanceof ServiceError ? (error.retryAfterMs ?? 0) : 0
}

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
