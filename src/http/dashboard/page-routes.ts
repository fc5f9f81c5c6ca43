import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { readDashboardData, readVerdict } from '../../actions/dashboard-data.ts'
import { readSystemData } from '../../actions/system-data.ts'
import { ConfigProblems, type Problem } from '../../config/problems.ts'
import { SourceProblems } from '../../sources/problems.ts'
import { countFailureReasons } from '../../store/failures.ts'
import { cached } from '../../util/cached.ts'
import type { DashboardDeps, DashboardOptions } from './dashboard-app.ts'
import { html, type Html } from './html.ts'
import { type PagePlace, renderPage } from './layout.ts'
import { type Page, PageRefused, refused, toPageRequest } from './page.ts'
import { ACTIONS, PAGES } from './pages.ts'

const ENTRIES: PagePlace['entries'] = PAGES.flatMap(({ path, name }) =>
  name === undefined ? [] : [{ path, name }],
)

/** Rows of each source and state that are read for their reasons: a hundred thousand take a second. */
const MAX_READ = 1_000

/**
 * Registers the pages and actions of the dashboard. Access control and the origin of a request are checked before.
 * @returns what the pages read, which others may read, too
 */
export function registerPages(
  server: FastifyInstance,
  options: DashboardOptions,
): Pick<DashboardDeps, 'readData' | 'readVerdict'> {
  const { db } = options
  const readData = cached(() => readDashboardData(db, options.sources(), options.spendSettings(), Date.now()))
  const verdict = cached(() => readVerdict(db, options.sources(), options.observer()), { cost: 1 })
  const reasons = cached(() =>
    countFailureReasons(db, { source: [...options.sources().keys()], states: null }, MAX_READ),
  )
  const deps: DashboardDeps = {
    ...options,
    readData,
    readVerdict: verdict,
    readSystem: cached(() => readSystemData(db, Date.now())),
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
        for (const one of [readData, verdict, reasons]) one.invalidate()
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

const describeProblem = ({ place, found, expected, todo }: Problem): Html =>
  html`<p class="fault">${place}: ${found}. Expected: ${expected}. ${todo}</p>`
