import fastifyFormbody from '@fastify/formbody'
import { describeError } from '../util/error-text.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { createStatusReport } from '../actions/status.ts'
import type { DatabaseOutage } from '../domain/condition.ts'
import { cache } from '../util/cached.ts'
import { readStoredMetrics } from '../store/metrics.ts'
import { retryLogLevel } from '../store/transaction.ts'
import type { DashboardToken } from '../config/environment.ts'
import { authorize, isSameOrigin, type Access } from './auth.ts'
import {
  PageRefused,
  refused,
  toPageRequest,
  type DashboardDeps,
  type DashboardOptions,
  type Page,
} from './dashboard/page.ts'
import { SECURITY_HEADERS, renderPage, type PagePlace } from './dashboard/layout.ts'
import { renderMetrics, type MetricsInput } from './metrics.ts'
import { listFollowed } from '../config/config.ts'
import { readDashboardData, readVerdict, readSystemData } from '../actions/dashboard-data.ts'
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { findPackageJSON } from 'node:module'
import { dirname, join } from 'node:path'
import { ConfigProblems, type Problem } from '../config/problems.ts'
import { SourceProblems } from '../sources/problems.ts'
import { countFailureReasons } from '../store/row-search.ts'
import { html, type Markup, type HtmlPart } from './dashboard/html.ts'
import type { Action } from './dashboard/actions/action.ts'
import { cancelAction, startAction, startPage } from './dashboard/actions/start-run.ts'
import { pauseAction, resumeAction } from './dashboard/actions/pause.ts'
import { retryAction } from './dashboard/actions/retry.ts'
import { tryAction } from './dashboard/actions/try-now.ts'
import { overviewPage } from './dashboard/pages/overview.ts'
import { rowPage, rowsPage } from './dashboard/pages/rows.ts'
import { runPage, runsPage } from './dashboard/pages/runs.ts'
import { sourcePage, sourcesPage } from './dashboard/pages/source.ts'
import { systemPage } from './dashboard/pages/system.ts'
import { errorBody, withCode } from './dashboard/components.ts'
import { describeOutage } from './dashboard/pages/verdict.ts'

/** All pages; those with a name are the navigation, in this order. */
const PAGES: readonly Page[] = [
  overviewPage,
  runsPage,
  rowsPage,
  sourcesPage,
  systemPage,
  runPage,
  startPage,
  rowPage,
  sourcePage,
]

/** Everything that an operator can change. */
const ACTIONS: readonly Action[] = [
  startAction,
  cancelAction,
  pauseAction,
  resumeAction,
  retryAction,
  tryAction,
]

const ENTRIES: PagePlace['entries'] = PAGES.flatMap(({ path, name }) =>
  name === undefined ? [] : [{ path, name }],
)

/** Rows of each source and state that are read for their reasons: a hundred thousand take a second. */
const MAX_READ = 1_000

/**
 * Registers the pages and actions of the dashboard. Access control and the origin of a request are checked before.
 * @returns what the pages read, which others may read, too
 */
function registerPages(
  server: FastifyInstance,
  options: DashboardOptions,
): Pick<DashboardDeps, 'readData' | 'readVerdict'> {
  const { db, config } = options
  const readData = cache(() => readDashboardData(db, config, Date.now()))
  const verdict = cache(() => readVerdict(db, options.observer()), { cost: 1 })
  const reasons = cache(() =>
    countFailureReasons(db, { source: Object.keys(config.sources), states: null }, MAX_READ),
  )
  const deps: DashboardDeps = {
    ...options,
    readData,
    readVerdict: verdict,
    readSystem: cache(() => readSystemData(db, Date.now())),
    readReasons: reasons,
  }

  /** Answers with what a page shows, or with why it does not. */
  const answer = async (
    request: FastifyRequest,
    reply: FastifyReply,
    page: Omit<Page, 'show'>,
    show: Page['show'],
  ): Promise<FastifyReply> => {
    const pageRequest = toPageRequest(request)
    const shown =
      page.isOperatorOnly === true && !pageRequest.canAct
        ? READ_ONLY
        : await show(pageRequest, deps).catch(toRefusal)
    if ('redirect' in shown) return reply.redirect(shown.redirect, 303)
    const isRefused = shown instanceof PageRefused
    const { body, isFinal = false, ...view } = isRefused ? shown.view : shown
    const text = renderPage(
      {
        title: page.name ?? 'Fillrate',
        place: { path: page.within ?? page.path, entries: ENTRIES },
        isLive: page.isLive === true && !isRefused && !isFinal,
        ...view,
      },
      body,
    )
    return reply
      .code(isRefused ? shown.status : 200)
      .type('text/html; charset=utf-8')
      .send(text)
  }

  for (const page of PAGES) server.get(page.path, (request, reply) => answer(request, reply, page, page.show))
  for (const action of ACTIONS) {
    const page = { path: action.path, isOperatorOnly: true }
    server.get(action.path, (request, reply) =>
      answer(request, reply, page, async () => action.confirm(request, deps)),
    )
    server.post(action.path, (request, reply) =>
      answer(request, reply, page, async () => {
        const redirect = await action.perform(request, deps)
        for (const cached of [readData, verdict, reasons]) cached.invalidate()
        return { redirect }
      }),
    )
  }
  return deps
}

