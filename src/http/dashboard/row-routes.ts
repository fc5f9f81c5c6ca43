import type { FastifyInstance } from 'fastify'
import { parseRowIdentity } from '../../actions/find-rows.ts'
import { ConfigProblems } from '../../config/problems.ts'
import { SourceProblems } from '../../sources/problems.ts'
import { countRowStates, listSourceNames } from '../../store/rows.ts'
import { type FoundRow, type RowFilter, type RowSort, searchRows } from '../../store/row-search.ts'
import { FAILURE_STATES } from '../../domain/row.ts'
import { toSentenceCase } from '../../util/format.ts'
import { missingBody } from './error-pages.ts'
import { html } from './html.ts'
import { canAct, type PageRouteOptions, type SendPage } from './page-context.ts'
import { rowPage } from './pages/row.ts'
import { parseRowQuery, type RowQuery, type RowSearch, ROWS_PAGE_SIZE, rowsPage } from './pages/rows.ts'

/** Registers the pages of rows: their list, and one row. */
export function registerRowRoutes(
  server: FastifyInstance,
  { db, explain }: Pick<PageRouteOptions, 'db' | 'explain'>,
  send: SendPage,
): void {
  server.get<{ Querystring: RowQuery }>('/rows', async (request, reply) => {
    const search = parseRowQuery(request.query)
    const { cursor, direction } = search
    const total = await countMatches(search)
    const find = (by: RowSort): Promise<FoundRow[] | null> =>
      searchRows(db, toRowFilter(search), {
        sort: by,
        cursor,
        direction,
        // One more, to see whether there are more.
        limit: ROWS_PAGE_SIZE + 1,
      }).catch((error: unknown) => {
        if ((error as { code?: string }).code !== CANCELLED) throw error
        return null
      })
    let sort = search.sort ?? ((total ?? 0) > MAX_SORTED_ROWS ? 'key' : 'newest')
    let found = await find(sort)
    if (found === null && search.sort === null) found = await find((sort = 'key'))
    const hasExtra = (found?.length ?? 0) > ROWS_PAGE_SIZE
    const isBackward = direction === 'before'
    const rows = found && (isBackward ? found.slice(-ROWS_PAGE_SIZE) : found.slice(0, ROWS_PAGE_SIZE))
    return send(
      request,
      reply,
      { title: 'Rows', path: '/rows', search: search.text ?? '' },
      rowsPage({
        search: { ...search, sort },
        sources: await listSourceNames(db),
        rows,
        hasBefore: isBackward ? hasExtra : cursor !== null,
        hasAfter: isBackward || hasExtra,
        total,
        now: Date.now(),
        canAct: canAct(request),
      }),
    )
  })

  /** The number of matches where it is kept; null where it would have to be counted. */
  async function countMatches({ text, filter }: RowSearch): Promise<number | null> {
    const { source, state, reason, run, from, to } = filter
    if ([text, reason, run, from, to].some((one) => one !== null)) return null
    const counts = await countRowStates(db, {
      sources: source === null ? await listSourceNames(db) : [source],
    })
    if (state === null) return Object.values(counts).reduce((sum, n) => sum + n, 0)
    return state === 'not_enriched'
      ? FAILURE_STATES.reduce((sum, one) => sum + counts[one], 0)
      : counts[state]
  }

  server.get<{ Querystring: { source?: string; key?: string } }>('/row', async (request, reply) => {
    const { source = '', key = '' } = request.query
    try {
      const history = await explain(source, key.trim())
      return send(
        request,
        reply,
        { title: `${source} ${history.key}`, path: '/row' },
        rowPage(history, Date.now()),
      )
    } catch (error) {
      if (!(error instanceof ConfigProblems || error instanceof SourceProblems)) throw error
      const [problem] = error.problems
      const text = problem
        ? toSentenceCase(`${problem.found}. Expected: ${problem.expected}.`)
        : error.message
      return send(
        request,
        reply.code(404),
        { title: 'No such row', path: '/row', search: key },
        missingBody('No such row', html`${text} <a href="/rows">All rows</a>`),
      )
    }
  })
}

export const toRowFilter = ({ text, filter }: RowSearch): RowFilter => ({
  ...filter,
  identity: text === null ? null : parseRowIdentity(text),
})

/** Of more rows than these, Postgres takes seconds to find the latest: they open by key. */
const MAX_SORTED_ROWS = 300_000

/** SQLSTATE of a statement that was cancelled at its timeout. */
const CANCELLED = '57014'
