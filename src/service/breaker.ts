import { circuitBreaker, CircuitState, handleWhen, isBrokenCircuitError } from 'cockatiel'
import type { FailureReason, IBackoff, IBreaker, IHalfOpenAfterBackoffContext } from 'cockatiel'
import {
  CircuitOpenError,
  ConnectionError,
  ForbiddenError,
  MalformedResponseError,
  ServiceError,
  TimeoutError,
  UnexpectedStatusError,
} from './errors.ts'
import { FaultHistory } from './fault-history.ts'
import type { CallSubject, AttemptCounts } from './fault-history.ts'
import { InheritedCircuit } from './inherited-circuit.ts'
import { UnusableAnswers } from './unusable-answers.ts'
import type { CircuitSnapshot } from '../domain/rate-status.ts'
import { networkErrorCode, networkErrorMeaning } from '../util/network-errors.ts'

export type BreakerState = 'closed' | 'open' | 'half_open'

export type BreakerOptions = {
  /** Consecutive faults that open it. Default: 10; five would open it now and then with a fault rate of one in ten. */
  failureThreshold?: number
  /** The same while no other call is in flight, when no response can contradict them. Default: 3. */
  idleFailureThreshold?: number
  /** The pause before the first probe, in milliseconds, doubled by each failed probe. Default: 5,000. */
  initialPauseMs?: number
  /** The longest pause, in milliseconds. A longer Retry-After is honoured. Default: 8,000, so that an end is seen within ten seconds. */
  maxPauseMs?: number
}

export type Breaker = {
  /**
   * Runs the call, or throws a CircuitOpenError without running it. Errors of the call are rethrown unchanged.
   * @param subject the lookup or job: an input that fails while others succeed does not open the circuit
   */
  execute<T>(call: () => Promise<T>, subject?: CallSubject): Promise<T>
  readonly state: BreakerState
  /** When the next call may pass as a probe, in milliseconds since the epoch; null while closed. */
  readonly nextProbeAt: number | null
  /** The attempts to store with a lookup whose call has just failed. @see FaultHistory.countAttempts */
  countAttempts(subject: CallSubject, isCounted: boolean): AttemptCounts
  /** The open circuit, for the next leader; null while it is closed. */
  snapshot(): CircuitSnapshot | null
  /** Takes over the open circuit of the previous leader, unless this breaker is open itself. */
  restore(snapshot: CircuitSnapshot): void
  /** Reports changes of state. @returns a function that unsubscribes */
  onChange(listener: (state: BreakerState) => void): () => void
}

const BREAKER_STATES: Readonly<Record<CircuitState, BreakerState>> = {
  [CircuitState.Closed]: 'closed',
  [CircuitState.Open]: 'open',
  [CircuitState.HalfOpen]: 'half_open',
  [CircuitState.Isolated]: 'open',
}

/**
 * Stops calling a failing service, and probes it with single calls at growing intervals. Only faults of the service
 * count (5xx, 408, 423, timeouts, lost connections, malformed responses); most 4xx show that it works. An aborted call is
 * no evidence, nor is an input that fails while others succeed.
 *
 * Built on cockatiel, with four workarounds: its clock is always `Date.now`; a call during a probe would wait for the
 * probe while holding a permit; an unhandled error, such as an abort, would close the circuit from half open; and it
 * cannot take over an open circuit, hence `InheritedCircuit`.
 */
