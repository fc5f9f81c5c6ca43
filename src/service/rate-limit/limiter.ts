import Bottleneck from 'bottleneck'
import type { CalledEndpoint } from '../../domain/spend.ts'
import { DocumentedLimits, type DocumentedOptions } from './documented-limits.ts'
import { EndpointModels, type ModelOptions } from './endpoint-models.ts'
import type { Priority } from '../../domain/run.ts'
import { AcquireQueue, type CallCounters, Permits, type PendingAcquire } from './permits.ts'
import type { ExhaustedFor, KnownLimit, LimitUsage, RateStatus } from '../../domain/rate-status.ts'
import { ChangeReporter, findLimit, reportRate } from './report.ts'
import { AllowanceMeter } from './state.ts'

export type { Permits } from './permits.ts'

export interface LimiterOptions {
  /** Milliseconds since the epoch, never going back. */
  readonly now?: () => number
  readonly warm?: KnownLimit | null
  /** How long the previous leader may have exhausted limits. */
  readonly exhaustedFor?: ExhaustedFor
  readonly previous?: ModelOptions['previous']
  /** Without it, the next leader does not learn that a limit is exhausted. */
  readonly persistExhaustion?: ModelOptions['persistExhaustion']
  /** Limits in addition to the limits in headers; the stricter one holds. Default: none. */
  readonly documented?: DocumentedOptions
  /** The share of the limit that is kept for urgent calls. */
  readonly reserve?: number
  /** The limit or its window became known, or has changed. */
  readonly onChange?: (known: KnownLimit) => void
}

export interface Limiter {
  /**
   * Resolves once at least one permit is granted, with as many as there are, up to `upTo`. Rejects with the signal's
   * reason when it is aborted, leaving nothing behind.
   * @param endpoint the only one that the permits may call, because it may have a limit of its own
   */
  acquire(
    upTo: number,
    priority: Priority,
    signal?: AbortSignal,
    endpoint?: CalledEndpoint | null,
  ): Promise<Permits>
  state(): RateStatus
  /** How long the next leader must wait with calls. */
  exhaustedFor(): ExhaustedFor
  /** What the next leader has to know of the documented limits; null: there are none. */
  usage(): LimitUsage | null
  /** Leaves no timer and no queue; pending acquires are rejected. */
  stop(): Promise<void>
}

/** What was known this long ago is not believed, in milliseconds: a week. */
const WARM_STATE_TTL_MS = 7 * 24 * 60 * 60_000

/** How long after an urgent call another may come. */
const URGENT_WINDOW_MS = 10 * 60_000

/** How often the reserve for urgent calls is computed anew. */
const RESERVE_POLL_MS = 50

/** The limit of setTimeout. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** The epoch by the monotonic clock: the calendar may be set while a window runs, and must not end it. */
const monotonic = (): number => performance.timeOrigin + performance.now()

export function createLimiter(options: LimiterOptions): Limiter {
  return new BottleneckLimiter(options)
}

/**
 * Hands out the permits that the model grants. One Bottleneck job is one turn: it begins with the one permit by which the
 * reservoir was raised, and takes what else the model grants at that moment, because Bottleneck starts at most 500 jobs a
 * second. Waiters are queued here because Bottleneck cannot remove an aborted job. Each turn serves the head of this
 * queue.
 *
 * Rules because of Bottleneck 2.19.5: the reservoir starts at 0 and is only ever raised, never set and never refreshed;
 * no minTime, no expiration, no retry in `failed`; stop only with dropWaitingJobs.
 */
