import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type DashboardData, readDashboardData } from '../../actions/dashboard-data.ts'
import { readSystemData } from '../../actions/system-data.ts'
import { ConfigProblems } from '../../config/problems.ts'
import { SourceProblems } from '../../sources/problems.ts'
import { cached } from '../../util/cached.ts'
import type { DashboardDeps, DashboardOptions } from './dashboard-app.ts'
import { html } from './html.ts'
import { type PagePlace, renderPage, SECURITY_HEADERS } from './layout.ts'
import { type Page, PageRefused, type PageRequest, refused, toPageRequest } from './page.ts'
import { ACTIONS, PAGES } from './pages.ts'
import { type LiveContent, LiveUpdates } from './sse.ts'

const ENTRIES: PagePlace['entries'] = PAGES.flatMap(({ path, name }) =>
  name === undefined ? [] : [{ path, name }],
)

/**
 * Registers the pages and actions of the dashboard. Access control and the origin of a request are checked before.
 * @returns reads the data of the overview page
 */
export function registerPages(
  server: FastifyInstance,
  options: DashboardOptions,
): () => Promise<DashboardData> {
  const { db } = options
  const readData = cached(() =>
    readDashboardData(db, options.sources(), options.spendSettings(), options.observer(), Date.now()),
  )
  const deps: DashboardDeps = {
    ...options,
    readData,
    readSystem: cached(() => readSystemData(db, Date.now())),
  }
  const live = registerLiveUpdates(server, deps)

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
        live: page.isLive === true && !isRefused && !isFinal ? request.url : null,
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
        readData.invalidate()
        live.invalidate()
        return { redirect }
      }),
    )
  }
  return readData
}

const READ_ONLY = refused(
  403,
  'Read-only',
  html`<p>Your token only reads. Changes need a token of <code>FILLRATE_DASHBOARD_TOKEN</code>.</p>`,
)

/** @throws what is not about the request */
function toRefusal(error: unknown): PageRefused {
  if (error instanceof PageRefused) return error
  if (!(error instanceof ConfigProblems || error instanceof SourceProblems)) throw error
  return refused(
    409,
    'Not possible',
    error.problems.map(
      ({ place, found, expected, todo }) =>
        html`<p class="fault">${place}: ${found}. Expected: ${expected}. ${todo}</p>`,
    ),
  )
}

const LIVE_PAGES = PAGES.filter(({ isLive }) => isLive === true).map(({ path, show }) => ({
  pattern: new RegExp(`^${path.replaceAll(/:(\w+)/g, '(?<$1>[^/]+)')}$`),
  show,
}))

/** Registers the stream of what changes on a page, which open pages read. */
function registerLiveUpdates(server: FastifyInstance, deps: DashboardDeps): LiveUpdates {
  const live = new LiveUpdates({
    outage: () => deps.observer().outage,
    log: deps.log,
  })
  server.addHook('preClose', () => live.close())
  server.get<{ Querystring: { path?: string } }>('/events', (request, reply) => {
    const { path = '/' } = request.query
    const { pathname, searchParams: query } = new URL(path, 'http://dashboard.invalid')
    const page = LIVE_PAGES.find(({ pattern }) => pattern.test(pathname))
    if (page === undefined) return reply.code(404).send({ error: 'this page has no live updates' })
    if (!live.hasRoom)
      return reply.code(503).header('retry-after', '30').send({ error: 'too many pages are open' })
    reply.hijack()
    const { canAct } = toPageRequest(request)
    live.subscribe(
      `${canAct} ${path}`,
      async () => {
        const params = Object.entries(page.pattern.exec(pathname)?.groups ?? {})
        const decoded = params.map(([name, text]) => [name, decodeURIComponent(text)] as const)
        return readParts(page.show, { params: Object.fromEntries(decoded), query, canAct }, deps)
      },
      reply.raw,
      SECURITY_HEADERS,
    )
    return undefined
  })
  return live
}

/** Nothing, once what the page is about no longer exists. */
async function readParts(
  show: Page['show'],
  request: PageRequest,
  deps: DashboardDeps,
): Promise<LiveContent> {
  try {
    const shown = await show(request, deps)
    return 'redirect' in shown ? new Map() : shown.body.parts
  } catch (error) {
    if (error instanceof PageRefused) return new Map()
    throw error
  }
}
