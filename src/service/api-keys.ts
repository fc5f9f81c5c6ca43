import { createHash } from 'node:crypto'
import { type AuthStyle, isOAuth, type ServiceAuth } from '../domain/service/auth.ts'

/** The fingerprint of a key, safe to log and store: the first 8 hex digits of its SHA-256. */
export const toKeyId = (key: string): string => createHash('sha256').update(key).digest('hex').slice(0, 8)

/**
 * What the rate limit of a service, and the refusal of a key, belong to: its account, which all keys share, or each key.
 * @param account its name in the configuration; null: none is named
 */
export const toScopes = (address: string, account: string | null, keys: readonly string[]): string[] =>
  (account === null ? keys.map(toKeyId) : [account]).map((id) => `${address} ${id}`)

export type ApiKey = { readonly id: string; readonly secret: string }

/**
 * The API keys, newest first, and which of them the service has rejected. Several are valid at once during a key
 * rotation, so a rejected key is followed by the next one.
 */
export class KeyRing {
  readonly #keys: readonly ApiKey[]
  readonly #rejected = new Set<ApiKey>()
  #current: ApiKey
  /** Rejected keys are being tried again, one call at a time, until the service accepts one. */
  #isOnTrial = false
  #isTrialRunning = false

  constructor(secrets: string | readonly string[]) {
    this.#keys = [...new Set([secrets].flat())].map((secret) => ({ id: toKeyId(secret), secret }))
    const [first] = this.#keys
    if (first === undefined) throw new TypeError('no API key: expected at least one (FILLRATE_API_KEY)')
    this.#current = first
  }

  get all(): readonly ApiKey[] {
    return this.#keys
  }

  get count(): number {
    return this.#keys.length
  }

  /** The key in use; once all are rejected, the last one that was. */
  get current(): ApiKey {
    return this.#current
  }

  get allRejected(): boolean {
    return this.#rejected.size === this.#keys.length
  }

  /** How many keys have not been rejected. */
  get usableCount(): number {
    return this.#keys.length - this.#rejected.size
  }

  /**
   * Records that the service rejected a key, and switches to the next one. Later responses to calls with the same key
   * change nothing: `isFirst` is true only the first time.
   */
  reject(key: ApiKey): { isFirst: boolean } {
    if (this.#rejected.has(key)) return { isFirst: false }
    this.#rejected.add(key)
    const next = this.#keys.find((candidate) => !this.#rejected.has(candidate))
    if (this.#current === key && next !== undefined) this.#current = next
    return { isFirst: true }
  }

  /** The service accepted a call with the current key. */
  accept(): void {
    this.#isOnTrial = false
  }

  get isOnTrial(): boolean {
    return this.#isOnTrial
  }

  /** How many calls may start now. */
  get allowedCalls(): number {
    if (this.allRejected) return 0
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

  /** Makes every key usable again for one call, newest first: it may have been unlocked meanwhile. */
  reset(): void {
    if (this.#rejected.size === 0) return
    this.#rejected.clear()
    this.#current = this.#keys[0] ?? this.#current
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