export function createBreaker(options: BreakerOptions = {}): Breaker {
  const {
    failureThreshold = 10,
    idleFailureThreshold = 3,
    initialPauseMs = 5_000,
    maxPauseMs = 8_000,
  } = options
  let nextProbeAt: number | null = null
  let backoffMs = initialPauseMs
  let inFlight = 0
  const history = new FaultHistory()
  const unusable = new UnusableAnswers()
  /** Errors that count against the service. */
  const counted = new WeakSet<object>()
  let inherited: InheritedCircuit | null = null
  let lastFault: FaultSummary = { reason: null, isUnreachable: false }

  const pause = (previousMs: number | null): IBackoff<IHalfOpenAfterBackoffContext> => ({
    duration: previousMs ?? 0,
    next({ result }) {
      const grown = previousMs === null ? initialPauseMs : Math.min(previousMs * 2, maxPauseMs)
      const duration = Math.max(grown, toRetryAfterMs(result))
      nextProbeAt = Date.now() + duration
      backoffMs = grown
      return { ...pause(grown), duration }
    },
  })

  let consecutiveFaults = 0
  const thresholds: IBreaker = {
    state: undefined,
    success: () => {
      consecutiveFaults = 0
    },
    failure: () => {
      consecutiveFaults++
      return (
        consecutiveFaults >= failureThreshold || (consecutiveFaults >= idleFailureThreshold && inFlight === 0)
      )
    },
  }
  const policy = circuitBreaker(
    // While half open every error counts: an aborted probe must not close the circuit.
    handleWhen((error: unknown) => counted.has(error as object) || policy.state === CircuitState.HalfOpen),
    { breaker: thresholds, halfOpenAfter: pause(null) },
  )
  policy.onReset(() => {
    nextProbeAt = null
    consecutiveFaults = 0
  })

  const isDown = (): boolean => inherited !== null || policy.state !== CircuitState.Closed

  /** For cockatiel any response is a success, a rejection too: it ends the row of faults. */
  async function asOutcome<T>(
    call: () => Promise<T>,
    subject: CallSubject | undefined,
  ): Promise<SettledCall<T>> {
    const startMark = history.startCall()
    inFlight++
    try {
      const value = await call()
      if (subject !== undefined) unusable.recordAnswer(subject)
      history.recordResponse(subject, isDown())
      return { ok: true, value }
    } catch (error) {
      if (isUnusable(error)) {
        const verdict = subject === undefined ? 'endpoint' : unusable.recordUnusable(subject)
        if (verdict === 'endpoint') throw error
        const action = verdict === 'input' ? error.ofInput : 'retry'
        if (action === 'reject') {
          history.recordResponse(subject, isDown())
          return { ok: false, error: error.withAction(action) }
        }
        // The circuit stays closed: what the endpoint answers to the next inputs decides.
        history.recordFault(subject, startMark)
        throw error.withAction(action)
      }
      if (isResponse(error)) {
        const answered = isAnswer(error) ? subject : undefined
        if (answered !== undefined) unusable.recordAnswer(answered)
        history.recordResponse(answered, isDown())
        return { ok: false, error }
      }
      if (isFault(error)) lastFault = summarizeFault(error)
      // A connection that cannot be opened is never the input's fault.
      if (isFault(error) && (!error.maybeSent || history.recordFault(subject, startMark))) counted.add(error)
      throw error
    } finally {
      inFlight--
    }
  }

  async function probeInherited<T>(
    circuit: InheritedCircuit,
    call: () => Promise<SettledCall<T>>,
  ): Promise<T> {
    if (!circuit.canProbe(Date.now())) throw circuitOpenError(circuit.probeAt)
    try {
      const outcome = await circuit.probe(call)
      inherited = null
      return unwrapOutcome(outcome)
    } catch (error) {
      if (inherited !== null) circuit.extendPause(Date.now(), toRetryAfterMs({ error: error as Error }))
      throw error
    }
  }

  return {
    async execute<T>(call: () => Promise<T>, subject?: CallSubject): Promise<T> {
      if (inherited !== null) return probeInherited(inherited, () => asOutcome(call, subject))
      // Cockatiel would let it wait for the probe, holding a permit of the rate limit.
      if (policy.state === CircuitState.HalfOpen) throw circuitOpenError(nextProbeAt)
      try {
        return unwrapOutcome(await policy.execute(() => asOutcome(call, subject)))
      } catch (error) {
        throw isBrokenCircuitError(error) ? circuitOpenError(nextProbeAt) : error
      }
    },
    get state() {
      if (inherited !== null) return inherited.isProbing ? 'half_open' : 'open'
      return BREAKER_STATES[policy.state]
    },
    get nextProbeAt() {
      return inherited === null ? nextProbeAt : inherited.probeAt
    },
    countAttempts: (subject, isCounted) => history.countAttempts(subject, isCounted),
    snapshot() {
      if (inherited !== null)
        return {
          probeInMs: inherited.probeAt - Date.now(),
          backoffMs: inherited.backoffMs,
          ...(lastFault.reason === null ? inherited.fault : lastFault),
        }
      return nextProbeAt === null ? null : { probeInMs: nextProbeAt - Date.now(), backoffMs, ...lastFault }
    },
    restore(snapshot) {
      if (policy.state === CircuitState.Closed)
        inherited = new InheritedCircuit(snapshot, Date.now(), maxPauseMs)
    },
    onChange(listener) {
      const subscription = policy.onStateChange((state) => listener(BREAKER_STATES[state]))
      return () => subscription.dispose()
    },
  }
}

type FaultSummary = Pick<CircuitSnapshot, 'reason' | 'isUnreachable'>

/** A fault in a few words, without what differs from call to call. */
function summarizeFault(error: ServiceError): FaultSummary {
  if (error instanceof ConnectionError) {
    const code = networkErrorCode(error.cause)
    return { reason: networkErrorMeaning(code) ?? code ?? 'connection lost', isUnreachable: true }
  }
  if (error instanceof TimeoutError) return { reason: 'no response in time', isUnreachable: true }
  if (error instanceof MalformedResponseError)
    return { reason: `HTTP ${error.status} without a record`, isUnreachable: false }
  return { reason: `HTTP ${error.status}`, isUnreachable: false }
}

type SettledCall<T> = { ok: true; value: T } | { ok: false; error: unknown }

function unwrapOutcome<T>(outcome: SettledCall<T>): T {
  if (outcome.ok) return outcome.value
  throw outcome.error
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
