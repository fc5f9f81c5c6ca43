import Bottleneck from 'bottleneck'
import { ExhaustionRecord, type PersistExhaustion } from './exhaustion.ts'
import { RateLimitModel } from './model.ts'
import { AcquireQueue, Permits, type PendingAcquire, type Priority } from './permits.ts'
import type { KnownLimit, RateStatus } from '../../domain/rate-status.ts'
import { AllowanceMeter } from './state.ts'

export type { Permits, Priority } from './permits.ts'

export interface LimiterOptions {
  /** Milliseconds since the epoch, never going back. */
  readonly now?: () => number
  readonly warm?: KnownLimit | null
  /** How long the previous leader may have exhausted the limit, in milliseconds. */
  readonly exhaustedForMs?: number
  /** The previous leader was banned by the service. */
  readonly wasBanned?: boolean
  /** Without it, the next leader does not learn that the limit is exhausted. */
  readonly persistExhaustion?: PersistExhaustion
  /** The share of the limit that is kept for urgent calls. */
  readonly reserve?: number
  /** The limit or its window became known, or has changed. */
  readonly onChange?: (known: KnownLimit) => void
}

export interface Limiter {
  /**
   * Resolves once at least one permit is granted, with as many as there are, up to `upTo`. Rejects with the signal's
   * reason when it is aborted, leaving nothing behind.
   */
  acquire(upTo: number, priority: Priority, signal?: AbortSignal): Promise<Permits>
  state(): RateStatus
  /** Milliseconds until the next leader may call; null if capacity is left. */
  exhaustedForMs(): number | null
  /** Leaves no timer and no queue; pending acquires are rejected. */
  stop(): Promise<void>
}

/** What was known this long ago is not believed, in milliseconds: a week. */
const WARM_STATE_TTL_MS = 7 * 24 * 60 * 60_000

