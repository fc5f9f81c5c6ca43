import type { Dispatcher } from 'undici'
import type { OAuthClient } from '../domain/service/auth.ts'
import { AccessToken } from './access-token.ts'
import type { ApiKey } from './api-keys.ts'
import { openDispatcher, type ProxySettings } from './dispatcher.ts'
import { AbortedError, TokenUnavailableError } from './errors.ts'
import {
  createTokenRequest,
  locateTokenEndpoint,
  requestToken,
  splitClient,
  TokenFailure,
} from './token-endpoint.ts'

interface ClientTokensOptions {
  readonly proxies?: ProxySettings | undefined
  readonly oauth: OAuthClient
  readonly origin: string
  readonly prefix: string
  readonly keys: readonly ApiKey[]
  readonly userAgent: string
  readonly timeoutMs: number
}

/** Milliseconds, for any timeout of calls: the lease of a job outlasts its calls by little more. */
const MAX_TOKEN_TIMEOUT_MS = 30_000

/**
 * The access tokens of a service, one for each key, in the memory of the process that calls. Requests for them take no
 * permit of the rate limit, also at the service's own host: there is one in a token's life, a permit would have to be had
 * before the call that waits for it, and where the service counts it, the headers of the next answer say so.
 */
export class ClientTokens {
  readonly #dispatcher: Dispatcher
  readonly #tokens: ReadonlyMap<ApiKey, AccessToken>
  /** Renewals that no call waits for end with the client. */
  readonly #closed = new AbortController()
  #waiting = 0

  /** @throws TypeError that holds no secret */
  constructor(options: ClientTokensOptions) {
    const { oauth, keys, userAgent } = options
    const timeoutMs = Math.min(options.timeoutMs, MAX_TOKEN_TIMEOUT_MS)
    const endpoint = locateTokenEndpoint(oauth, options)
    for (const { secret } of keys) splitClient(secret)
    this.#dispatcher = openDispatcher(endpoint.origin, options.proxies, {
      connections: 1,
      allowH2: false,
      connectTimeout: Math.min(timeoutMs, 10_000),
      headersTimeout: 0,
      bodyTimeout: 0,
    })
    this.#tokens = new Map(
      keys.map((key) => {
        const request = createTokenRequest(oauth, endpoint, key.secret, userAgent)
        return [
          key,
          new AccessToken({
            request: () =>
              requestToken(this.#dispatcher, request, { timeoutMs, signal: this.#closed.signal }),
            now: () => performance.now(),
          }),
        ]
      }),
    )
  }

  /**
   * The token to call with now.
   * @throws TokenFailure if the endpoint refuses the client
   * @throws ServiceError if there is none for another reason
   */
  get(key: ApiKey, endpoint: string, signal: AbortSignal | undefined): string | Promise<string> {
    const token = this.#tokenOf(key).get()
    return typeof token === 'string' ? token : this.#wait(token, endpoint, signal)
  }

  async #wait(
    requested: Promise<string>,
    endpoint: string,
    signal: AbortSignal | undefined,
  ): Promise<string> {
    this.#waiting++
    try {
      return await unlessAborted(requested, signal)
    } catch (error) {
      if (signal?.aborted === true)
        throw new AbortedError('aborted; the request was not sent', {
          endpoint,
          maybeSent: false,
          cause: signal.reason,
        })
      if (!(error instanceof TokenFailure) || error.kind === 'refused') throw error
      const { message: reason, retryAfterMs, isUnreachable } = error
      const details = { endpoint, reason, retryAfterMs, isUnreachable }
      throw new TokenUnavailableError(`not sent: no access token (${reason})`, details)
    } finally {
      this.#waiting--
    }
  }

  accept(key: ApiKey, token: string): void {
    this.#tokenOf(key).accept(token)
  }

  /** @see AccessToken.refuse */
  refuse(key: ApiKey, token: string): boolean {
    return this.#tokenOf(key).refuse(token)
  }

  /** The key is rejected: when it is tried again, it is with a new token. */
  forget(key: ApiKey): void {
    this.#tokenOf(key).forget()
  }

  async close(): Promise<void> {
    if (this.#waiting === 0) this.#closed.abort()
    await this.#dispatcher.close()
  }

  #tokenOf(key: ApiKey): AccessToken {
    const token = this.#tokens.get(key)
    if (token === undefined) throw new TypeError(`no client ${key.id}`)
    return token
  }
}

/** Rejects when the signal aborts; the promise goes on for others. */
async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise
  const aborted = Promise.withResolvers<never>()
  const onAbort = (): void => aborted.reject(new Error('aborted'))
  if (signal.aborted) onAbort()
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    return await Promise.race([promise, aborted.promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
