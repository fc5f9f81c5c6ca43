import type { IncomingHttpHeaders } from 'node:http'
import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { isLoopbackHost } from '../util/url.ts'

export interface AccessPolicy {
  /** Null if not set. */
  readonly token: string | null
  /** The address that the server listens on. */
  readonly host: string
  /** FILLRATE_PUBLIC_URL; null if not set. If set, outside requests reach this server. */
  readonly publicUrl: string | null
}

export type AuthResult =
  | { readonly isAuthorized: true; readonly method: 'loopback' | 'bearer' | 'session' }
  | {
      readonly isAuthorized: false
      readonly status: 401 | 403
      readonly reason: string
      /** The wrong token or session; null if there was none, or the session has expired. */
      readonly attemptedToken: string | null
    }

/**
 * Authorizes a request. If a token is set, every request needs it, also from loopback: a proxy on this machine makes
 * remote clients look local. Without a token, only local requests are authorized, and only without any sign of a
 * proxy: a request cannot prove that there is none.
 */
export function authorize(
  policy: AccessPolicy,
  request: {
    readonly headers: IncomingHttpHeaders
    /** The session cookie; null without one. */
    readonly session: string | null
    readonly now: number
  },
): AuthResult {
  const { token } = policy
  const { headers, session, now } = request
  if (token === null) {
    const reason = closedReason(policy) ?? remoteReason(headers)
    return reason === null ? { isAuthorized: true, method: 'loopback' } : denied(403, reason)
  }
  const bearer = readBearerToken(headers)
  if (bearer !== null && timingSafeEqualText(bearer, token)) return { isAuthorized: true, method: 'bearer' }
  if (session !== null && verifySession(session, token, now)) return { isAuthorized: true, method: 'session' }
  const attempted = bearer ?? (session !== null && hasValidSignature(session, token) ? null : session)
  return denied(
    401,
    'FILLRATE_DASHBOARD_TOKEN is required: send it as a bearer token, or sign in at /login',
    attempted,
  )
}

/** Why a server without a token denies every request; null if it serves local requests. */
export function closedReason({ token, host, publicUrl }: AccessPolicy): string | null {
  if (token !== null) return null
  if (!isLoopbackHost(host))
    return 'FILLRATE_DASHBOARD_TOKEN is not set; without it, access is limited to loopback'
  if (publicUrl !== null)
    return 'FILLRATE_PUBLIC_URL is set, so outside requests reach this server; set FILLRATE_DASHBOARD_TOKEN to allow access with the token'
  return null
}

/** Headers that proxies add. */
const PROXY_HEADERS =
  /^(?:forwarded|via|x-(?:original-)?forwarded(?:-.+)?|x-real-ip|x-client-ip|x-cluster-client-ip|x-envoy-.+|true-client-ip|cf-.+|fly-.+)$/

const findProxyHeader = (headers: IncomingHttpHeaders): string | undefined =>
  Object.keys(headers).find((name) => PROXY_HEADERS.test(name))

function remoteReason(headers: IncomingHttpHeaders): string | null {
  const sign = findProxyHeader(headers)
  if (sign !== undefined)
    return `request came through a proxy (header ${sign}); set FILLRATE_DASHBOARD_TOKEN to allow remote access`
  // DNS rebinding: another site could point its own name here and read this through a local browser.
  if (!isLoopbackHost(hostname(headers.host)))
    return 'request host is not loopback; set FILLRATE_DASHBOARD_TOKEN to allow remote access'
  return null
}

/** The bearer token of an API client. */
export const readBearerToken = (headers: IncomingHttpHeaders): string | null =>
  /^Bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1] ?? null

const denied = (status: 401 | 403, reason: string, attemptedToken: string | null = null): AuthResult => ({
  isAuthorized: false,
  status,
  reason,
  attemptedToken,
})

/** Whether a proxy may have forwarded the request, whatever `peer` connected. */
export const isProxied = (
  { publicUrl }: Pick<AccessPolicy, 'publicUrl'>,
  headers: IncomingHttpHeaders,
  peer: string,
): boolean =>
  publicUrl !== null ||
  findProxyHeader(headers) !== undefined ||
  (isLoopbackHost(peer) && !isLoopbackHost(hostname(headers.host)))

/**
 * Whether a state-changing request came from one of our pages, or from an API client with the token itself. Browsers
 * set these headers, and scripts cannot override them.
 */
export function isSameOrigin(headers: IncomingHttpHeaders, by: 'loopback' | 'bearer' | 'session'): boolean {
  if (by === 'bearer') return true
  const site = headers['sec-fetch-site']
  if (site !== undefined) return site === 'same-origin'
  const { origin } = headers
  return origin !== undefined && URL.canParse(origin) && new URL(origin).host === headers.host
}

/** The name in a Host header, without the port. */
const hostname = (header = ''): string => header.replace(/:\d+$/, '')

/** Lifetime of a session, in milliseconds. */
const SESSION_LIFETIME_MS = 7 * 24 * 3_600_000
export const SESSION_COOKIE = 'fillrate_session'

/** Compares secrets in constant time, without revealing their length or the first difference. */
export function timingSafeEqualText(given: string, expected: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given), digest(expected))
}

/** The cookie value: expiry time and signature. Every process with the same token accepts it. */
export function signSession(token: string, now: number): string {
  const ends = String(now + SESSION_LIFETIME_MS)
  return `${ends}.${sessionSignature(ends, token)}`
}

export function verifySession(session: string, token: string, now: number): boolean {
  return hasValidSignature(session, token) && Number(session.split('.')[0]) > now
}

/** Whether the session was signed with this token, expired or not. */
export function hasValidSignature(session: string, token: string): boolean {
  const [ends = '', signature = ''] = session.split('.')
  return timingSafeEqualText(signature, sessionSignature(ends, token))
}

const sessionSignature = (ends: string, token: string): string =>
  createHmac('sha256', token).update(`fillrate session ${ends}`).digest('hex')

/**
 * Attributes of the session cookie: not readable by scripts, and not sent by other sites.
 * @param isSecure whether the browser uses TLS
 */
export const sessionCookieOptions = (isSecure: boolean) =>
  ({
    path: '/',
    maxAge: SESSION_LIFETIME_MS / 1_000,
    httpOnly: true,
    sameSite: 'strict',
    secure: isSecure,
  }) as const

/** The session among a request's cookies; null if there is none. */
export const readSession = (cookies: Readonly<Record<string, string | undefined>>): string | null =>
  cookies[SESSION_COOKIE] ?? null
