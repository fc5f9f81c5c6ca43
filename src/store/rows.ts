import { sql, type RawBuilder } from 'kysely'
import { ROW_STATES, FAILED_ROW_STATES, UNDONE_NOTE, type RowState, type RetryState } from '../domain/row.ts'
import type { Database } from './open.ts'
import { claimedValuesSql } from './own-values.ts'
import { deleteSkippedCells } from './skipped-cells.ts'
import { readOne, recordBatch, opaque, unnestByRow } from './sql.ts'
import { failureSql, isPausedSql, runsWithWaitingSql } from './terms.ts'
import type { Connection, Tx } from './transaction.ts'
import type { RunService } from './pending-lookups.ts'

export interface PickedRow {
  readonly key: string
  readonly inputHash: string
  /** When it was finished, as it was read; null: it waited, or was not known. */
  readonly settledAt: string | null
  readonly state: RowState
  readonly reason: string | null
  readonly lookup: number | null
  /** Inputs that were not used, with the reason. */
  readonly notes: unknown
  /** Lookups for the same inputs that found nothing, in the order of the calls. */
  readonly tried?: readonly number[]
  /** A service before this one has found it. Absent: none. */
  readonly onlyBlanks?: boolean
  /** When a row that finishes at once may be picked again; null or absent: when its inputs change. */
  readonly nextAt?: string | null
}

/**
 * Claims rows for a run. Skips rows that another running run holds, and rows that were finished with the same
 * inputs since they were read: write-back fills the rows of a dead run while they are picked. A known row is
 * compared by the columns of `excluded` alone: its `picked_at` is the time at which it was finished when it was
 * read.
 * @param service whose results they wait for
 * @returns the claimed keys
 */
export async function claimRows(
  tx: Tx,
  source: string,
  run: number,
  runningRuns: readonly number[],
  picked: readonly PickedRow[],
  service: number,
): Promise<string[]> {
  if (picked.length === 0) return []
  const { rows } = await sql<{ key: string }>`
    insert into fillrate.rows as r
           (source, key, lookup_id, missed_lookup_ids, only_blanks, service_id, input_hash, state, failure, reason, run_id, notes, picked_at, settled_at, due_at)
    select ${source},
           v.key,
           v.lookup,
           v.tried::bigint[],
           coalesce(v."onlyBlanks", false),
           ${service},
           v."inputHash"::bigint,
           v.state,
           ${failureSql(sql`v.state`)}, v.reason, ${run}, v.notes, coalesce(v."settledAt", now()), case when v.state = 'waiting' then null else now() end, v."nextAt"
      from ${recordBatch(
        picked.map(({ tried = [], ...row }) => ({
          ...row,
          tried: tried.length > 0 ? `{${tried.join(',')}}` : null,
        })),
        {
          key: 'text',
          inputHash: 'text',
          settledAt: 'timestamptz',
          state: 'text',
          reason: 'text',
          lookup: 'bigint',
          tried: 'text',
          onlyBlanks: 'boolean',
          notes: 'jsonb',
          nextAt: 'timestamptz',
        },
      )}
     order by v.key collate "C"
    on conflict (source, key) do update set
      lookup_id = excluded.lookup_id,
      missed_lookup_ids = excluded.missed_lookup_ids,
      only_blanks = excluded.only_blanks,
      service_id = excluded.service_id,
      input_hash = excluded.input_hash,
      ${claimedValuesSql},
      deleted_at = null, state = excluded.state, failure = excluded.failure, reason = excluded.reason, run_id = excluded.run_id, notes = excluded.notes,
      cells_written = ${earlierCellsSql('cells_written')},
      cells_protected = ${earlierCellsSql('cells_protected')},
      cells_skipped = ${earlierCellsSql('cells_skipped')},
      picked_at = now(),
      settled_at = excluded.settled_at,
      due_at = excluded.due_at
    where case when r.state = 'waiting' then r.run_id is null or r.run_id = ${run} or r.run_id <> all(${[...runningRuns]}::bigint[])
               else r.settled_at = excluded.picked_at or r.input_hash is distinct from excluded.input_hash end
    returning r.key`.execute(tx)
  const claimed = rows.map((row) => row.key)
  // A row that finishes at once has no record any more from which cells could be skipped; others are written later.
  const isBare = (row: PickedRow): boolean => row.state !== 'waiting' && row.onlyBlanks !== true
  const finished = new Set(picked.filter(isBare).map((row) => row.key))
  await deleteSkippedCells(
    tx,
    source,
    claimed.filter((key) => finished.has(key)),
  )
  return claimed
}

/** SQL: what services before this one have counted of the row. */
const earlierCellsSql = (column: string): RawBuilder<unknown> =>
  sql`case when excluded.only_blanks then ${sql.ref(`r.${column}`)} else 0 end`

/** SQL: keys after one, in the order of their texts; null: from the first one on, which may be an empty text. */
const afterSql = (key: RawBuilder<unknown>, after: string | null, run: RawBuilder<unknown> | null = null) => {
  const sign = sql.raw(after === null ? '>=' : '>')
  return run === null
    ? sql`${key} ${sign} ${after ?? ''}`
    : sql`(run_id, ${key}) ${sign} (${run}, ${after ?? ''})`
}

