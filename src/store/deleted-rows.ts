import { type RawBuilder, sql } from 'kysely'
import type { DeletedRowCounts } from '../domain/deleted-row.ts'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import { Lookup } from '../domain/lookup.ts'
import { removeFromUnsentJobs } from './erase.ts'
import { returnedNotesSql } from './own-values.ts'
import type { Schema } from './schema.ts'
import { intervalSql } from './sql.ts'
import type { Connection, Tx } from './transaction.ts'

/** The deleted rows of one source. */
export interface DeletedRows {
  readonly source: string
  /** `keep`: not to be erased. */
  readonly is_kept: boolean
  readonly rows: number
  /** Those of them that row-level security may only hide. */
  readonly hidden: number
  /** When the first of them was noticed. */
  readonly since: Date
}

const listKeysIn =
  (table: 'rows' | 'deleted_rows') =>
  async (db: Connection, source: string, { after, until }: KeyTextRange): Promise<string[]> => {
    const { rows } = await sql<{ key: string }>`
      select key from ${sql.id('fillrate', table)} where ${inRangeSql(source, { after, until })} order by key`.execute(
      db,
    )
    return rows.map((row) => row.key)
  }

/** Keys of a source's rows, in their order. */
export const listRowKeys = listKeysIn('rows')

/** The same for rows that are set aside. */
export const listDeletedKeys = listKeysIn('deleted_rows')

/** Keys in the order of their texts: those after one, up to another; null: to the end. */
export interface KeyTextRange {
  readonly after: string
  readonly until: string | null
}

/** SQL: a row of a source, or one that is set aside, whose key is in the range. */
export const inRangeSql = (source: string, { after, until }: KeyTextRange): RawBuilder<unknown> =>
  sql`source = ${source} and key > ${after} and (${until}::text is null or key <= ${until}::text)`

/** Finds the key that ends a range of `size` keys; null: fewer are left. */
export async function findRangeEnd(
  db: Connection,
  table: 'rows' | 'deleted_rows',
  source: string,
  after: string,
  size: number,
): Promise<string | null> {
  const { rows } = await sql<{ key: string }>`
    select key from ${sql.id('fillrate', table)} where source = ${source} and key > ${after}
     order by key offset ${size - 1} limit 1`.execute(db)
  return rows[0]?.key ?? null
}

/** What is known of deleted rows when they are set aside. */
export interface DeletionFate {
  /** They are not to be erased. */
  readonly isKept: boolean
  /** Row-level security may hide rows of their table. */
  readonly mayBeHidden: boolean
}

/**
 * Sets deleted rows aside: they are in no count any more, and can be restored. A lookup that only waited for them, and
 * was never requested, is withdrawn. A row that another transaction has locked stays for the next pass.
 * @returns the keys that were set aside
 */
export async function setRowsAside(
  tx: Tx,
  source: string,
  keys: readonly string[],
  { isKept, mayBeHidden }: DeletionFate,
): Promise<string[]> {
  if (keys.length === 0) return []
  const { rows } = await sql<{ key: string }>`
    with locked as (
      select key from fillrate.rows where source = ${source} and key = any(${[...keys]}::text[])
       order by key for update skip locked
    ), gone as (
      delete from fillrate.rows r using locked where r.source = ${source} and r.key = locked.key returning r.*
    )
    insert into fillrate.deleted_rows (source, key, lookup_ids, is_kept, may_be_hidden, stored_row)
    select source, key, array_remove(missed_lookup_ids || lookup_id, null), ${isKept}, ${mayBeHidden}, to_jsonb(gone) from gone
        on conflict (source, key) do update
       set lookup_ids = excluded.lookup_ids, is_kept = excluded.is_kept, may_be_hidden = excluded.may_be_hidden,
           stored_row = excluded.stored_row, noticed_at = excluded.noticed_at
    returning key`.execute(tx)
  const aside = rows.map((row) => row.key)
  const isWithdrawn = sql`
    l.id in (select unnest(lookup_ids) from fillrate.deleted_rows where source = ${source} and key = any(${aside}::text[]))
       and l.state = ${Lookup.pending} and l.attempts = 0 and l.unconfirmed_calls = 0 and l.record is null
       and not exists (select from fillrate.rows r where r.lookup_id = l.id)`
  await sql`delete from fillrate.lookups l where ${isWithdrawn}`.execute(tx)
  return aside
}

