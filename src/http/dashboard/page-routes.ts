import type { FastifyInstance } from 'fastify'
import { type DashboardData, readDashboardData, toSourceFilter } from '../../actions/dashboard-data.ts'
import { readSystemData } from '../../actions/system-data.ts'
import { countFailureReasons } from '../../store/failures.ts'
import { findRevokedSessions } from '../../store/sessions.ts'
import { groupSkippedCells } from '../../store/skipped-cells.ts'
import { cached } from '../../util/cached.ts'
import { registerActions } from './actions/routes.ts'
import { registerCsvRoutes } from './csv-routes.ts'
import { missingBody } from './error-pages.ts'
import { buildUrl, html, sourceUrl } from './html.ts'
import { SECURITY_HEADERS } from './layout.ts'
import { canAct, createSend, type PageRouteOptions } from './page-context.ts'
import { createReaders, findLiveReader, type Query } from './page-readers.ts'
import { failuresPage } from './pages/failures.ts'
import { jobsPage } from './pages/jobs.ts'
import { overviewPage } from './pages/overview.ts'
import { runPage } from './pages/run.ts'
import { runsPage } from './pages/runs.ts'
import { servicePage } from './pages/service.ts'
import { sourcePage } from './pages/source.ts'
import { parseSourceSort, sourcesPage } from './pages/sources.ts'
import { spendPage } from './pages/spend.ts'
import { systemPage } from './pages/system.ts'
import { registerRowRoutes } from './row-routes.ts'
import { LiveUpdates } from './sse.ts'

/**
 * Registers the dashboard's pages, without access control.
 * @returns reads the data of the overview page
 */
export function registerPages(
  server: FastifyInstance,
  options: PageRouteOptions,
): () => Promise<DashboardData> {
  const { db, sources, isSignedIn } = options
  const readData = cached(() =>
    readDashboardData(db, sources(), options.spendSettings(), options.observer(), Date.now()),
  )
  const readSystem = cached(() => readSystemData(db, Date.now()))
  const live = new LiveUpdates({
    own: () => options.observer().own,
    findRevoked: (hashes) => findRevokedSessions(db, hashes),
    log: options.log,
  })
  server.addHook('preClose', () => live.close())
  const send = createSend(isSignedIn)
  const readers = createReaders({ db, sources, readData, readSystem })

  server.get('/', async (request, reply) =>
    send(
      request,
      reply,
      { title: 'Overview', path: '/', live: '/' },
      overviewPage(await readData(), await readSystem(), canAct(request)),
    ),
  )

  server.get<{ Querystring: Query }>('/sources', async (request, reply) => {
    const [data, system] = await readers.overview()
    const sort = parseSourceSort(request.query['sort'])
    return send(
      request,
      reply,
      { title: 'Sources', path: '/sources', live: buildUrl('/sources', { sort }) },
      sourcesPage(data, system.liveSync.sources, sort),
    )
  })

  server.get<{ Params: { source: string } }>('/sources/:source', async (request, reply) => {
    const { source: name } = request.params
    const data = await readers.source(name, canAct(request))
    const path = sourceUrl(name)
    if (data === null)
      return send(
        request,
        reply.code(404),
        { title: 'No such source', path },
        missingBody(
          'No such source',
          html`The configuration has no source <strong>${name}</strong>. <a href="/sources">All sources</a>`,
        ),
      )
    return send(request, reply, { title: name, path, live: path }, sourcePage(data))
  })

  server.get<{ Querystring: Query }>('/runs', async (request, reply) => {
    const data = await readers.runs(request.query, canAct(request))
    const isLive = data.isFirstPage && Object.values(data.filter).every((one) => one === null)
    return send(
      request,
      reply,
      { title: 'Runs', path: '/runs', live: isLive ? '/runs' : null },
      runsPage(data),
    )
  })

  server.get<{ Params: { id: string }; Querystring: Query }>('/runs/:id', async (request, reply) => {
    const data = await readers.run(request.params.id, request.query['after'], canAct(request))
    if (data === null)
      return send(
        request,
        reply.code(404),
        { title: 'No such run', path: '/runs/0' },
        missingBody(
          'No such run',
          html`There is no run ${request.params.id}, or it was deleted as too old.
            <a href="/runs">All runs</a>`,
        ),
      )
    const path = `/runs/${data.run.id}`
    return send(
      request,
      reply,
      { title: `Run ${data.run.id}`, path, live: data.run.alive ? path : null },
      runPage(data),
    )
  })

  server.get<{ Querystring: Query }>('/jobs', async (request, reply) => {
    const data = await readers.jobs(request.query['state'])
    return send(
      request,
      reply,
      { title: 'Jobs', path: '/jobs', live: data.state === null ? '/jobs' : null },
      jobsPage(data),
    )
  })

  server.get<{ Querystring: Query }>('/service', async (request, reply) => {
    const data = await readers.service(request.query['hours'])
    return send(
      request,
      reply,
      { title: 'Service', path: '/service', live: `/service?hours=${data.hours}` },
      servicePage(data),
    )
  })

  server.get('/spend', async (request, reply) =>
    send(request, reply, { title: 'Spend', path: '/spend', live: '/spend' }, spendPage(await readData())),
  )

  server.get('/system', async (request, reply) =>
    send(
      request,
      reply,
      { title: 'System', path: '/system', live: '/system' },
      systemPage(await readSystem()),
    ),
  )

  server.get<{ Querystring: Query }>('/failures', async (request, reply) => {
    const names = [...sources().keys()]
    const source = names.find((name) => name === request.query['source']) ?? null
    const reasons = await countFailureReasons(db, {
      source: source ?? toSourceFilter(sources()),
      states: null,
    })
    const skipped = await groupSkippedCells(db, { source: source ?? toSourceFilter(sources()) })
    return send(
      request,
      reply,
      { title: 'Failures', path: '/failures' },
      failuresPage(reasons, skipped, { source, sources: names, canAct: canAct(request) }),
    )
  })

  registerRowRoutes(server, options, send)
  registerCsvRoutes(server, options)

  server.get<{ Querystring: { path?: string } }>('/events', (request, reply) => {
    const { path = '/' } = request.query
    const isActing = canAct(request)
    const read = findLiveReader(path, readers, isActing)
    if (read === null) return reply.code(404).send({ error: 'this page has no live updates' })
    if (!live.hasRoom)
      return reply.code(503).header('retry-after', '30').send({ error: 'too many pages are open' })
    reply.hijack()
    live.subscribe(
      `${isActing} ${path}`,
      read,
      { response: reply.raw, session: request.access?.session ?? null },
      SECURITY_HEADERS,
    )
    return undefined
  })

  registerActions(server, {
    db,
    sources,
    app: options.app,
    onChanged: () => {
      readData.invalidate()
      live.invalidate()
    },
    send: (request, reply, about, body) =>
      send(request, reply, { path: request.url.split('?')[0] ?? '', ...about }, body),
  })
  return readData
}
