import type { IncomingHttpHeaders } from 'node:http'
import { isIP } from 'node:net'
import { COOKIE, cookieIn, isSame, isSession, isSigned } from './session.ts'

export interface Door {
  /** Null: none is set. */
  readonly token: string | null
  /** Where the server listens. */
  readonly host: string
  /** FILLRATE_PUBLIC_URL: requests from outside reach this server. Null: not set. */
  readonly publicUrl: string | null
}

export type Admission =
  | { readonly admitted: true; readonly by: 'loopback' | 'bearer' | 'session' }
  | {
      readonly admitted: false
      readonly status: 401 | 403
      readonly why: string
      /** What was given in place of the token; null: nothing, or a session that has ended. */
      readonly guess: string | null
    }

/**
 * Whether a request may see what is behind the door. Where a token is set, it is demanded of everybody: a proxy on this
 * machine makes strangers look as if they came from it. Without one only this machine may look, and only where nothing
 * says that a proxy may stand in between; nothing in a request proves that none does, so that each sign of one counts.
 */
export function admit(door: Door, headers: IncomingHttpHeaders, now: number): Admission {
  const { token } = door
  if (token === null) {
    const why = whyClosed(door) ?? whyForeign(headers)
    return why === null ? { admitted: true, by: 'loopback' } : refused(403, why)
  }
  const bearer = bearerIn(headers)
  if (bearer !== null && isSame(bearer, token)) return { admitted: true, by: 'bearer' }
  const session = sessionIn(headers)
  if (session !== null && isSession(session, token, now)) return { admitted: true, by: 'session' }
  const guess = bearer ?? (session !== null && isSigned(session, token) ? null : session)
  return refused(
    401,
    'FILLRATE_DASHBOARD_TOKEN is required, as a bearer token or by signing in at /login',
    guess,
  )
}

/** Why a server without a token shows nothing to any request; null: it shows this machine what it asks for. */
export function whyClosed({ token, host, publicUrl }: Door): string | null {
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

const proxySign = (headers: IncomingHttpHeaders): string | undefined =>
  Object.keys(headers).find((name) => PROXY_HEADERS.test(name))

function whyForeign(headers: IncomingHttpHeaders): string | null {
  const sign = proxySign(headers)
  if (sign !== undefined)
    return `this came through a proxy (it has the header ${sign}): set FILLRATE_DASHBOARD_TOKEN to allow that`
  // A page of another site could have a browser here read this under a name that it has made point here.
  if (!isLoopback(hostIn(headers.host)))
    return 'this was asked for under a name that is not this machine: set FILLRATE_DASHBOARD_TOKEN to allow it'
  return null
}

/** The token that a program shows. */
export const bearerIn = (headers: IncomingHttpHeaders): string | null =>
  /^Bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1] ?? null

const refused = (status: 401 | 403, why: string, guess: string | null = null): Admission => ({
  admitted: false,
  status,
  why,
  guess,
})

export const sessionIn = (headers: IncomingHttpHeaders): string | null => cookieIn(headers.cookie, COOKIE)

/** Whether a proxy may have passed a request on, whatever it was that came from `peer`. */
export const isProxied = (
  { publicUrl }: Pick<Door, 'publicUrl'>,
  headers: IncomingHttpHeaders,
  peer: string,
): boolean =>
  publicUrl !== null ||
  proxySign(headers) !== undefined ||
  (isLoopback(peer) && !isLoopback(hostIn(headers.host)))

/**
 * Whether a request that changes something was made by a page of ours, or by no page at all but with the token itself.
 * Browsers say where a request comes from; what they say can't be set by a script.
 */
export function isOurs(headers: IncomingHttpHeaders, by: 'loopback' | 'bearer' | 'session'): boolean {
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
const hostIn = (header = ''): string => header.replace(/:\d+$/, '')
