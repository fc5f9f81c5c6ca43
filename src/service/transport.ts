import type { Dispatcher } from 'undici'
import { ApiKey, authOfStyle, credentialFor } from './api-keys.ts'
import { ClientToken } from './client-token.ts'
import { type ProxySettings, openDispatcher, parseBaseUrl } from './dispatcher.ts'
import {
  exchange,
  type ExchangeRequest,
  HeldAnswer,
  type HttpExchange,
  type RequestObserver,
} from './exchange.ts'
import { KeyOnTrialError, TokenEndedError } from './errors.ts'
import { KeyJudge } from './key-judge.ts'
import { TokenFailure } from './token-endpoint.ts'
import { type ErrorContext, toErrorDetails, isRateLimitResponse, transportError } from './response-errors.ts'
import { type AuthStyle, isOAuth, type ServiceAuth } from '../domain/service/auth.ts'
import { BUILT_IN_SERVICE } from '../domain/service/built-in.ts'
import type { AnswerHead } from '../domain/service/head.ts'
import { statusFacts } from '../domain/service/status.ts'
import type { CalledPath, RequestParts, Service, ServiceEndpoint } from '../domain/service/service.ts'
import type { CalledEndpoint } from '../domain/spend.ts'

export type TransportOptions = {
  /** Default: none. */
  proxies?: ProxySettings | undefined
  /** An http or https URL, including any path before the endpoints' own. */
  baseUrl: string
  /** For a client of OAuth, `id:secret`. */
  apiKey: string
  /** The service's interface, from `defineService`. Default: the built-in one. */
  service?: Service
  /** How the key is sent, if the service leaves it open. Default: `bearer`. */
  auth?: AuthStyle
  /** Limit for a whole exchange, including the wait for a connection, in milliseconds. Default: 30,000. */
  timeoutMs?: number
  /** Size of the connection pool, and so the number of concurrent requests. Default: 32. */
  connections?: number
  userAgent?: string
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

/** Options of one call. An aborted `signal` ends it with an `AbortedError`. */
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
  /** Null: the key itself was sent. */
  token: string | null
  options: CallOptions
  startMark: number
  startedAt: number
}

/** Far above any record or job; a larger body is a fault and must not fill the memory. */
const MAX_BODY_BYTES = 16 * 1024 * 1024

/** The connection pool to the service, and the key that authenticates on it. */
export class Transport {
  readonly key: ApiKey
  readonly #judge: KeyJudge
  readonly #dispatcher: Dispatcher
  readonly #origin: string
  readonly #service: Service
  readonly #timeoutMs: number
  readonly #writeRequest: ReturnType<typeof createRequestWriter>
  /** Null: the service takes the key itself. */
  readonly #token: ClientToken | null
  readonly #onCallEnd: TransportOptions['onCallEnd']
  #closed: Promise<void> | null = null

