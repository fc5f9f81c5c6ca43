import type { Money, SpendAmount } from '../domain/report/shape.ts'
import type {
  PausedSource,
  RateLimitReport,
  SpendReport,
  ReportedCondition,
} from '../domain/report/status.ts'
import * as sourceState from '../store/source-state.ts'
import * as rows from '../store/rows.ts'
import * as runs from '../store/runs.ts'
import type { SourceMapping } from '../domain/mapping.ts'
import type { RowState } from '../domain/row.ts'
import { sumSpend } from '../domain/spend.ts'
import { toConditionReport } from '../domain/condition.ts'
import type { Observer } from '../store/condition-facts.ts'
import { readConditions, listRecentConditions, type StoredCondition } from '../store/conditions.ts'
import { listJobGroups, type JobGroup } from '../store/metrics.ts'
import type { Database } from '../store/open.ts'
import { readRunSpends, readSpendByDay, type ServiceDays, type SpendSettings } from './spend.ts'
import { readRateLimits } from './status.ts'
import { listAuditEvents, type AuditEvent } from '../store/audit.ts'
import { listProcesses, type ListedProcess } from '../store/processes.ts'

/** Whether Fillrate works. One statement: it is never as old as the counts. */
export interface Verdict {
  /** Milliseconds since the epoch. */
  readonly readAt: number
  /** What is wrong: the gravest kind first, then the oldest. */
  readonly conditions: readonly ReportedCondition[]
}

export async function readVerdict(db: Database, observer: Observer): Promise<Verdict> {
  const readAt = Date.now()
  const conditions = await readConditions(db, observer)
  return { readAt, conditions: conditions.map((condition) => toConditionReport(condition, readAt)) }
}

/** Runs on the overview; the others are on their own page. */
const RUNS = 5

/** The counts of the first page, read at one moment. */
export interface DashboardData {
  /** Milliseconds since the epoch. */
  readonly readAt: number
  readonly sources: readonly SourceOverview[]
  readonly services: readonly ServiceOverview[]
  /** Newest first. */
  readonly runs: readonly RunOverview[]
  readonly jobs: readonly JobGroup[]
  /** Most recent first. */
  readonly rateLimits: readonly RateLimitReport[]
  readonly spend: SpendReport
}

/** A service, and what was called there since midnight UTC. */
export interface ServiceOverview {
  /** Its name in the configuration; its address if it has none. */
  readonly name: string
  /** Null: it was not called in the last 30 days. */
  readonly today: { readonly calls: number; readonly throttled: number; readonly failed: number } | null
  /** Billed and called since midnight UTC, by each source of the last 30 days. */
  readonly spentToday: ReadonlyMap<string, { readonly lookups: number; readonly calls: number }>
  readonly costToday: Money | null
  readonly last30Days: SpendAmount
  /** Of each of its keys. */
  readonly limits: readonly RateLimitReport[]
}

export interface SourceOverview {
  readonly name: string
  readonly kind: string
  readonly table: string
  /** The source's outputs, in configuration order. */
  readonly columns: readonly string[]
  readonly pause: PausedSource | null
  readonly states: Readonly<Record<RowState, number>>
  /** As a run has counted it last; null: none has. */
  readonly fillRate: sourceState.SourceFillRate | null
  /** The latest run over it; null if none of the latest runs was. */
  readonly lastRun: runs.SourceRun | null
}

export interface RunOverview extends runs.LivingRun {
  /** Of a running run: its rows so far. */
  readonly states: Readonly<Record<RowState, number>> | null
  /** Without its cost. */
  readonly spend: SpendAmount
}

/**
 * A page of runs, newest first.
 * @param source null: of any
 * @param before only runs with a lower id; null: the first page
 */
export async function listRunOverviews(
  db: Database,
  source: string | null,
  before: number | null,
  limit: number,
): Promise<RunOverview[]> {
  const list = await runs.listRunPage(db, source, before, limit)
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

/** Reads everything with a few statements on Fillrate's own tables; the user's tables are not touched. */
export async function readDashboardData(
  db: Database,
  settings: SpendSettings,
  now: number,
): Promise<DashboardData> {
  const rateLimits = await readRateLimits(db)
  const spent = await readSpendByDay(db, settings, now)
  return {
    readAt: now,
    sources: await readSourceOverviews(db, Object.values(settings.sources)),
    services: spent.services.map((service) => toServiceOverview(service, rateLimits, now)),
    runs: await listRunOverviews(db, null, null, RUNS),
    jobs: await listJobGroups(db),
    rateLimits,
    spend: spent.report,
  }
}

function toServiceOverview(
  { amounts: { service: name, today, last_30_days: last30Days }, days }: ServiceDays,
  rateLimits: readonly RateLimitReport[],
  now: number,
): ServiceOverview {
  const day = new Date(now).toISOString().slice(0, 10)
  const sum = (count: 'calls' | 'throttled' | 'retried' | 'lookups', of = days): number =>
    of.reduce((all, entry) => (entry.day === day ? all + entry[count] : all), 0)
  const bySource = Map.groupBy(days, ({ source }) => source)
  return {
    name,
    today:
      days.length === 0 ? null : { calls: sum('calls'), throttled: sum('throttled'), failed: sum('retried') },
    spentToday: new Map(
      [...bySource].map(([source, of]) => [source, { lookups: sum('lookups', of), calls: sum('calls', of) }]),
    ),
    costToday: today.cost,
    last30Days,
    limits: rateLimits.filter(({ service }) => service === name),
  }
}

/** Sources as on their own pages. */
export async function readSourceOverviews(
  db: Database,
  sources: readonly SourceMapping[],
): Promise<SourceOverview[]> {
  const names = sources.map(({ name }) => name)
  const [paused, lastRuns, fillRates] = await Promise.all([
    sourceState.listPaused(db),
    runs.listLastRuns(db, names),
    sourceState.listFillRates(db, names),
  ])
  return Promise.all(
    sources.map(async ({ name, kind, table, outputs }) => {
      const states = await rows.countRowStates(db, { sources: [name] })
      return {
        name,
        kind,
        table,
        columns: outputs.map(({ column }) => column),
        pause: paused.find(({ source }) => source === name) ?? null,
        states,
        fillRate: fillRates.find(({ source }) => source === name) ?? null,
        lastRun: lastRuns.find(({ source }) => source === name) ?? null,
      }
    }),
  )
}

/** The processes, and what was wrong and was changed lately. */
export interface SystemData {
  /** Milliseconds since the epoch. */
  readonly readAt: number
  readonly processes: readonly ListedProcess[]
  /** A process that starts what is due is alive. */
  readonly hasDaemon: boolean
  /** Newest first, open ones and past ones. */
  readonly recentConditions: readonly StoredCondition[]
  /** What was changed, newest first. */
  readonly changes: readonly AuditEvent[]
}

const RECENT_CONDITIONS = 30
const CHANGES = 50

export async function readSystemData(db: Database, now: number): Promise<SystemData> {
  const [processes, recentConditions, changes] = await Promise.all([
    listProcesses(db),
    listRecentConditions(db, RECENT_CONDITIONS),
    listAuditEvents(db, CHANGES),
  ])
  return {
    readAt: now,
    processes,
    hasDaemon: processes.some(({ role, isAlive }) => role === 'start' && isAlive),
    recentConditions,
    changes,
  }
}
