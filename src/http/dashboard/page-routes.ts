import * as rows from '../../store/rows.ts'
import * as runs from '../../store/runs.ts'
import * as pauses from '../../store/paused-sources.ts'
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import fastifyStatic from '@fastify/static'
import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Logger } from 'pino'
import { ConfigProblems } from '../../config/problems.ts'
import { type DashboardData, readDashboardData } from '../../actions/dashboard-data.ts'
import type { RowHistory } from '../../actions/explain/row-history.ts'
import { cached } from '../../util/cached.ts'
import type { Source } from '../../sources/source.ts'
import { FAILURE_STATES, type FailureState } from '../../domain/row.ts'
import { listFailuresByReason } from '../../store/failures.ts'
import type { Database } from '../../store/open.ts'
import { type HtmlPageOptions, SECURITY_HEADERS, renderPage } from './layout.ts'
import { failuresPage } from './pages/failures.ts'
import { html } from './html.ts'
import { LiveUpdates } from './sse.ts'
import { overviewPage } from './pages/overview.ts'
import { rowPage } from './pages/row.ts'
import { runPage } from './pages/runs.ts'
import { createRequire, findPackageJSON } from 'node:module'
import { dirname, join } from 'node:path'

export interface PageRouteOptions {
  readonly db: Database
  /** The current sources: a daemon may reload its configuration. */
  readonly sources: () => ReadonlyMap<string, Source>
  readonly explain: (source: string, key: string) => Promise<RowHistory>
  readonly log: Logger
  /** There is a token, so there is a session to sign out of. */
  readonly isSignedIn: boolean
}

/** Rows on one page of failures. */
const FAILURES_PAGE_SIZE = 100

/**
 * Registers the dashboard's pages, without access control.
 * @returns reads the data of the overview page
 */
export function registerPages(
  server: FastifyInstance,
  options: PageRouteOptions,
): () => Promise<DashboardData> {
  const { db, sources, isSignedIn } = options
  const readData = cached(() => readDashboardData(db, sources(), Date.now()))
  const live = new LiveUpdates(readData, options.log)
  server.addHook('preClose', () => live.close())
  const send = (
    reply: FastifyReply,
    about: Pick<HtmlPageOptions, 'title' | 'isLive' | 'found'>,
    body: Parameters<typeof renderPage>[1],
  ) =>
    reply
      .type('text/html; charset=utf-8')
      .send(renderPage({ sources: [...sources().keys()], isSignedIn, ...about }, body))

  server.get('/', async (_, reply) =>
    send(reply, { title: 'Dashboard', isLive: true }, overviewPage(await readData())),
  )

  server.get('/events', (_, reply) => {
    if (!live.hasRoom)
      return reply.code(503).header('retry-after', '30').send({ error: 'too many pages are open' })
    reply.hijack()
    live.subscribe(reply.raw, SECURITY_HEADERS)
    return undefined
  })

  server.get<{ Params: { id: string } }>('/runs/:id', async (request, reply) => {
    const id = Number(request.params.id)
    const run = Number.isSafeInteger(id) && id > 0 ? await runs.findRun(db, id) : null
    if (run === null)
      return send(
        reply.code(404),
        { title: 'No such run' },
        notFoundBody(`There is no run ${request.params.id}.`),
      )
    const states = run.alive ? await rows.countRowStates(db, { run: id }) : null
    return send(reply, { title: `Run ${id}` }, runPage(run, states, Date.now()))
  })

  server.get<{ Querystring: PageQuery }>('/failures', async (request, reply) => {
    const { source = null, state = null, reason = null, after } = request.query
    const filter = { source, state: parseState(state), reason }
    const list = await listFailuresByReason(db, filter, parseCursor(after), FAILURES_PAGE_SIZE)
    return send(
      reply,
      { title: 'Failures' },
      failuresPage(filter, list, { now: Date.now(), full: list.length === FAILURES_PAGE_SIZE }),
    )
  })

  server.get<{ Querystring: PageQuery }>('/row', async (request, reply) => {
    const { source = '', key = '' } = request.query
    const found = { source, key }
    try {
      const story = await options.explain(source, key.trim())
      return await send(reply, { title: `${source} ${story.key}`, found }, rowPage(story, Date.now()))
    } catch (error) {
      if (!(error instanceof ConfigProblems)) throw error
      const [problem] = error.problems
      const text = problem ? `${problem.found}. Expected: ${problem.expected}.` : error.message
      return send(reply.code(404), { title: 'No such row', found }, notFoundBody(text))
    }
  })

  registerActions(server, { db, sources, onChanged: () => readData.invalidate() })
  return readData
}

