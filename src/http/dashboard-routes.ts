import { describeError } from '../util/error-text.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import fastifyFormbody from '@fastify/formbody'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type StatusReport, createStatusReport, readLastFillRates } from '../actions/status.ts'
import { toConditionReport } from '../domain/condition.ts'
import { cached } from '../util/cached.ts'
import { readStoredMetrics } from '../store/metrics.ts'
import { retryLogLevel } from '../store/connectivity.ts'
import type { DashboardToken } from '../config/environment.ts'
import { authorize, isSameOrigin, type Access } from './auth.ts'
import { registerNotFound, sendErrorPage, sendFailure } from './dashboard/error-pages.ts'
import type { DashboardDeps, DashboardOptions } from './dashboard/dashboard-app.ts'
import { registerPages } from './dashboard/page-routes.ts'
import { SECURITY_HEADERS } from './dashboard/layout.ts'
import { type MetricsInput, renderMetrics } from './metrics.ts'
import { listFollowed } from '../actions/dashboard-data.ts'
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { findPackageJSON } from 'node:module'
import { dirname, join } from 'node:path'

declare module 'fastify' {
  interface FastifyRequest {
    /** What the request may do; null outside the routes with access control. */
    access: Access | null
  }
}

export interface DashboardServerOptions extends DashboardOptions {
  readonly tokens: readonly DashboardToken[]
  /** The address that the server listens on. */
  readonly host: string
  /** FILLRATE_PUBLIC_URL; null if not set. */
  readonly publicUrl: string | null
}

const MAX_FORM_BYTES = 16_384

/** Registers the dashboard, `/api/status` and `/metrics`, with one access control. */
export function registerDashboard(server: FastifyInstance, options: DashboardServerOptions): void {
  const { log } = options
  registerNotFound(server)
  void server.register(async (open) => {
    await addPageHooks(open)
    await registerAssets(open)
  })
  void server.register(async (closed) => {
    await addPageHooks(closed)
    closed.decorateRequest('access', null)
    closed.addHook('onRequest', async (request, reply) => requireAuth(request, reply, options))
    closed.setErrorHandler<FastifyError>((error, request, reply) => {
      log[retryLogLevel(error)](
        { event: 'page_failed', path: request.routeOptions.url, reason: describeError(error) },
        'failed to render a page',
      )
      return sendFailure(request, reply, error, options.observer().outage)
    })
    const read = registerPages(closed, options)
    const status = cached(() => readStatus(options), { minAgeMs: 5_000 })
    closed.get('/api/status', async () => ({
      ...(await status()),
      conditions: (await read.readVerdict()).conditions.map((one) => toConditionReport(one, Date.now())),
    }))
    closed.get('/metrics', async (_, reply) => {
      const text = await renderMetrics(options.metrics, ...(await readMetrics(options, read)))
      return reply.type('text/plain; version=0.0.4; charset=utf-8').send(text)
    })
  })
}

/** How long a scrape waits for Postgres; Prometheus itself gives up after 10 s. */
const METRICS_TIMEOUT_MS = 5_000

/**
 * @returns null, where Postgres cannot be read, or not in time: the process then reports what it knows itself; and whether Postgres
 *   answers
 */
async function readMetrics(
  { db, sources, log, observer }: DashboardServerOptions,
  { readData, readVerdict }: Pick<DashboardDeps, 'readData' | 'readVerdict'>,
): Promise<[MetricsInput | null, isUp: boolean]> {
  const followed = listFollowed(sources())
  const read = async (): Promise<MetricsInput> => ({
    data: { ...(await readData()), conditions: (await readVerdict()).conditions },
    ...(await readStoredMetrics(db)),
    now: Date.now(),
    followed,
  })
  try {
    const input = await Promise.race([read(), sleep(METRICS_TIMEOUT_MS, null, { ref: false })])
    return [input, input !== null || observer().outage === null]
  } catch (error) {
    log.debug({ event: 'metrics_not_read', reason: (error as Error).message }, 'metrics not read')
    return [null, false]
  }
}

/** Adds what all pages share: form parsing and security headers. */
async function addPageHooks(scope: FastifyInstance): Promise<void> {
  await scope.register(fastifyFormbody, { bodyLimit: MAX_FORM_BYTES })
  scope.addHook('onSend', async (_, reply) => {
    for (const [name, value] of Object.entries(SECURITY_HEADERS)) reply.header(name, value)
    if (!reply.hasHeader('cache-control')) reply.header('cache-control', 'no-store')
  })
}

/** @returns undefined: the request may go on */
function requireAuth(
  request: FastifyRequest,
  reply: FastifyReply,
  options: DashboardServerOptions,
): FastifyReply | undefined {
  const { headers } = request
  const deny = (status: number, reason: string): FastifyReply =>
    sendErrorPage(request, reply, { status, title: 'Access denied', reason })
  const result = authorize(options, headers)
  if (!result.isAuthorized) {
    // A browser prompts its user for the token by itself.
    if (result.status === 401) reply.header('www-authenticate', 'Basic realm="Fillrate"')
    return deny(result.status, result.reason)
  }
  const { access } = result
  request.access = access
  if (request.method !== 'POST') return undefined
  if (!isSameOrigin(headers, access.method))
    return deny(
      403,
      'The request did not come from a page of this server, and changes nothing. A program sends its token as a bearer token.',
    )
  if (access.isOperator) return undefined
  return deny(403, 'Your token is read-only. Changes need a token of FILLRATE_DASHBOARD_TOKEN.')
}

async function readStatus({ db, sources, spendSettings }: DashboardServerOptions): Promise<object> {
  const fillRates: Record<string, StatusReport['fill_rate'][string]> = {}
  for (const source of sources().values())
    fillRates[source.name] = await readLastFillRates(
      db,
      source.name,
      source.outputs.map(({ column }) => column),
    )
  return {
    ...(await createStatusReport(db, [...sources().keys()], fillRates, spendSettings())),
    configuration_problems: null,
  }
}

/** Our own files are beside `package.json`, both in a checkout and in an installed package. */
const OWN = join(dirname(findPackageJSON(import.meta.url) ?? ''), 'assets')

/** The served files: no other file of the folder is public. */
const FILES = {
  'board.js': 'text/javascript; charset=utf-8',
  'board.css': 'text/css; charset=utf-8',
  'icon.svg': 'image/svg+xml',
}

/** Registers scripts, styles and the icon. They need no token: the page that denies access uses them. */
async function registerAssets(server: FastifyInstance): Promise<void> {
  for (const [file, type] of Object.entries(FILES)) {
    const content = await readFile(join(OWN, file))
    const etag = `"${createHash('sha256').update(content).digest('base64url').slice(0, 22)}"`
    server.get(`/assets/${file}`, (request, reply) => {
      reply.header('cache-control', 'no-cache').header('etag', etag).type(type)
      return request.headers['if-none-match'] === etag ? reply.code(304).send() : reply.send(content)
    })
  }
}
