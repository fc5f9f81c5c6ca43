import Bottleneck from 'bottleneck'
import type { KnownLimit, RateState } from './rate-state.ts'
import { Permitted } from './quota/permitted.ts'
import { Permits } from './quota/permits.ts'
import { Quota } from './quota/quota.ts'
import { SpentNote } from './quota/spent-note.ts'
import type { KeepSpent } from './quota/spent-note.ts'
import { WaitingList } from './quota/waiting-list.ts'
import type { Priority, Waiting } from './quota/waiting-list.ts'

export type { KnownLimit, RateState } from './rate-state.ts'
export type { Priority } from './quota/waiting-list.ts'
export type { Permits } from './quota/permits.ts'

export interface LimiterOptions {
  /** Calls under way at once; the pump bounds them too, so this is only a hint. */
  readonly concurrency: number
  /** Milliseconds since the epoch, never going back. */
  readonly now?: () => number
  readonly warm?: KnownLimit | null
  /** For so long from now the process that called before may have used the limit up, in milliseconds. */
  readonly spentForMs?: number
  /** The process that called before was banned by the service. */
  readonly wasBanned?: boolean
  /** Without it, nobody is told that the limit is used up. */
  readonly keepSpent?: KeepSpent
  /** The share of the quota that is kept for what is urgent. */
  readonly reserve?: number
  /** The limit or its window was learnt, or has changed. */
  readonly onChange?: (known: KnownLimit) => void
}

export interface Limiter {
  /**
   * Resolves when at least one permit is granted, with as many as there are, up to `upTo`. Rejects with the
   * signal's reason when it is aborted, leaving nothing behind.
   */
  acquire(upTo: number, priority: Priority, signal?: AbortSignal): Promise<Permits>
  /** As many permits as there are at this moment, up to `upTo`; null where whoever asks must wait. */
  acquireNow(upTo: number): Permits | null
  state(): RateState
  /** For how long nothing may be left for whoever calls next, in milliseconds; null where something is. */
  spentForMs(): number | null
  /** Leaves no timer and no queue; whoever waits is rejected. */
  stop(): Promise<void>
}

/** The epoch by the monotonic clock: the calendar may be set while a window runs, and must not end it. */
const monotonic = (): number => performance.timeOrigin + performance.now()

export function createLimiter(options: LimiterOptions): Limiter {
  return new BottleneckLimiter(options)
}

/**
 * Hands out the permits that the quota grants. One Bottleneck job is one turn: it begins with the one permit
 * that the reservoir was raised by, and takes what else the quota grants at that moment, because Bottleneck starts
 * no more than 500 jobs a second. Who waits is kept here and not in Bottleneck's queue, from which an aborted
 * acquire could not be taken out again; a turn serves whoever is first when it begins.
 *
 * Rules that Bottleneck 2.19.5 made: the reservoir starts at 0 and is only ever raised, never set and never
 * refreshed; no minTime, no expiration, no retry in `failed`; stop only with dropWaitingJobs.
 */
class BottleneckLimiter implements Limiter {
  readonly #now: () => number
  readonly #bottleneck = new Bottleneck({ reservoir: 0 })
  readonly #quota: Quota
  readonly #waiting = new WaitingList()
  readonly #permitted = new Permitted()
  readonly #spent: SpentNote
  readonly #reserve: number
  readonly #onChange: ((known: KnownLimit) => void) | undefined
  /** Turns queued or begun, and of these the ones whose permit is in the reservoir. */
  #turns = 0
  #paid = 0
  #timer: NodeJS.Timeout | null = null
  #stopped: Promise<void> | null = null
  #told: KnownLimit | null = null
  /** Since then calls wait, and none was granted a permit. */
  #waitsSince: number | null = null
  /** Until then something urgent may come at any moment. */
  #urgentUntil = Number.NEGATIVE_INFINITY