type PageQuery = Readonly<Partial<Record<'source' | 'key' | 'state' | 'reason' | 'after', string>>>

const notFoundBody = (text: string) =>
  html`<h1>Not found</h1>
    <p>${text}</p>
    <p><a href="/">Back to the dashboard</a></p>`

const parseState = (text: string | null): FailureState | null =>
  FAILURE_STATES.find((state) => state === text) ?? null

/** The position after which a page starts. An invalid one means the first page. */
function parseCursor(text: string | undefined): { source: string; key: string } | null {
  try {
    const [source, key] = JSON.parse(text ?? '') as unknown[]
    return typeof source === 'string' && typeof key === 'string' ? { source, key } : null
  } catch {
    return null
  }
}

/** The only actions of the dashboard: pausing and resuming a source. */
export function registerActions(
  server: FastifyInstance,
  {
    db,
    sources,
    onChanged,
  }: {
    readonly db: Database
    readonly sources: () => ReadonlyMap<string, unknown>
    readonly onChanged: () => void
  },
): void {
  server.post<{ Params: { source: string; verb: string } }>(
    '/sources/:source/:verb',
    async (request, reply) => {
      const { source, verb } = request.params
      if (!sources().has(source) || (verb !== 'pause' && verb !== 'resume'))
        return reply.code(404).send({ error: 'no such source' })
      if (verb === 'pause') await pauses.pauseSources(db, [source], 'the dashboard')
      else await pauses.resumeSources(db, [source])
      onChanged()
      return reply.redirect(`/#source-${source}`, 303)
    },
  )
}

/** Our own files are beside `package.json`, both in a checkout and in an installed package. */
const OWN = join(dirname(findPackageJSON(import.meta.url) ?? ''), 'assets')
const CHART = dirname(createRequire(import.meta.url).resolve('uplot/dist/uPlot.esm.js'))

/** The served files by name: no other file of these folders is public. */
const FILES: Readonly<Record<string, readonly [folder: string, file: string]>> = {
  'board.js': [OWN, 'board.js'],
  'board.css': [OWN, 'board.css'],
  'icon.svg': [OWN, 'icon.svg'],
  'uplot.js': [CHART, 'uPlot.esm.js'],
  'uplot.css': [CHART, 'uPlot.min.css'],
}

/**
 * Registers scripts, styles and the icon. They need no token, because the sign-in page uses them. The ETag is a hash of the
 * content: the plugin's own is size and time, and npm gives the files of every release the same time.
 */
export async function registerAssets(server: FastifyInstance): Promise<void> {
  await server.register(fastifyStatic, {
    root: OWN,
    serve: false,
    cacheControl: false,
    lastModified: false,
    etag: false,
  })
  for (const [name, [folder, file]] of Object.entries(FILES)) {
    const content = await readFile(join(folder, file))
    const etag = `"${createHash('sha256').update(content).digest('base64url').slice(0, 22)}"`
    server.get(`/assets/${name}`, (request, reply) => {
      reply.header('cache-control', 'no-cache').header('etag', etag)
      return request.headers['if-none-match'] === etag ? reply.code(304).send() : reply.sendFile(file, folder)
    })
  }
}
