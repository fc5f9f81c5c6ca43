import Bottleneck from 'bottleneck'
import type { CalledEndpoint } from '../../domain/spend.ts'
import { EndpointModels, type ModelOptions } from './endpoint-models.ts'
import type { Priority } from '../../domain/run.ts'
import { AcquireQueue, type CallCounters, Permits, type PendingAcquire } from './permits.ts'
import type { ExhaustedFor, LimitUsage, RateStatus } from '../../domain/rate-status.ts'
import { formatCount, formatDuration } from '../../util/text.ts'
import type { DocumentedLimits } from './documented-limits.ts'
import { AllowanceMeter, untilText } from './state.ts'

export interface LimiterOptions extends Omit<ModelOptions, 'onPersisted' | 'now'> {
  /** The share of the limit that is kept for urgent calls. */
  readonly reserve?: number
}

/** How long after an urgent call another may come. */
const URGENT_WINDOW_MS = 10 * 60_000

/** The limit of setTimeout. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** The epoch by the monotonic clock: the calendar may be set while a window runs, and must not end it. */
const monotonicNow = (): number => performance.timeOrigin + performance.now()

/**
 * Hands out the permits that the model grants. One Bottleneck job is one turn at the queue: it begins with the
 * permit by which the reservoir was raised and takes all that the model grants at that moment, because Bottleneck
 * starts at most 500 jobs a second. Waiters are queued here because Bottleneck cannot remove an aborted job.
 *
 * Rules of Bottleneck 2.19.5: the reservoir starts at 0 and is only raised, never set or refreshed; no minTime, no
 * expiration, no retry in `failed`; stop only with dropWaitingJobs.
 */
export class Limiter {
  readonly #bottleneck = new Bottleneck({ reservoir: 0 })
  readonly #models: EndpointModels
  readonly #queue = new AcquireQueue()
  readonly #allowance = new AllowanceMeter()
  readonly #counters: CallCounters
  readonly #reserve: number
  /** Turns that are queued or have begun; of turns whose permit is in the reservoir, the endpoint that each may call. */
  #queuedTurns = 0
  readonly #fundedTurns: (CalledEndpoint | null)[] = []
  #timer: NodeJS.Timeout | undefined
  #stopped: Promise<void> | null = null
  /** Since then calls wait, and none was granted a permit, or each that was was refused again. */
  #waitingSince: number | null = null
  /** The latest answer was a 429. */
  #isRefused = false
  /** Until then an urgent call may come at any moment. */
  #urgentUntil = Number.NEGATIVE_INFINITY

