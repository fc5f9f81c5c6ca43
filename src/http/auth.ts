import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { DashboardToken } from '../config/environment.ts'
import { isLoopbackHost } from '../util/text.ts'

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
  /** How its token was sent; `loopback`: without one. */
  readonly method: 'loopback' | Credentials['method']
  /** The name of its token; without a token, of the machine's user at the browser. */
  readonly name: string
  /** Whether it may change anything. */
  readonly isOperator: boolean
}

type AuthResult =
  | { readonly isAuthorized: true; readonly access: Access }
  | { readonly isAuthorized: false; readonly status: 401 | 403; readonly reason: string }

/**
 * Authorizes a request. If a token is set, every request needs it, also from loopback: a proxy on this machine makes
 * remote clients look local. Without a token, only local requests are authorized, and only without any sign of a
 * proxy: a request cannot prove that there is none.
 */
export function authorize(policy: AccessPolicy, headers: IncomingHttpHeaders): AuthResult {
  const { tokens } = policy
  if (tokens.length === 0) {
    const reason = closedReason(policy) ?? remoteReason(headers)
    return reason === null ? granted('loopback', null) : denied(403, reason)
  }
  const given = readCredentials(headers)
  const token = given === null ? null : findToken(tokens, given.token)
  if (given !== null && token !== null) return granted(given.method, token)
  return denied(
    401,
    'A token of FILLRATE_DASHBOARD_TOKEN or FILLRATE_DASHBOARD_READ_TOKEN is required: as the password, with any user name, or as a bearer token',
  )
}

const granted = (method: Access['method'], token: DashboardToken | null): AuthResult => ({
  isAuthorized: true,
  access: { method, name: token?.name ?? 'a local user', isOperator: token?.role !== 'reader' },
})

/** The token that a text is, with or without the name before it; null if it is none. */
const findToken = (tokens: readonly DashboardToken[], text: string): DashboardToken | null =>
  tokens.find(
    ({ name, secret }) => timingSafeEqualText(text, secret) || timingSafeEqualText(text, `${name}:${secret}`),
  ) ?? null

/** Compares secrets in constant time, without revealing their length or the first difference. */
function timingSafeEqualText(given: string, expected: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given), digest(expected))
}

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

interface Credentials {
  /** `basic`: a browser prompted its user for it, and sends it by itself from now on. `bearer`: a program sends it. */
  readonly method: 'basic' | 'bearer'
  readonly token: string
}

/** The token of a request: a bearer token, or the password of Basic, whose user name says nothing. Null: there is none. */
function readCredentials({ authorization = '' }: IncomingHttpHeaders): Credentials | null {
  const [, scheme = '', value = ''] = /^(Basic|Bearer) +(\S+)$/i.exec(authorization) ?? []
  if (scheme === '') return null
  if (scheme.toLowerCase() === 'bearer') return { method: 'bearer', token: value }
  const pair = Buffer.from(value, 'base64').toString()
  return { method: 'basic', token: pair.slice(pair.indexOf(':') + 1) }
}

const denied = (status: 401 | 403, reason: string): AuthResult => ({ isAuthorized: false, status, reason })

/**
 * Whether a state-changing request came from one of our pages, or from a program, which sends the token itself: a
 * browser sends that of Basic with the requests of other sites, too. Browsers set these headers, and scripts cannot
 * override them.
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
