import { circuitBreaker, CircuitState, handleWhen, isBrokenCircuitError } from 'cockatiel'
import type { FailureReason, IBackoff, IBreaker, IHalfOpenAfterBackoffContext } from 'cockatiel'
import {
  CircuitOpenError,
  ConnectionError,
  MalformedResponseError,
  ServerError,
  ServiceError,
  TimeoutError,
  UnavailableError,
} from './errors.ts'
import { FaultHistory } from './fault-history.ts'
import type { CallSubject, AttemptCounts } from './fault-history.ts'
import { InheritedCircuit } from './inherited-circuit.ts'
import type { CircuitSnapshot } from './inherited-circuit.ts'

export type BreakerState = 'closed' | 'open' | 'half_open'

export type BreakerOptions = {
  /** Faults in a row that open it; 10. Five would open now and then at a service that fails one call in ten. */
  failureThreshold?: number
  /** Faults in a row that open it while no other call is on its way, because then no answer can contradict them; 3. */
  idleFailureThreshold?: number
  /** The pause before the first probe, in milliseconds; 5,000. It doubles with each probe that fails. */
  initialPauseMs?: number
  /** The longest pause, in milliseconds; 60,000. A Retry-After that is longer is kept all the same. */
  maxPauseMs?: number
}

export type Breaker = {
  /**
   * Runs the call, or throws a CircuitOpenError without running it. The call's own errors pass unchanged.
   * @param subject what the call is about: an input that fails while others are answered does not open the circuit
   */
  execute<T>(call: () => Promise<T>, subject?: CallSubject): Promise<T>
  readonly state: BreakerState
  /** When the next call will be let through as a probe, in ms since the epoch; null while closed. */
  readonly nextProbeAt: number | null
  /** What is to be stored with a subject whose call has just failed. @see FaultHistory.countAttempts */
  countAttempts(subject: CallSubject, isCounted: boolean): AttemptCounts
  /** What the process that calls next must know of an open circuit; null while it is closed. */
  kept(): CircuitSnapshot | null
  /** Takes over an open circuit, unless this one knows better by itself. */
  inherit(kept: CircuitSnapshot): void
  /** Tells each change of state; gives the function that ends this. */
  onChange(listener: (state: BreakerState) => void): () => void
}

const BREAKER_STATES: Readonly<Record<CircuitState, BreakerState>> = {
  [CircuitState.Closed]: 'closed',
  [CircuitState.Open]: 'open',
  [CircuitState.HalfOpen]: 'half_open',
  [CircuitState.Isolated]: 'open',
}

/**
 * Stops calling a service that fails, and probes it with one call after a growing pause. Only faults of the
 * service count (5xx, time-outs, lost connections, answers that are none); a 4xx shows that it lives. A call
 * that its caller aborted shows nothing, nor does an input that fails while others are answered. The clock is
 * Date.now, because cockatiel's cannot be replaced.
 */
