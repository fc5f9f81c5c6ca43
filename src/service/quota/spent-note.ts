import type { Quota } from './quota.ts'

type Spending = Pick<Quota, 'limit' | 'windowMs' | 'free' | 'spentUntil'>

/** Puts down, out of this process's reach, that the limit may be used up for so long from now, in milliseconds. */
export type KeepSpent = (forMs: number) => Promise<void>

/**
 * What the process that comes after this one must know: whether something is left of the limit. It is put down before
 * the last free call is made, not after, because this process may be killed between the two. That takes a statement a
 * window, begun while enough is left, so nothing waits for it as long as Postgres answers.
 */
export class SpentNote {
  readonly #quota: Spending
  readonly #keep: KeepSpent | null
  readonly #done: () => void
  /** What is put down, on our clock. */
  #until = Number.NEGATIVE_INFINITY
  #isBusy = false

  /** @param done something was put down, so that more may be granted */
  constructor(quota: Spending, keep: KeepSpent | null, done: () => void) {
    this.#quota = quota
    this.#keep = keep
    this.#done = done
  }

  /** How many of `count` calls may be granted now: the last free one only when it is put down. */
  permits(count: number, now: number): number {
    const { limit } = this.#quota
    if (this.#keep === null || limit === null) return count
    const free = this.#quota.free(now) ?? 0
    const until = this.#quota.spentUntil(now)
    if (until === null || until <= this.#until) return count
    if (free - count < early(limit)) this.#put(until, now)
    // What is granted although nothing is free finds out whether that is so; it is one call, and cannot wait.
    return free < 1 ? count : Math.min(count, Math.max(0, Math.ceil(free) - 1))
  }

  #put(until: number, now: number): void {
    if (this.#isBusy || this.#keep === null) return
    this.#isBusy = true
    const noted = until + slack(this.#quota.windowMs)
    void this.#keep(noted - now)
      .then(
        () => (this.#until = noted),
        () => new Promise((later) => setTimeout(later, againAfter).unref()),
      )
      .then(() => {
        this.#isBusy = false
        this.#done()
      })
  }
}

/** While so few calls are left it is put down: enough for the statement to be done before the last. */
const early = (limit: number): number => Math.min(0.75 * limit, 50 + limit / 10)

/** What is put down is a little late, so that it need not be put down anew with each call. Milliseconds. */
const slack = (windowMs: number | null): number => Math.min(1000, Math.max(250, (windowMs ?? 0) / 8))

/** Where it cannot be put down, it is tried again after so many milliseconds. */
const againAfter = 500
