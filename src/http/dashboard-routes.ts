import * as metrics from '../store/metrics.ts'
import fastifyCookie from '@fastify/cookie'
import fastifyFormbody from '@fastify/formbody'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type StatusReport, createStatusReport, readLastFillRates } from '../actions/status.ts'
import { cached } from '../util/cached.ts'
import { oldestUnsettledSeconds } from '../store/metrics.ts'
import { authorize, isProxied, isSameOrigin, readBearerToken, readSession } from './auth.ts'
import { LoginThrottle, clientAddress } from './login-throttle.ts'
import { type PageRouteOptions, registerAssets, registerPages } from './dashboard/page-routes.ts'
import { html } from './dashboard/html.ts'
import { SECURITY_HEADERS, renderPage } from './dashboard/layout.ts'
import { registerLogin } from './login.ts'
import { renderMetrics } from './metrics.ts'

export interface DashboardServerOptions extends Omit<PageRouteOptions, 'isSignedIn'> {
  readonly token: string | null
  /** The address that the server listens on. */
  readonly host: string
  /** FILLRATE_PUBLIC_URL; null if not set. */
  readonly publicUrl: string | null
}

const MAX_FORM_BYTES = 16_384

/** Registers the dashboard, `/api/status` and `/metrics`, with one access control. */
export function registerDashboard(server: FastifyInstance, options: DashboardServerOptions): void {
  const { token, log } = options
  const throttle = new LoginThrottle()
  const clientOf = (request: FastifyRequest): string | null =>
    clientAddress(request.ip, request.headers, {
      isBehindProxy: isProxied(options, request.headers, request.ip),
    })
  const context: AuthContext = { ...options, throttle, clientOf, sessions: new Set() }
  void server.register(async (open) => {
    await addPageHooks(open)
    await registerAssets(open)
    if (token !== null) registerLogin(open, { token, log, throttle, clientOf })
  })
  void server.register(async (closed) => {
    await addPageHooks(closed)
    closed.addHook('onRequest', async (request, reply) => requireAuth(request, reply, context))
    closed.setErrorHandler<FastifyError>((error, request, reply) => {
      log.warn({ path: request.routeOptions.url, reason: error.message }, 'failed to render a page')
      return sendError(
        request,
        reply,
        error.statusCode ?? 503,
        'The dashboard cannot read its data. See the log for the reason.',
      )
    })
    const read = registerPages(closed, { ...options, isSignedIn: token !== null })
    const status = cached(() => readStatus(options), { minAgeMs: 5_000 })
    closed.get('/api/status', () => status())
    closed.get('/metrics', async (_, reply) => {
      const text = await renderMetrics(
        await read(),
        await metrics.listCounters(options.db),
        await oldestUnsettledSeconds(options.db),
        await metrics.listRunEnds(options.db),
      )
      return reply.type('text/plain; version=0.0.4; charset=utf-8').send(text)
    })
  })
}

/** Adds what all pages share: cookies, form parsing and security headers. */
async function addPageHooks(scope: FastifyInstance): Promise<void> {
  await scope.register(fastifyCookie)
  await scope.register(fastifyFormbody, { bodyLimit: MAX_FORM_BYTES })
  scope.addHook('onSend', async (_, reply) => {
    for (const [name, value] of Object.entries(SECURITY_HEADERS)) reply.header(name, value)
    if (!reply.hasHeader('cache-control')) reply.header('cache-control', 'no-store')
  })
}

interface AuthContext extends DashboardServerOptions {
  readonly throttle: LoginThrottle
  /** Identifies the client; null if that is impossible. */
  readonly clientOf: (request: FastifyRequest) => string | null
  /** Sessions verified before: they continue while guesses from the same address are blocked. */
  readonly sessions: Set<string>
}

/** Maximum number of remembered sessions. */
const MAX_KNOWN_SESSIONS = 1_000

async function requireAuth(
  request: FastifyRequest,
  reply: FastifyReply,
  context: AuthContext,
): Promise<FastifyReply | undefined> {
  const { throttle, sessions, token, log } = context
  const session = readSession(request.cookies)
  const isTrial = token !== null && (readBearerToken(request.headers) !== null || session !== null)
  const client = isTrial ? context.clientOf(request) : null
  const wait = throttle.waitMs(client, Date.now())
  if (wait > 0 && !sessions.has(session ?? '')) {
    reply.header('retry-after', String(Math.ceil(wait / 1_000)))
    return sendError(request, reply, 429, 'Too many wrong tokens from this address. Try again in a minute.')
  }
  const result = authorize(context, { headers: request.headers, session, now: Date.now() })
  if (!result.isAuthorized) {
    if (result.attemptedToken !== null && throttle.recordFailure(client, result.attemptedToken, Date.now()))
      log.warn({ from: client }, 'too many wrong tokens: client blocked for a minute')
    if (result.status === 401 && acceptsHtml(request) && request.method === 'GET')
      return reply.redirect(`/login?${new URLSearchParams({ next: request.url })}`, 303)
    if (result.status === 401) reply.header('www-authenticate', 'Bearer')
    return sendError(request, reply, result.status, result.reason)
  }
  if (result.method === 'session' && session !== null && sessions.size < MAX_KNOWN_SESSIONS)
    sessions.add(session)
  if (request.method === 'POST' && !isSameOrigin(request.headers, result.method))
    return sendError(request, reply, 403, 'The request did not come from a page of this server.')
  return undefined
}

const acceptsHtml = (request: FastifyRequest): boolean => (request.headers.accept ?? '').includes('text/html')

function sendError(
  request: FastifyRequest,
  reply: FastifyReply,
  status: number,
  reason: string,
): FastifyReply {
  reply.code(status)
  if (!acceptsHtml(request)) return reply.send({ error: reason })
  const body = html`<h1>${status < 500 ? 'Access denied' : 'Unavailable'}</h1>
    <p>${reason}</p>`
  return reply.type('text/html; charset=utf-8').send(renderPage({ title: String(status), sources: [] }, body))
}

async function readStatus({ db, sources }: DashboardServerOptions): Promise<object> {
  const fillRates: Record<string, StatusReport['fill_rate'][string]> = {}
  for (const source of sources().values())
    fillRates[source.name] = await readLastFillRates(
      db,
      source.name,
      source.outputs.map(({ column }) => column),
    )
  return { ...(await createStatusReport(db, [...sources().keys()], fillRates)), configuration_problems: null }
}
