import type { IncomingHttpHeaders } from 'node:http'
import type { DashboardToken } from '../config/env-values.ts'
import { isLoopbackHost } from '../util/url.ts'
import { createFormToken, findToken, hashSession, readSession } from './sessions.ts'

interface AccessPolicy {
  /** Empty if none is set. */
  readonly tokens: readonly DashboardToken[]
  /** The address that the server listens on. */
  readonly host: string
  /** FILLRATE_PUBLIC_URL; null if not set. If set, outside requests reach this server. */
  readonly publicUrl: string | null
}

/** What a request may do, and in whose name. */
export interface Access {
  readonly method: 'loopback' | 'bearer' | 'session'
  /** The name of its token; without a token, of the machine's user at the browser. */
  readonly name: string
  /** Whether it may change anything. */
  readonly isOperator: boolean
  /** What its forms must send back. */
  readonly formToken: string
  /** Null without one. */
  readonly session: { readonly hash: Buffer; readonly endsAt: Date } | null
}

type AuthResult =
  | { readonly isAuthorized: true; readonly access: Access }
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
  const { tokens } = policy
  const { headers, session: cookie, now } = request
  if (tokens.length === 0) {
    const reason = closedReason(policy) ?? remoteReason(headers)
    return reason === null ? granted('loopback', null, null, null) : denied(403, reason)
  }
  const bearer = readBearerToken(headers)
  const token = bearer === null ? null : findToken(tokens, bearer)
  if (token !== null) return granted('bearer', token, null, null)
  const session = cookie === null ? null : readSession(cookie, tokens, now)
  if (session !== null && !session.isExpired)
    return granted('session', session.token, cookie, session.expiresAt)
  return denied(
    401,
    session === null
      ? 'FILLRATE_DASHBOARD_TOKEN is required: send it as a bearer token, or sign in at /login'
      : 'Your session has ended: sign in again',
    bearer ?? (session === null ? cookie : null),
  )
}

const granted = (
  method: Access['method'],
  token: DashboardToken | null,
  session: string | null,
  sessionEnds: Date | null,
): AuthResult => ({
  isAuthorized: true,
  access: {
    method,
    name: token?.name ?? 'a local user',
    isOperator: token?.role !== 'reader',
    formToken: createFormToken(session, token),
    session:
      session !== null && sessionEnds !== null ? { hash: hashSession(session), endsAt: sessionEnds } : null,
  },
})

/** Why a server without a token denies every request; null if it serves local requests. */
export function closedReason({ tokens, host, publicUrl }: AccessPolicy): string | null {
  if (tokens.length > 0) return null
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

/**
 * Whether a state-changing request came from one of our pages, or from an API client with the token itself. Browsers
 * set these headers, and scripts cannot override them.
 */
export function isSameOrigin(headers: IncomingHttpHeaders, by: Access['method']): boolean {
  if (by === 'bearer') return true
  const site = headers['sec-fetch-site']
  if (site !== undefined) return site === 'same-origin'
  const { origin } = headers
  return origin !== undefined && URL.canParse(origin) && new URL(origin).host === headers.host
}

/** The name in a Host header, without the port. */
const hostname = (header = ''): string => header.replace(/:\d+$/, '')
