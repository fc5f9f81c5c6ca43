import type { Dispatcher } from 'undici'
import { credentialFor } from './auth.ts'
import type { AuthStyle } from './auth.ts'
import { parseBaseUrl } from './base-url.ts'
import type { CallObserver } from './call.ts'
import {
  ForbiddenError,
  InputForbiddenError,
  KeyOnTrialError,
  RateLimitedError,
  UnauthorizedError,
} from './errors.ts'
import type { ServiceError } from './errors.ts'
import { exchange } from './exchange.ts'
import type { Exchanged, ExchangeRequest } from './exchange.ts'
import { brokenError, factsOf, isHtml, isRateLimit } from './failure.ts'
import type { FailureContext } from './failure.ts'
import { ForbiddenAnswers } from './forbidden.ts'
import { KeyRing } from './keys.ts'
import type { Key } from './keys.ts'
import { connectionsTo, type Proxies } from './proxy.ts'

export type KeyRefusal = { keyId: string; status: number; nextKeyId: string | null; usable: number }

export type LineOptions = {
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
  proxies?: Proxies | undefined
  /** Told once for each key that the service refuses, until it accepts it again. */
  onKeyRefused?: (refusal: KeyRefusal) => void
  /** Told once when the service accepts a key again. */
  onKeyAccepted?: (keyId: string) => void
  /** Told of each call when it has ended; status null: no answer came. */
  onEnded?: (endpoint: Endpoint, status: number | null) => void
}

export type CallOptions = { signal?: AbortSignal | undefined; call?: CallObserver | undefined }

/** `POST /v1/person/enrich`: what messages call it, and what is asked for. */
export type Endpoint = `${'GET' | 'POST'} /v1/${string}`

/** An answer with a head, and what its errors are told against. */
export type Heard = { exchanged: Exchanged & { head: { status: number } }; context: FailureContext }

/** No record or job comes near this size; what does is a fault, and must not fill the memory. */
const maxBodyBytes = 16 * 1024 * 1024

/** The connections to the service, and the keys shown on them. */
export class Line {
  readonly keys: KeyRing
  readonly #connections: Dispatcher
  readonly #prefix: string
  readonly #origin: string
  readonly #auth: AuthStyle
  readonly #timeoutMs: number
  readonly #userAgent: string
  readonly #onKeyRefused: ((refusal: KeyRefusal) => void) | undefined
  readonly #onKeyAccepted: LineOptions['onKeyAccepted']
  readonly #onEnded: LineOptions['onEnded']
  readonly #forbidden = new ForbiddenAnswers()
  /** Keys whose refusal was told. */
  readonly #toldRefused = new Set<Key>()
  #closed: Promise<void> | null = null

  /** Opens no connection. Throws a TypeError for an option that cannot be right, without its secrets. */
  constructor(options: LineOptions) {
    const { origin, prefix } = parseBaseUrl(options.baseUrl)
    this.keys = new KeyRing(options.apiKey)
    this.#origin = origin
    this.#prefix = prefix
    this.#auth = options.auth ?? 'bearer'
    this.#timeoutMs = positive('timeoutMs', options.timeoutMs ?? 30_000)
    this.#userAgent = options.userAgent ?? 'fillrate'
    this.#onKeyRefused = options.onKeyRefused
    this.#onKeyAccepted = options.onKeyAccepted
    this.#onEnded = options.onEnded
    this.#connections = connectionsTo(origin, options.proxies, {
      connections: positive('connections', options.connections ?? 32),
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
  async ask(
    endpoint: Endpoint,
    parts: { query?: string; body?: string },
    options: CallOptions,
  ): Promise<Heard> {
    const key = this.keys.current
    if (this.keys.allRefused) throw this.#refusedBefore(endpoint, key)
    const end = this.keys.begin()
    if (end === null) throw new KeyOnTrialError(endpoint)
    try {
      return await this.#exchange(key, endpoint, parts, options)
    } finally {
      end()
    }
  }

  async #exchange(
    key: Key,
    endpoint: Endpoint,
    parts: { query?: string; body?: string },
    options: CallOptions,
  ): Promise<Heard> {
    const began = this.#forbidden.begin()
    const exchanged = await exchange(this.#connections, this.#request(endpoint, parts, key), {
      timeoutMs: this.#timeoutMs,
      maxBodyBytes,
      signal: options.signal,
      call: options.call,
    })
    const context = { endpoint, origin: this.#origin, timeoutMs: this.#timeoutMs, now: Date.now() }
    const { head, broken } = exchanged
    this.#onEnded?.(endpoint, head?.status ?? null)
    if (head === null)
      throw brokenError(broken ?? { kind: 'connection', cause: undefined }, exchanged, context)
    const heard: Heard = { exchanged: { ...exchanged, head }, context }
    // The limiter knows of refusals that other calls met, also those of the process before.
    const isForRate = (): boolean => options.call?.isBan === true || isRateLimit(head.headers, exchanged.body)
    const isLimited = head.status === 429 || (head.status === 403 && isForRate())
    if (isLimited) this.#forbidden.limited(performance.now())
    else if (head.status === 401) throw this.#refuse(key, exchanged, context)
    else if (head.status === 403)
      throw this.#forbid(key, heard, { input: `${parts.query ?? ''}\n${parts.body ?? ''}`, began })
    else if (head.status < 300 || [400, 404, 422].includes(head.status)) this.#accept(key)
    return heard
  }