export function createBreaker(options: BreakerOptions = {}): Breaker {
  const {
    failureThreshold = 10,
    idleFailureThreshold = 3,
    initialPauseMs = 5_000,
    maxPauseMs = 60_000,
  } = options
  let nextProbeAt: number | null = null
  let pauseMs = initialPauseMs
  let onTheWay = 0
  const history = new FaultHistory()
  /** Errors that speak against the service. */
  const counted = new WeakSet<object>()
  let inherited: InheritedCircuit | null = null

  const pause = (previousMs: number | null): IBackoff<IHalfOpenAfterBackoffContext> => ({
    duration: previousMs ?? 0,
    next({ result }) {
      const grown = previousMs === null ? initialPauseMs : Math.min(previousMs * 2, maxPauseMs)
      const duration = Math.max(grown, toRetryAfterMs(result))
      nextProbeAt = Date.now() + duration
      pauseMs = grown
      return { ...pause(grown), duration }
    },
  })

  let inARow = 0
  const consecutive: IBreaker = {
    state: undefined,
    success: () => {
      inARow = 0
    },
    failure: () => {
      inARow++
      return inARow >= failureThreshold || (inARow >= idleFailureThreshold && onTheWay === 0)
    },
  }
  const policy = circuitBreaker(
    // A probe that was aborted must not close the circuit, as cockatiel would have it for an unhandled error.
    handleWhen((error: unknown) => counted.has(error as object) || policy.state === CircuitState.HalfOpen),
    { breaker: consecutive, halfOpenAfter: pause(null) },
  )
  policy.onReset(() => {
    nextProbeAt = null
    inARow = 0
  })

  const isDown = (): boolean => inherited !== null || policy.state !== CircuitState.Closed

  /** What shows that the service lives, a refusal too, is a success to cockatiel: it ends a row of faults. */
  async function settle<T>(
    call: () => Promise<T>,
    subject: CallSubject | undefined,
  ): Promise<SettledCall<T>> {
    const began = history.startCall()
    onTheWay++
    try {
      const value = await call()
      history.recordResponse(subject, isDown())
      return { ok: true, value }
    } catch (error) {
      if (isResponse(error)) {
        history.recordResponse(subject, isDown())
        return { ok: false, error }
      }
      // No input is to blame for a connection that can't be made.
      if (isFault(error) && (!error.maybeSent || history.recordFault(subject, began))) counted.add(error)
      throw error
    } finally {
      onTheWay--
    }
  }

  async function probeInherited<T>(
    outage: InheritedCircuit,
    call: () => Promise<SettledCall<T>>,
  ): Promise<T> {
    if (!outage.canProbe(Date.now())) throw circuitOpenError(outage.probeAt)
    try {
      const outcome = await outage.probe(call)
      inherited = null
      return unwrapOutcome(outcome)
    } catch (error) {
      if (inherited !== null) outage.extendPause(Date.now(), toRetryAfterMs({ error: error as Error }))
      throw error
    }
  }

  return {
    async execute<T>(call: () => Promise<T>, subject?: CallSubject): Promise<T> {
      if (inherited !== null) return probeInherited(inherited, () => settle(call, subject))
      // Cockatiel would make it wait for the probe's outcome, with a permit of the rate limit in its hand.
      if (policy.state === CircuitState.HalfOpen) throw circuitOpenError(nextProbeAt)
      try {
        return unwrapOutcome(await policy.execute(() => settle(call, subject)))
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
    kept() {
      if (inherited !== null) return { probeInMs: inherited.probeAt - Date.now(), pauseMs: inherited.pauseMs }
      return nextProbeAt === null ? null : { probeInMs: nextProbeAt - Date.now(), pauseMs }
    },
    inherit(kept) {
      if (policy.state === CircuitState.Closed) inherited = new InheritedCircuit(kept, Date.now(), maxPauseMs)
    },
    onChange(listener) {
      const subscription = policy.onStateChange((state) => listener(BREAKER_STATES[state]))
      return () => subscription.dispose()
    },
  }
}

type SettledCall<T> = { ok: true; value: T } | { ok: false; error: unknown }

function unwrapOutcome<T>(outcome: SettledCall<T>): T {
  if (outcome.ok) return outcome.value
  throw outcome.error
}

const isFault = (error: unknown): error is ServiceError =>
  error instanceof ServerError ||
  error instanceof UnavailableError ||
  error instanceof TimeoutError ||
  error instanceof ConnectionError ||
  error instanceof MalformedResponseError

const isResponse = (error: unknown): boolean =>
  !isFault(error) && error instanceof ServiceError && error.status !== null

function toRetryAfterMs(reason: FailureReason<unknown>): number {
  const error = 'error' in reason ? reason.error : null
  return error instanceof ServiceError ? (error.retryAfterMs ?? 0) : 0
}

/** While a probe is under way the time of the next is not known; a second keeps callers from spinning. */
function circuitOpenError(nextProbeAt: number | null): CircuitOpenError {
  const wait = Math.max(1_000, (nextProbeAt ?? 0) - Date.now())
  return new CircuitOpenError(
    'not sent: the service has failed too often in a row. It is probed now and then',
    {
      endpoint: 'any',
      maybeSent: false,
      retryAfterMs: wait,
    },
  )
}
