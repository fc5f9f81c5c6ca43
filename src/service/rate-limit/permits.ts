import type { CalledEndpoint } from '../../domain/spend.ts'
import type { RequestObserver, ResponseHead } from '../exchange.ts'
import type { Call } from './call-ledger.ts'
import type { DocumentedLimits } from './documented-limits.ts'
import type { RateLimitModel } from './model.ts'

/** The observer of one call, which also learns when the call is over without having been sent. */
export interface PermittedCall extends RequestObserver {
  /**
   * The call is over. Gives its permit back if nothing was sent (an open circuit, a refused connection); does nothing
   * otherwise, and nothing the second time.
   */
  end(): void
}

/** What counts the calls of a limiter. */
export interface CallCounters {
  readonly model: RateLimitModel
  /** Null: the service documents no limit. */
  readonly documented: DocumentedLimits | null
  readonly now: () => number
  /** A call was sent, answered or given back. */
  readonly onChange: () => void
}

/** Calls that may be made now. */
export class Permits {
  readonly count: number
  readonly #counters: CallCounters
  readonly #endpoint: CalledEndpoint | null
  #unused: number

  /** @param endpoint the only one that they may call; null: the limits are the same for all */
  constructor(counters: CallCounters, count: number, endpoint: CalledEndpoint | null = null) {
    this.count = count
    this.#counters = counters
    this.#endpoint = endpoint
    this.#unused = count
  }

  /**
   * One call.
   * @throws Error when all permits are used or given back
   */
  use(): PermittedCall {
    if (this.#unused === 0) throw new Error(`all ${this.count} permits are used`)
    this.#unused--
    return new ObservedCall(this.#counters, this.#endpoint)
  }

  /** Gives back those that are not used. Does nothing the second time. */
  release(): void {
    if (this.#unused === 0) return
    this.#counters.model.release(this.#unused)
    this.#counters.documented?.release(this.#endpoint, this.#unused)
    this.#unused = 0
    this.#counters.onChange()
  }
}

/** Uses the limiter's clock, not the times that are passed in: those are the calendar's, which may be set meanwhile. */
class ObservedCall implements PermittedCall {
  banMs = 0
  readonly #counters: CallCounters
  readonly #endpoint: CalledEndpoint | null
  #call: Call | null = null
  #isOver = false

  constructor(counters: CallCounters, endpoint: CalledEndpoint | null) {
    this.#counters = counters
    this.#endpoint = endpoint
  }

  sent(): void {
    if (this.#call !== null || this.#isOver) return
    this.#call = this.#counters.model.sent(this.#counters.now())
  }

  answered(answer: ResponseHead): void {
    this.sent()
    if (this.#call === null || this.#isOver) return
    const { model } = this.#counters
    this.#isOver = true
    model.answered(this.#call, answer, this.#counters.now())
    if (answer.status === 403 && model.isBanned)
      this.banMs = Math.max(1, model.cooldownMs(this.#counters.now()))
    this.#complete()
  }

  lost(): void {
    if (this.#isOver) return
    if (this.#call === null) return this.end()
    this.#isOver = true
    this.#counters.model.lost(this.#call, this.#counters.now())
    this.#complete()
  }

  end(): void {
    if (this.#isOver || this.#call !== null) return
    const { model, documented, onChange } = this.#counters
    this.#isOver = true
    model.release(1)
    documented?.release(this.#endpoint, 1)
    onChange()
  }

  #complete(): void {
    const { documented, now, onChange } = this.#counters
    documented?.complete(this.#endpoint, now())
    onChange()
  }
}

/** Who is served first: live sync, then a nightly run, then a backfill. */
export type Priority = 'urgent' | 'normal' | 'low'

const ORDER: readonly Priority[] = ['urgent', 'normal', 'low']

export interface PendingAcquire {
  readonly upTo: number
  readonly priority: Priority
  /** What is to be called; null: anything. */
  readonly endpoint: CalledEndpoint | null
  readonly resolve: (permits: Permits) => void
  readonly reject: (reason: Error) => void
}

/** Acquires that wait for permits, by priority and then in the order of arrival. */
export class AcquireQueue {
  readonly #queues: Record<Priority, Set<PendingAcquire>> = {
    urgent: new Set(),
    normal: new Set(),
    low: new Set(),
  }

  get size(): number {
    return ORDER.reduce((size, priority) => size + this.#queues[priority].size, 0)
  }

  /** The one of an endpoint that is served after `index` others of it; null if there are not as many. */
  at(index: number, endpoint: CalledEndpoint | null): PendingAcquire | null {
    let left = index
    for (const priority of ORDER) {
      for (const pending of this.#queues[priority]) {
        if (pending.endpoint !== endpoint) continue
        if (left === 0) return pending
        left--
      }
    }
    return null
  }

  /** What the acquires want to call, in their order. */
  endpoints(): (CalledEndpoint | null)[] {
    const all = new Set<CalledEndpoint | null>()
    for (const priority of ORDER) for (const { endpoint } of this.#queues[priority]) all.add(endpoint)
    return [...all]
  }

  add(pending: PendingAcquire): void {
    this.#queues[pending.priority].add(pending)
  }

  remove(pending: PendingAcquire): void {
    this.#queues[pending.priority].delete(pending)
  }

  rejectAll(reason: Error): void {
    for (const priority of ORDER) {
      for (const pending of this.#queues[priority]) pending.reject(reason)
      this.#queues[priority].clear()
    }
  }
}