class BottleneckLimiter implements Limiter {
  readonly #now: () => number
  readonly #bottleneck = new Bottleneck({ reservoir: 0 })
  readonly #models: EndpointModels
  readonly #queue = new AcquireQueue()
  readonly #allowance = new AllowanceMeter()
  readonly #documented: DocumentedLimits | null
  readonly #counters: CallCounters
  readonly #reserve: number
  readonly #reporter: ChangeReporter
  /** Turns that are queued or have begun, and those of them whose permit is in the reservoir, each with the endpoints that it may call. */
  #queuedTurns = 0
  readonly #fundedTurns: (CalledEndpoint | null)[] = []
  #timer: NodeJS.Timeout | undefined
  #stopped: Promise<void> | null = null
  /** Since then calls wait, and none was granted a permit. */
  #waitingSince: number | null = null
  /** Until then an urgent call may come at any moment. */
  #urgentUntil = Number.NEGATIVE_INFINITY

  constructor(options: LimiterOptions) {
    this.#now = options.now ?? monotonic
    this.#reporter = new ChangeReporter(options.onChange)
    const now = this.#now()
    const { warm = null, exhaustedFor = {}, previous = {}, persistExhaustion = null } = options
    this.#documented = DocumentedLimits.open(options.documented, this.#now, () => this.#onModelChange())
    // Beside a documented limit the last known one is most likely that, and no reason for a slower start.
    const isOutdated = warm === null || this.#documented !== null || now - warm.observedAt > WARM_STATE_TTL_MS
    this.#models = new EndpointModels({
      warm: isOutdated ? null : warm,
      exhaustedFor,
      previous,
      persistExhaustion,
      onPersisted: () => this.#onModelChange(),
      now: this.#now,
    })
    this.#counters = {
      models: this.#models,
      documented: this.#documented,
      now: this.#now,
      onChange: () => this.#onModelChange(),
    }
    this.#reserve = options.reserve ?? 0.1
  }

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
    if (priority === 'urgent') this.#urgentUntil = this.#now() + URGENT_WINDOW_MS
    const granted = this.#acquireNow(upTo, { endpoint, priority })
    if (granted !== null) return Promise.resolve(granted)
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        this.#queue.remove(pending)
        this.#updateAllowance()
        reject(signal?.reason as Error)
      }
      const pending: PendingAcquire = {
        upTo,
        priority,
        endpoint,
        resolve: (permits) => {
          signal?.removeEventListener('abort', onAbort)
          resolve(permits)
        },
        reject: (reason) => {
          signal?.removeEventListener('abort', onAbort)
          reject(reason)
        },
      }
      signal?.addEventListener('abort', onAbort, { once: true })
      this.#queue.add(pending)
      this.#updateAllowance()
      this.#advance()
    })
  }

  state(): RateStatus {
    const now = this.#now()
    return {
      ...reportRate(this.#models, this.#queue.endpoints(), this.#documented, this.#allowance, now),
      stalledForMs: this.#waitingSince === null ? null : now - this.#waitingSince,
    }
  }

  usage(): LimitUsage | null {
    return this.#documented?.usage(this.#now(), 0) ?? null
  }

  exhaustedFor(): ExhaustedFor {
    return this.#models.exhaustedFor(this.#now())
  }

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
  #acquireNow(upTo: number, head: Pick<PendingAcquire, 'endpoint' | 'priority'>): Permits | null {
    if (this.#queue.size > 0) return null
    const now = this.#now()
    this.#models.onDemand(new Set([head.endpoint]), now)
    const count = this.#grantable(head, upTo, now)
    if (count < 1) return null
    this.#grant(count, head.endpoint, now)
    this.#updateAllowance()
    return new Permits(this.#counters, count, head.endpoint)
  }

  /** Raises the reservoir by one for each pending acquire that the model has a permit for. */
  #advance(): void {
    while (this.#queuedTurns < this.#queue.size) this.#queueTurn()
    const now = this.#now()
    const blocked = new Set<CalledEndpoint | null>()
    for (const { endpoint, priority } of this.#queue.without(this.#fundedTurns)) {
      if (blocked.has(endpoint)) continue
      if (this.#grantable({ endpoint, priority }, 1, now) < 1) blocked.add(endpoint)
      else {
        this.#grant(1, endpoint, now)
        this.#fundedTurns.push(endpoint)
        void this.#bottleneck.incrementReservoir(1)
      }
    }
    this.#setTimer(now)
  }

  #grant(count: number, endpoint: CalledEndpoint | null, now: number): void {
    this.#models.grant(endpoint, count, now)
    this.#documented?.grant(endpoint, count)
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
    const now = this.#now()
    const pending = this.#queue.first(endpoint)
    if (pending === null || this.#stopped !== null) {
      this.#models.release(endpoint, 1)
      this.#documented?.release(endpoint, 1)
    } else {
      this.#queue.remove(pending)
      const more = this.#grantable(pending, pending.upTo - 1, now)
      if (more > 0) this.#grant(more, endpoint, now)
      this.#waitingSince = null
      pending.resolve(new Permits(this.#counters, 1 + more, endpoint))
      this.#updateAllowance()
    }
    this.#advance()
    return Promise.resolve()
  }

  /**
   * How many of `wanted` calls may be granted to this acquire. If urgent calls were made recently, a share of the limit
   * is reserved for them; it is released as the window passes, so that none of it is wasted.
   */
  #grantable(pending: Pick<PendingAcquire, 'endpoint' | 'priority'>, wanted: number, now: number): number {
    const share = this.#reservedShare(pending, now)
    const granted = this.#models.grantable(pending.endpoint, wanted, now, share)
    return this.#documented?.limit(granted, pending.endpoint, now, share) ?? granted
  }

  /** The share of a limit that this acquire leaves to urgent ones. */
  #reservedShare({ priority }: Pick<PendingAcquire, 'priority'>, now: number): number {
    return priority !== 'urgent' && now <= this.#urgentUntil ? this.#reserve : 0
  }

  /** A call was sent, answered or given back. */
  #onModelChange(): void {
    this.#updateAllowance()
    const now = this.#now()
    const { limit, ...rest } = findLimit(this.#models, this.#documented, now)
    if (limit !== null) this.#reporter.report({ limit, ...rest, observedAt: now })
    if (this.#queue.size > this.#fundedTurns.length) this.#advance()
  }

  #updateAllowance(): void {
    const now = this.#now()
    const { limit, windowMs } = findLimit(this.#models, this.#documented, now)
    const waiting = this.#queue.endpoints()
    const isBusy = waiting.size > 0 || this.#models.hasPending
    this.#waitingSince = this.#queue.size === 0 ? null : (this.#waitingSince ?? now)
    this.#models.onDemand(waiting, now)
    this.#allowance.update(now, isBusy, limit, windowMs)
  }

  /** Only while an acquire is pending. The timer keeps the process alive, as a pending call should. */
  #setTimer(now: number): void {
    clearTimeout(this.#timer)
    if (this.#queue.size <= this.#fundedTurns.length) return
    // The first of each endpoint counts.
    const heads = new Map(
      this.#queue
        .without(this.#fundedTurns)
        .toReversed()
        .map((pending) => [pending.endpoint, pending]),
    )
    const times = [...heads.values()].map((head) => this.#nextCheckAt(head, now) ?? Number.POSITIVE_INFINITY)
    const at = Math.min(...times)
    if (at === Number.POSITIVE_INFINITY) return
    const wait = Math.min(MAX_TIMER_MS, Math.max(1, Math.ceil(at - now)))
    this.#timer = setTimeout(() => this.#advance(), wait)
  }

  /** When more may be granted by the passing of time; null if only an answer can tell. */
  #nextCheckAt(head: PendingAcquire, now: number): number | null {
    const { endpoint } = head
    const share = this.#reservedShare(head, now)
    if (this.#documented !== null && this.#documented.grantable(endpoint, now, share) < 1)
      return this.#documented.nextAt(endpoint, now, share)
    const isReserved = now <= this.#urgentUntil && this.#models.grantable(endpoint, 1, now) > 0
    return isReserved ? now + RESERVE_POLL_MS : this.#models.nextCheckAt(endpoint, now)
  }
}
