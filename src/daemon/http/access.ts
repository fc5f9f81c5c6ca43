import type { IncomingHttpHeaders } from 'node:http'
import { isIP } from 'node:net'
import { COOKIE, cookieIn, isSame, isSession } from './session.ts'

export interface Door {
  /** Null: none is set. */
  readonly token: string | null
  /** Where the server listens. */
  readonly host: string
}

export type Admission =
  | { readonly admitted: true; readonly by: 'loopback' | 'bearer' | 'session' }
  | { readonly admitted: false; readonly status: 401 | 403; readonly why: string }

/**
 * Whether a request may see what is behind the door. Where a token is set, it is demanded of everybody: a proxy on this
 * machine makes strangers look as if they came from it. Without one only this machine may look, and only under its own
 * name, so that no page of somebody else's can have a browser here read it under a name that it has made point here.
 */
export function admit(door: Door, headers: IncomingHttpHeaders, now: number): Admission {
  const { token } = door
  if (token === null) {
    if (!isLoopback(door.host))
      return refused(
        403,
        'FILLRATE_DASHBOARD_TOKEN is not set, and without it only a server on loopback shows this',
      )
    if (!isLoopback(hostIn(headers.host)))
      return refused(
        403,
        'this was asked for under a name that is not this machine: set FILLRATE_DASHBOARD_TOKEN to allow it',
      )
    return { admitted: true, by: 'loopback' }
  }
  const bearer = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1]
  if (bearer !== undefined && isSame(bearer, token)) return { admitted: true, by: 'bearer' }
  const session = cookieIn(headers.cookie, COOKIE)
  if (session !== null && isSession(session, token, now)) return { admitted: true, by: 'session' }
  return refused(401, 'FILLRATE_DASHBOARD_TOKEN is wanted, as a bearer token or by signing in at /login')
}

const refused = (status: 401 | 403, why: string): Admission => ({ admitted: false, status, why })

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
