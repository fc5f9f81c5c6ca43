import { createHash } from 'node:crypto'
import { type AuthStyle, isOAuth, type ServiceAuth } from '../domain/service/auth.ts'

/** The fingerprint of a key, safe to log and store: the first 8 hex digits of its SHA-256. */
export const toKeyId = (key: string): string => createHash('sha256').update(key).digest('hex').slice(0, 8)

/**
 * What the rate limit of a service, and the refusal of its key, belong to: the account, or the key.
 * @param account its name in the configuration; null: none is named
 */
export const toScope = (address: string, account: string | null, key: string): string =>
  `${address} ${account ?? toKeyId(key)}`

/** The API key, and whether the service has rejected it. */
export class ApiKey {
  readonly id: string
  readonly secret: string
  #isRejected = false
  /** The rejected key is being tried again, one call at a time, until the service accepts it. */
  #isOnTrial = false
  #isTrialRunning = false

  constructor(secret: string) {
    this.id = toKeyId(secret)
    this.secret = secret
  }

  get isRejected(): boolean {
    return this.#isRejected
  }

  get isOnTrial(): boolean {
    return this.#isOnTrial
  }

  /** The service rejected a call. @returns whether it is the first one */
  reject(): boolean {
    const isFirst = !this.#isRejected
    this.#isRejected = true
    return isFirst
  }

  /** The service accepted a call. */
  accept(): void {
    this.#isOnTrial = false
  }

  /** How many calls may start now. */
  get allowedCalls(): number {
    if (this.#isRejected) return 0
    if (!this.#isOnTrial) return Number.POSITIVE_INFINITY
    return this.#isTrialRunning ? 0 : 1
  }

  /** @returns a function that ends the call; null while another call is trying the key */
  startCall(): (() => void) | null {
    if (!this.#isOnTrial) return () => {}
    if (this.#isTrialRunning) return null
    this.#isTrialRunning = true
    return () => {
      this.#isTrialRunning = false
    }
  }

  /** Makes a rejected key usable again for one call: it may have been unlocked meanwhile. */
  reset(): void {
    if (!this.#isRejected) return
    this.#isRejected = false
    this.#isOnTrial = true
  }
}

/** What authenticates a request: a header, or a query parameter (encoded, without `?` or `&`). */
type Credential = { header: readonly [name: string, value: string] | null; query: string | null }

/** The words of FILLRATE_AUTH, in the terms of a service. */
export function authOfStyle(style: AuthStyle): ServiceAuth {
  if (style === 'x-api-key') return { header: 'x-api-key' }
  return style === 'query' ? { query: 'api_key' } : style
}

/**
 * The result is secret: it goes into the request and nowhere else.
 * @param key for a client of OAuth, its token
 */
export function credentialFor(auth: ServiceAuth, key: string): Credential {
  if (auth === 'bearer' || isOAuth(auth)) return { header: ['authorization', `Bearer ${key}`], query: null }
  if (auth === 'basic')
    return { header: ['authorization', `Basic ${Buffer.from(`${key}:`).toString('base64')}`], query: null }
  return 'query' in auth
    ? { header: null, query: `${encodeURIComponent(auth.query)}=${encodeURIComponent(key)}` }
    : { header: [auth.header.toLowerCase(), `${auth.prefix ?? ''}${key}`], query: null }
}
