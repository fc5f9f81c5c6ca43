import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Logger } from 'pino'
import { ConfigProblems } from '../../../config/problems.ts'
import { readBoard, type Board } from '../../../pipeline/board.ts'
import type { Story } from '../../../pipeline/explain/story.ts'
import { remembered } from '../../../pipeline/remembered.ts'
import type { Source } from '../../../sources/source.ts'
import { FAILURE_STATES, type FailureState } from '../../../domain/row.ts'
import { behind } from '../../../store/failures.ts'
import type { Database } from '../../../store/open.ts'
import * as rows from '../../../store/rows.ts'
import * as runs from '../../../store/runs.ts'
import { CONTENT_SECURITY } from '../headers.ts'
import { actions } from './actions.ts'
import { failuresPage } from './failures.ts'
import { html } from './html.ts'
import { page, type PageOptions } from './layout.ts'
import { Live } from './live.ts'
import { overview } from './overview.ts'
import { rowPage } from './row-page.ts'
import { runPage } from './run-page.ts'

export interface DashboardOptions {
  readonly db: Database
  /** As they are configured now: a daemon reads its configuration again. */
  readonly sources: () => ReadonlyMap<string, Source>
  readonly explain: (source: string, key: string) => Promise<Story>
  readonly log: Logger
  /** There is a token, and so something to sign out of. */
  readonly signedIn: boolean
}

/** Rows of one page of failures. */
const PAGE = 100

/** The dashboard's pages. Whoever comes this far may look. @returns reads what the first page shows */
export function dashboard(server: FastifyInstance, options: DashboardOptions): () => Promise<Board> {
  const { db, sources, signedIn } = options
  const board = remembered(() => readBoard(db, sources(), Date.now()))
  const live = new Live(board, options.log)
  server.addHook('preClose', () => live.close())
  const send = (
    reply: FastifyReply,
    about: Pick<PageOptions, 'title' | 'live' | 'found'>,
    body: Parameters<typeof page>[1],
  ) =>
    reply
      .type('text/html; charset=utf-8')
      .send(page({ sources: [...sources().keys()], signedIn, ...about }, body))

  server.get('/', async (_, reply) =>
    send(reply, { title: 'Dashboard', live: true }, overview(await board())),
  )

  server.get('/events', (_, reply) => {
    if (!live.hasRoom)
      return reply.code(503).header('retry-after', '30').send({ error: 'too many pages are open' })
    reply.hijack()
    live.open(reply.raw, CONTENT_SECURITY)
    return undefined
  })

  server.get<{ Params: { id: string } }>('/runs/:id', async (request, reply) => {
    const id = Number(request.params.id)
    const run = Number.isSafeInteger(id) && id > 0 ? await runs.find(db, id) : null
    if (run === null)
      return send(
        reply.code(404),
        { title: 'No such run' },
        notFound(`There is no run ${request.params.id}.`),
      )
    const states = run.alive ? await rows.countStates(db, { run: id }) : null
    return send(reply, { title: `Run ${id}` }, runPage(run, states, Date.now()))
  })

  server.get<{ Querystring: Query }>('/failures', async (request, reply) => {
    const { source = null, state = null, reason = null, after } = request.query
    const filter = { source, state: stateIn(state), reason }
    const list = await behind(db, filter, placeIn(after), PAGE)
    return send(
      reply,
      { title: 'Failures' },
      failuresPage(filter, list, { now: Date.now(), full: list.length === PAGE }),
    )
  })

  server.get<{ Querystring: Query }>('/row', async (request, reply) => {
    const { source = '', key = '' } = request.query
    const found = { source, key }
    try {
      const story = await options.explain(source, key.trim())
      return await send(reply, { title: `${source} ${story.key}`, found }, rowPage(story, Date.now()))
    } catch (error) {
      if (!(error instanceof ConfigProblems)) throw error
      const [problem] = error.problems
      const text = problem ? `${problem.found}. Expected: ${problem.expected}.` : error.message
      return send(reply.code(404), { title: 'No such row', found }, notFound(text))
    }
  })

  actions(server, { db, sources, onChanged: () => board.forget() })
  return board
}

type Query = Readonly<Partial<Record<'source' | 'key' | 'state' | 'reason' | 'after', string>>>

const notFound = (text: string) =>
  html`<h1>Not found</h1>
    <p>${text}</p>
    <p><a href="/">Back to the dashboard</a></p>`

const stateIn = (text: string | null): FailureState | null =>
  FAILURE_STATES.find((state) => state === text) ?? null

/** Where the page before ended. What is no place begins at the first. */
function placeIn(text: string | undefined): { source: string; key: string } | null {
  try {
    const [source, key] = JSON.parse(text ?? '') as unknown[]
    return typeof source === 'string' && typeof key === 'string' ? { source, key } : null
  } catch {
    return null
  }
}
