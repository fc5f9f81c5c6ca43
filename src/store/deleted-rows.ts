import { sql, type RawBuilder } from 'kysely'
import type { DeletedRowsStatus } from '../domain/report/status.ts'
import type { DeletedRowCounts } from '../domain/deleted-row.ts'
import { Lookup } from '../domain/lookup.ts'
import { Row, ROW_MISSING_REASON } from '../domain/row.ts'
import type { LinkedLookup } from './erase.ts'
import { returnedNotesSql } from './own-values.ts'
import { listKeys } from './rows.ts'
import { intervalSql } from './sql.ts'
import { failureSql, isOfJobSql, isOfRowSql } from './terms.ts'
import type { Connection, Tx } from './transaction.ts'
import { withdrawLookups } from './pending-lookups.ts'

/** The deleted rows of one source. */
type DeletedRows = Omit<DeletedRowsStatus, 'held'>

/** Which rows of a source: known to be in its table; the others; settled rows that Fillrate has written. */
const KNOWN_ROWS = {
  present: sql`deleted_at is null`,
  deleted: sql`deleted_at is not null`,
  written: sql`deleted_at is null and last_written is not null and state in (${Row.enriched}, ${Row.unchanged})`,
} as const
export type RowSelection = keyof typeof KNOWN_ROWS

/** Their keys after one, in the order of their texts. */
export const listKnownKeys = (
  db: Connection,
  source: string,
  which: RowSelection,
  page: { readonly after: string | null; readonly limit: number },
): Promise<string[]> => listKeys(db, source, KNOWN_ROWS[which], page)

const theseSql = (source: string, keys: readonly string[]): RawBuilder<unknown> =>
  sql`source = ${source} and key = any(${[...keys]}::text[])`

/**
 * Marks rows as deleted: they are in no count any more, and can be restored. One that waited is finished; a lookup that only waited for
 * such rows, and was never requested, is withdrawn. A row that another transaction has locked stays for the next pass.
 * @returns how many
 */
export async function markRowsDeleted(
  tx: Tx,
  source: string,
  keys: readonly string[],
  isKept: boolean,
): Promise<number> {
  if (keys.length === 0) return 0
  const ifWaiting = (value: RawBuilder<unknown>, otherwise: RawBuilder<unknown>): RawBuilder<unknown> =>
    sql`case when r.state = ${Row.waiting} then ${value} else ${otherwise} end`
  const { rows } = await sql<{ lookup: number | null }>`
    with locked as (
      select ctid from fillrate.rows where ${theseSql(source, keys)} and deleted_at is null
       order by key for update skip locked
    )
    update fillrate.rows r
       set deleted_at = now(), failure = null, is_kept = ${isKept}, may_be_hidden = null,
           state = ${ifWaiting(sql`${Row.unchanged}`, sql`r.state`)}, reason = ${ifWaiting(sql`${ROW_MISSING_REASON}`, sql`r.reason`)},
           settled_at = coalesce(r.settled_at, now()), due_at = ${ifWaiting(sql`null`, sql`r.due_at`)}
      from locked where r.ctid = locked.ctid
    returning r.lookup_id as lookup`.execute(tx)
  const lookups = rows.map(({ lookup }) => lookup)
  await withdrawLookups(tx, lookups)
  return rows.length
}

/**
 * Restores rows that are in their table again, as they were, with a note. One that was finished because it was not there is due:
 * its lookup may have been answered while no row waited for it, and nothing would write the answer.
 * @returns their keys
 */
export async function restoreRows(tx: Tx, source: string, keys: readonly string[]): Promise<string[]> {
  if (keys.length === 0) return []
  const isMissing = sql`(r.state = ${Row.unchanged} and r.reason is not distinct from ${ROW_MISSING_REASON})`
  const { rows } = await sql<{ key: string }>`
    with returned as (
      select ctid from fillrate.rows where ${theseSql(source, keys)} and deleted_at is not null order by key for update
    )
    update fillrate.rows r
       set deleted_at = null, failure = ${failureSql(sql`r.state`)}, notes = ${returnedNotesSql},
           due_at = case when ${isMissing} then now() else r.due_at end
      from returned where r.ctid = returned.ctid
    returning r.key`.execute(tx)
  return rows.map(({ key }) => key)
}

/** Applies a changed `onDelete`, and the policies of the table as they are now, to the deleted rows. */
export async function updateDeletedRows(
  db: Connection,
  source: string,
  isKept: boolean,
  mayBeHidden: boolean,
): Promise<void> {
  await sql`
    update fillrate.rows set is_kept = ${isKept}, may_be_hidden = ${mayBeHidden}
     where source = ${source} and deleted_at is not null
       and (is_kept, may_be_hidden) is distinct from (${isKept}, ${mayBeHidden})`.execute(db)
}