/** The columns of a row that are stored, without those that Postgres computes. */
const STORED_COLUMNS = sql.join(
  Object.keys({
    source: true,
    key: true,
    lookup_id: true,
    missed_lookup_ids: true,
    is_dry_run: true,
    service_id: true,
    input_hash: true,
    state: true,
    reason: true,
    run_id: true,
    last_written: true,
    own_writes: true,
    earlier_writes: true,
    notes: true,
    cells_written: true,
    cells_protected: true,
    cells_skipped: true,
    picked_at: true,
    settled_at: true,
    due_at: true,
  } satisfies Record<Exclude<keyof Schema['fillrate.rows'], 'is_requeued' | 'failure'>, true>).map((name) =>
    sql.id(name),
  ),
)

/**
 * Restores rows that are in their table again, as they were, with a note. One that was picked anew meanwhile stays as it is. One
 * that waited is picked again: its lookup may have been answered while no row waited for it, and nothing would write the answer.
 * @returns how many
 */
export async function restoreRows(tx: Tx, source: string, keys: readonly string[]): Promise<number> {
  if (keys.length === 0) return 0
  const { rows } = await sql<{ count: number }>`
    with back as (
      delete from fillrate.deleted_rows where source = ${source} and key = any(${[...keys]}::text[])
      returning stored_row
    ), restored as (
      insert into fillrate.rows (${STORED_COLUMNS})
      select ${STORED_COLUMNS} from back cross join lateral jsonb_populate_record(null::fillrate.rows, stored_row || jsonb_build_object(
               'lookup_id', (select id from fillrate.lookups where id = (stored_row ->> 'lookup_id')::bigint and stored_row ->> 'state' <> 'waiting'),
               'notes', ${returnedNotesSql})) r
          on conflict do nothing
    )
    select count(*) as count from back`.execute(tx)
  return rows[0]?.count ?? 0
}

/** Applies a changed `onDelete`, and policies of the table that have changed, to the rows that are set aside. */
export async function updateDeletedRows(
  db: Connection,
  source: string,
  { isKept, mayBeHidden }: DeletionFate,
): Promise<void> {
  await sql`
    update fillrate.deleted_rows set is_kept = ${isKept}, may_be_hidden = ${mayBeHidden}
     where source = ${source} and (is_kept <> ${isKept} or may_be_hidden <> ${mayBeHidden})`.execute(db)
}

/** The deleted rows, by source. */
export async function countDeletedRows(db: Connection, sources: readonly string[]): Promise<DeletedRows[]> {
  const { rows } = await sql<DeletedRows>`
    select source, is_kept, count(*) as rows, count(*) filter (where may_be_hidden) as hidden, min(noticed_at) as since from fillrate.deleted_rows
     where source = any(${[...sources]}::text[]) group by source, is_kept order by source, is_kept`.execute(
    db,
  )
  return rows
}

