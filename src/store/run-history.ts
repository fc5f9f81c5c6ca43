import { sql } from 'kysely'
import { ROW_STATES, type RowState } from '../domain/row.ts'
import type { Database } from './open.ts'
import { type LivingRun, selectLivingRuns, type StoredRun } from './runs.ts'
import type { RowStateCounts } from './rows.ts'

/**
 * A page of runs, newest first.
 * @param source null: of any
 * @param before only runs with a lower id; null: the first page
 */
export async function listRunPage(
  db: Database,
  source: string | null,
  before: number | null,
  limit: number,
): Promise<LivingRun[]> {
  let runs = selectLivingRuns(db).limit(limit)
  if (before !== null) runs = runs.where('id', '<', before)
  if (source !== null) runs = runs.where(sql<boolean>`${source} = any(sources)`)
  return runs.execute()
}

/** The process that runs a run, or did; null: there is no such run. */
export async function readRunProcess(db: Database, run: number): Promise<string | null> {
  const found = db.selectFrom('fillrate.runs').select('owner').where('id', '=', run)
  return (await found.executeTakeFirst())?.owner ?? null
}

/** The rows of a run by source and state, as they are now: a later run takes over the rows that it picks. */
export async function countRunRowsBySource(
  db: Database,
  run: number,
): Promise<Readonly<Record<string, RowStateCounts>>> {
  const { rows } = await sql<{ source: string; state: RowState; count: number }>`
    select source, state, count(*) as count from fillrate.rows where run_id = ${run}
     group by source, state order by source`.execute(db)
  const names = [...new Set(rows.map((row) => row.source))]
  return Object.fromEntries(
    names.map((name) => [
      name,
      Object.fromEntries(
        ROW_STATES.map((state) => [
          state,
          rows.find((row) => row.source === name && row.state === state)?.count ?? 0,
        ]),
      ) as RowStateCounts,
    ]),
  )
}

/** The latest run over a source. `totals` of its report: how it ended. */
export interface SourceRun extends Pick<StoredRun, 'state' | 'totals'> {
  readonly source: string
  readonly run: number
  readonly at: Date
}

/** Runs that are searched for the latest ones over each source. */
const SEARCHED_RUNS = 1_000

/** The latest run over each of these sources, among the latest runs. */
export async function listLastRuns(db: Database, sources: readonly string[]): Promise<SourceRun[]> {
  const { rows } = await sql<SourceRun>`
    select distinct on (source) source, r.id as run, r.state, jsonb_build_object('status', r.totals -> 'status') as totals,
           coalesce(r.finished_at, r.started_at) as at
      from (select id, state, sources, started_at, finished_at, totals from fillrate.runs order by id desc limit ${SEARCHED_RUNS}) r
     cross join lateral unnest(r.sources) as source
     where source = any(${[...sources]}::text[])
     order by source, r.id desc`.execute(db)
  return rows
}
