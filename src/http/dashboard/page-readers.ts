import {
  type DashboardData,
  HOUR_MS,
  listRunOverviews,
  readSourceOverview,
} from '../../actions/dashboard-data.ts'
import { readRateLimits } from '../../actions/status.ts'
import type { SystemData } from '../../actions/system-data.ts'
import { Job } from '../../domain/job.ts'
import { Run, type RunState, type Trigger } from '../../domain/run.ts'
import { countFailureReasons } from '../../store/failures.ts'
import { listJobs } from '../../store/job-actions.ts'
import { listJobGroups, listRequestCounts } from '../../store/metrics.ts'
import { listLimitChanges } from '../../store/rate-limits.ts'
import * as runHistory from '../../store/run-history.ts'
import * as runs from '../../store/runs.ts'
import type { PageRouteOptions } from './page-context.ts'
import { jobsParts } from './pages/jobs.ts'
import { overviewParts } from './pages/overview.ts'
import { callsChart } from './pages/rate-limit.ts'
import { CHANGES_PAGE_SIZE, runParts, type RunPageData } from './pages/run.ts'
import { RUNS_PAGE_SIZE, runsParts, type RunsPageData } from './pages/runs.ts'
import { parseHours, serviceCharts, serviceParts } from './pages/service.ts'
import { sourceParts } from './pages/source.ts'
import { parseSourceSort, sourcesSection } from './pages/sources.ts'
import { spendParts } from './pages/spend.ts'
import { systemParts } from './pages/system.ts'
import type { LiveContent } from './sse.ts'

const JOBS_PAGE_SIZE = 50
const LIMIT_CHANGES = 50

export type Query = Readonly<Partial<Record<string, string>>>

/** Reads what the pages show; null where there is no such thing. */
export type Readers = ReturnType<typeof createReaders>

export function createReaders({
  db,
  sources,
  readData,
  readSystem,
}: Pick<PageRouteOptions, 'db' | 'sources'> & {
  readonly readData: () => Promise<DashboardData>
  readonly readSystem: () => Promise<SystemData>
}) {
  return {
    overview: async () => [await readData(), await readSystem()] as const,
    system: readSystem,
    source: async (name: string, isActing: boolean) => {
      const source = sources().get(name)
      if (source === undefined) return null
      return {
        source: await readSourceOverview(db, source),
        reasons: await countFailureReasons(db, { source: name, states: null }),
        readAt: Date.now(),
        canAct: isActing,
      }
    },
    runs: async (query: Query, isActing: boolean): Promise<RunsPageData> => {
      const filter = parseRunFilter(query)
      const before = parseId(query['before'])
      const list = await listRunOverviews(db, filter, before, RUNS_PAGE_SIZE + 1)
      return {
        runs: list.slice(0, RUNS_PAGE_SIZE),
        filter,
        isFirstPage: before === null,
        hasMore: list.length > RUNS_PAGE_SIZE,
        sources: [...sources().keys()],
        system: await readSystem(),
        readAt: Date.now(),
        canAct: isActing,
      }
    },
    run: async (
      text: string,
      afterText: string | undefined,
      isActing: boolean,
    ): Promise<RunPageData | null> => {
      const id = parseId(text)
      const run = id === null ? null : await runs.findRun(db, id)
      if (id === null || run === null) return null
      const after = parseId(afterText) ?? 0
      const changes = await runHistory.listRunChanges(db, id, after, CHANGES_PAGE_SIZE + 1)
      return {
        run,
        phases: await runHistory.readRunPhases(db, id),
        live: run.alive ? await runHistory.countRunRowsBySource(db, id) : null,
        changes: changes.slice(0, CHANGES_PAGE_SIZE),
        after,
        hasMore: changes.length > CHANGES_PAGE_SIZE,
        outputs: new Map(
          [...sources().values()].map((one) => [one.name, new Set(one.outputs.map(({ column }) => column))]),
        ),
        readAt: Date.now(),
        canAct: isActing,
      }
    },
    jobs: async (text: string | undefined) => {
      const state = Object.values(Job).find((one) => one === text) ?? null
      return {
        groups: await listJobGroups(db),
        jobs: await listJobs(db, JOBS_PAGE_SIZE, state),
        state,
        readAt: Date.now(),
      }
    },
    service: async (text: string | undefined) => {
      const hours = parseHours(text)
      return {
        hours,
        rateLimits: await readRateLimits(db),
        calls: await listRequestCounts(db, hours * HOUR_MS),
        limitChanges: await listLimitChanges(db, LIMIT_CHANGES),
        readAt: Date.now(),
      }
    },
  }
}

/** What the page of an address shows now, in parts; null if it is not a page with live updates. */
export function findLiveReader(
  address: string,
  readers: Readers,
  isActing: boolean,
): (() => Promise<LiveContent>) | null {
  const { pathname: path, searchParams } = new URL(address, 'http://dashboard.invalid')
  const [, section, name = ''] = path.split('/')
  if (path === '/')
    return async () => {
      const [data, system] = await readers.overview()
      const chart = callsChart(data.calls, data.readAt, { lengthMs: HOUR_MS }, data.rateLimits[0] ?? null)
      return {
        readAt: data.readAt,
        parts: overviewParts(data, system, isActing),
        charts: { 'calls-chart': chart },
      }
    }
  if (path === '/sources')
    return async () => {
      const [data, system] = await readers.overview()
      const sort = parseSourceSort(searchParams.get('sort'))
      const section = sourcesSection(data, system.liveSync.sources, sort)
      return { readAt: data.readAt, parts: new Map([['sources', section]]) }
    }
  if (path === '/spend')
    return async () => {
      const [data] = await readers.overview()
      return { readAt: data.readAt, parts: spendParts(data) }
    }
  if (path === '/system')
    return async () => {
      const data = await readers.system()
      return { readAt: data.readAt, parts: systemParts(data) }
    }
  if (path === '/runs')
    return async () => {
      const data = await readers.runs({}, isActing)
      return { readAt: data.readAt, parts: runsParts(data) }
    }
  if (path === '/jobs')
    return async () => {
      const data = await readers.jobs(undefined)
      return { readAt: data.readAt, parts: jobsParts(data) }
    }
  if (path === '/service')
    return async () => {
      const data = await readers.service(searchParams.get('hours') ?? undefined)
      return { readAt: data.readAt, parts: serviceParts(data), charts: serviceCharts(data) }
    }
  if (section === 'sources' && name !== '')
    return async () => {
      const data = await readers.source(decodeURIComponent(name), isActing)
      return { readAt: Date.now(), parts: data === null ? new Map() : sourceParts(data) }
    }
  if (section === 'runs' && name !== '')
    return async () => {
      const data = await readers.run(name, searchParams.get('after') ?? undefined, isActing)
      return { readAt: Date.now(), parts: data === null ? new Map() : runParts(data) }
    }
  return null
}

const parseId = (text: string | undefined): number | null => {
  const id = Number(text)
  return Number.isSafeInteger(id) && id > 0 ? id : null
}

const TRIGGERS: readonly Trigger[] = ['manual', 'schedule', 'follow', 'backfill']
const RUN_STATES: readonly RunState[] = Object.values(Run)

const parseRunFilter = (query: Query): runHistory.RunFilter => ({
  source: query['source'] || null,
  state: RUN_STATES.find((one) => one === query['state']) ?? null,
  trigger: TRIGGERS.find((one) => one === query['trigger']) ?? null,
})
