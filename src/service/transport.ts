import type { Dispatcher } from 'undici'
import type { ServiceAuth } from '../domain/service/adapter.ts'
import { type ApiKey, type AuthStyle, KeyRing, authOfStyle, credentialFor } from './api-keys.ts'
import { type ProxySettings, openDispatcher, parseBaseUrl } from './dispatcher.ts'
import {
  type ExchangeRequest,
  exchange,
  HeldAnswer,
  type HttpExchange,
  type RequestObserver,
} from './exchange.ts'
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
import { BUILT_IN_SERVICE } from '../domain/service/built-in.ts'
import type { AnswerHead } from '../domain/service/head.ts'
import { statusFacts } from '../domain/service/status.ts'
import type { RequestParts, Service, ServiceEndpoint } from '../domain/service/service.ts'
import type { CalledEndpoint } from '../domain/spend.ts'

/** The service rejected a key; `usableKeys` are left. */
export type KeyRejection = { keyId: string; status: number; nextKeyId: string | null; usableKeys: number }

export type TransportOptions = {
  /** An http or https URL, including any path before the endpoints' own. */
  baseUrl: string
  /** One key, or several, newest first. */
  apiKey: string | readonly string[]
  /** The service's interface, from `defineService`. Default: the built-in one. */
  service?: Service
  /** How the key is sent, if the service leaves it open. Default: `bearer`. */
  auth?: AuthStyle
  /** Limit for a whole exchange, including the wait for a connection, in milliseconds. Default: 30,000. */
  timeoutMs?: number
  /** Size of the connection pool, and so the number of concurrent requests. Default: 32. */
  connections?: number
  userAgent?: string
  /** Default: none. */
  proxies?: ProxySettings | undefined
  /** Called once for each key that the service rejects, until it is accepted again. */
  onKeyRejected?: (rejection: KeyRejection) => void
  /** Called once when the service accepts a rejected key again. */
  onKeyAccepted?: (keyId: string) => void
  /** Called at the end of each call. */
  onCallEnd?: (call: EndedCall) => void
}

/** A call that was made; status null: no response. The duration is from the request to the end of the body. */
export type EndedCall = {
  endpoint: ServiceEndpoint
  /** What was requested. Default: a person. */
  kind?: CalledEndpoint
  status: number | null
  durationMs: number
}

/**
 * Options of one call. An aborted `signal` ends it with an `AbortedError`.
 * @example
 * await client.enrichCompany({ domain: 'acme.com' }, { signal: AbortSignal.timeout(5_000) })
 */
export type CallOptions = {
  signal?: AbortSignal | undefined
  observer?: RequestObserver | undefined
  /** Called when the call has ended, before its response is read. */
  onEnd?: ((call: EndedCall) => void) | undefined
}

/** A response with a head, and the context that its errors need. */
export type RawResponse = { exchange: HttpExchange & { head: AnswerHead }; context: ErrorContext }

/** An answered call, with what its reader needs. */
type AnsweredCall = {
  endpoint: ServiceEndpoint
  parts: RequestParts
  key: ApiKey
  options: CallOptions
  startMark: number
  startedAt: number
}

/** Far above any record or job; a larger body is a fault and must not fill the memory. */
const MAX_BODY_BYTES = 16 * 1024 * 1024

/** The connection pool to the service, and the keys that authenticate on it. */
export class Transport {
  readonly keys: KeyRing
  readonly #dispatcher: Dispatcher
  readonly #prefix: string
  readonly #origin: string
  readonly #auth: ServiceAuth
  readonly #service: Service
  readonly #timeoutMs: number
  readonly #userAgent: string
  readonly #onKeyRejected: TransportOptions['onKeyRejected']
  readonly #onKeyAccepted: TransportOptions['onKeyAccepted']
  readonly #onCallEnd: TransportOptions['onCallEnd']
  readonly #forbidden = new ForbiddenClassifier()
  /** Keys whose rejection was reported, and when each was rejected last, by `performance.now()`: what was sent before shows what was. */
  readonly #reportedRejections = new Map<ApiKey, number>()
  #closed: Promise<void> | null = null

