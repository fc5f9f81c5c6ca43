import type { RequestObserver, ResponseHead } from '../exchange.ts'
import type { Call } from './call-ledger.ts'
import type { RateLimitModel } from './model.ts'

/** The observer of one call, which also learns when the call is over without having been sent. */
export interface PermittedCall extends RequestObserver {
  /**
   * The call is over. Gives its permit back if nothing was sent (an open circuit, a refused connection); does nothing
   * otherwise, and nothing the second time.
   */
  end(): void
}

/** Calls that may be made now. */
export class Permits {
  readonly count: number
  readonly #model: RateLimitModel
  readonly #now: () => number
  readonly #onChange: () => void
  #unused: number

  constructor(model: RateLimitModel, count: number, now: () => number, onChange: () => void) {
    this.#model = model
    this.count = count
    this.#unused = count
    this.#now = now
    this.#onChange = onChange
  }

  /**
   * One call.
   * @throws Error when all permits are used or given back
   */
  use(): PermittedCall {
    if (this.#unused === 0) throw new Error(`all ${this.count} permits are used`)
    this.#unused--
    return new ObservedCall(this.#model, this.#now, this.#onChange)
  }

  /** Gives back those that are not used. Does nothing the second time. */
  release(): void {
    if (this.#unused === 0) return
    this.#model.release(this.#unused)
    this.#unused = 0
    this.#onChange()
  }
}

/** Uses the limiter's clock, not the times that are passed in: those are the calendar's, which may be set meanwhile. */
class ObservedCall implements PermittedCall {
  isBan = false
  readonly #model: RateLimitModel
  readonly #now: () => number
  readonly #onChange: () => void
  #call: Call | null = null
  #isOver = false

  constructor(model: RateLimitModel, now: () => number, onChange: () => void) {
    this.#model = model
    this.#now = now
    this.#onChange = onChange
  }

  sent(): void {
    if (this.#call !== null || this.#isOver) return
    this.#call = this.#model.sent(this.#now())
  }

  answered(answer: ResponseHead): void {
    this.sent()
    if (this.#call === null || this.#isOver) return
    this.#isOver = true
    this.#model.answered(this.#call, answer, this.#now())
    this.isBan = answer.status === 403 && this.#model.isBanned
    this.#onChange()
  }

  lost(): void {
    if (this.#isOver) return
    if (this.#call === null) return this.end()
    this.#isOver = true
    this.#model.lost(this.#call, this.#now())
    this.#onChange()
  }

  end(): void {
    if (this.#isOver || this.#call !== null) return
    this.#isOver = true
    this.#model.release(1)
    this.#onChange()
  }
}

/** Who is served first: live sync, then a nightly run, then a backfill. */
export type Priority = 'urgent' | 'normal' | 'low'

const ORDER: readonly Priority[] = ['urgent', 'normal', 'low']

export interface PendingAcquire {
  readonly upTo: number
  readonly priority: Priority
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

  /** The one that is served after `index` others; null if there are not as many. */
  at(index: number): PendingAcquire | null {
    let left = index
    for (const priority of ORDER) {
      for (const pending of this.#queues[priority]) {
        if (left === 0) return pending
        left--
      }
    }
    return null
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
