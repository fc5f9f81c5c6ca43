import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import { html } from './dashboard/html.ts'
import { page } from './dashboard/layout.ts'
import { isOurs } from './access.ts'
import { cookieHeader, isSame, mintSession } from './session.ts'

/** Wrong tokens in a row before everybody waits, and how long; a token worth the name is not guessed so. */
const TRIES = 10
const PAUSE_MS = 60_000

/** Signing in and out, where there is a token. */
export function login(server: FastifyInstance, token: string, log: Logger): void {
  let wrong = 0
  let closedUntil = 0

  server.get<{ Querystring: { next?: string } }>('/login', async (request, reply) =>
    form(reply, { next: request.query.next, fault: null }),
  )

  server.post<{ Body: URLSearchParams }>('/login', async (request, reply) => {
    const next = request.body.get('next') ?? '/'
    if (!isOurs(request.headers, 'session'))
      return form(reply.code(403), { next, fault: 'The form was not sent from this page.' })
    if (Date.now() < closedUntil)
      return form(reply.code(429), { next, fault: 'Too many wrong tokens: try again in a minute.' })
    if (!isSame(request.body.get('token') ?? '', token)) {
      if (++wrong >= TRIES) {
        wrong = 0
        closedUntil = Date.now() + PAUSE_MS
      }
      log.warn({ from: request.ip }, 'somebody tried to sign in with a wrong token')
      return form(reply.code(401), { next, fault: 'That is not the token.' })
    }
    wrong = 0
    return reply
      .header('set-cookie', cookieHeader(mintSession(token, Date.now()), isSecure(request)))
      .redirect(localPath(next), 303)
  })

  server.post('/logout', async (request, reply) =>
    reply.header('set-cookie', cookieHeader('', isSecure(request))).redirect('/login', 303),
  )
}

function form(
  reply: FastifyReply,
  { next = '/', fault }: { readonly next?: string | undefined; readonly fault: string | null },
): FastifyReply {
  return reply.type('text/html; charset=utf-8').send(
    page(
      { title: 'Sign in', sources: [] },
      html`<form class="card login" method="post" action="/login">
        <h1>Sign in</h1>
        <p class="sub">The token is what FILLRATE_DASHBOARD_TOKEN is set to.</p>
        ${fault !== null && html`<p id="fault" class="fault" role="alert">${fault}</p>`}
        <input type="hidden" name="next" value="${localPath(next)}" />
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

/** A path of this server, never an address elsewhere. */
export function localPath(next: string): string {
  return /^\/(?![/\\])/.test(next) ? next : '/'
}

const isSecure = (request: FastifyRequest): boolean =>
  request.protocol === 'https' || request.headers['x-forwarded-proto'] === 'https'
