/** How a service counts the calls of one key. All times are true milliseconds. */
export interface Counter {
  /** One call arrives at the limiter. */
  arrive(now: number): Verdict
  /** Uncounts one call, for a service that does not count its own errors. */
  uncount(now: number): void
  /** @param isAtOnce also for the current window */
  setLimit(limit: number, isAtOnce?: boolean): void
}

export interface Verdict {
  readonly accepted: boolean
  readonly limit: number
  readonly remaining: number
  /** The time that Reset reports. */
  readonly resetAt: number
  /** When a rejected call would be accepted. */
  readonly retryAt: number
  /** Fixed windows: the number of windows started so far. */
  readonly window: number
}

export type CounterKind = 'first-request' | 'on-the-clock' | 'sliding-log' | 'token-bucket'

export function createCounter(kind: CounterKind, limit: number, windowMs: number): Counter {
  switch (kind) {
    case 'first-request':
      return new FixedWindows(limit, windowMs, (now) => now)
    case 'on-the-clock':
      return new FixedWindows(limit, windowMs, (now) => Math.floor(now / windowMs) * windowMs)
    case 'sliding-log':
      return new SlidingLog(limit, windowMs)
    case 'token-bucket':
      return new TokenBucket(limit, windowMs)
  }
}

/** At most `limit` calls per window; a rejected call is not counted. */
class FixedWindows implements Counter {
  #limit: number
  /** Applies from the next window on. */
  #nextLimit: number
  readonly #windowMs: number
  readonly #startOf: (now: number) => number
  #end = Number.NEGATIVE_INFINITY
  #used = 0
  #window = 0

  constructor(limit: number, windowMs: number, startOf: (now: number) => number) {
    this.#limit = limit
    this.#nextLimit = limit
    this.#windowMs = windowMs
    this.#startOf = startOf
  }

  arrive(now: number): Verdict {
    if (now >= this.#end) {
      this.#end = this.#startOf(now) + this.#windowMs
      this.#used = 0
      this.#limit = this.#nextLimit
      this.#window++
    }
    const accepted = this.#used < this.#limit
    if (accepted) this.#used++
    return {
      accepted,
      limit: this.#limit,
      remaining: Math.max(0, this.#limit - this.#used),
      resetAt: this.#end,
      retryAt: this.#end,
      window: this.#window,
    }
  }

  uncount(now: number): void {
    if (now < this.#end) this.#used = Math.max(0, this.#used - 1)
  }

  setLimit(limit: number, isAtOnce = false): void {
    this.#nextLimit = limit
    if (isAtOnce) this.#limit = limit
  }
}

/** At most `limit` calls in any `windowMs`. Reset is when the oldest call leaves the window. */
class SlidingLog implements Counter {
  #limit: number
  readonly #windowMs: number
  readonly #log: number[] = []
  /** The first call of the log that counts. */
  #first = 0

  constructor(limit: number, windowMs: number) {
    this.#limit = limit
    this.#windowMs = windowMs
  }

  arrive(now: number): Verdict {
    while ((this.#log[this.#first] ?? now) <= now - this.#windowMs) this.#first++
    const accepted = this.#log.length - this.#first < this.#limit
    if (accepted) this.#log.push(now)
    const resetAt = (this.#log[this.#first] ?? now) + this.#windowMs
    const remaining = Math.max(0, this.#limit - (this.#log.length - this.#first))
    return { accepted, limit: this.#limit, remaining, resetAt, retryAt: resetAt, window: 0 }
  }

  uncount(): void {
    if (this.#log.length > this.#first) this.#log.pop()
  }

  setLimit(limit: number): void {
    this.#limit = limit
  }
}

/** `limit` tokens, refilled rollingTarget, `limit` in each `windowMs`. Reset is when the bucket is full. */
class TokenBucket implements Counter {
  #limit: number
  readonly #windowMs: number
  #tokens: number
  #at = Number.NEGATIVE_INFINITY

  constructor(limit: number, windowMs: number) {
    this.#limit = limit
    this.#windowMs = windowMs
    this.#tokens = limit
  }

  arrive(now: number): Verdict {
    if (this.#at > Number.NEGATIVE_INFINITY) {
      this.#tokens = Math.min(this.#limit, this.#tokens + ((now - this.#at) * this.#limit) / this.#windowMs)
    }
    this.#at = now
    const accepted = this.#tokens >= 1
    if (accepted) this.#tokens--
    const msPerToken = this.#windowMs / this.#limit
    return {
      accepted,
      limit: this.#limit,
      remaining: Math.floor(this.#tokens),
      resetAt: now + (this.#limit - this.#tokens) * msPerToken,
      retryAt: now + (1 - this.#tokens) * msPerToken,
      window: 0,
    }
  }

  uncount(): void {
    this.#tokens = Math.min(this.#limit, this.#tokens + 1)
  }

  setLimit(limit: number): void {
    this.#limit = limit
  }
}