  /** Lets the calls under way end, and closes the connections. */
  close(): Promise<void> {
    this.#closed ??= this.#connections.close()
    return this.#closed
  }

  #request(endpoint: Endpoint, parts: { query?: string; body?: string }, key: Key): ExchangeRequest {
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

  #accept(key: Key): void {
    this.keys.accept()
    this.#forbidden.accepted()
    if (this.#toldRefused.delete(key)) this.#onKeyAccepted?.(key.id)
  }

  /** What a 403 means depends on what other inputs are answered. */
  #forbid(
    key: Key,
    { exchanged, context }: Heard,
    { input, began }: { readonly input: string; readonly began: number },
  ): ServiceError {
    const { head, body } = exchanged
    const answer = { began, isHtml: isHtml(head.headers, body), now: performance.now() }
    const { meaning, times } = this.#forbidden.judge(input, answer)
    const facts = factsOf(exchanged, context)
    if (meaning === 'ban')
      return new RateLimitedError(
        'the service bans the key for a while, because it was called too often (403 after 429)',
        facts,
      )
    if (meaning === 'key' || this.keys.isOnTrial) return this.#refuse(key, exchanged, context)
    return meaning === 'input'
      ? new InputForbiddenError(
          'the service, or a firewall before it, does not let this input through (403)',
          facts,
        )
      : new ForbiddenError(
          'forbidden (403): whether the input or the key is not let through, other calls tell',
          {
            ...facts,
            times,
          },
        )
  }

  #refuse(key: Key, exchanged: Exchanged, context: FailureContext): UnauthorizedError {
    const facts = factsOf(exchanged, context)
    const { isNews } = this.keys.refuse(key)
    const hasNextKey = !this.keys.allRefused
    const nextKeyId = hasNextKey ? this.keys.current.id : null
    if (isNews) this.#forbidden.changeKey()
    if (isNews && !this.#toldRefused.has(key)) {
      this.#toldRefused.add(key)
      this.#onKeyRefused?.({ keyId: key.id, status: facts.status, nextKeyId, usable: this.keys.usable })
    }
    const next = hasNextKey
      ? `; the next call uses key ${nextKeyId}`
      : '. Put a valid key into FILLRATE_API_KEY'
    const full = { ...facts, keyId: key.id, hasNextKey }
    const why = facts.status === 401 ? 'accept key' : 'let key'
    const what = facts.status === 401 ? '(401)' : 'do this (403)'
    return new UnauthorizedError(`the service does not ${why} ${key.id} ${what}${next}`, full)
  }

  #refusedBefore(endpoint: Endpoint, key: Key): UnauthorizedError {
    return new UnauthorizedError(
      `not sent: the service has refused all ${this.keys.count} keys. Put a valid key into FILLRATE_API_KEY`,
      { endpoint, keyId: key.id, hasNextKey: false, maybeSent: false },
    )
  }
}

function positive(name: string, value: number): number {
  if (Number.isInteger(value) && value > 0) return value
  throw new TypeError(`${name} is ${value}: expected a whole number above 0`)
}
