import { sql } from 'kysely'
import type { RunService } from './pending-lookups.ts'
import { listKeys } from './rows.ts'
import { opaque, unnestByRow } from './sql.ts'
import { isPausedSql, runsWithWaitingSql } from './terms.ts'
import type { Connection, Tx } from './transaction.ts'
import { FAILED_ROW_STATES, UNDONE_NOTE, type RetryState } from '../domain/row.ts'

/**
 * Waiting rows of a source that no running run holds; none if the source is paused. The pause is checked in the same
 * statement: a pause that is older than the death of a run is seen wherever that death is.
 * @param after keyset: keys after this one
 */
export async function listAbandonedRows(
  db: Connection,
  source: string,
  runningRuns: readonly number[],
  after: string,
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
         where (run_id, key) > (holder.run_id, ${after}) and run_id <= holder.run_id and source = ${source} and ${isAbandoned}
         order by run_id, key limit ${limit}) w
       where holder.run_id <> all(${[...runningRuns]}::bigint[])
      union all
      select w.key from holder cross join lateral (
        select key from fillrate.rows where run_id is null and source = ${source} and key > ${after} and ${isAbandoned}
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
  after: string,
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

/**
 * Rows of a source that are due again, for a pass that does not read the whole table. Walks all rows of the source from `after` on:
 * a second for a million of them.
 * @param after keyset: keys after this one
 */
export const listDueRows = (
  db: Connection,
  source: string,
  after: string,
  limit: number,
): Promise<string[]> => {
  const isDue = opaque(sql`r.due_at <= now() and r.state <> 'waiting' and r.deleted_at is null`)
  return listKeys(db, source, isDue, { after, limit })
}

/** Makes due rows due later. */
export async function postponeDueRows(
  tx: Tx,
  source: string,
  postponed: readonly { readonly key: string; readonly settledUntil: Date | null }[],
): Promise<void> {
  await sql`
    update fillrate.rows r set due_at = v."settledUntil"
      from ${unnestByRow(source, postponed, { settledUntil: 'timestamptz' })}
     where r.ctid = v.ctid and r.state <> 'waiting' and r.due_at <= now()`.execute(tx)
}

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

/** Finished rows of a source that can be retried, in key order; `emptied` are those that may be. @param after keyset: keys after this one */
export async function listRetryRows(
  db: Connection,
  source: string,
  filter: RetryFilter,
  after: string,
  limit: number,
): Promise<RetryRow[]> {
  const { rows } = await sql<RetryRow>`
    select r.key, ${retryStateSql} as state, r.lookup_id as lookup,
           case when l.id is null or l.state in ('failed', 'rejected') then true
                else l.state in ('found', 'not_found') and coalesce(l.refresh_at <= now(), false) end as "needsCall"
      from fillrate.rows r left join fillrate.lookups l on l.id = r.lookup_id
     where r.source = ${source} and r.key > ${after} and ${retryStateSql} = any(${[...filter.states]}::text[])
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
  // The next pass by `changedAt` looks for them.
  await sql`update fillrate.source_state set due_after = now() where source = ${source}`.execute(tx)
}
