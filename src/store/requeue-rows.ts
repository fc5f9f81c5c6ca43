import { sql } from 'kysely'
import { FAILED_ROW_STATES, type RetryState, UNDONE_NOTE } from '../domain/row.ts'
import { unnestByRow } from './sql.ts'
import type { Connection, Tx } from './transaction.ts'

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
