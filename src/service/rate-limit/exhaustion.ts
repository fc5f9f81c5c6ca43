import type { RateLimitModel } from './model.ts'

type Spending = Pick<RateLimitModel, 'limit' | 'windowMs' | 'remaining' | 'exhaustedUntil'>

/** Milliseconds until the next leader may call; null if capacity is left. */
export function exhaustedForMs(model: RateLimitModel, now: number): number | null {
  const remaining = model.remaining(now)
  if (remaining === null || (remaining >= 1 && !model.calls.hasPending)) return null
  const until = model.exhaustedUntil(now)
  return until === null ? null : Math.max(1, until - now)
}

/** Persists that the limit may be exhausted for this many milliseconds. */
export type PersistExhaustion = (forMs: number) => Promise<void>

/** It is persisted while this many calls remain: enough for the statement to finish before the last of them. */
const persistAt = (limit: number): number => Math.min(0.75 * limit, 50 + limit / 10)

/** It is persisted a little too late, in milliseconds, so that not every call needs it anew. */
const slack = (windowMs: number | null): number => Math.min(1000, Math.max(250, (windowMs ?? 0) / 8))

const RETRY_MS = 500

/**
 * Tells the next leader whether anything is left of the limit. It is persisted before the last free call is made, not
 * after it, because this process may be killed between the two. That takes one statement a window, begun while enough is
 * left, so nothing waits for it as long as Postgres answers.
 */
export class ExhaustionRecord {
  readonly #model: Spending
  readonly #persistFor: PersistExhaustion | null
  readonly #onPersisted: () => void
  /** What is persisted, on our clock. */
  until = Number.NEGATIVE_INFINITY
  #isBusy = false

  /** @param onPersisted more may be granted now */
  constructor(model: Spending, persistFor: PersistExhaustion | null, onPersisted: () => void) {
    this.#model = model
    this.#persistFor = persistFor
    this.#onPersisted = onPersisted
  }

  /** How many of `count` calls may be granted now: the last free one only once it is persisted. */
  limit(count: number, now: number): number {
    const { limit } = this.#model
    if (this.#persistFor === null || limit === null) return count
    const remaining = this.#model.remaining(now) ?? 0
    const until = this.#model.exhaustedUntil(now)
    if (until === null || until <= this.until) return count
    if (remaining - count < persistAt(limit)) this.#persist(this.#persistFor, until, now)
    // A call that is granted although nothing is left finds out whether that is so; it is one call and cannot wait.
    return remaining < 1 ? count : Math.min(count, Math.max(0, Math.ceil(remaining) - 1))
  }

  #persist(persistFor: PersistExhaustion, until: number, now: number): void {
    if (this.#isBusy) return
    this.#isBusy = true
    const persisted = until + slack(this.#model.windowMs)
    void persistFor(persisted - now)
      .then(
        () => (this.until = persisted),
        () => new Promise((resolve) => setTimeout(resolve, RETRY_MS).unref()),
      )
      .then(() => {
        this.#isBusy = false
        this.#onPersisted()
      })
  }
}
