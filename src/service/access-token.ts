/** A token as the token endpoint issued it. */
export interface IssuedToken {
  readonly text: string
  /** How long it is valid from when it was issued, in milliseconds. */
  readonly lifeMs: number
}

/** Where the endpoint does not say how long its tokens live. One that ends sooner is refused, and replaced. */
const UNKNOWN_LIFE_MS = 3_600_000
/** Nothing that is longer is believed: some endpoints send milliseconds, or a date. */
const MAX_LIFE_MS = 24 * 3_600_000

/** The life of a token by its `expires_in`, in seconds (RFC 6749, section 5.1). Some endpoints send a text, or 0 for no end. */
export function parseTokenLife(expiresIn: unknown): number {
  const seconds = typeof expiresIn === 'string' && expiresIn.trim() !== '' ? Number(expiresIn) : expiresIn
  if (typeof seconds !== 'number' || !Number.isFinite(seconds) || seconds <= 0) return UNKNOWN_LIFE_MS
  return Math.min(seconds * 1_000, MAX_LIFE_MS)
}

/** A token is not used in the last twentieth of its life, a minute at most: a call with it may arrive later. */
const UNUSED_SHARE = 0.05
const MAX_UNUSED_MS = 60_000
/** Between requests for a token that fail: doubled each time, up to the longest pause of the circuit breaker. */
const FIRST_PAUSE_MS = 1_000
const MAX_PAUSE_MS = 8_000

interface HeldToken {
  readonly text: string
  /** Not used from then on. */
  readonly endsAt: number
}

interface AccessTokenOptions {
  /** Requests a token. A rejection with `retryAfterMs` says how long to request none. */
  readonly request: () => Promise<IssuedToken>
  /** Milliseconds of a clock that never goes back. */
  readonly now: () => number
}

/**
 * The access token of one client: requested once for all calls that wait for it, before it ends, and replaced if the service
 * refuses it for its age. There are no timers: the calls request it.
 */
export class AccessToken {
  readonly #options: AccessTokenOptions
  #held: HeldToken | null = null
  /** The request on its way. There is never a second one. */
  #pending: Promise<string> | null = null
  /** The service has refused a token, and accepted none since. */
  #isRefused = false
  #failure: { readonly error: unknown; readonly until: number; readonly pauseMs: number } | null = null

  constructor(options: AccessTokenOptions) {
    this.#options = options
  }

  /**
   * A token to call with now, or one that is requested. After a request that failed there is none until its pause is over:
   * it rejects in the same way.
   */
  get(): string | Promise<string> {
    const now = this.#options.now()
    const held = this.#held
    return held === null || now >= held.endsAt ? this.#request(now) : held.text
  }

  /** The service has accepted a call with this token. */
  accept(text: string): void {
    if (this.#held?.text === text) this.#isRefused = false
  }

  /**
   * The service has refused a call with this token. It may have ended: the next call has another one.
   * @returns false: the token takes the place of one that was refused, so the client itself is
   */
  refuse(text: string): boolean {
    // Another call has found out before.
    if (this.#held?.text !== text) return true
    const isFirst = !this.#isRefused
    this.#held = null
    this.#isRefused = true
    return isFirst
  }

  /** The next call requests a token, whatever is known. */
  forget(): void {
    this.#held = null
    this.#isRefused = false
    this.#failure = null
  }

  #request(now: number): Promise<string> {
    if (this.#pending !== null) return this.#pending
    if (this.#failure !== null && now < this.#failure.until)
      return Promise.reject(this.#failure.error as Error)
    this.#pending = this.#options
      .request()
      .then(
        (token) => this.#hold(token, now),
        (error: unknown) => this.#fail(error),
      )
      .finally(() => {
        this.#pending = null
      })
    return this.#pending
  }

  /** @param requestedAt it was issued later, and so lives longer than is reckoned here */
  #hold({ text, lifeMs }: IssuedToken, requestedAt: number): string {
    this.#held = { text, endsAt: requestedAt + lifeMs - Math.min(lifeMs * UNUSED_SHARE, MAX_UNUSED_MS) }
    this.#failure = null
    return text
  }

  #fail(error: unknown): never {
    const pauseMs = Math.min((this.#failure?.pauseMs ?? FIRST_PAUSE_MS / 2) * 2, MAX_PAUSE_MS)
    const { retryAfterMs } = error as { retryAfterMs?: number | null }
    this.#failure = { error, until: this.#options.now() + Math.max(pauseMs, retryAfterMs ?? 0), pauseMs }
    throw error
  }
}