  constructor(options: LimiterOptions) {
    const { reserve = 0.1 } = options
    const onModelChange = (status?: number): void => this.#onModelChange(status)
    this.#models = new EndpointModels({
      ...options,
      onPersisted: onModelChange,
      now: monotonicNow,
    })
    this.#counters = { models: this.#models, now: monotonicNow, onChange: onModelChange }
    this.#reserve = reserve
  }

  /**
   * Resolves once at least one permit is granted, with all that there are, up to `upTo`. Rejects with the signal's
   * reason when it is aborted, leaving nothing behind.
   * @param endpoint the only one that the permits may call, because it may have a limit of its own
   */
  acquire(
    upTo: number,
    priority: Priority,
    signal?: AbortSignal,
    endpoint: CalledEndpoint | null = null,
  ): Promise<Permits> {
    if (!Number.isInteger(upTo) || upTo < 1)
      throw new RangeError(`acquire needs 1 permit or more, not ${upTo}`)
    if (this.#stopped !== null) return Promise.reject(new Error('the limiter is stopped'))
    if (signal?.aborted === true) return Promise.reject(signal.reason as Error)
    if (priority === 'urgent') this.#urgentUntil = monotonicNow() + URGENT_WINDOW_MS
    const granted = this.#acquireNow(upTo, priority, endpoint)
    if (granted !== null) return Promise.resolve(granted)
    const { promise, resolve, reject } = Promise.withResolvers<Permits>()
    const pending: PendingAcquire = { upTo, priority, endpoint, resolve, reject }
    const onAbort = (): void => {
      this.#queue.remove(pending)
      this.#updateAllowance()
      reject(signal?.reason as Error)
    }
    signal?.addEventListener('abort', onAbort, { once: true })
    this.#queue.add(pending)
    this.#updateAllowance()
    this.#advance()
    return promise.finally(() => signal?.removeEventListener('abort', onAbort))
  }

  state(): RateStatus {
    const now = monotonicNow()
    return {
      ...reportRate(this.#models, this.#queue.endpoints(), this.#allowance, now),
      stalledForMs: this.#waitingSince === null ? null : now - this.#waitingSince,
    }
  }

  /** What the next leader has to know of the documented limits; null: there are none. */
  usage(): LimitUsage | null {
    const { documented } = this.#models
    return documented.limits.length === 0 ? null : documented.usage(monotonicNow(), 0)
  }

  /** How long the next leader must wait with calls. */
  exhaustedFor(): ExhaustedFor {
    return this.#models.exhaustedFor(monotonicNow())
  }

  /** Leaves no timer and no queue; pending acquires are rejected. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  async #stop(): Promise<void> {
    clearTimeout(this.#timer)
    this.#queue.rejectAll(new Error('the limiter was stopped'))
    await this.#bottleneck.stop({ dropWaitingJobs: true })
    await this.#bottleneck.disconnect()
  }

  /** What is granted at once, without the cost of a turn, where nothing else waits; null if the call must wait. */
  #acquireNow(upTo: number, priority: Priority, endpoint: CalledEndpoint | null): Permits | null {
    if (this.#queue.size > 0) return null
    const now = monotonicNow()
    this.#models.onDemand(new Set([endpoint]), now)
    const count = this.#models.grantable(endpoint, upTo, now, this.#reservedShare(priority, now))
    if (count < 1) return null
    this.#models.grant(endpoint, count, now)
    this.#updateAllowance()
    return new Permits(this.#counters, count, endpoint)
  }

  /** Raises the reservoir by one for each pending acquire that the model has a permit for. */
  #advance(): void {
    while (this.#queuedTurns < this.#queue.size) this.#queueTurn()
    const now = monotonicNow()
    /** The endpoints that are granted nothing, each with the share that its first acquire leaves to urgent calls. */
    const blocked = new Map<CalledEndpoint | null, number>()
    for (const { endpoint, priority } of this.#queue.without(this.#fundedTurns)) {
      if (blocked.has(endpoint)) continue
      const share = this.#reservedShare(priority, now)
      if (this.#models.grantable(endpoint, 1, now, share) < 1) blocked.set(endpoint, share)
      else {
        this.#models.grant(endpoint, 1, now)
        this.#fundedTurns.push(endpoint)
        void this.#bottleneck.incrementReservoir(1)
      }
    }
    const times = [...blocked].map(([endpoint, share]) => this.#models.nextCheckAt(endpoint, now, share))
    this.#setTimer(Math.min(...times.map((at) => at ?? Number.POSITIVE_INFINITY)) - now)
  }

  /** Infinite: only an answer can tell when more is granted. The timer keeps the process alive, as a pending call should. */
  #setTimer(waitMs: number): void {
    clearTimeout(this.#timer)
    if (waitMs === Number.POSITIVE_INFINITY) return
    this.#timer = setTimeout(() => this.#advance(), Math.min(MAX_TIMER_MS, Math.max(1, Math.ceil(waitMs))))
  }

  #queueTurn(): void {
    this.#queuedTurns++
    this.#bottleneck
      .schedule(() => this.#serve())
      .catch((error: unknown) => {
        // Only the stop drops a turn.
        if (this.#stopped === null) throw error
      })
  }

  #serve(): Promise<void> {
    this.#queuedTurns--
    const endpoint = this.#fundedTurns.shift() ?? null
    const pending = this.#queue.first(endpoint)
    if (pending === null || this.#stopped !== null) this.#models.release(endpoint, 1)
    else {
      this.#queue.remove(pending)
      const now = monotonicNow()
      const share = this.#reservedShare(pending.priority, now)
      const more = this.#models.grantable(endpoint, pending.upTo - 1, now, share)
      if (more > 0) this.#models.grant(endpoint, more, now)
      if (!this.#isRefused) this.#waitingSince = null
      pending.resolve(new Permits(this.#counters, 1 + more, endpoint))
      this.#updateAllowance()
    }
    this.#advance()
    return Promise.resolve()
  }

  /** The share of a limit that is reserved for urgent calls, if some were made recently, and not granted to others. */
  #reservedShare(priority: Priority, now: number): number {
    return priority !== 'urgent' && now <= this.#urgentUntil ? this.#reserve : 0
  }

  /** A call was sent, answered with a status, or given back. */
  #onModelChange(status?: number): void {
    if (status !== undefined) {
      if (this.#isRefused && status !== 429) this.#waitingSince = null
      this.#isRefused = status === 429
    }
    this.#updateAllowance()
    if (this.#queue.size > this.#fundedTurns.length) this.#advance()
  }

  #updateAllowance(): void {
    const now = monotonicNow()
    const { limit, windowMs } = findLimit(this.#models, now)
    const waiting = this.#queue.endpoints()
    const isBusy = waiting.size > 0 || this.#models.hasPending
    const isWaiting = this.#queue.size > 0 || (this.#isRefused && isBusy)
    this.#waitingSince = isWaiting ? (this.#waitingSince ?? now) : null
    this.#models.onDemand(waiting, now)
    this.#allowance.update(now, isBusy, limit, windowMs)
  }
}

/** The limit to report: what headers state, or else what refusals have shown, or else what the service documents. */
function findLimit(
  { reported: model, documented }: Pick<EndpointModels, 'reported' | 'documented'>,
  now: number,
): Pick<RateStatus, 'limit' | 'windowMs'> {
  if (model.learnt !== null) {
    const { calls, windowMs } = model.learnt
    return { limit: calls, windowMs: Math.round(windowMs) }
  }
  const binding = model.limit === null ? documented.binding(now) : null
  if (!binding) return { limit: model.limit, windowMs: model.windowMs }
  return { limit: binding.limit.calls, windowMs: binding.limit.windowMs }
}

/** The status to report. @param waiting the endpoints for which calls wait */
function reportRate(
  models: EndpointModels,
  waiting: ReadonlySet<CalledEndpoint | null>,
  allowance: AllowanceMeter,
  now: number,
): Omit<RateStatus, 'stalledForMs'> {
  const model = models.reported
  const modelState = model.state(now)
  const binding = models.documented.binding(now)
  const isPaced = binding !== null && model.limit === null && model.learnt === null
  const nextWindowAt = isPaced && modelState !== 'cooldown' ? binding.nextAt : model.nextWindowAt(now)
  const { callsSent: sent } = models
  // Of several limits none says how many calls all of them permit.
  const allowed = models.isByEndpoint ? null : allowance.total(now)
  const permitted = allowed === null ? null : Math.max(sent, allowed)
  const { limit, windowMs } = findLimit(models, now)
  return {
    limit,
    windowMs,
    state: isPaced && (modelState === 'cold' || modelState === 'unlimited') ? 'documented' : modelState,
    used: sent,
    permitted,
    utilisation: permitted === null || permitted === 0 ? null : sent / permitted,
    // A call near the boundary is counted in both windows, so that none is too many: the service counts it in one.
    windowUsed: Math.min(isPaced ? binding.used : model.windowUsed(now), limit ?? Number.POSITIVE_INFINITY),
    nextWindowAt,
    nextWindowInMs: nextWindowAt === null || nextWindowAt <= now ? null : nextWindowAt - now,
    stallReason: describeStall(models, waiting, binding, now),
    throttled: models.throttled,
    sharedKey: model.isShared,
    overstated: models.overstated,
    learnt: models.learnt,
  }
}

function describeStall(
  models: EndpointModels,
  waiting: ReadonlySet<CalledEndpoint | null>,
  binding: ReturnType<DocumentedLimits['binding']>,
  now: number,
): string | null {
  if (waiting.size === 0) return null
  const [stalled = null] = [...waiting].flatMap((endpoint) => models.stallReason(endpoint, now) ?? [])
  if (stalled !== null || binding === null || binding.used < binding.limit.calls) return stalled
  const { calls, windowMs } = binding.limit
  const until = binding.nextAt === null ? '' : untilText(binding.nextAt)
  return `the documented limit of ${formatCount(calls)} calls in ${formatDuration(windowMs)} is used up: waiting${until}`
}
