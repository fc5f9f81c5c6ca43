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
/** A token that was refused within this time of its issue is not refused for its age. */
const YOUNG_MS = 60_000
/** Between requests for a token that fail: doubled each time, up to the longest pause of the circuit breaker. */
const FIRST_PAUSE_MS = 1_000
const MAX_PAUSE_MS = 8_000

interface HeldToken {
  readonly text: string
  readonly requestedAt: number
  /** Not used from then on. */
  readonly endsAt: number
  /** It takes the place of one that the service refused. */
  readonly isReplacement: boolean
  /** The service has accepted a call with it. */
  isAccepted: boolean
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
  /** The service has refused the last token, and no other has come since. */
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
    if (this.#held?.text === text) this.#held.isAccepted = true
  }

  /**
   * The service has refused a call with this token. If its age explains it, the next call has another one.
   * @returns false: a new token would be refused, too; the client itself is
   */
  refuse(text: string): boolean {
    const held = this.#held
    // Another call has found out before.
    if (held?.text !== text) return true
    const isYoung = this.#options.now() - held.requestedAt < YOUNG_MS
    this.#held = null
    this.#isRefused = true
    return !isYoung || (held.isAccepted && !held.isReplacement)
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
    const before = this.#held
    this.#held = {
      text,
      requestedAt,
      endsAt: requestedAt + lifeMs - Math.min(lifeMs * UNUSED_SHARE, MAX_UNUSED_MS),
      isReplacement: this.#isRefused,
      // Some endpoints issue the same token until it ends.
      isAccepted: before?.text === text && before.isAccepted,
    }
    this.#isRefused = false
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