  constructor(options: LimiterOptions) {
    this.#now = options.now ?? monotonic
    this.#onChange = options.onChange
    const now = this.#now()
    const isLate = options.warm == null || now - options.warm.observedAt > believedFor
    const { spentForMs = 0 } = options
    this.#quota = new Quota(
      isLate ? null : options.warm,
      spentForMs > 0 ? now + spentForMs : null,
      options.wasBanned,
    )
    this.#spent = new SpentNote(this.#quota, options.keepSpent ?? null, () => this.#changed())
    this.#reserve = options.reserve ?? 0.1
  }

  acquire(upTo: number, priority: Priority, signal?: AbortSignal): Promise<Permits> {
    if (!Number.isInteger(upTo) || upTo < 1)
      throw new RangeError(`acquire needs 1 permit or more, not ${upTo}`)
    if (this.#stopped !== null) return Promise.reject(new Error('the limiter is stopped'))
    if (signal?.aborted === true) return Promise.reject(signal.reason as Error)
    const granted = this.acquireNow(upTo)
    if (granted !== null) return Promise.resolve(granted)
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        this.#waiting.remove(waiting)
        this.#note()
        reject(signal?.reason as Error)
      }
      const waiting: Waiting = {
        upTo,
        priority,
        serve: (permits) => {
          signal?.removeEventListener('abort', onAbort)
          resolve(permits)
        },
        refuse: (reason) => {
          signal?.removeEventListener('abort', onAbort)
          reject(reason)
        },
      }
      signal?.addEventListener('abort', onAbort, { once: true })
      this.#waiting.add(waiting)
      if (priority === 'urgent') this.#urgentUntil = this.#now() + urgentFor
      this.#note()
      this.#advance()
    })
  }

  /** Without a limit there is nothing to hand out in turn, and no call should wait for Bottleneck's timers. */
  acquireNow(upTo: number): Permits | null {
    const now = this.#now()
    if (this.#stopped !== null || this.#waiting.count > 0 || this.#quota.state(now) !== 'unlimited')
      return null
    this.#quota.grant(upTo, now)
    this.#note()
    return this.#permitsOf(upTo)
  }

  state(): RateState {
    const now = this.#now()
    const { limit, windowMs, windowAtMostMs, calls, throttled, isShared } = this.#quota
    const nextWindowAt = this.#quota.nextWindowAt(now)
    const allowed = this.#permitted.calls(now)
    const permitted = allowed === null ? null : Math.max(calls.sent, allowed)
    return {
      state: this.#quota.state(now),
      limit,
      windowMs,
      windowAtMostMs,
      used: calls.sent,
      permitted,
      utilisation: permitted === null || permitted === 0 ? null : calls.sent / permitted,
      windowUsed: this.#quota.windowUsed(now),
      nextWindowAt,
      nextWindowInMs: nextWindowAt === null || nextWindowAt <= now ? null : nextWindowAt - now,
      waiting: this.#waiting.count === 0 ? null : this.#quota.whyNot(now),
      waitingForMs: this.#waitsSince === null ? null : now - this.#waitsSince,
      throttled,
      foreign: isShared,
    }
  }

  spentForMs(): number | null {
    const now = this.#now()
    const { limit, calls } = this.#quota
    const free = this.#quota.free(now)
    if (limit === null || free === null || (free >= 1 && !calls.isMoving)) return null
    const until = this.#quota.spentUntil(now)
    return until === null ? null : Math.max(1, until - now)
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  async #stop(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    this.#waiting.refuseAll(new Error('the limiter was stopped'))
    await this.#bottleneck.stop({ dropWaitingJobs: true })
    await this.#bottleneck.disconnect()
  }

  /** Raises the reservoir by one for each waiting acquire that the quota has a permit for. */
  #advance(): void {
    if (this.#stopped !== null) return
    while (this.#turns < this.#waiting.count) this.#queueTurn()
    const now = this.#now()
    while (this.#paid < this.#waiting.count && this.#grantable(this.#waiting.at(this.#paid), 1, now) >= 1) {
      this.#quota.grant(1, now)
      this.#paid++
      void this.#bottleneck.incrementReservoir(1)
    }
    this.#setTimer(now)
  }

  #permitsOf(count: number): Permits {
    return new Permits(this.#quota, count, this.#now, () => this.#changed())
  }

  #queueTurn(): void {
    this.#turns++
    this.#bottleneck
      .schedule(() => this.#turn())
      .catch((error: unknown) => {
        // Only the stop drops a turn.
        if (this.#stopped === null) throw error
      })
  }

  #turn(): Promise<void> {
    this.#turns--
    this.#paid--
    const now = this.#now()
    const waiting = this.#waiting.first
    if (waiting === null || this.#stopped !== null) {
      this.#quota.giveBack(1)
    } else {
      this.#waiting.remove(waiting)
      const more = this.#grantable(waiting, waiting.upTo - 1, now)
      if (more > 0) this.#quota.grant(more, now)
      this.#waitsSince = null
      waiting.serve(this.#permitsOf(1 + more))
      this.#note()
    }
    this.#advance()
    return Promise.resolve()
  }

  /**
   * What may be granted to this one, of what it wants. Where urgent calls were made lately, a share of the limit is kept for them;
   * as the window passes, what was kept is given out, so that none of it is wasted.
   */
  #grantable(waiting: Waiting | null, wanted: number, now: number): number {
    const { limit } = this.#quota
    const isKept = limit !== null && waiting?.priority !== 'urgent' && now <= this.#urgentUntil
    const kept = isKept ? Math.floor(this.#reserve * limit * this.#quota.windowLeft(now)) : 0
    // Of what is free, not more than is wanted would be spent: a note is due when that is most of it.
    return this.#spent.permits(Math.min(wanted, this.#quota.grantable(now, kept)), now)
  }

  /** Something was sent, answered or given back. */
  #changed(): void {
    this.#note()
    const { limit, windowMs } = this.#quota
    if (limit !== null) this.#tell({ limit, windowMs, observedAt: this.#now() })
    if (this.#waiting.count > this.#paid) this.#advance()
  }

  /** Tells what is new, and now and then that it still holds. */
  #tell(known: KnownLimit): void {
    const told = this.#told
    const isSame =
      told !== null &&
      told.limit === known.limit &&
      Math.abs((told.windowMs ?? 0) - (known.windowMs ?? 0)) <= 0.02 * (known.windowMs ?? 0) &&
      known.observedAt - told.observedAt < toldAgainAfter
    if (isSame) return
    this.#told = known
    this.#onChange?.(known)
  }

  #note(): void {
    const { calls, limit, windowMs } = this.#quota
    const now = this.#now()
    const isBusy = this.#waiting.count > 0 || calls.isMoving
    this.#waitsSince = this.#waiting.count === 0 ? null : (this.#waitsSince ?? now)
    this.#quota.wanted(isBusy, now)
    this.#permitted.note(now, isBusy, limit, windowMs)
  }

  /** While nobody waits there is nothing to wake for. The timer keeps the process alive, as a waiting call should. */
  #setTimer(now: number): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    if (this.#waiting.count <= this.#paid) return
    const isKept = now <= this.#urgentUntil && this.#quota.grantable(now) > 0
    const at = isKept ? now + keptFor : this.#quota.nextLook(now)
    if (at === null) return
    const wait = Math.min(longestTimer, Math.max(1, Math.ceil(at - now)))
    this.#timer = setTimeout(() => this.#advance(), wait)
  }
}

/** What was known of a limit so long ago is not believed, in milliseconds: a week. */
const believedFor = 7 * 24 * 60 * 60_000

/** In milliseconds; and how long after an urgent call another may be expected. */
const toldAgainAfter = 10 * 60_000
const urgentFor = 10 * 60_000

/** What is kept for urgent calls is looked at again so often, in milliseconds. */
const keptFor = 50

/** setTimeout takes no more than 2^31 - 1 ms. */
const longestTimer = 2 ** 31 - 1
