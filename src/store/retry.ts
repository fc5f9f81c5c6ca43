import { sql, type RawBuilder } from 'kysely'
import { Lookup } from '../domain/lookup.ts'
import { FAILED_ROW_STATES, Row, UNDONE, type RetryState, type RowState } from '../domain/row.ts'
import { batchOfRows } from './batch.ts'
import type { Database } from './open.ts'
import type { StoreTransaction } from './transaction.ts'

type Connection = Database | StoreTransaction

export interface RetryRow {
  readonly key: string
  readonly state: RetryState
  readonly reason: string | null
  readonly lookup: number | null
  /** Whether the lookup has to be asked again, because it failed itself or is due. */
  readonly asks: boolean
}

export interface RetryFilter {
  readonly states: readonly RetryState[]
  /** A part of the reason, in any case; null is any. */
  readonly reason: string | null
}

/** Settled rows of a source that can be tried again, in key order. @param after keyset: keys after this one */
export async function page(
  db: Connection,
  source: string,
  filter: RetryFilter,
  after: string,
  limit: number,
): Promise<RetryRow[]> {
  const { rows } = await sql<RetryRow>`
    select r.key, ${retryState} as state, r.reason, r.lookup_id as lookup,
           case when l.id is null or l.state in (${unanswered}) then true
                else l.state in (${answered}) and coalesce(l.refresh_at <= now(), false) end as asks
      from fillrate.rows r left join fillrate.lookups l on l.id = r.lookup_id
     where r.source = ${source} and r.key > ${after} and ${retryState} = any(${[...filter.states]}::text[])
       and ${hasReason(filter.reason)}
     order by r.key limit ${limit}`.execute(db)
  return rows
}

const states = (list: readonly RowState[]): RawBuilder<unknown> =>
  sql.join(list.map((state) => sql.lit(state)))

const retryState = sql<RetryState>`
  case when r.state in (${states(FAILED_ROW_STATES)}) then r.state
       when r.state = ${sql.lit(Row.unchanged)} and r.notes ? ${sql.lit(UNDONE)} then ${sql.lit(UNDONE)} end`

const unanswered = sql`${sql.lit(Lookup.failed)}, ${sql.lit(Lookup.rejected)}`
const answered = sql`${sql.lit(Lookup.found)}, ${sql.lit(Lookup.notFound)}`

/** The text as it is, and not as a pattern: reasons hold underscores and dots. */
const hasReason = (reason: string | null): RawBuilder<unknown> =>
  reason === null ? sql`true` : sql`position(lower(${reason}) in lower(coalesce(r.reason, ''))) > 0`

/**
 * Makes rows due, so that the next run picks them, and with them the lookups that failed themselves. A lookup that was
 * answered is left as it is: its stored record is written without a call.
 */
export async function makeDue(
  tx: StoreTransaction,
  source: string,
  rows: readonly Pick<RetryRow, 'key' | 'lookup'>[],
): Promise<void> {
  if (rows.length === 0) return
  const lookups = [...new Set(rows.flatMap((row) => row.lookup ?? []))]
  // Locked in the order of the pick: lookups first.
  await sql`
    with failed as (
      select id from fillrate.lookups where id = any(${lookups}::bigint[]) and state in (${unanswered})
       order by id for no key update
    )
    update fillrate.lookups l set refresh_at = now() from failed where l.id = failed.id`.execute(tx)
  await sql`
    update fillrate.rows r set due_at = now()
      from ${batchOfRows(source, rows, sql`lookup bigint`)}
     where r.ctid = place.ctid
       and r.lookup_id is not distinct from v.lookup and r.state <> ${sql.lit(Row.waiting)}`.execute(tx)
}