  /** Opens no connection. Throws a TypeError for an invalid option, without quoting secrets. */
  constructor(options: TransportOptions) {
    const { origin, prefix } = parseBaseUrl(options.baseUrl)
    this.keys = new KeyRing(options.apiKey)
    this.#origin = origin
    this.#prefix = prefix
    this.#service = options.service ?? BUILT_IN_SERVICE
    this.#auth = this.#service.auth ?? authOfStyle(options.auth ?? 'bearer')
    this.#timeoutMs = requirePositiveInteger('timeoutMs', options.timeoutMs ?? 30_000)
    this.#userAgent = options.userAgent ?? 'fillrate'
    this.#onKeyRejected = options.onKeyRejected
    this.#onKeyAccepted = options.onKeyAccepted
    this.#onCallEnd = options.onCallEnd
    this.#dispatcher = openDispatcher(origin, options.proxies, {
      connections: requirePositiveInteger('connections', options.connections ?? 32),
      pipelining: 1,
      // Over HTTP/2 all calls would share one connection; losing it would leave all of them in doubt.
      allowH2: false,
      connectTimeout: Math.min(this.#timeoutMs, 10_000),
      // The exchange's own timeout ends before they would: they cost a timer for each call.
      headersTimeout: 0,
      bodyTimeout: 0,
    })
  }

  /**
   * Sends one request and returns its response, which may be incomplete after the head. Throws if there is no head, and
   * for a rejected key: the ring has then switched to the next key, which only the next call uses.
   */
  async send(
    endpoint: ServiceEndpoint,
    parts: RequestParts,
    options: CallOptions,
    readHead: ReadHead | null = null,
  ): Promise<RawResponse> {
    const key = this.keys.current
    if (this.keys.allRejected) throw this.#allKeysRejectedError(endpoint, key)
    const end = this.keys.startCall()
    if (end === null) throw new KeyOnTrialError(endpoint)
    try {
      const held = readHead && new HeldAnswer(options.observer)
      const startMark = this.#forbidden.startCall()
      const startedAt = performance.now()
      const answered = await exchange(this.#dispatcher, this.#createRequest(endpoint, parts, key), {
        timeoutMs: this.#timeoutMs,
        maxBodyBytes: MAX_BODY_BYTES,
        signal: options.signal,
        observer: held ?? options.observer,
        normalizeHead: this.#service.normalizeHead,
      })
      const completed = readHead && answered.head ? { ...answered, head: readHead(answered) } : answered
      held?.release(completed.head)
      this.#reportEnd(endpoint, completed, performance.now() - startedAt, options)
      return this.#readAnswer({ endpoint, parts, key, options, startMark, startedAt }, completed)
    } finally {
      end()
    }
  }

  #reportEnd(
    endpoint: ServiceEndpoint,
    { head }: HttpExchange,
    durationMs: number,
    { onEnd }: CallOptions,
  ): void {
    const ended = { endpoint, kind: this.#kindOf(endpoint), status: head?.status ?? null, durationMs }
    this.#onCallEnd?.(ended)
    onEnd?.(ended)
  }

  /** Apart from `send`: what an asynchronous function may need later is kept for each call that waits. */
  #readAnswer(
    { endpoint, parts, key, options, startMark, startedAt }: AnsweredCall,
    completed: HttpExchange,
  ): RawResponse {
    const context = { endpoint, origin: this.#origin, timeoutMs: this.#timeoutMs, now: Date.now() }
    if (!hasHead(completed))
      throw transportError(completed.failure ?? { kind: 'connection', cause: undefined }, completed, context)
    const { head } = completed
    const response: RawResponse = { exchange: completed, context }
    const isLimited = head.status === 429 || (head.status === 403 && isForRate(completed, options.observer))
    if (isLimited) this.#forbidden.recordRateLimited(performance.now())
    else if (head.status === 401) throw this.#rejectKey(key, completed, context)
    else if (head.status === 403) {
      const input = `${parts.query ?? ''}\n${parts.body ?? ''}`
      throw this.#classifyForbidden(key, response, { input, startMark })
    } else if (statusFacts(head.status).acceptsKey) this.#acceptKey(key, startedAt)
    return response
  }

  /** Waits for the calls in flight, then closes the connections. */
  close(): Promise<void> {
    this.#closed ??= this.#dispatcher.close()
    return this.#closed
  }

  #createRequest(endpoint: ServiceEndpoint, parts: RequestParts, key: ApiKey): ExchangeRequest {
    const [method, ownPath] = endpoint.split(' ') as ['GET' | 'POST', string]
    const path = parts.path ?? ownPath
    const credential = credentialFor(this.#auth, key.secret)
    const query = [parts.query, credential.query].filter((part) => part != null && part !== '').join('&')
    // No compression: records are small, and a broken encoding is one more way to lose a response.
    const headers = [
      'accept',
      'application/json',
      'accept-encoding',
      'identity',
      'user-agent',
      this.#userAgent,
    ]
    if (parts.body !== undefined) headers.push('content-type', 'application/json')
    headers.push(...this.#service.headers)
    if (credential.header !== null) headers.push(...credential.header)
    return {
      origin: this.#origin,
      method,
      path: this.#prefix + path + (query === '' ? '' : `?${query}`),
      headers,
      body: parts.body ?? null,
    }
  }

  #kindOf(endpoint: ServiceEndpoint): CalledEndpoint {
    if (endpoint === this.#service.bulk?.endpoint || endpoint === this.#service.poll?.endpoint) return 'bulk'
    return endpoint === this.#service.company?.endpoint ? 'company' : 'person'
  }

  #acceptKey(key: ApiKey, sentAt: number): void {
    this.#forbidden.recordAccepted(sentAt)
    const rejectedAt = this.#reportedRejections.get(key)
    if (rejectedAt !== undefined && sentAt < rejectedAt) return
    this.keys.accept()
    if (this.#reportedRejections.delete(key)) this.#onKeyAccepted?.(key.id)
  }

  /** What a 403 means depends on the responses to other inputs. */
  #classifyForbidden(
    key: ApiKey,
    { exchange: completed, context }: RawResponse,
    { input, startMark }: { readonly input: string; readonly startMark: number },
  ): ServiceError {
    const { head, body } = completed
    const response = { startMark, isHtml: isHtml(head.headers, body), now: performance.now() }
    const meaning = this.#forbidden.classify(input, response)
    const details = errorDetails(completed, context)
    if (meaning === 'ban')
      return new RateLimitedError(
        'the service has temporarily banned the key for exceeding the rate limit (403 after 429)',
        details,
      )
    if (meaning === 'key' || this.keys.isOnTrial) return this.#rejectKey(key, completed, context)
    return meaning === 'input'
      ? new InputForbiddenError('the service, or a firewall in front of it, blocks this input (403)', details)
      : new ForbiddenError(
          'forbidden (403): other calls will show whether the input or the key is blocked',
          details,
        )
  }

  #rejectKey(key: ApiKey, completed: HttpExchange, context: ErrorContext): UnauthorizedError {
    const details = errorDetails(completed, context)
    const { isFirst } = this.keys.reject(key)
    const hasNextKey = !this.keys.allRejected
    const nextKeyId = hasNextKey ? this.keys.current.id : null
    if (isFirst) this.#forbidden.resetForKey()
    const isReported = this.#reportedRejections.has(key)
    this.#reportedRejections.set(key, performance.now())
    if (isFirst && !isReported) {
      this.#onKeyRejected?.({
        keyId: key.id,
        status: details.status,
        nextKeyId,
        usableKeys: this.keys.usableCount,
      })
    }
    const next = hasNextKey ? `; the next call uses key ${nextKeyId}` : ''
    const what =
      details.status === 401
        ? `rejected the API key ${key.id} (HTTP 401)`
        : `does not permit the API key ${key.id} to do this (HTTP 403)`
    return new UnauthorizedError(`the service ${what}${next}`, { ...details, keyId: key.id, hasNextKey })
  }

  #allKeysRejectedError(endpoint: ServiceEndpoint, key: ApiKey): UnauthorizedError {
    return new UnauthorizedError(
      `not sent: the service has rejected ${this.keys.count === 1 ? `the API key ${key.id}` : `all ${this.keys.count} API keys`}`,
      { endpoint, keyId: key.id, hasNextKey: false, maybeSent: false },
    )
  }
}

/** The head that counts, for a service whose bodies may say otherwise. Called if there is a head. */
type ReadHead = (answered: HttpExchange) => HttpExchange['head']

const hasHead = (completed: HttpExchange): completed is RawResponse['exchange'] => completed.head !== null

/** Whether a 403 is about the rate limit. The limiter knows of rejections of other calls, also those of the previous leader. */
const isForRate = ({ head, body }: RawResponse['exchange'], observer: RequestObserver | undefined): boolean =>
  head.isBan === true || (observer?.banMs ?? 0) > 0 || isRateLimitResponse(head.headers, body)

function requirePositiveInteger(name: string, value: number): number {
  if (Number.isInteger(value) && value > 0) return value
  throw new TypeError(`${name} is ${value}: expected a whole number above 0`)
}
