import type { RowState } from '../domain/row.ts'
import type { SkippedGroup } from '../domain/skipped-cell.ts'
import type { Source } from '../sources/source.ts'
import { countFailureReasons, type FailureReason } from '../store/failures.ts'
import * as coverage from '../store/metrics.ts'
import * as meters from '../store/metrics.ts'
import * as overview from '../store/metrics.ts'
import type { Database } from '../store/open.ts'
import * as pauses from '../store/paused-sources.ts'
import * as rows from '../store/rows.ts'
import * as runs from '../store/runs.ts'
import { groupSkippedCells } from '../store/skipped-cells.ts'
import { readRateLimits, type RateLimitStatus } from './status.ts'

/** Everything on the dashboard's first page, read at one moment. */
export interface DashboardData {
  /** Milliseconds since the epoch. */
  readonly readAt: number
  readonly sources: readonly SourceOverview[]
  /** Newest first. */
  readonly runs: readonly RunOverview[]
  readonly jobs: readonly overview.JobGroup[]
  /** Most recent first. */
  readonly rateLimits: readonly RateLimitStatus[]
  /** Of the last hour. */
  readonly calls: readonly meters.RequestCount[]
  readonly failures: readonly FailureReason[]
  /** Skipped cells of all rows, most frequent first. */
  readonly skippedCells: readonly SkippedGroup[]
  /** Of the last 30 days. */
  readonly usage: overview.Usage
}

export interface SourceOverview {
  readonly name: string
  readonly kind: string
  readonly table: string
  /** The source's outputs, in configuration order. */
  readonly columns: readonly string[]
  readonly pause: pauses.PausedSource | null
  readonly states: Readonly<Record<RowState, number>>
  /** Oldest first; empty before the first run. */
  readonly fillRates: readonly coverage.FillRateSample[]
}

export interface RunOverview extends runs.StoredRun {
  readonly alive: boolean
  /** Of a running run: its rows so far. */
  readonly states: Readonly<Record<RowState, number>> | null
}

export const HOUR_MS = 3_600_000
const USAGE_MS = 30 * 24 * HOUR_MS
const RUNS = 12
const MEASUREMENTS = 900

/** Reads everything with a few statements on Fillrate's own tables; the user's tables are not touched. */
export async function readDashboardData(
  db: Database,
  sources: ReadonlyMap<string, Source>,
  now: number,
): Promise<DashboardData> {
  const pausedSources = await pauses.listPaused(db)
  const runningIds = new Set((await runs.listRunning(db)).map((run) => run.id))
  return {
    readAt: now,
    sources: await Promise.all(
      [...sources.values()].map(async (source) => ({
        name: source.name,
        kind: source.mapping.kind,
        table: `${source.table.schema}.${source.table.name}`,
        columns: source.outputs.map((output) => output.column),
        pause: pausedSources.find((one) => one.source === source.name) ?? null,
        states: await rows.countRowStates(db, { sources: [source.name] }),
        fillRates: await coverage.listFillRateSamples(db, source.name, MEASUREMENTS),
      })),
    ),
    runs: await Promise.all(
      (await runs.listRuns(db, RUNS)).map(async (run) => ({
        ...run,
        alive: runningIds.has(run.id),
        states: runningIds.has(run.id) ? await rows.countRowStates(db, { run: run.id }) : null,
      })),
    ),
    jobs: await overview.listJobGroups(db),
    rateLimits: await readRateLimits(db),
    calls: await meters.listRequestCounts(db, HOUR_MS),
    failures: await countFailureReasons(db, { source: null, states: null }),
    skippedCells: await groupSkippedCells(db, {}),
    usage: await overview.usageWithin(db, USAGE_MS),
  }
}
