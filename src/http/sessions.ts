import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { DashboardToken } from '../config/env-values.ts'

/** Lifetime of a session, in milliseconds. */
const SESSION_LIFETIME_MS = 7 * 24 * 3_600_000
export const SESSION_COOKIE = 'fillrate_session'

/** Compares secrets in constant time, without revealing their length or the first difference. */
export function timingSafeEqualText(given: string, expected: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given), digest(expected))
}

/** The token that a text is, with or without the name before it; null if it is none. */
export const findToken = (tokens: readonly DashboardToken[], text: string): DashboardToken | null =>
  tokens.find(
    ({ name, secret }) => timingSafeEqualText(text, secret) || timingSafeEqualText(text, `${name}:${secret}`),
  ) ?? null

/**
 * The cookie value: expiry time, a random part that makes it unique, and a signature. Every process with the same token
 * accepts it, and none after the token was removed.
 */
export function signSession(token: DashboardToken, now: number): string {
  const content = `${now + SESSION_LIFETIME_MS}.${randomBytes(16).toString('hex')}`
  return `${content}.${sign(token.secret, `session ${content}`)}`
}

/** A session whose signature is valid. */
interface Session {
  readonly token: DashboardToken
  readonly expiresAt: Date
  readonly isExpired: boolean
}

/** @returns null if no current token has signed it */
export function readSession(session: string, tokens: readonly DashboardToken[], now: number): Session | null {
  const [ends = '', nonce = '', signature = '', ...more] = session.split('.')
  // A session is revoked by its text, so it must have one text only.
  if (more.length > 0) return null
  const token = tokens.find(({ secret }) =>
    timingSafeEqualText(signature, sign(secret, `session ${ends}.${nonce}`)),
  )
  if (token === undefined) return null
  return { token, expiresAt: new Date(Number(ends)), isExpired: Number(ends) <= now }
}

/** Identifies a session in the list of revoked ones, which must not hold usable sessions. */
export const hashSession = (session: string): Buffer => createHash('sha256').update(session).digest()

/** Secret of this process: without a token there is no session that forms could be bound to. */
const PROCESS_SECRET = randomBytes(32).toString('hex')

/**
 * The secret of a page's forms, which no other site can read: bound to the session, or, where the dashboard needs no
 * token, to this process.
 */
export const createFormToken = (session: string | null, token: DashboardToken | null): string =>
  sign(token?.secret ?? PROCESS_SECRET, `form ${session ?? ''}`)

const sign = (secret: string, text: string): string =>
  createHmac('sha256', secret).update(`fillrate ${text}`).digest('hex')

/**
 * Attributes of the session cookie: not readable by scripts, and sent by other sites only with links to pages. `Strict`
 * would show the sign-in page to everyone who follows a link from a chat. Changes are POSTs, for which `Lax` withholds the
 * cookie, too.
 * @param isSecure whether the browser uses TLS
 */
export const sessionCookieOptions = (isSecure: boolean) =>
  ({
    path: '/',
    maxAge: SESSION_LIFETIME_MS / 1_000,
    httpOnly: true,
    sameSite: 'lax',
    secure: isSecure,
  }) as const