/** Keys of the rows `r` of a source for which a condition holds, after one, in the order of their texts. */
export async function listKeys(
  db: Connection,
  source: string,
  condition: RawBuilder<unknown>,
  { after, limit }: { readonly after: string | null; readonly limit: number },
): Promise<string[]> {
  const { rows } = await sql<{ key: string }>`
    select r.key from fillrate.rows r
     where r.source = ${source} and ${afterSql(sql`r.key`, after)} and ${condition}
     order by r.key limit ${limit}`.execute(db)
  return rows.map(({ key }) => key)
}

/** What happened to a row's output cells. */
export interface CellCounts {
  readonly written: number
  /** They held a value that the policy protects. */
  readonly protected: number
  /** The value does not fit its column, or the database rejected it. */
  readonly skipped: number
}

export type RowStateCounts = Record<RowState, number>

/** How many rows of some sources, or of a run in progress, are in each state: they are kept, and cost the same at any size. */
export async function countRowStates(
  db: Connection,
  of: { readonly run: number } | { readonly sources: readonly string[] },
): Promise<RowStateCounts> {
  const { rows } = await sql<{ state: RowState; count: number }>`
    select state, sum(rows)::bigint as count from fillrate.row_counts
     where ${'run' in of ? sql`run_id = ${of.run}` : sql`source = any(${[...of.sources]}::text[])`}
     group by state`.execute(db)
  const counts = Object.fromEntries(ROW_STATES.map((state) => [state, 0])) as RowStateCounts
  for (const row of rows) counts[row.state] = row.count
  return counts
}

/** SQL: the run of a count, which is kept while rows wait for the run, or it is in progress. */
const countedRunSql = sql`
  case when state = 'waiting' or run_id = any(array(select id from fillrate.runs where state = 'running')) then run_id end`

/** More entries than that are folded: a thousand are summed in less than a millisecond. */
const MAX_UNFOLDED_COUNTS = 1_000

/** Folds the kept counts into one for each source, state and run. Skips counts that another process folds. */
export async function foldRowCounts(db: Connection, max = MAX_UNFOLDED_COUNTS): Promise<void> {
  await sql`
    with folded as (
      delete from fillrate.row_counts
       where ctid = any(case when (select count(*) - count(distinct (source, state, ${countedRunSql})) from fillrate.row_counts) > ${max}
                             then array(select ctid from fillrate.row_counts for update skip locked) end)
      returning source, state, ${countedRunSql} as run_id, rows
    )
    insert into fillrate.row_counts
    select source, state, run_id, sum(rows) from folded
     group by source, state, run_id having sum(rows) <> 0`.execute(db)
}

/**
 * Corrects the kept counts where they are not those of the rows: after a restore of the data alone, say, or a change by a session
 * without triggers. In one statement, whose snapshot has both: what is committed meanwhile counts itself.
 * @returns how many differed
 */
export async function recountRows(db: Connection): Promise<number> {
  const { numAffectedRows } = await sql`
    insert into fillrate.row_counts (source, state, run_id, rows)
    select source, state, run, sum(n)
      from (select source, state, ${countedRunSql} as run, 1 as n from fillrate.rows where deleted_at is null
            union all select source, state, ${countedRunSql}, -rows from fillrate.row_counts) c
     group by source, state, run having sum(n) <> 0`.execute(db)
  return Number(numAffectedRows ?? 0)
}

/** How many rows of a source a run in progress has claimed. */
export const countRunRows = async (db: Connection, source: string, run: number): Promise<number> => {
  const counted = sql<{ count: number }>`
    select coalesce(sum(rows), 0)::bigint as count from fillrate.row_counts
     where run_id = ${run} and source = ${source}`
  return (await readOne(db, counted)).count
}

/** How many rows of a run are at each service: where they were finished, or wait. */
export async function countRowsByService(db: Connection, run: number): Promise<ReadonlyMap<number, number>> {
  const { rows } = await sql<{ service: number; count: number }>`
    select service_id as service, count(*) as count from fillrate.rows where run_id = ${run}
     group by service_id`.execute(db)
  return new Map(rows.map(({ service, count }) => [service, count]))
}

/** Cell counts of a run's rows, summed. @param service only of rows that are at it; null: of all */
export function countCells(db: Connection, run: number, service: number | null = null): Promise<CellCounts> {
  const counted = sql<CellCounts>`
    select coalesce(sum(cells_written), 0)::bigint as written, coalesce(sum(cells_protected), 0)::bigint as protected,
           coalesce(sum(cells_skipped), 0)::bigint as skipped
      from fillrate.rows where run_id = ${run} and ${service === null ? sql`true` : sql`service_id = ${service}`}`
  return readOne(db, counted)
}

/** Every source that has rows. */
export async function listSourceNames(db: Database): Promise<string[]> {
  const { rows } = await sql<{ source: string }>`
    select source from fillrate.row_counts group by source having sum(rows) <> 0 order by source`.execute(db)
  return rows.map((row) => row.source)
}

