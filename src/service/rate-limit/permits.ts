import type { Priority } from '../../domain/run.ts'
import type { CalledEndpoint } from '../../domain/spend.ts'
import type { RequestObserver, ResponseHead } from '../exchange.ts'
import type { CountedCall, EndpointModels } from './endpoint-models.ts'

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
  readonly models: EndpointModels
  readonly now: () => number
  /** A call was sent, answered with a status, or given back. */
  readonly onChange: (status?: number) => void
}

/** Calls that may be made now. */
export class Permits {
  readonly count: number
  readonly #counters: CallCounters
  readonly #endpoint: CalledEndpoint | null
  #unused: number

  /** @param endpoint the only one that they may call */
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

  /** Gives back unused permits. Does nothing the second time. */
  release(): void {
    if (this.#unused === 0) return
    this.#counters.models.release(this.#endpoint, this.#unused)
    this.#unused = 0
    this.#counters.onChange()
  }
}

/** Uses the limiter's clock, not the times that are passed in: those are the calendar's, which may be set meanwhile. */
class ObservedCall implements PermittedCall {
  banMs = 0
  readonly #counters: CallCounters
  readonly #endpoint: CalledEndpoint | null
  #call: CountedCall | null = null
  #isOver = false

  constructor(counters: CallCounters, endpoint: CalledEndpoint | null) {
    this.#counters = counters
    this.#endpoint = endpoint
  }

  sent(): void {
    if (this.#call !== null || this.#isOver) return
    this.#call = this.#counters.models.sent(this.#endpoint, this.#counters.now())
  }

  answered(answer: ResponseHead): void {
    this.sent()
    if (this.#call === null || this.#isOver) return
    const { models, onChange } = this.#counters
    this.#isOver = true
    const now = this.#counters.now()
    models.answered(this.#call, answer, now)
    if (answer.status === 403) this.banMs = models.banMs(now)
    onChange(answer.status)
  }

  lost(): void {
    if (this.#isOver) return
    if (this.#call === null) return this.end()
    this.#isOver = true
    this.#counters.models.lost(this.#call, this.#counters.now())
    this.#counters.onChange()
  }

  end(): void {
    if (this.#isOver || this.#call !== null) return
    this.#isOver = true
    this.#counters.models.release(this.#endpoint, 1)
    this.#counters.onChange()
  }
}

const RANK: Readonly<Record<Priority, number>> = { urgent: 0, normal: 1, low: 2 }

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
  #pending: PendingAcquire[] = []

  get size(): number {
    return this.#pending.length
  }

  /** In the order in which they are served. */
  [Symbol.iterator](): IterableIterator<PendingAcquire> {
    return this.#pending.values()
  }

  /** All but the first ones of these endpoints, in the order in which they are served. */
  without(endpoints: readonly (CalledEndpoint | null)[]): PendingAcquire[] {
    const left = [...endpoints]
    return this.#pending.filter(({ endpoint }) => {
      const found = left.indexOf(endpoint)
      if (found !== -1) left.splice(found, 1)
      return found === -1
    })
  }

  /** The first one of an endpoint; null if there is none. */
  first(endpoint: CalledEndpoint | null): PendingAcquire | null {
    return this.#pending.find((pending) => pending.endpoint === endpoint) ?? null
  }

  /** What the acquires want to call. */
  endpoints(): ReadonlySet<CalledEndpoint | null> {
    return new Set(this.#pending.map(({ endpoint }) => endpoint))
  }

  add(pending: PendingAcquire): void {
    const before = this.#pending.findLastIndex(({ priority }) => RANK[priority] <= RANK[pending.priority])
    this.#pending.splice(before + 1, 0, pending)
  }

  remove(pending: PendingAcquire): void {
    this.#pending = this.#pending.filter((other) => other !== pending)
  }

  rejectAll(reason: Error): void {
    for (const { reject } of this.#pending.splice(0)) reject(reason)
  }
}
