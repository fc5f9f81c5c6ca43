import type { Backfill } from '../domain/backfill.ts'
import type { SourceMapping } from '../domain/mapping.ts'
import type { Condition } from '../domain/condition.ts'
import type { RowState } from '../domain/row.ts'
import type { SkippedGroup } from '../domain/skipped-cell.ts'
import { type SpendAmount, sumSpend } from '../domain/spend.ts'
import { countFailureReasons, type FailureReason } from '../store/failures.ts'
import * as coverage from '../store/metrics.ts'
import * as overview from '../store/metrics.ts'
import { currentLeaseOwner } from '../store/leases.ts'
import type { Database } from '../store/open.ts'
import * as pauses from '../store/paused-sources.ts'
import { listRetiredSources, type RetiredSource } from '../store/retire-source.ts'
import * as rows from '../store/rows.ts'
import * as runHistory from '../store/run-history.ts'
import * as runs from '../store/runs.ts'
import { groupSkippedCells } from '../store/skipped-cells.ts'
import { listDaySpend } from '../store/spend.ts'
import type { Observer } from '../store/condition-facts.ts'
import { listOpenConditions, readConditions } from '../store/conditions.ts'
import { readRunSpends, readSpend, type SpendReport, type SpendSettings } from './spend.ts'
import {
  type DeletedRowsStatus,
  readBackfills,
  readDeletedRows,
  readRateLimits,
  type RateLimitStatus,
} from './status.ts'

/** Everything on the dashboard's first page, read at one moment. */
export interface DashboardData {
  /** Milliseconds since the epoch. */
  readonly readAt: number
  /** What is wrong: errors first, then the oldest. */
  readonly conditions: readonly Condition[]
  /** The sources that live sync watches; empty while no process runs it. */
  readonly watched: readonly string[]
  readonly sources: readonly SourceOverview[]
  /** Sources that left the configuration, in none of the counts. */
  readonly retired: readonly RetiredSource[]
  /** Newest first. */
  readonly runs: readonly RunOverview[]
  /** In progress, also those before the listed ones. */
  readonly runningRuns: number
  readonly jobs: readonly overview.JobGroup[]
  /** Most recent first. */
  readonly rateLimits: readonly RateLimitStatus[]
  /** Since midnight UTC. */
  readonly callsToday: { readonly calls: number; readonly throttled: number }
  readonly failures: readonly FailureReason[]
  /** Skipped cells of all rows, most frequent first. */
  readonly skippedCells: readonly SkippedGroup[]
  /** By the runs of the last 30 days, less those undone since. */
  readonly cellsWritten: number
  readonly spend: SpendReport
}

export interface SourceOverview {
  readonly name: string
  readonly kind: string
  readonly table: string
  /** The source's outputs, in configuration order. */
  readonly columns: readonly string[]
  readonly pause: pauses.PausedSource | null
  /** The trouble of a source that does not fit its table, and is left out; null: it fits. */
  readonly breakage: Condition | null
  readonly states: Readonly<Record<RowState, number>>
  /** Oldest first; empty before the first run. On the overview: the first and the last. */
  readonly fillRates: readonly coverage.FillRateSample[]
  /** Rows that its table no longer has, in none of the counts. */
  readonly deleted: readonly DeletedRowsStatus[]
  /** How far it has come, if its last run stopped at its budget; null: it did not, or nothing remains. */
  readonly backfill: Backfill | null
  /** The latest run over it; null if none of the latest runs was. */
  readonly lastRun: runHistory.SourceRun | null
}

export interface RunOverview extends runs.StoredRun {
  readonly alive: boolean
  /** Of a running run: its rows so far. */
  readonly states: Readonly<Record<RowState, number>> | null
  /** Without its cost. */
  readonly spend: SpendAmount
}

/** A page of runs, newest first. @param before only runs with a lower id; null: the first page */
export async function listRunOverviews(
  db: Database,
  filter: runHistory.RunFilter,
  before: number | null,
  limit: number,
): Promise<RunOverview[]> {
  const list = await runHistory.listRunPage(db, filter, before, limit)
  const spends = await readRunSpends(
    db,
    list.map(({ id }) => id),
    null,
  )
  return Promise.all(
    list.map(async (run) => ({
      ...run,
      states: run.alive ? await rows.countRowStates(db, { run: run.id }) : null,
      spend: spends.get(run.id) ?? sumSpend([], null),
    })),
  )
}

