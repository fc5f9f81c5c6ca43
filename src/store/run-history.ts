import { sql } from 'kysely'
import { ROW_STATES, type RowState } from '../domain/row.ts'
import type { RunState, Trigger } from '../domain/run.ts'
import type { NotifiedRun } from '../domain/notification.ts'
import type { Database } from './open.ts'
import { type LivingRun, selectLivingRuns, type StoredRun } from './runs.ts'
import type { RowStateCounts } from './rows.ts'
import type { Connection, Tx } from './transaction.ts'

/** Which runs; null is any. */
export interface RunFilter {
  readonly source: string | null
  readonly state: RunState | null
  readonly trigger: Trigger | null
}

/** A page of runs, newest first. @param before only runs with a lower id; null: the first page */
export async function listRunPage(
  db: Database,
  { source, state, trigger }: RunFilter,
  before: number | null,
  limit: number,
): Promise<LivingRun[]> {
  let runs = selectLivingRuns(db).limit(limit)
  if (before !== null) runs = runs.where('id', '<', before)
  if (state !== null) runs = runs.where('state', '=', state)
  if (trigger !== null) runs = runs.where('trigger', '=', trigger)
  if (source !== null) runs = runs.where(sql<boolean>`${source} = any(sources)`)
  return runs.execute()
}

/** When the phases of a run began and ended; null: not yet, or it had none. */
export interface RunPhases {
  readonly pickingFinishedAt: Date | null
  readonly firstWriteAt: Date | null
  readonly lastWriteAt: Date | null
  /** The process that runs it, or did. */
  readonly owner: string
}

export async function readRunPhases(db: Database, run: number): Promise<RunPhases | null> {
  const { rows } = await sql<RunPhases>`
    select r.picking_finished_at as "pickingFinishedAt", r.owner,
           (select written_at from fillrate.changes where run_id = r.id order by id limit 1) as "firstWriteAt",
           (select written_at from fillrate.changes where run_id = r.id order by id desc limit 1) as "lastWriteAt"
      from fillrate.runs r where r.id = ${run}`.execute(db)
  return rows[0] ?? null
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

/** One write of a run to one row. */
export interface RunChange {
  readonly id: number
  readonly source: string
  readonly key: string
  readonly writtenAt: Date
  readonly before: Readonly<Record<string, unknown>>
  readonly after: Readonly<Record<string, unknown>>
  readonly isUndone: boolean
}

/** A page of what a run has written, in the order of the writes. @param after an id; 0: the first page */
export async function listRunChanges(
  db: Database,
  run: number,
  after: number,
  limit: number,
): Promise<RunChange[]> {
  const { rows } = await sql<RunChange>`
    select id, source, key, written_at as "writtenAt", before, after, undone_by_change_id is not null as "isUndone"
      from fillrate.changes where run_id = ${run} and id > ${after} order by id limit ${limit}`.execute(db)
  return rows
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

/** How far a source has come whose last run, live sync apart, stopped at its budget. */
interface BackfillCounts {
  readonly source: string
  readonly picked: number
  /** At the last count. */
  readonly eligible: number
  readonly week: { readonly picked: number; readonly since: Date | null }
}

/** Reads the backfills among these sources. Runs that ended without a report count as none. */
export async function listBackfills(db: Database, sources: readonly string[]): Promise<BackfillCounts[]> {
  const { rows } = await sql<Omit<BackfillCounts, 'week'> & { week_picked: number; since: Date | null }>`
    with ended as (
      select r.id, s.source, r.started_at, r.totals ->> 'status' as status,
             (select sum(n::bigint) from jsonb_each_text(r.totals #> array['rows_by_source', s.source]) c (state, n)) as picked
        from (select * from fillrate.runs order by id desc limit ${SEARCHED_RUNS}) r
       cross join lateral unnest(r.sources) as s (source)
       where s.source = any(${[...sources]}::text[]) and r.totals is not null
         and r.options -> 'follow' is null and r.options -> 'undoes' is null
         and r.options -> 'dry' is distinct from 'true'
    ), latest as (
      select distinct on (source) source, status from ended order by source, id desc
    )
    select l.source,
           (select coalesce(sum(c.rows), 0)::bigint from fillrate.row_counts c where c.source = l.source) as picked,
           f.eligible, w.picked as week_picked, w.since
      from latest l
     cross join lateral (
       select eligible from fillrate.fill_rate_samples where source = l.source order by at desc limit 1) f
     cross join lateral (
       select coalesce(sum(e.picked), 0)::bigint as picked, min(e.started_at) as since
         from ended e where e.source = l.source and e.started_at > now() - interval '7 days') w
     where l.status = 'budget_reached'`.execute(db)
  return rows.map(({ week_picked: picked, since, ...one }) => ({ ...one, week: { picked, since } }))
}

const NOTIFIED_RUN = sql`
  id, trigger, sources, coalesce(totals ->> 'status', state) as status, reason, totals -> 'rows' as rows,
  (totals #>> '{lookups,requested}')::bigint as lookups_requested,
  nullif(totals #> '{spend,cost}', 'null') as cost,
  (totals #>> '{cells,written}')::bigint as cells_written`

/** What a run has reported, or what is known of one that has not. */
export async function findNotifiedRun(db: Connection, run: number): Promise<NotifiedRun | null> {
  const { rows } =
    await sql<NotifiedRun>`select ${NOTIFIED_RUN} from fillrate.runs where id = ${run}`.execute(db)
  return rows[0] ?? null
}

/** Notes which targets are to be notified of the end of a run. */
export async function oweNotification(tx: Tx, run: number, targets: readonly string[]): Promise<void> {
  await tx
    .updateTable('fillrate.runs')
    .set({ owed: [...targets] })
    .where('id', '=', run)
    .execute()
}

/** A finished run of which a target has not accepted the notification. */
interface OwingRun extends NotifiedRun {
  readonly owed: readonly string[]
  readonly ended_at: Date
  readonly duration_ms: number
}

/** The latest 200 runs, over since a day at most, of which a target is still to be notified, the oldest first. */
export async function listOwingRuns(db: Connection): Promise<OwingRun[]> {
  const { rows } = await sql<OwingRun>`
    select ${NOTIFIED_RUN}, owed, finished_at as ended_at, (extract(epoch from finished_at - started_at) * 1000)::float8 as duration_ms
      from fillrate.runs
     where id > (select coalesce(max(id), 0) - 200 from fillrate.runs) and owed <> '{}' and finished_at > now() - interval '1 day'
     order by id`.execute(db)
  return rows
}

/** Notes that a target has accepted the notification of a run. */
export async function settleNotification(db: Connection, run: number, target: string): Promise<void> {
  await sql`update fillrate.runs set owed = array_remove(owed, ${target}) where id = ${run}`.execute(db)
}
