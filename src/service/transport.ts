import type { Dispatcher } from 'undici'
import { type ApiKey, type AuthStyle, KeyRing, credentialFor } from './api-keys.ts'
import { type ProxySettings, openDispatcher, parseBaseUrl } from './dispatcher.ts'
import { type ExchangeRequest, type HttpExchange, type RequestObserver, exchange } from './exchange.ts'
import {
  ForbiddenError,
  InputForbiddenError,
  KeyOnTrialError,
  RateLimitedError,
  type ServiceError,
  UnauthorizedError,
} from './errors.ts'
import {
  type ErrorContext,
  errorDetails,
  isHtml,
  isRateLimitResponse,
  transportError,
} from './response-errors.ts'
import { ForbiddenClassifier } from './forbidden.ts'

export type KeyRejection = { keyId: string; status: number; nextKeyId: string | null; usableKeys: number }

export type TransportOptions = {
  /** http or https, with a path in front of `/v1` where there is one. */
  baseUrl: string
  /** One key, or several with the newest first. */
  apiKey: string | readonly string[]
  /** How the key is shown; `bearer`. */
  auth?: AuthStyle
  /** For a whole exchange, from the call to the last byte of the answer, in milliseconds; 30,000. */
  timeoutMs?: number
  /** How many connections are kept, and so how many calls are on the wire at once; 32. */
  connections?: number
  userAgent?: string
  /** Default: none, and the service is called straight. */
  proxies?: ProxySettings | undefined
  /** Told once for each key that the service refuses, until it accepts it again. */
  onKeyRejected?: (refusal: KeyRejection) => void
  /** Told once when the service accepts a key again. */
  onKeyAccepted?: (keyId: string) => void
  /** Told of each call when it has ended; status null: no answer came. */
  onCallEnd?: (endpoint: ServiceEndpoint, status: number | null) => void
}

export type CallOptions = { signal?: AbortSignal | undefined; observer?: RequestObserver | undefined }

/** `POST /v1/person/enrich`: what messages call it, and what is asked for. */
export type ServiceEndpoint = `${'GET' | 'POST'} /v1/${string}`

/** An answer with a head, and what its errors are told against. */
export type RawResponse = { exchange: HttpExchange & { head: { status: number } }; context: ErrorContext }

/** No record or job comes near this size; what does is a fault, and must not fill the memory. */
const MAX_BODY_BYTES = 16 * 1024 * 1024

/** The connections to the service, and the keys shown on them. */
export class Transport {
  readonly keys: KeyRing
  readonly #dispatcher: Dispatcher
  readonly #prefix: string
  readonly #origin: string
  readonly #auth: AuthStyle
  readonly #timeoutMs: number
  readonly #userAgent: string
  readonly #onKeyRejected: ((refusal: KeyRejection) => void) | undefined
  readonly #onKeyAccepted: TransportOptions['onKeyAccepted']
  readonly #onCallEnd: TransportOptions['onCallEnd']
  readonly #forbidden = new ForbiddenClassifier()
  /** Keys whose refusal was told. */
  readonly #reportedRejections = new Set<ApiKey>()
  #closed: Promise<void> | null = null