/** The deleted rows, by source. */
export async function countDeletedRows(db: Connection, sources: readonly string[]): Promise<DeletedRows[]> {
  const { rows } = await sql<DeletedRows>`
    select source, is_kept, count(*) as rows, count(*) filter (where may_be_hidden) as hidden, min(deleted_at) as since from fillrate.rows
     where source = any(${[...sources]}::text[]) and deleted_at is not null
     group by source, is_kept order by source, is_kept`.execute(db)
  return rows
}

/** How many rows of a source Fillrate knows, and how many are deleted and to be erased. */
export async function countSourceDeletions(db: Connection, source: string): Promise<DeletedRowCounts> {
  const { rows } = await sql<DeletedRowCounts>`
    select (select coalesce(sum(rows), 0)::bigint from fillrate.row_counts where source = ${source}) as known,
           count(*) as deleted, count(*) filter (where may_be_hidden) as hidden
      from fillrate.rows where source = ${source} and deleted_at is not null and not is_kept`.execute(db)
  return rows[0] ?? { known: 0, deleted: 0, hidden: 0 }
}

/**
 * Locks some deleted rows that are to be erased. One with a call in flight waits until that is answered and stored: the
 * answer is paid for, and another row may need it.
 */
export async function lockErasableRows(
  tx: Tx,
  source: string,
  options: { readonly minAgeMs: number; readonly includeKept: boolean; readonly limit: number },
): Promise<string[]> {
  const { rows } = await sql<{ key: string }>`
    select key from fillrate.rows r
     where source = ${source} and (not is_kept or ${options.includeKept})
       and deleted_at is not null and deleted_at <= now() - ${intervalSql(options.minAgeMs)}
       and not exists (select from fillrate.lookups l
                        where l.id = any(r.missed_lookup_ids || r.lookup_id) and l.state in (${Lookup.leased}, ${Lookup.submitted}))
     order by key limit ${options.limit} for update skip locked`.execute(tx)
  return rows.map((row) => row.key)
}

/** What was erased of deleted rows. */
export interface ErasedRows {
  readonly rows: number
  readonly lookups: number
  readonly records: number
  readonly changes: number
  /** Results removed from deliveries. */
  readonly results: number
}

/**
 * Erases deleted rows with their changes and skipped cells, and locks those of their lookups that no other row needs.
 * Suppresses nothing: the same person may be looked up again for another row.
 */
export async function eraseRows(
  tx: Tx,
  source: string,
  keys: readonly string[],
): Promise<Pick<ErasedRows, 'rows' | 'changes'> & { readonly unneeded: LinkedLookup[] }> {
  const these = theseSql(source, keys)
  const { rows } = await sql<{ rows: number; changes: number; lookups: number[] }>`
    with changes as (delete from fillrate.changes where ${these} returning lookup_id),
      skipped as (delete from fillrate.skipped_cells where ${these} returning lookup_id),
      erased as (delete from fillrate.rows where ${these} returning missed_lookup_ids || lookup_id as ids)
    select (select count(*) from erased) as rows, (select count(*) from changes) as changes,
           to_json(array_remove(array(select unnest(ids) from erased union select lookup_id from changes union select lookup_id from skipped), null)) as lookups`.execute(
    tx,
  )
  const { lookups, ...counts } = rows[0] ?? { rows: 0, changes: 0, lookups: [] }
  // Also a deleted row needs its lookups.
  const { rows: unneeded } = await sql<LinkedLookup>`
    select id, kind, key from fillrate.lookups l
     where id = any(${lookups}::bigint[]) and state not in (${Lookup.leased}, ${Lookup.submitted})
       and not ${isOfRowSql()}
     order by id for update skip locked`.execute(tx)
  return { ...counts, unneeded }
}

/** Erases lookups that no row needs, and jobs of which nothing is left with their deliveries. */
export async function eraseUnneededLookups(
  tx: Tx,
  lookupIds: readonly number[],
): Promise<Pick<ErasedRows, 'lookups' | 'records'>> {
  const ids = sql`${[...lookupIds]}::bigint[]`
  const { rows } = await sql<Pick<ErasedRows, 'lookups' | 'records'>>`
    with lookups as (delete from fillrate.lookups where id = any(${ids}) returning record)
    select count(*) as lookups, count(*) filter (where record is not null) as records
      from lookups`.execute(tx)
  await sql`
    with empty as (
      delete from fillrate.jobs j
       where lookup_ids && ${ids} and finished_at is not null
         and not exists (select from fillrate.lookups l where l.id = any(j.lookup_ids))
      returning key, job_id, service_id
    )
    delete from fillrate.deliveries d using empty j
     where d.state in ('settled', 'quarantined') and ${isOfJobSql(sql`d`)}`.execute(tx)
  return rows[0] ?? { lookups: 0, records: 0 }
}
