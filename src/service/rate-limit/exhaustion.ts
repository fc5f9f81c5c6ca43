import type { RateLimitModel } from './model.ts'

type Spending = Pick<RateLimitModel, 'limit' | 'windowMs' | 'remaining' | 'exhaustedUntil'>

/** Milliseconds until the next leader may call; null if capacity is left. */
export function exhaustedForMs(model: RateLimitModel, now: number): number | null {
  const cooldownMs = model.cooldownMs(now)
  if (cooldownMs > 0) return cooldownMs
  const remaining = model.remaining(now)
  if (remaining === null || (remaining >= 1 && !model.calls.hasPending)) return null
  const until = model.exhaustedUntil(now)
  return until === null ? null : Math.max(1, until - now)
}

/** It is persisted while this many calls remain: enough for the statement to finish before the last of them. */
const persistAt = (limit: number): number => Math.min(0.75 * limit, 50 + limit / 10)

/** It is persisted a little too late, in milliseconds, so that not every call needs it anew. */
const slack = (windowMs: number | null): number => Math.min(1000, Math.max(250, (windowMs ?? 0) / 8))

const RETRY_MS = 500

/**
 * Persists for the next leader until when the limit may be exhausted: before the last free call and not after it, because
 * this process may be killed between the two. The statement, one a window, begins while enough is left, so that no call waits
 * for it as long as Postgres answers.
 */
export class ExhaustionRecord<Model extends Spending> {
  readonly model: Model
  readonly #persist: (() => Promise<void>) | null
  readonly #onPersisted: () => void
  /** The limit may be exhausted until then, on our clock: what is persisted, or is being persisted. */
  until: number
  #persistedUntil: number
  #isBusy = false

  /**
   * @param persist persists `until`; null: there is no place for it
   * @param onPersisted more may be granted now
   * @param until what is persisted already
   */
  constructor(
    model: Model,
    persist: (() => Promise<void>) | null,
    onPersisted: () => void,
    until = Number.NEGATIVE_INFINITY,
  ) {
    this.model = model
    this.#persist = persist
    this.#onPersisted = onPersisted
    this.until = until
    this.#persistedUntil = until
  }

  /** How many of `count` calls may be granted now: the last free one only once it is persisted. */
  grantable(count: number, now: number): number {
    const { limit } = this.model
    if (this.#persist === null || limit === null) return count
    const remaining = this.model.remaining(now) ?? 0
    const until = this.model.exhaustedUntil(now)
    if (until === null || until <= this.#persistedUntil) return count
    if (remaining - count < persistAt(limit)) this.#note(this.#persist, until)
    // A call that is granted although nothing is left finds out whether that is so; it is one call and cannot wait.
    return remaining < 1 ? count : Math.min(count, Math.max(0, Math.ceil(remaining) - 1))
  }

  #note(persist: () => Promise<void>, until: number): void {
    if (this.#isBusy) return
    this.#isBusy = true
    const noted = until + slack(this.model.windowMs)
    this.until = noted
    void persist()
      .then(
        () => (this.#persistedUntil = noted),
        () => new Promise((resolve) => setTimeout(resolve, RETRY_MS).unref()),
      )
      .then(() => {
        this.#isBusy = false
        this.#onPersisted()
      })
  }
}
