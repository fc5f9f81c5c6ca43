import type { IncomingHttpHeaders } from 'node:http'
import { isIP } from 'node:net'
import { createHash, createHmac, timingSafeEqual } from 'node:crypto'

export interface AccessPolicy {
  /** Null: none is set. */
  readonly token: string | null
  /** Where the server listens. */
  readonly host: string
  /** FILLRATE_PUBLIC_URL: requests from outside reach this server. Null: not set. */
  readonly publicUrl: string | null
}

export type AuthResult =
  | { readonly isAuthorized: true; readonly method: 'loopback' | 'bearer' | 'session' }
  | {
      readonly isAuthorized: false
      readonly status: 401 | 403
      readonly reason: string
      /** What was given in place of the token; null: nothing, or a session that has ended. */
      readonly attemptedToken: string | null
    }

/**
 * Whether a request may see what is behind the door. Where a token is set, it is demanded of everybody: a proxy on this
 * machine makes strangers look as if they came from it. Without one only this machine may look, and only where nothing
 * says that a proxy may stand in between; nothing in a request proves that none does, so that each sign of one counts.
 */
export function authorize(door: AccessPolicy, headers: IncomingHttpHeaders, now: number): AuthResult {
  const { token } = door
  if (token === null) {
    const why = closedReason(door) ?? remoteReason(headers)
    return why === null ? { isAuthorized: true, method: 'loopback' } : denied(403, why)
  }
  const bearer = readBearerToken(headers)
  if (bearer !== null && timingSafeEqualText(bearer, token)) return { isAuthorized: true, method: 'bearer' }
  const session = readSession(headers)
  if (session !== null && verifySession(session, token, now)) return { isAuthorized: true, method: 'session' }
  const guess = bearer ?? (session !== null && hasValidSignature(session, token) ? null : session)
  return denied(
    401,
    'FILLRATE_DASHBOARD_TOKEN is required, as a bearer token or by signing in at /login',
    guess,
  )
}

/** Why a server without a token shows nothing to any request; null: it shows this machine what it asks for. */
export function closedReason({ token, host, publicUrl }: AccessPolicy): string | null {
  if (token !== null) return null
  if (!isLoopback(host))
    return 'FILLRATE_DASHBOARD_TOKEN is not set, and without it only a server on loopback shows this'
  if (publicUrl !== null)
    return 'FILLRATE_PUBLIC_URL is set, so requests from outside reach this server: set FILLRATE_DASHBOARD_TOKEN too, and this is shown to those who have it'
  return null
}

/** What proxies add to a request, each by its own habit. */
const PROXY_HEADERS =
  /^(?:forwarded|via|x-(?:original-)?forwarded(?:-.+)?|x-real-ip|x-client-ip|x-cluster-client-ip|x-envoy-.+|true-client-ip|cf-.+|fly-.+)$/

const findProxyHeader = (headers: IncomingHttpHeaders): string | undefined =>
  Object.keys(headers).find((name) => PROXY_HEADERS.test(name))

function remoteReason(headers: IncomingHttpHeaders): string | null {
  const sign = findProxyHeader(headers)
  if (sign !== undefined)
    return `this came through a proxy (it has the header ${sign}): set FILLRATE_DASHBOARD_TOKEN to allow that`
  // A page of another site could have a browser here read this under a name that it has made point here.
  if (!isLoopback(hostname(headers.host)))
    return 'this was asked for under a name that is not this machine: set FILLRATE_DASHBOARD_TOKEN to allow it'
  return null
}

/** The token that a program shows. */
export const readBearerToken = (headers: IncomingHttpHeaders): string | null =>
  /^Bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1] ?? null

const denied = (status: 401 | 403, reason: string, attemptedToken: string | null = null): AuthResult => ({
  isAuthorized: false,
  status,
  reason,
  attemptedToken,
})

export const readSession = (headers: IncomingHttpHeaders): string | null =>
  readCookie(headers.cookie, SESSION_COOKIE)

/** Whether a proxy may have passed a request on, whatever it was that came from `peer`. */
export const isProxied = (
  { publicUrl }: Pick<AccessPolicy, 'publicUrl'>,
  headers: IncomingHttpHeaders,
  peer: string,
): boolean =>
  publicUrl !== null ||
  findProxyHeader(headers) !== undefined ||
  (isLoopback(peer) && !isLoopback(hostname(headers.host)))

/**
 * Whether a request that changes something was made by a page of ours, or by no page at all but with the token itself.
 * Browsers say where a request comes from; what they say can't be set by a script.
 */
export function isSameOrigin(headers: IncomingHttpHeaders, by: 'loopback' | 'bearer' | 'session'): boolean {
  if (by === 'bearer') return true
  const site = headers['sec-fetch-site']
  if (site !== undefined) return site === 'same-origin'
  const { origin } = headers
  return origin !== undefined && URL.canParse(origin) && new URL(origin).host === headers.host
}

export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, '')
  return bare === 'localhost' || bare === '::1' || (isIP(bare) === 4 && bare.startsWith('127.'))
}

/** The name in a Host header, without the port. */
const hostname = (header = ''): string => header.replace(/:\d+$/, '')

/** How long one stays signed in, in milliseconds. */
const SESSION_LIFETIME_MS = 7 * 24 * 3_600_000
export const SESSION_COOKIE = 'fillrate_session'

/** Compares secrets in a time that tells neither their length nor where they differ. */
export function timingSafeEqualText(given: string, expected: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given), digest(expected))
}

/** What stands in the cookie: when it ends, signed with the token, so that any process with the same token takes it. */
export function signSession(token: string, now: number): string {
  const ends = String(now + SESSION_LIFETIME_MS)
  return `${ends}.${sessionSignature(ends, token)}`
}

export function verifySession(session: string, token: string, now: number): boolean {
  return hasValidSignature(session, token) && Number(session.split('.')[0]) > now
}

/** Whether a session was ever good under this token. */
export function hasValidSignature(session: string, token: string): boolean {
  const [ends = '', signature = ''] = session.split('.')
  return timingSafeEqualText(signature, sessionSignature(ends, token))
}

const sessionSignature = (ends: string, token: string): string =>
  createHmac('sha256', token).update(`fillrate session ${ends}`).digest('hex')

/** The cookie as a header. @param session empty: takes it away */
export function cookieHeader(session: string, secure: boolean): string {
  const age = session === '' ? 0 : SESSION_LIFETIME_MS / 1_000
  return `${SESSION_COOKIE}=${session}; Path=/; Max-Age=${age}; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}`
}

/** One cookie out of the header that holds them all. */
export function readCookie(header: string | undefined, name: string): string | null {
  for (const one of (header ?? '').split(';')) {
    const [key, ...value] = one.trim().split('=')
    if (key === name) return value.join('=')
  }
  return null
}