  /** Opens no connection. Throws a TypeError for an option that cannot be right, without its secrets. */
  constructor(options: TransportOptions) {
    const { origin, prefix } = parseBaseUrl(options.baseUrl)
    this.keys = new KeyRing(options.apiKey)
    this.#origin = origin
    this.#prefix = prefix
    this.#auth = options.auth ?? 'bearer'
    this.#timeoutMs = requirePositiveInteger('timeoutMs', options.timeoutMs ?? 30_000)
    this.#userAgent = options.userAgent ?? 'fillrate'
    this.#onKeyRejected = options.onKeyRejected
    this.#onKeyAccepted = options.onKeyAccepted
    this.#onCallEnd = options.onCallEnd
    this.#dispatcher = openDispatcher(origin, options.proxies, {
      connections: requirePositiveInteger('connections', options.connections ?? 32),
      pipelining: 1,
      // Over HTTP/2 all calls would share one connection, and its loss would leave all of them in doubt.
      allowH2: false,
      connectTimeout: Math.min(this.#timeoutMs, 10_000),
      headersTimeout: this.#timeoutMs,
      bodyTimeout: this.#timeoutMs,
    })
  }

  /**
   * Asks once, and gives what was heard when at least the head of an answer came. Throws where none came, and
   * for a refused key: then it has moved to the next, which only the next call uses.
   */
  async send(
    endpoint: ServiceEndpoint,
    parts: { query?: string; body?: string },
    options: CallOptions,
  ): Promise<RawResponse> {
    const key = this.keys.current
    if (this.keys.allRejected) throw this.#allKeysRejectedError(endpoint, key)
    const end = this.keys.startCall()
    if (end === null) throw new KeyOnTrialError(endpoint)
    try {
      return await this.#exchange(key, endpoint, parts, options)
    } finally {
      end()
    }
  }

  async #exchange(
    key: ApiKey,
    endpoint: ServiceEndpoint,
    parts: { query?: string; body?: string },
    options: CallOptions,
  ): Promise<RawResponse> {
    const began = this.#forbidden.startCall()
    const exchanged = await exchange(this.#dispatcher, this.#request(endpoint, parts, key), {
      timeoutMs: this.#timeoutMs,
      maxBodyBytes: MAX_BODY_BYTES,
      signal: options.signal,
      observer: options.observer,
    })
    const context = { endpoint, origin: this.#origin, timeoutMs: this.#timeoutMs, now: Date.now() }
    const { head, failure: broken } = exchanged
    this.#onCallEnd?.(endpoint, head?.status ?? null)
    if (head === null)
      throw transportError(broken ?? { kind: 'connection', cause: undefined }, exchanged, context)
    const heard: RawResponse = { exchange: { ...exchanged, head }, context }
    // The limiter knows of refusals that other calls met, also those of the process before.
    const isForRate = (): boolean =>
      options.observer?.isBan === true || isRateLimitResponse(head.headers, exchanged.body)
    const isLimited = head.status === 429 || (head.status === 403 && isForRate())
    if (isLimited) this.#forbidden.recordRateLimited(performance.now())
    else if (head.status === 401) throw this.#rejectKey(key, exchanged, context)
    else if (head.status === 403)
      throw this.#classifyForbidden(key, heard, { input: `${parts.query ?? ''}\n${parts.body ?? ''}`, began })
    else if (head.status < 300 || [400, 404, 422].includes(head.status)) this.#acceptKey(key)
    return heard
  }

  /** Lets the calls under way end, and closes the connections. */
  close(): Promise<void> {
    this.#closed ??= this.#dispatcher.close()
    return this.#closed
  }

  #request(
    endpoint: ServiceEndpoint,
    parts: { query?: string; body?: string },
    key: ApiKey,
  ): ExchangeRequest {
    const [method, path] = endpoint.split(' ') as ['GET' | 'POST', string]
    const credential = credentialFor(this.#auth, key.secret)
    const query = [parts.query, credential.query].filter((part) => part != null).join('&')
    // No coding is asked for: a record is small, and a wrong coding is one more way for an answer to be lost.
    const headers = [
      'accept',
      'application/json',
      'accept-encoding',
      'identity',
      'user-agent',
      this.#userAgent,
    ]
    if (parts.body !== undefined) headers.push('content-type', 'application/json')
    if (credential.header !== null) headers.push(...credential.header)
    return {
      origin: this.#origin,
      method,
      path: this.#prefix + path + (query === '' ? '' : `?${query}`),
      headers,
      body: parts.body ?? null,
    }
  }

  #acceptKey(key: ApiKey): void {
    this.keys.accept()
    this.#forbidden.recordAccepted()
    if (this.#reportedRejections.delete(key)) this.#onKeyAccepted?.(key.id)
  }

  /** What a 403 means depends on what other inputs are answered. */
  #classifyForbidden(
    key: ApiKey,
    { exchange: exchanged, context }: RawResponse,
    { input, began }: { readonly input: string; readonly began: number },
  ): ServiceError {
    const { head, body } = exchanged
    const answer = { began, isHtml: isHtml(head.headers, body), now: performance.now() }
    const { meaning, occurrences } = this.#forbidden.classify(input, answer)
    const facts = errorDetails(exchanged, context)
    if (meaning === 'ban')
      return new RateLimitedError(
        'the service bans the key for a while, because it was called too often (403 after 429)',
        facts,
      )
    if (meaning === 'key' || this.keys.isOnTrial) return this.#rejectKey(key, exchanged, context)
    return meaning === 'input'
      ? new InputForbiddenError(
          'the service, or a firewall before it, does not let this input through (403)',
          facts,
        )
      : new ForbiddenError(
          'forbidden (403): whether the input or the key is not let through, other calls tell',
          {
            ...facts,
            times: occurrences,
          },
        )
  }

  #rejectKey(key: ApiKey, exchanged: HttpExchange, context: ErrorContext): UnauthorizedError {
    const facts = errorDetails(exchanged, context)
    const { isNews } = this.keys.reject(key)
    const hasNextKey = !this.keys.allRejected
    const nextKeyId = hasNextKey ? this.keys.current.id : null
    if (isNews) this.#forbidden.resetForKey()
    if (isNews && !this.#reportedRejections.has(key)) {
      this.#reportedRejections.add(key)
      this.#onKeyRejected?.({
        keyId: key.id,
        status: facts.status,
        nextKeyId,
        usableKeys: this.keys.usableCount,
      })
    }
    const next = hasNextKey
      ? `; the next call uses key ${nextKeyId}`
      : '. Put a valid key into FILLRATE_API_KEY'
    const full = { ...facts, keyId: key.id, hasNextKey }
    const why = facts.status === 401 ? 'accept key' : 'let key'
    const what = facts.status === 401 ? '(401)' : 'do this (403)'
    return new UnauthorizedError(`the service does not ${why} ${key.id} ${what}${next}`, full)
  }

  #allKeysRejectedError(endpoint: ServiceEndpoint, key: ApiKey): UnauthorizedError {
    return new UnauthorizedError(
      `not sent: the service has refused all ${this.keys.count} keys. Put a valid key into FILLRATE_API_KEY`,
      { endpoint, keyId: key.id, hasNextKey: false, maybeSent: false },
    )
  }
}

function requirePositiveInteger(name: string, value: number): number {
  if (Number.isInteger(value) && value > 0) return value
  throw new TypeError(`${name} is ${value}: expected a whole number above 0`)
}