const USAGE_MS = 30 * 24 * 3_600_000
const RUNS = 12
const ALL_RUNS = { source: null, state: null, trigger: null }
/** Samples of one source on its own page. */
const MEASUREMENTS = 900

export const listFollowed = (sources: ReadonlyMap<string, SourceMapping>): string[] =>
  [...sources.values()].filter(({ follow }) => follow).map(({ name }) => name)

/** Reads everything with a few statements on Fillrate's own tables; the user's tables are not touched. */
export async function readDashboardData(
  db: Database,
  sources: ReadonlyMap<string, SourceMapping>,
  settings: SpendSettings,
  observer: Observer,
  now: number,
): Promise<DashboardData> {
  const pausedSources = await pauses.listPaused(db)
  const lastRuns = await runHistory.listLastRuns(db, [...sources.keys()])
  const backfills = await readBackfills(db, [...sources.keys()], now)
  const configured = toSourceFilter(sources)
  const conditions = await readConditions(db, observer)
  return {
    readAt: now,
    conditions,
    watched: (await currentLeaseOwner(db, 'follow')) === null ? [] : listFollowed(sources),
    sources: await Promise.all(
      [...sources.values()].map((source) =>
        readSource(db, source, { pausedSources, conditions, lastRuns, backfills, samples: 1 }),
      ),
    ),
    retired: configured === null ? [] : await listRetiredSources(db, configured),
    runs: await listRunOverviews(db, ALL_RUNS, null, RUNS),
    runningRuns: (await runs.listRunning(db)).length,
    jobs: await overview.listJobGroups(db),
    rateLimits: await readRateLimits(db),
    callsToday: await readCallsToday(db),
    failures: await countFailureReasons(db, { source: configured, states: null }),
    skippedCells: await groupSkippedCells(db, { source: configured }),
    cellsWritten: await overview.countWrittenCells(db, USAGE_MS),
    spend: await readSpend(db, settings, now),
  }
}

async function readCallsToday(db: Database): Promise<DashboardData['callsToday']> {
  const ofDay = await listDaySpend(db, 1)
  const sum = (count: 'calls' | 'throttled'): number => ofDay.reduce((all, one) => all + one[count], 0)
  return { calls: sum('calls'), throttled: sum('throttled') }
}

/** What sums are about: all sources of the configuration; null: none is loaded. */
export const toSourceFilter = (sources: ReadonlyMap<string, SourceMapping>): string[] | null =>
  sources.size === 0 ? null : [...sources.keys()]

/** One source as on its own page, with its fill rates over time. */
export async function readSourceOverview(db: Database, source: SourceMapping): Promise<SourceOverview> {
  return readSource(db, source, {
    pausedSources: await pauses.listPaused(db),
    conditions: await listOpenConditions(db),
    lastRuns: await runHistory.listLastRuns(db, [source.name]),
    backfills: await readBackfills(db, [source.name], Date.now()),
    samples: MEASUREMENTS,
  })
}

async function readSource(
  db: Database,
  { name, kind, table, outputs }: SourceMapping,
  known: {
    readonly pausedSources: readonly pauses.PausedSource[]
    readonly conditions: readonly Condition[]
    readonly lastRuns: readonly runHistory.SourceRun[]
    readonly backfills: Readonly<Record<string, Backfill>>
    readonly samples: number
  },
): Promise<SourceOverview> {
  const states = await rows.countRowStates(db, { sources: [name] })
  const total = Object.values(states).reduce((sum, one) => sum + one, 0)
  return {
    name,
    kind,
    table,
    columns: outputs.map(({ column }) => column),
    pause: known.pausedSources.find((one) => one.source === name) ?? null,
    breakage:
      known.conditions.find(({ kind, source }) => kind === 'source_broken' && source === name) ?? null,
    states,
    deleted: await readDeletedRows(db, new Map([[name, total]])),
    fillRates: await coverage.listFillRateSamples(db, name, known.samples),
    backfill: known.backfills[name] ?? null,
    lastRun: known.lastRuns.find((one) => one.source === name) ?? null,
  }
}
