import type { RowState } from '../domain/row.ts'
import type { Source } from '../sources/source.ts'
import * as coverage from '../store/coverage.ts'
import { countReasons, type FailureReason } from '../store/failures.ts'
import * as meters from '../store/meters.ts'
import type { Database } from '../store/open.ts'
import * as overview from '../store/overview.ts'
import * as pauses from '../store/pauses.ts'
import * as rows from '../store/rows.ts'
import * as runs from '../store/runs.ts'
import { readQuotas, type Quota } from './quotas.ts'

/** All that the dashboard's first page shows, at one moment. */
export interface Board {
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly sources: readonly SourceBoard[]
  /** Newest first. */
  readonly runs: readonly RunBoard[]
  readonly jobs: readonly overview.JobGroup[]
  /** The latest first. */
  readonly quotas: readonly Quota[]
  /** Of the last hour. */
  readonly calls: readonly meters.CallCount[]
  readonly failures: readonly FailureReason[]
  /** Of the last 30 days. */
  readonly spent: overview.Spent
}

export interface SourceBoard {
  readonly name: string
  readonly kind: string
  readonly table: string
  /** Its outputs, in the configured order. */
  readonly columns: readonly string[]
  readonly pause: pauses.Pause | null
  readonly states: Readonly<Record<RowState, number>>
  /** Oldest first; empty before the first run. */
  readonly coverage: readonly coverage.Measurement[]
}

export interface RunBoard extends runs.StoredRun {
  readonly alive: boolean
  /** Of a run under way: its rows so far. */
  readonly states: Readonly<Record<RowState, number>> | null
}

export const HOUR_MS = 3_600_000
const SPENT_MS = 30 * 24 * HOUR_MS
const RUNS = 12
const MEASUREMENTS = 900

/** Reads it all: a few statements on Fillrate's own tables, none on a user's. */
export async function readBoard(
  db: Database,
  sources: ReadonlyMap<string, Source>,
  now: number,
): Promise<Board> {
  const paused = await pauses.list(db)
  const live = new Set((await runs.live(db)).map((run) => run.id))
  return {
    at: now,
    sources: await Promise.all(
      [...sources.values()].map(async (source) => ({
        name: source.name,
        kind: source.mapping.kind,
        table: `${source.table.schema}.${source.table.name}`,
        columns: source.outputs.map((output) => output.column),
        pause: paused.find((one) => one.source === source.name) ?? null,
        states: await rows.countStates(db, { sources: [source.name] }),
        coverage: await coverage.history(db, source.name, MEASUREMENTS),
      })),
    ),
    runs: await Promise.all(
      (await runs.list(db, RUNS)).map(async (run) => ({
        ...run,
        alive: live.has(run.id),
        states: live.has(run.id) ? await rows.countStates(db, { run: run.id }) : null,
      })),
    ),
    jobs: await overview.jobGroups(db),
    quotas: await readQuotas(db),
    calls: await meters.callsWithin(db, HOUR_MS),
    failures: await countReasons(db, { source: null, states: null }),
    spent: await overview.spentWithin(db, SPENT_MS),
  }
}