const READ_ONLY = refused(
  403,
  'Read-only',
  html`<p>Your token only reads. Changes need a token of <code>FILLRATE_DASHBOARD_TOKEN</code>.</p>`,
)

/** @throws what is not about the request */
function toRefusal(error: unknown): PageRefused {
  if (error instanceof PageRefused) return error
  if (error instanceof SourceProblems) {
    const names = [...new Set(error.problems.map(({ source }) => source))]
    return refused(
      409,
      `${names.length === 1 ? 'The source' : 'The sources'} ${names.join(', ')} ${names.length === 1 ? 'does' : 'do'} not fit the database`,
      error.problems.map(describeProblem),
    )
  }
  if (error instanceof ConfigProblems)
    return refused(409, 'Not possible', error.problems.map(describeProblem))
  throw error
}

const describeProblem = ({ place, found, expected, todo }: Problem): Markup =>
  html`<p class="fault">${place}: ${found}. Expected: ${expected}. ${todo}</p>`

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
    const status = cache(() => createStatusReport(options.db, options.config), {
      minAgeMs: 5_000,
    })
    closed.get('/api/status', async () => ({
      ...(await status()),
      conditions: (await read.readVerdict()).conditions,
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
  { db, config, log, observer }: DashboardServerOptions,
  { readData, readVerdict }: Pick<DashboardDeps, 'readData' | 'readVerdict'>,
): Promise<[MetricsInput | null, isUp: boolean]> {
  const followed = listFollowed(config.sources)
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

const acceptsHtml = (request: FastifyRequest): boolean => (request.headers.accept ?? '').includes('text/html')

/** Sends an error as a page to a browser, and as JSON to a program. */
function sendErrorPage(
  request: FastifyRequest,
  reply: FastifyReply,
  error: {
    readonly status: number
    readonly title: string
    readonly reason: string
    /** What to do about it. */
    readonly advice?: HtmlPart
    /** The page loads again by itself: the reason may pass. */
    readonly isRetried?: boolean
  },
): FastifyReply {
  const { status, title, reason, advice = null, isRetried = false } = error
  reply.code(status)
  if (!acceptsHtml(request)) return reply.send({ error: reason })
  for (const [name, value] of Object.entries(SECURITY_HEADERS)) reply.header(name, value)
  const body = errorBody(
    title,
    html`<p>${reason}</p>
      ${advice}`,
    isRetried ? request.url : null,
  )
  return reply
    .type('text/html; charset=utf-8')
    .header('cache-control', 'no-store')
    .send(renderPage({ title, isLive: isRetried }, body))
}

/** A page that failed: what is wrong as far as it is known, and what to do. @param own what the process knows to be wrong */
function sendFailure(
  request: FastifyRequest,
  reply: FastifyReply,
  error: Error,
  outage: DatabaseOutage | null,
): FastifyReply {
  const { statusCode = 503 } = error as { statusCode?: number }
  if (statusCode < 500)
    return sendErrorPage(request, reply, {
      status: statusCode,
      title: 'Request rejected',
      reason: error.message,
    })
  const { title, meaning, mend } = describeOutage(error, outage, Date.now()) ?? {
    title: 'This page cannot be shown',
    meaning: 'Its data could not be read.',
    mend: 'The log of this process has the reason, with the code `page_failed`.',
  }
  return sendErrorPage(request, reply, {
    status: 503,
    title,
    reason: acceptsHtml(request) ? meaning : `${title}. ${meaning}`,
    advice: html`<p>
      <b>What to do:</b> ${withCode(mend)} <a href="/readyz">/readyz</a> says what this process can do.
    </p>`,
    isRetried: true,
  })
}

/** Answers requests for addresses that no page has. */
function registerNotFound(server: FastifyInstance): void {
  server.setNotFoundHandler((request, reply) => {
    const [path = ''] = request.url.split('?')
    const reason = `There is no page at ${path.slice(0, 200)}.`
    return sendErrorPage(request, reply, { status: 404, title: 'Page not found', reason })
  })
}
