import type { Dispatcher } from 'undici'
import type { OAuthClient } from '../domain/service/auth.ts'
import { AccessToken } from './access-token.ts'
import { openDispatcher, type ProxySettings } from './dispatcher.ts'
import { AbortedError, TokenUnavailableError } from './errors.ts'
import { createTokenRequest, locateTokenEndpoint, requestToken, TokenFailure } from './token-endpoint.ts'

interface ClientTokenOptions {
  readonly proxies?: ProxySettings | undefined
  readonly oauth: OAuthClient
  readonly origin: string
  readonly prefix: string
  /** `id:secret`. */
  readonly client: string
  readonly userAgent: string
  readonly timeoutMs: number
}

/** Milliseconds, for any timeout of calls: the lease of a job outlasts its calls by little more. */
const MAX_TOKEN_TIMEOUT_MS = 30_000

/**
 * The access token of a service, in the memory of the process that calls. Its request, one in a token's life, takes no
 * permit of the rate limit, also at the service's own host: the call that waits for the token would have to have one
 * first, and where the service counts the request, the headers of the next answer say so.
 */
export class ClientToken {
  readonly #dispatcher: Dispatcher
  readonly #token: AccessToken
  /** A request that no call waits for any more ends with the client. */
  readonly #closed = new AbortController()
  #waiting = 0

  constructor({ oauth, client, proxies, userAgent, ...options }: ClientTokenOptions) {
    const timeoutMs = Math.min(options.timeoutMs, MAX_TOKEN_TIMEOUT_MS)
    const endpoint = locateTokenEndpoint(oauth, options)
    const request = createTokenRequest(endpoint, client, userAgent)
    this.#dispatcher = openDispatcher(endpoint.origin, proxies, {
      connections: 1,
      allowH2: false,
      connectTimeout: Math.min(timeoutMs, 10_000),
      headersTimeout: 0,
      bodyTimeout: 0,
    })
    this.#token = new AccessToken({
      request: () => requestToken(this.#dispatcher, request, { timeoutMs, signal: this.#closed.signal }),
      now: () => performance.now(),
    })
  }

  /**
   * The token to call with now.
   * @throws TokenFailure if the endpoint refuses the client
   * @throws ServiceError if there is none for another reason
   */
  get(endpoint: string, signal: AbortSignal | undefined): string | Promise<string> {
    const token = this.#token.get()
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

  accept(token: string): void {
    this.#token.accept(token)
  }

  /** @see AccessToken.refuse */
  refuse(token: string): boolean {
    return this.#token.refuse(token)
  }

  /** The client is rejected: when it is tried again, it is with a new token. */
  forget(): void {
    this.#token.forget()
  }

  async close(): Promise<void> {
    if (this.#waiting === 0) this.#closed.abort()
    await this.#dispatcher.close()
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
