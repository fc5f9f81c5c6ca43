import { createHash, createHmac, timingSafeEqual } from 'node:crypto'

/** How long one stays signed in, in milliseconds. */
const SESSION_MS = 7 * 24 * 3_600_000
export const COOKIE = 'fillrate_session'

/** Compares secrets in a time that tells neither their length nor where they differ. */
export function isSame(given: string, expected: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given), digest(expected))
}

/** What stands in the cookie: when it ends, signed with the token, so that any process with the same token takes it. */
export function mintSession(token: string, now: number): string {
  const ends = String(now + SESSION_MS)
  return `${ends}.${signatureOf(ends, token)}`
}

export function isSession(session: string, token: string, now: number): boolean {
  return isSigned(session, token) && Number(session.split('.')[0]) > now
}

/** Whether a session was ever good under this token. */
export function isSigned(session: string, token: string): boolean {
  const [ends = '', signature = ''] = session.split('.')
  return isSame(signature, signatureOf(ends, token))
}

const signatureOf = (ends: string, token: string): string =>
  createHmac('sha256', token).update(`fillrate session ${ends}`).digest('hex')

/** The cookie as a header. @param session empty: takes it away */
export function cookieHeader(session: string, secure: boolean): string {
  const age = session === '' ? 0 : SESSION_MS / 1_000
  return `${COOKIE}=${session}; Path=/; Max-Age=${age}; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}`
}

/** One cookie out of the header that holds them all. */
export function cookieIn(header: string | undefined, name: string): string | null {
  for (const one of (header ?? '').split(';')) {
    const [key, ...value] = one.trim().split('=')
    if (key === name) return value.join('=')
  }
  return null
}
