import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { lastCoverage, statusReport, type StatusReport } from '../../pipeline/status-report.ts'
import { remembered } from '../../pipeline/remembered.ts'
import * as meters from '../../store/meters.ts'
import { oldestDelivery } from '../../store/overview.ts'
import { admit, bearerIn, isOurs, isProxied, sessionIn } from './access.ts'
import { Brake, clientOf } from './brake.ts'
import { assets } from './dashboard/assets.ts'
import { html } from './dashboard/html.ts'
import { page } from './dashboard/layout.ts'
import { dashboard, type DashboardOptions } from './dashboard/routes.ts'
import { CONTENT_SECURITY } from './headers.ts'
import { login } from './login.ts'
import { exposition } from './metrics.ts'

export interface BoardOptions extends Omit<DashboardOptions, 'signedIn'> {
  readonly token: string | null
  /** Where the server listens. */
  readonly host: string
  /** FILLRATE_PUBLIC_URL; null: not set. */
  readonly publicUrl: string | null
}

/** Everything that shows how things stand: the dashboard, `/api/status` and `/metrics`, behind one door. */
export function board(server: FastifyInstance, options: BoardOptions): void {
  const { token, log } = options
  const brake = new Brake()
  const client = (request: FastifyRequest): string | null =>
    clientOf(request.ip, request.headers, { isBehindProxy: isProxied(options, request.headers, request.ip) })
  const guarded: Guarded = { ...options, brake, client, sessions: new Set() }
  void server.register(async (open) => {
    asPages(open)
    assets(open)
    if (token !== null) login(open, { token, log, brake, client })
  })
  void server.register(async (closed) => {
    asPages(closed)
    closed.addHook('onRequest', async (request, reply) => guard(request, reply, guarded))
    closed.setErrorHandler<FastifyError>((error, request, reply) => {
      log.warn({ path: request.routeOptions.url, reason: error.message }, 'a page could not be made')
      return refuse(request, reply, error.statusCode ?? 503, 'This could not be read. The log tells why.')
    })
    const read = dashboard(closed, { ...options, signedIn: token !== null })
    const status = remembered(() => readStatus(options), { least: 5_000 })
    closed.get('/api/status', () => status())
    closed.get('/metrics', async (_, reply) => {
      const text = exposition(
        await read(),
        await meters.counters(options.db),
        await oldestDelivery(options.db),
      )
      return reply.type('text/plain; version=0.0.4; charset=utf-8').send(text)
    })
  })
}

/** What all of it has in common: headers that keep a browser from anything but our own files, and forms. */
function asPages(scope: FastifyInstance): void {
  scope.addHook('onSend', async (_, reply) => {
    for (const [name, value] of Object.entries(CONTENT_SECURITY)) reply.header(name, value)
    if (!reply.hasHeader('cache-control')) reply.header('cache-control', 'no-store')
  })
  scope.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string', bodyLimit: 16_384 },
    (_, body, done) => done(null, new URLSearchParams(String(body))),
  )
}

interface Guarded extends BoardOptions {
  readonly brake: Brake
  /** Tells apart who asks; null where that can't be done. */
  readonly client: (request: FastifyRequest) => string | null
  /** Those that were seen to be good: they go on while guesses from the same address have to wait. */
  readonly sessions: Set<string>
}

/** Sessions that are kept in mind. */
const MOST_SESSIONS = 1_000

async function guard(
  request: FastifyRequest,
  reply: FastifyReply,
  guarded: Guarded,
): Promise<FastifyReply | undefined> {
  const { brake, sessions, token, log } = guarded
  const session = sessionIn(request.headers)
  const isTrial = token !== null && (bearerIn(request.headers) !== null || session !== null)
  const client = isTrial ? guarded.client(request) : null
  const wait = brake.wait(client, Date.now())
  if (wait > 0 && !sessions.has(session ?? '')) {
    reply.header('retry-after', String(Math.ceil(wait / 1_000)))
    return refuse(request, reply, 429, 'Too many wrong tokens came from this address. Try again in a minute.')
  }
  const admission = admit(guarded, request.headers, Date.now())
  if (!admission.admitted) {
    if (admission.guess !== null && brake.wrong(client, admission.guess, Date.now()))
      log.warn({ from: client }, 'too many wrong tokens: this client has to wait for a minute')
    if (admission.status === 401 && wantsPage(request) && request.method === 'GET')
      return reply.redirect(`/login?${new URLSearchParams({ next: request.url })}`, 303)
    if (admission.status === 401) reply.header('www-authenticate', 'Bearer')
    return refuse(request, reply, admission.status, admission.why)
  }
  if (admission.by === 'session' && session !== null && sessions.size < MOST_SESSIONS) sessions.add(session)
  if (request.method === 'POST' && !isOurs(request.headers, admission.by))
    return refuse(request, reply, 403, 'This was not sent from a page of this server.')
  return undefined
}

const wantsPage = (request: FastifyRequest): boolean => (request.headers.accept ?? '').includes('text/html')

function refuse(request: FastifyRequest, reply: FastifyReply, status: number, why: string): FastifyReply {
  reply.code(status)
  if (!wantsPage(request)) return reply.send({ error: why })
  const body = html`<h1>${status < 500 ? 'Not here' : 'Not now'}</h1>
    <p>${why}</p>`
  return reply.type('text/html; charset=utf-8').send(page({ title: String(status), sources: [] }, body))
}

async function readStatus({ db, sources }: BoardOptions): Promise<object> {
  const coverage: Record<string, StatusReport['fill_rate'][string]> = {}
  for (const source of sources().values()) coverage[source.name] = await lastCoverage(db, source)
  return { ...(await statusReport(db, [...sources().keys()], coverage)), configuration_problems: null }
}
