import type { Dispatcher } from 'undici'
import type { OAuthClient } from '../domain/service/auth.ts'
import { isObject, toNumberText } from '../domain/json.ts'
import { networkErrorCode, networkErrorMeaning } from '../util/network-errors.ts'
import { type IssuedToken, parseTokenLife } from './access-token.ts'
import { exchange, type ExchangeRequest, type HttpExchange } from './exchange.ts'
import { parseHttpDate, parseRetryAfter } from './rate-limit/headers.ts'
import { isHtml, parseResponseBody } from './response-errors.ts'

/** Why there is no token. Nothing here holds what was sent or answered, but for the error code of the answer. */
export class TokenFailure extends Error {
  override readonly name = 'TokenFailure'
  /** `refused`: the client, or what it requests; `unavailable`: the endpoint is at fault. */
  readonly kind: 'refused' | 'unavailable'
  readonly retryAfterMs: number | null
  readonly isUnreachable: boolean

  constructor(
    kind: TokenFailure['kind'],
    reason: string,
    more: { readonly retryAfterMs?: number | null; readonly isUnreachable?: boolean } = {},
  ) {
    super(reason)
    this.kind = kind
    this.retryAfterMs = more.retryAfterMs ?? null
    this.isUnreachable = more.isUnreachable ?? false
  }
}

/** Far above any answer with a token. */
const MAX_TOKEN_ANSWER_BYTES = 256 * 1024

/** Where tokens are requested. */
export interface TokenEndpoint {
  readonly origin: string
  /** With the query, if it has one. */
  readonly path: string
}

/** The token endpoint of a service: with TLS, or on this machine, which the configuration has checked. */
export function locateTokenEndpoint(
  { tokenUrl }: OAuthClient,
  base: { readonly origin: string; readonly prefix: string },
): TokenEndpoint {
  const url = new URL(tokenUrl.startsWith('/') ? base.origin + base.prefix + tokenUrl : tokenUrl)
  return { origin: url.origin, path: url.pathname + url.search }
}

/**
 * The request for a token by client credentials (RFC 6749, section 4.4.2), with the client in the body (section 2.3.1).
 * @param key `id:secret`: the id ends at the first colon
 */
export function createTokenRequest(
  { origin, path }: TokenEndpoint,
  key: string,
  userAgent: string,
): ExchangeRequest {
  const at = key.indexOf(':')
  const form = new URLSearchParams({
    grant_type: 'client_credentials',
    client_id: key.slice(0, at),
    client_secret: key.slice(at + 1),
  })
  const headers = [
    'accept',
    'application/json',
    'accept-encoding',
    'identity',
    'user-agent',
    userAgent,
    'content-type',
    'application/x-www-form-urlencoded',
  ]
  return { origin, method: 'POST', path, headers, body: form.toString() }
}

/**
 * Requests a token.
 * @throws TokenFailure
 */
export async function requestToken(
  dispatcher: Dispatcher,
  request: ExchangeRequest,
  options: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<IssuedToken> {
  const answered = await exchange(dispatcher, request, { ...options, maxBodyBytes: MAX_TOKEN_ANSWER_BYTES })
  return readTokenAnswer(answered, new URL(request.origin).host, Date.now())
}

/** Errors of section 5.2 and its extensions. A text that is none of them could hold anything, and is not shown. */
const REFUSALS: ReadonlySet<string> = new Set([
  'invalid_request',
  'invalid_client',
  'invalid_grant',
  'unauthorized_client',
  'unsupported_grant_type',
  'invalid_scope',
  'invalid_target',
  'access_denied',
])
/** Those that end by themselves. */
const TEMPORARY: ReadonlySet<string> = new Set(['server_error', 'temporarily_unavailable', 'slow_down'])
/** Answers to a request that may be sent again. */
const TRY_AGAIN: ReadonlySet<number> = new Set([408, 421, 423, 425, 429])
const NO_ENDPOINT: ReadonlySet<number> = new Set([404, 405, 410, 501])

/**
 * What an answer of the token endpoint means (RFC 6749, sections 5.1 and 5.2). What could be something in front of it, or an
 * outage, refuses nothing.
 * @throws TokenFailure
 */
function readTokenAnswer(
  { head, body, failure }: Pick<HttpExchange, 'head' | 'body' | 'failure'>,
  host: string,
  now: number,
): IssuedToken {
  const endpoint = `token endpoint ${host}`
  if (head === null || failure !== null)
    throw new TokenFailure('unavailable', `${endpoint}: ${describeLoss(failure)}`, {
      isUnreachable: head === null,
    })
  const { status, headers } = head
  const parsed = parseResponseBody(body)
  const answer = parsed.ok && isObject(parsed.value) ? parsed.value : {}
  const code = readErrorCode(answer['error'])
  const what = `${endpoint}: HTTP ${status}${code === null ? '' : `, ${code}`}`
  const date = headers['date']
  const serverNow = typeof date === 'string' ? parseHttpDate(date) : null
  const unavailable = (reason = what): TokenFailure =>
    new TokenFailure('unavailable', reason, {
      retryAfterMs: parseRetryAfter(headers['retry-after'], serverNow ?? now),
    })
  if (TRY_AGAIN.has(status) || (status >= 500 && status !== 501)) throw unavailable()
  if (code !== null) throw TEMPORARY.has(code) ? unavailable() : new TokenFailure('refused', what)
  if (status >= 200 && status < 300) return readToken(answer, `${what} without a token`, endpoint)
  if (NO_ENDPOINT.has(status) || status < 400)
    throw new TokenFailure('refused', `${what}; is \`auth.oauth.tokenUrl\` right?`)
  // A page of a firewall is none of the endpoint's.
  const isOwn = (status === 400 || status === 403) && !isHtml(headers, body)
  throw status === 401 || isOwn ? new TokenFailure('refused', what) : unavailable()
}

function readToken(
  { access_token: token, token_type: type, expires_in: expiresIn }: Readonly<Record<string, unknown>>,
  without: string,
  endpoint: string,
): IssuedToken {
  // The form of section 2.1 of RFC 6750, and what else a header holds.
  if (typeof token !== 'string' || !/^[\x21-\x7e]+$/.test(token))
    throw new TokenFailure('unavailable', without)
  // A type that is not known must not be used (section 7.1). Its letters are of any case (section 5.1).
  if (typeof type === 'string' && type.toLowerCase() !== 'bearer')
    throw new TokenFailure(
      'refused',
      `${endpoint}: tokens of a type other than Bearer, which are not supported`,
    )
  return { text: token, lifeMs: parseTokenLife(toNumberText(expiresIn) ?? expiresIn) }
}

const readErrorCode = (error: unknown): string | null =>
  typeof error === 'string' && (REFUSALS.has(error) || TEMPORARY.has(error)) ? error : null

function describeLoss(failure: HttpExchange['failure']): string {
  if (failure?.kind === 'timeout') return 'no response in time'
  if (failure?.kind === 'too_large') return 'an answer that is no token'
  const code = networkErrorCode(failure?.cause)
  return networkErrorMeaning(code) ?? code ?? 'connection lost'
}