  /** Opens no connection. The environment and the description have been checked. */
  constructor(options: TransportOptions) {
    const { origin, prefix } = parseBaseUrl(options.baseUrl)
    this.key = new ApiKey(options.apiKey)
    this.#judge = new KeyJudge(this.key, () => this.#token?.forget())
    this.#origin = origin
    const service = options.service ?? BUILT_IN_SERVICE
    this.#service = service
    const auth = service.auth ?? authOfStyle(options.auth ?? 'bearer')
    const { timeoutMs = 30_000 } = options
    this.#timeoutMs = timeoutMs
    const { userAgent = 'fillrate' } = options
    this.#writeRequest = createRequestWriter({ origin, prefix, service, auth, userAgent })
    const client = this.key.secret
    this.#token = isOAuth(auth)
      ? new ClientToken({ ...options, ...auth, origin, prefix, client, userAgent, timeoutMs })
      : null
    this.#onCallEnd = options.onCallEnd
    this.#dispatcher = openDispatcher(origin, options.proxies, {
      connections: options.connections ?? 32,
      pipelining: 1,
      // Over HTTP/2 all calls would share one connection; losing it would leave all of them in doubt.
      allowH2: false,
      connectTimeout: Math.min(timeoutMs, 10_000),
      // The exchange's own timeout ends before they would: they cost a timer for each call.
      headersTimeout: 0,
      bodyTimeout: 0,
    })
  }

  /**
   * Sends one request and returns its response, which may be incomplete after the head. Throws if there is no head, and
   * for a rejected key.
   */
  async send(
    called: CalledPath,
    parts: RequestParts,
    options: CallOptions,
    readHead: ReadHead | null = null,
  ): Promise<RawResponse> {
    const { endpoint } = called
    if (this.key.isRejected) throw this.#judge.rejectUnsent(endpoint)
    const end = this.key.startCall()
    if (end === null) throw new KeyOnTrialError(endpoint)
    try {
      const token = this.#token && (await this.#requireToken(this.#token, endpoint, options))
      const held = readHead && new HeldAnswer(options.observer)
      const startMark = this.#judge.startCall()
      const startedAt = performance.now()
      const answered = await exchange(
        this.#dispatcher,
        this.#writeRequest(endpoint, parts, token ?? this.key.secret),
        {
          timeoutMs: this.#timeoutMs,
          maxBodyBytes: MAX_BODY_BYTES,
          signal: options.signal,
          observer: held ?? options.observer,
          normalizeHead: this.#service.normalizeHead,
        },
      )
      const completed = readHead && answered.head ? { ...answered, head: readHead(answered) } : answered
      held?.release(completed.head)
      this.#reportEnd(called, completed, performance.now() - startedAt, options)
      return this.#readAnswer({ endpoint, parts, token, options, startMark, startedAt }, completed)
    } finally {
      end()
    }
  }

  #reportEnd(
    { endpoint, kind }: CalledPath,
    { head }: HttpExchange,
    durationMs: number,
    { onEnd }: CallOptions,
  ): void {
    const ended = { endpoint, kind, status: head?.status ?? null, durationMs }
    this.#onCallEnd?.(ended)
    onEnd?.(ended)
  }

  /** Apart from `send`: what an asynchronous function may need later is kept for each call that waits. */
  #readAnswer(
    { endpoint, parts, token, options, startMark, startedAt }: AnsweredCall,
    completed: HttpExchange,
  ): RawResponse {
    const context: ErrorContext = {
      endpoint,
      origin: this.#origin,
      timeoutMs: this.#timeoutMs,
      now: Date.now(),
      mask: (body) => maskBody(body, [token ?? this.key.secret, ...Object.values(this.#service.headers)]),
    }
    if (!hasHead(completed))
      throw transportError(completed.failure ?? { kind: 'connection', cause: undefined }, completed, context)
    const { head } = completed
    const response: RawResponse = { exchange: completed, context }
    const isLimited = head.status === 429 || (head.status === 403 && isForRate(completed, options.observer))
    if (isLimited) this.#judge.recordRateLimited()
    else if (head.status === 401) {
      const details = toErrorDetails(completed, context)
      if (token !== null && this.#token?.refuse(token) === true)
        throw new TokenEndedError('the access token has ended (401); the next call has a new one', details)
      throw this.#judge.reject(details)
    } else if (head.status === 403) {
      const input = `${parts.query ?? ''}\n${parts.body ?? ''}`
      throw this.#judge.forbid({ completed, context }, { input, startMark })
    } else if (statusFacts(head.status).acceptsKey) {
      if (token !== null) this.#token?.accept(token)
      this.#judge.accept(startedAt)
    }
    return response
  }

  /** Waits for the calls in flight, then closes the connections. */
  close(): Promise<void> {
    this.#closed ??= Promise.all([this.#dispatcher.close(), this.#token?.close()]).then(() => {})
    return this.#closed
  }

  /** @throws ServiceError: there is none, and nothing was sent */
  async #requireToken(
    held: ClientToken,
    endpoint: ServiceEndpoint,
    { signal }: CallOptions,
  ): Promise<string> {
    try {
      return await held.get(endpoint, signal)
    } catch (error) {
      if (!(error instanceof TokenFailure)) throw error
      throw this.#judge.reject({ endpoint, status: null, maybeSent: false }, error.message)
    }
  }
}

/** The head that counts, for a service whose bodies may say otherwise. Called if there is a head. */
type ReadHead = (answered: HttpExchange) => HttpExchange['head']

const hasHead = (completed: HttpExchange): completed is RawResponse['exchange'] => completed.head !== null

/** Whether a 403 is about the rate limit. The limiter knows of rejections of other calls, also those of the previous leader. */
const isForRate = ({ head, body }: RawResponse['exchange'], observer: RequestObserver | undefined): boolean =>
  (observer?.banMs ?? 0) > 0 || isRateLimitResponse(head.headers, body)

/** Masking a shorter value would hide half of every text. */
const MIN_MASKED_LENGTH = 6

/**
 * The body of an answer without what authenticated its request, for the errors that show or store it: some services send
 * back what they got. Records are left as they are, since a second secret may be a word of theirs.
 */
function maskBody(body: Buffer, secrets: readonly string[]): Buffer {
  const forms = secrets
    .filter(({ length }) => length >= MIN_MASKED_LENGTH)
    .flatMap((secret) => [
      secret,
      encodeURIComponent(secret),
      // Of HTTP Basic, where the secret is the user's name.
      Buffer.from(`${secret}:`).toString('base64'),
    ])
  const found = [...new Set(forms)].filter((form) => body.includes(form))
  if (found.length === 0) return body
  const text = body.toString('latin1')
  return Buffer.from(
    found.reduce((masked, form) => masked.replaceAll(form, '***'), text),
    'latin1',
  )
}

interface RequestSettings {
  readonly origin: string
  /** Of every path. */
  readonly prefix: string
  readonly service: Pick<Service, 'headers'>
  readonly auth: ServiceAuth
  readonly userAgent: string
}

/** Returns a function that writes the requests to a service, with what they have in common. */
function createRequestWriter({
  origin,
  prefix,
  service,
  auth,
  userAgent,
}: RequestSettings): (endpoint: ServiceEndpoint, parts: RequestParts, secret: string) => ExchangeRequest {
  const own = new Headers(service.headers)
  // No compression: records are small, and a broken encoding is one more way to lose a response.
  const common = { accept: 'application/json', 'accept-encoding': 'identity', 'user-agent': userAgent }
  // Each header once: some services refuse a second one.
  const ownAndCommon = [...Object.entries(common).filter(([name]) => !own.has(name)), ...own].flat()
  return (endpoint, parts, secret) => {
    const [method, ownPath] = endpoint.split(' ') as ['GET' | 'POST', string]
    const credential = credentialFor(auth, secret)
    const query = [parts.query, credential.query].filter((part) => part != null && part !== '')
    const headers = [...ownAndCommon]
    if (parts.body !== undefined && !own.has('content-type'))
      headers.push(
        'content-type',
        parts.isForm === true ? 'application/x-www-form-urlencoded' : 'application/json',
      )
    if (credential.header !== null) headers.push(...credential.header)
    return {
      origin,
      method,
      path: prefix + (parts.path ?? ownPath) + (query.length === 0 ? '' : `?${query.join('&')}`),
      headers,
      body: parts.body ?? null,
    }
  }
}
