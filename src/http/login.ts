import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Log } from '../util/log.ts'
import { html } from './dashboard/html.ts'
import { renderPage } from './dashboard/layout.ts'
import type { DashboardToken } from '../config/env-values.ts'
import type { Database } from '../store/open.ts'
import { revokeSession } from '../store/sessions.ts'
import { isSameOrigin } from './auth.ts'
import {
  findToken,
  hashSession,
  readSession,
  SESSION_COOKIE,
  sessionCookieOptions,
  signSession,
} from './sessions.ts'
import { logBlocked, type LoginThrottle } from './login-throttle.ts'

interface LoginOptions {
  readonly db: Database
  readonly tokens: readonly DashboardToken[]
  readonly log: Log
  readonly throttle: LoginThrottle
}

/** Registers signing in and out, for servers with a token. */
export function registerLogin(server: FastifyInstance, { db, tokens, log, throttle }: LoginOptions): void {
  server.get<{ Querystring: { next?: string } }>('/login', async (request, reply) =>
    sendLoginForm(reply, { next: request.query.next, fault: null }),
  )

  server.post<{ Body: FormFields }>('/login', async (request, reply) => {
    const next = textField(request.body, 'next') ?? '/'
    const given = textField(request.body, 'token') ?? ''
    if (!isSameOrigin(request.headers, 'session'))
      return sendLoginForm(reply.code(403), { next, fault: 'The form did not come from this page.' })
    const wait = throttle.waitMs(request.ip, Date.now())
    if (wait > 0) {
      reply.header('retry-after', String(Math.ceil(wait / 1_000)))
      return sendLoginForm(reply.code(429), {
        next,
        fault: 'Too many wrong tokens from your address. Try again in a minute.',
      })
    }
    const token = findToken(tokens, given)
    if (token === null) {
      if (throttle.recordFailure(request.ip, given, Date.now())) logBlocked(log, request.ip)
      return sendLoginForm(reply.code(401), { next, fault: 'Wrong token.' })
    }
    return reply
      .setCookie(
        SESSION_COOKIE,
        signSession(token, Date.now()),
        sessionCookieOptions(isHttps(request.headers)),
      )
      .redirect(toLocalPath(next), 303)
  })

  server.post('/logout', async (request, reply) => {
    if (!isSameOrigin(request.headers, 'session'))
      return sendLoginForm(reply.code(403), {
        fault: 'Still signed in: the request to sign out came from another site.',
      })
    // The session is revoked, so that a copy of the cookie is worthless, too.
    const cookie = request.cookies[SESSION_COOKIE] ?? ''
    const session = readSession(cookie, tokens, Date.now())
    if (session !== null) await revokeSession(db, hashSession(cookie), session.expiresAt)
    return reply
      .setCookie(SESSION_COOKIE, '', { ...sessionCookieOptions(isHttps(request.headers)), maxAge: 0 })
      .redirect('/login', 303)
  })
}

/** A parsed form; a repeated field is a list. */
type FormFields = Readonly<Record<string, string | string[]>> | undefined

function textField(fields: FormFields, name: string): string | null {
  const value = fields?.[name]
  return typeof value === 'string' ? value : null
}

function sendLoginForm(
  reply: FastifyReply,
  { next = '/', fault }: { readonly next?: string | undefined; readonly fault: string | null },
): FastifyReply {
  return reply.type('text/html; charset=utf-8').send(
    renderPage(
      { title: 'Sign in' },
      html`<form class="card login" method="post" action="/login">
        <h1>Sign in</h1>
        <p class="sub">
          Your token is one of FILLRATE_DASHBOARD_TOKEN, or, to look only, of FILLRATE_DASHBOARD_READ_TOKEN.
        </p>
        ${fault !== null && html`<p id="fault" class="fault" role="alert">${fault}</p>`}
        <input type="hidden" name="next" value="${toLocalPath(next)}" />
        <label for="token">Token</label>
        <input
          id="token"
          name="token"
          type="password"
          required
          autofocus
          autocomplete="current-password"
          aria-describedby="${fault === null ? '' : 'fault'}"
        />
        <button>Sign in</button>
      </form>`,
    ),
  )
}

/** A path on this server; never another host. */
function toLocalPath(next: string): string {
  // Browsers remove tabs and line breaks from an address: with one, `//host` is left.
  return /^\/(?![/\\])\P{Cc}*$/u.test(next) ? next : '/'
}

/**
 * Whether the browser uses TLS, directly or through a proxy. Browsers state it in the Origin of a form; proxies each
 * use their own header, or none.
 */
export const isHttps = (headers: IncomingHttpHeaders): boolean =>
  headers.origin?.startsWith('https://') === true ||
  /^https\b/i.test(String(headers['x-forwarded-proto'] ?? '')) ||
  /\bproto="?https\b/i.test(headers.forwarded ?? '')
