/** The model's states; docs/internals/rate.md draws how one follows from another. */
export type RateLimitState =
  | 'cold'
  | 'unlimited'
  | 'learnt'
  | 'calibrating'
  | 'fixed_window'
  | 'sliding'
  | 'cooldown'
  | 'banned'

/** What a stall reason is made from. */
export interface StallContext {
  readonly state: RateLimitState
  /** When calls may go on, on our clock; null if only an answer can tell. */
  readonly at: number | null
  readonly now: number
  /** Calls are granted or in flight. */
  readonly hasPending: boolean
  /** Calls were refused here, and not only the previous leader's calls feared. */
  readonly wasRejected: boolean
  /** The limit was cut, and more may be counted than it allows. */
  readonly wasDecreased: boolean
}

/** Why nothing is granted, in words. */
export function stallReason({ state, at, now, hasPending, wasRejected, wasDecreased }: StallContext): string {
  const until = at === null || at < now ? '' : untilText(at)
  switch (state) {
    case 'banned':
      return `the service has banned the key for a while after too many calls (403 after 429): paused${until}, then one test call`
    case 'cooldown':
      if (wasRejected) return `the service refused a call (429): paused${until}`
      return wasDecreased
        ? `the limit was cut: waiting for earlier calls to expire${until}`
        : `the previous leader may have used up the limit: waiting${until}`
    case 'cold':
    case 'unlimited':
      return 'waiting for the first responses'
    case 'learnt':
      return `as many calls are made as were let through before a refusal (429): waiting${until}`
    case 'calibrating':
      return `rate limit reached: waiting${until} (measuring the window length)`
    case 'fixed_window':
      return hasPending && until === ''
        ? 'waiting for the first response in a new window'
        : `rate limit reached: waiting for the next window${until}`
    case 'sliding':
      return `rate limit reached: waiting for earlier calls to expire${until}`
  }
}

/** A time beyond the calendar is not named. */
export function untilText(at: number): string {
  const date = new Date(at)
  return Number.isNaN(date.getTime()) ? '' : ` until ${date.toISOString().slice(11, 19)} UTC`
}

/**
 * What the limit would have allowed while there was work: calls waited for a permit or were pending. The window's length
 * is learnt late, so time is counted, and turned into calls by what is known in the end; only a new limit starts another
 * period.
 */
export class AllowanceMeter {
  #before = 0
  #busyMs = 0
  #since: number | null = null
  #limit: number | null = null
  #windowMs: number | null = null

  update(now: number, isBusy: boolean, limit: number | null, windowMs: number | null): void {
    if (this.#since !== null) this.#busyMs += now - this.#since
    this.#since = isBusy ? now : null
    if (limit !== this.#limit && this.#limit !== null && this.#windowMs !== null) {
      this.#before += (this.#busyMs * this.#limit) / this.#windowMs
      this.#busyMs = 0
    }
    this.#limit = limit
    this.#windowMs = windowMs ?? this.#windowMs
  }

  /** Null while there is no limit, or its window is not known. */
  total(now: number): number | null {
    if (this.#limit === null || this.#windowMs === null) return null
    const busyMs = this.#busyMs + (this.#since === null ? 0 : now - this.#since)
    return Math.floor(this.#before + (busyMs * this.#limit) / this.#windowMs)
  }
}