/** How often an unchanged limit is reported, and how long after an urgent call another may be expected. */
const REPORT_INTERVAL_MS = 10 * 60_000
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
  readonly #model: RateLimitModel
  readonly #queue = new AcquireQueue()
  readonly #allowance = new AllowanceMeter()
  readonly #exhaustion: ExhaustionRecord
  readonly #reserve: number
  readonly #onChange: ((known: KnownLimit) => void) | undefined
  /** Turns queued or begun, and of these the ones whose permit is in the reservoir. */
  #queuedTurns = 0
  #fundedTurns = 0
  #timer: NodeJS.Timeout | undefined
  #stopped: Promise<void> | null = null
  #lastReported: KnownLimit | null = null
  /** Since then calls wait, and none was granted a permit. */
  #waitingSince: number | null = null
  /** Until then an urgent call may come at any moment. */
  #urgentUntil = Number.NEGATIVE_INFINITY

  constructor(options: LimiterOptions) {
    this.#now = options.now ?? monotonic
    this.#onChange = options.onChange
    const now = this.#now()
    const { warm = null, exhaustedForMs = 0, persistExhaustion = null } = options
    const isOutdated = warm === null || now - warm.observedAt > WARM_STATE_TTL_MS
    const exhaustedUntil = exhaustedForMs > 0 ? now + exhaustedForMs : null
    this.#model = new RateLimitModel(isOutdated ? null : warm, exhaustedUntil, options.wasBanned)
    this.#exhaustion = new ExhaustionRecord(this.#model, persistExhaustion, () => this.#onModelChange())
    this.#reserve = options.reserve ?? 0.1
  }

  acquire(upTo: number, priority: Priority, signal?: AbortSignal): Promise<Permits> {
    if (!Number.isInteger(upTo) || upTo < 1)
      throw new RangeError(`acquire needs 1 permit or more, not ${upTo}`)
    if (this.#stopped !== null) return Promise.reject(new Error('the limiter is stopped'))
    if (signal?.aborted === true) return Promise.reject(signal.reason as Error)
    const granted = this.#acquireNow(upTo)
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
      if (priority === 'urgent') this.#urgentUntil = this.#now() + URGENT_WINDOW_MS
      this.#updateAllowance()
      this.#advance()
    })
  }

  state(): RateStatus {
    const now = this.#now()
    const { limit, windowMs, windowAtMostMs, calls, throttled, isShared } = this.#model
    const nextWindowAt = this.#model.nextWindowAt(now)
    const allowed = this.#allowance.total(now)
    const permitted = allowed === null ? null : Math.max(calls.sent, allowed)
    return {
      state: this.#model.state(now),
      limit,
      windowMs,
      windowAtMostMs,
      used: calls.sent,
      permitted,
      utilisation: permitted === null || permitted === 0 ? null : calls.sent / permitted,
      windowUsed: this.#model.windowUsed(now),
      nextWindowAt,
      nextWindowInMs: nextWindowAt === null || nextWindowAt <= now ? null : nextWindowAt - now,
      stallReason: this.#queue.size === 0 ? null : this.#model.stallReason(now),
      stalledForMs: this.#waitingSince === null ? null : now - this.#waitingSince,
      throttled,
      sharedKey: isShared,
    }
  }

  exhaustedForMs(): number | null {
    return this.#model.exhaustedForMs(this.#now())
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

  /** As many permits as are requested; null if the call must wait. Without a limit there is nothing to hand out in turn, and no call should wait for Bottleneck's timers. */
  #acquireNow(upTo: number): Permits | null {
    const now = this.#now()
    if (this.#stopped !== null || this.#queue.size > 0 || this.#model.state(now) !== 'unlimited') return null
    this.#model.grant(upTo, now)
    this.#updateAllowance()
    return this.#createPermits(upTo)
  }

  /** Raises the reservoir by one for each pending acquire that the model has a permit for. */
  #advance(): void {
    while (this.#queuedTurns < this.#queue.size) this.#queueTurn()
    const now = this.#now()
    while (
      this.#fundedTurns < this.#queue.size &&
      this.#grantable(this.#queue.at(this.#fundedTurns), 1, now) >= 1
    ) {
      this.#model.grant(1, now)
      this.#fundedTurns++
      void this.#bottleneck.incrementReservoir(1)
    }
    this.#setTimer(now)
  }

  #createPermits(count: number): Permits {
    return new Permits(this.#model, count, this.#now, () => this.#onModelChange())
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
    this.#fundedTurns--
    const now = this.#now()
    const pending = this.#queue.at(0)
    if (pending === null || this.#stopped !== null) {
      this.#model.release(1)
    } else {
      this.#queue.remove(pending)
      const more = this.#grantable(pending, pending.upTo - 1, now)
      if (more > 0) this.#model.grant(more, now)
      this.#waitingSince = null
      pending.resolve(this.#createPermits(1 + more))
      this.#updateAllowance()
    }
    this.#advance()
    return Promise.resolve()
  }

  /**
   * How many of `wanted` calls may be granted to this acquire. If urgent calls were made recently, a share of the limit
   * is reserved for them; it is released as the window passes, so that none of it is wasted.
   */
  #grantable(pending: PendingAcquire | null, wanted: number, now: number): number {
    const { limit } = this.#model
    const isReserved = limit !== null && pending?.priority !== 'urgent' && now <= this.#urgentUntil
    const reserved = isReserved ? Math.floor(this.#reserve * limit * this.#model.windowLeft(now)) : 0
    // No more than is wanted would be spent: only if that is most of what is left it has to be persisted.
    return this.#exhaustion.limit(Math.min(wanted, this.#model.grantable(now, reserved)), now)
  }

  /** A call was sent, answered or given back. */
  #onModelChange(): void {
    this.#updateAllowance()
    const { limit, windowMs } = this.#model
    if (limit !== null) this.#report({ limit, windowMs, observedAt: this.#now() })
    if (this.#queue.size > this.#fundedTurns) this.#advance()
  }

  /** Reports a changed limit, and an unchanged one every ten minutes. */
  #report(known: KnownLimit): void {
    const last = this.#lastReported
    const isSame =
      last !== null &&
      last.limit === known.limit &&
      Math.abs((last.windowMs ?? 0) - (known.windowMs ?? 0)) <= 0.02 * (known.windowMs ?? 0) &&
      known.observedAt - last.observedAt < REPORT_INTERVAL_MS
    if (isSame) return
    this.#lastReported = known
    this.#onChange?.(known)
  }

  #updateAllowance(): void {
    const { calls, limit, windowMs } = this.#model
    const now = this.#now()
    const isBusy = this.#queue.size > 0 || calls.hasPending
    this.#waitingSince = this.#queue.size === 0 ? null : (this.#waitingSince ?? now)
    this.#model.onDemand(isBusy, now)
    this.#allowance.update(now, isBusy, limit, windowMs)
  }

  /** Only while an acquire is pending. The timer keeps the process alive, as a pending call should. */
  #setTimer(now: number): void {
    clearTimeout(this.#timer)
    if (this.#queue.size <= this.#fundedTurns) return
    const isReserved = now <= this.#urgentUntil && this.#model.grantable(now) > 0
    const at = isReserved ? now + RESERVE_POLL_MS : this.#model.nextCheckAt(now)
    if (at === null) return
    const wait = Math.min(MAX_TIMER_MS, Math.max(1, Math.ceil(at - now)))
    this.#timer = setTimeout(() => this.#advance(), wait)
  }
}