/**
 * Waiting rows of a source that no running run holds; none if the source is paused. The pause is checked in the same
 * statement: a pause that is older than the death of a run is seen wherever that death is.
 * @param after keyset: keys after this one
 */
export async function listAbandonedRows(
  db: Connection,
  source: string,
  runningRuns: readonly number[],
  after: string | null,
  limit: number,
): Promise<string[]> {
  const isAbandoned = opaque(sql`state = 'waiting'`)
  // Compared as a whole: only the index of rows by run has this order. By its parts, so has the primary key, which would read all
  // rows of the source.
  const { rows } = await sql<{ key: string }>`
    with holder as materialized ${runsWithWaitingSql([source])}
    select key from (
      select w.key from holder cross join lateral (
        select key from fillrate.rows
         where ${afterSql(sql`key`, after, sql`holder.run_id`)} and run_id <= holder.run_id and source = ${source} and ${isAbandoned}
         order by run_id, key limit ${limit}) w
       where holder.run_id <> all(${[...runningRuns]}::bigint[])
      union all
      select w.key from holder cross join lateral (
        select key from fillrate.rows where run_id is null and source = ${source} and ${afterSql(sql`key`, after)} and ${isAbandoned}
         order by key limit ${limit}) w
       where holder.run_id is null
    ) found
     where not ${isPausedSql(sql`${source}`)}
     order by key limit ${limit}`.execute(db)
  return rows.map((row) => row.key)
}

/**
 * A run's own rows to pick again at a service: their inputs changed before they were written, their next identifier is to be tried, or
 * the service before has left them to it.
 * @param after keyset: keys after this one
 */
export const listRequeuedRows = (
  db: Connection,
  source: string,
  { run, service }: RunService,
  after: string | null,
  limit: number,
): Promise<string[]> =>
  listKeys(
    db,
    source,
    sql`r.is_requeued and ${opaque(sql`r.run_id = ${run} and r.service_id = ${service}`)}`,
    {
      after,
      limit,
    },
  )

export interface RetryRow {
  readonly key: string
  readonly state: RetryState
  readonly lookup: number | null
  /** A retry needs a call, because the lookup failed or is due for a refresh. */
  readonly needsCall: boolean
}

export interface RetryFilter {
  readonly states: readonly RetryState[]
  /** Part of the reason, in any case; null is any. */
  readonly reason: string | null
}

/** Finished rows of a source that can be retried, in key order; `emptied` are rows that may be emptied (`listEmptied`). @param after keyset: keys after this one */
export async function listRetryRows(
  db: Connection,
  source: string,
  filter: RetryFilter,
  after: string | null,
  limit: number,
): Promise<RetryRow[]> {
  const { rows } = await sql<RetryRow>`
    select r.key, ${retryStateSql} as state, r.lookup_id as lookup,
           case when l.id is null or l.state in ('failed', 'rejected') then true
                else l.state in ('found', 'not_found') and coalesce(l.refresh_at <= now(), false) end as "needsCall"
      from fillrate.rows r left join fillrate.lookups l on l.id = r.lookup_id
     where r.source = ${source} and ${afterSql(sql`r.key`, after)} and ${retryStateSql} = any(${[...filter.states]}::text[])
       -- Compared literally, not as a pattern: reasons contain underscores and dots.
       and (${filter.reason}::text is null or position(lower(${filter.reason}) in lower(coalesce(r.reason, ''))) > 0)
     order by r.key limit ${limit}`.execute(db)
  return rows
}

const retryStateSql = sql<RetryState>`
  case when r.deleted_at is not null then null
       when r.state in (${sql.join(FAILED_ROW_STATES.map((state) => sql.lit(state)))}) then r.state
       when r.state = 'unchanged' and r.notes ? ${sql.lit(UNDONE_NOTE)} then ${sql.lit(UNDONE_NOTE)}
       when r.state in ('enriched', 'unchanged') and r.last_written is not null then 'emptied' end`

/**
 * Makes rows due, so that the next run picks them, and with them their failed lookups. A lookup with a result is left as
 * it is: its stored record is written without a call.
 */
export async function makeRowsDue(
  tx: Tx,
  source: string,
  rows: readonly Pick<RetryRow, 'key' | 'lookup'>[],
): Promise<void> {
  if (rows.length === 0) return
  const lookups = [...new Set(rows.flatMap((row) => row.lookup ?? []))]
  // Locked in the order of the pick: lookups first.
  await sql`
    with failed as (
      select id from fillrate.lookups where id = any(${lookups}::bigint[]) and state in ('failed', 'rejected')
       order by id for no key update
    )
    update fillrate.lookups l set refresh_at = now() from failed where l.id = failed.id`.execute(tx)
  await sql`
    update fillrate.rows r set due_at = now()
      from ${unnestByRow(source, rows, { lookup: 'bigint' })}
     where r.ctid = v.ctid
       and r.lookup_id is not distinct from v.lookup and r.state <> 'waiting'`.execute(tx)
}