/** How many rows of a source Fillrate knows, and how many of them are set aside to be erased. */
export async function countSourceDeletions(db: Connection, source: string): Promise<DeletedRowCounts> {
  const { rows } = await sql<DeletedRowCounts>`
    select (select coalesce(sum(rows), 0)::bigint from fillrate.row_counts where source = ${source}) as known,
           count(*) as deleted, count(*) filter (where may_be_hidden) as hidden
      from fillrate.deleted_rows where source = ${source} and not is_kept`.execute(db)
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
    select key from fillrate.deleted_rows d
     where source = ${source} and (not is_kept or ${options.includeKept})
       and noticed_at <= now() - ${intervalSql(options.minAgeMs)}
       and not exists (select from fillrate.lookups l
                        where l.id = any(d.lookup_ids) and l.state in (${Lookup.leased}, ${Lookup.submitted}))
     order by noticed_at, key limit ${options.limit} for update skip locked`.execute(tx)
  return rows.map((row) => row.key)
}

/** A lookup that no row needs. */
export interface UnneededLookup {
  readonly id: number
  readonly kind: LookupKind
  readonly key: string
}

/** Locks the lookups of deleted rows that no other row needs, set aside or not. */
export async function lockUnneededLookups(
  tx: Tx,
  source: string,
  keys: readonly string[],
): Promise<UnneededLookup[]> {
  const these = sql`source = ${source} and key = any(${[...keys]}::text[])`
  const isUnneeded = sql`
    id in (select unnest(lookup_ids) from fillrate.deleted_rows where ${these}
           union select lookup_id from fillrate.changes where ${these}
           union select lookup_id from fillrate.skipped_cells where ${these})
       and state not in (${Lookup.leased}, ${Lookup.submitted})
       and not exists (select from fillrate.rows r where r.lookup_id = l.id)
       and not exists (select from fillrate.rows r where r.missed_lookup_ids @> array[l.id])
       and not exists (select from fillrate.deleted_rows d
                        where d.lookup_ids @> array[l.id]
                          and not (d.source = ${source} and d.key = any(${[...keys]}::text[])))`
  const { rows } = await sql<UnneededLookup>`
    select id, kind, key from fillrate.lookups l where ${isUnneeded} order by id for update skip locked`.execute(
    tx,
  )
  return rows
}

/** What was erased of deleted rows. */
export interface ErasedRows {
  readonly rows: number
  readonly lookups: number
  readonly records: number
  readonly changes: number
}

/**
 * Erases deleted rows with their changes and skipped cells, their unneeded lookups, and jobs of which nothing is left
 * with their deliveries. Suppresses nothing: the same person may be looked up again for another row.
 */
export async function eraseRows(
  tx: Tx,
  source: string,
  keys: readonly string[],
  lookupIds: readonly number[],
): Promise<ErasedRows> {
  const these = sql`source = ${source} and key = any(${[...keys]}::text[])`
  const ids = sql`${[...lookupIds]}::bigint[]`
  await removeFromUnsentJobs(tx, lookupIds)
  // A key may be an address. Only entries of a past time are pruned: a row was due at the next refresh.
  await sql`
    update fillrate.due_rows set keys = array(select k.key from unnest(keys) as k (key) where k.key <> all(${[...keys]}::text[]))
     where source = ${source} and exists (select from unnest(keys) as k (key) where k.key = any(${[...keys]}::text[]))`.execute(
    tx,
  )
  const { rows } = await sql<ErasedRows>`
    with changes as (delete from fillrate.changes where ${these} returning 1),
      skipped as (delete from fillrate.skipped_cells where ${these}),
      lookups as (delete from fillrate.lookups where id = any(${ids}) returning record),
      erased as (delete from fillrate.deleted_rows where ${these} returning 1)
    select (select count(*) from erased) as rows, (select count(*) from lookups) as lookups,
           (select count(*) from lookups where record is not null) as records, (select count(*) from changes) as changes`.execute(
    tx,
  )
  await sql`
    with empty as (
      delete from fillrate.jobs j
       where lookup_ids && ${ids} and finished_at is not null
         and not exists (select from fillrate.lookups l where l.id = any(j.lookup_ids))
      returning key, job_id
    )
    delete from fillrate.deliveries d using empty
     where d.state in ('settled', 'quarantined') and (d.job_key = empty.key or d.job_id = empty.job_id)`.execute(
    tx,
  )
  return rows[0] ?? { rows: 0, lookups: 0, records: 0, changes: 0 }
}
