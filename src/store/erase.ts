import { type RawBuilder, sql } from 'kysely'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import { clearJobKeys } from './pending-lookups.ts'
import * as suppressions from './suppressions.ts'
import type { Tx } from './transaction.ts'

/** Reason stored on a row whose subject was erased. */
export const ERASED_REASON = 'erased, never to be looked up again'

export interface ErasedLookups {
  readonly lookups: number
  readonly records: number
  readonly rows: readonly { readonly source: string; readonly key: string }[]
  readonly changes: number
}

/** Lookups of an identifier, and those whose record or input contains it. For a domain, the record's own domain only. */
export async function findLookups(tx: Tx, kind: LookupKind, key: string, pattern: string): Promise<number[]> {
  const named =
    kind === 'domain'
      ? sql`kind = 'domain' and (record ->> 'domain') ~* ${pattern}`
      : sql`record::text ~* ${pattern} or input::text ~* ${pattern}`
  const { rows } = await sql<{ id: number }>`
    select id from fillrate.lookups where (kind = ${kind} and key = ${key}) or ${named}`.execute(tx)
  return rows.map((row) => row.id)
}

/** All lookups of the rows that used one of these: a row's other identifiers belong to the same person. */
export async function expandByRows(tx: Tx, ids: readonly number[]): Promise<number[]> {
  const these = sql`${[...ids]}::bigint[]`
  const { rows } = await sql<{ id: number }>`
    select distinct l.id from fillrate.rows r
      join fillrate.lookups l on l.id = r.lookup_id or l.id = any(r.missed_lookup_ids)
     where r.lookup_id = any(${these}) or r.missed_lookup_ids && ${these}
     union select unnest(lookup_ids) from fillrate.deleted_rows where lookup_ids && ${these}
     union select unnest(${these})`.execute(tx)
  return rows.map((row) => row.id)
}

/** Keys of the jobs that have one of these lookups as a member. */
export async function findJobsOfLookups(tx: Tx, ids: readonly number[]): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select key as id from fillrate.jobs where lookup_ids && ${[...ids]}::bigint[]`.execute(tx)
  return rows.map((row) => row.id)
}

/** Event ids of the deliveries of jobs. */
export async function listDeliveriesOfJobs(tx: Tx, jobs: readonly string[]): Promise<string[]> {
  const { rows } = await sql<{ eventId: string }>`
    select event_id as "eventId" from fillrate.deliveries where ${isOfJobsSql(jobs)} order by event_id`.execute(
    tx,
  )
  return rows.map((row) => row.eventId)
}

const isOfJobsSql = (jobs: readonly string[]): RawBuilder<boolean> => sql`(
  job_key = any(${[...jobs]}::uuid[])
  or job_id in (select job_id from fillrate.jobs where key = any(${[...jobs]}::uuid[])))`

/**
 * Erases lookups with their records and inputs, the changes and skipped cells of their rows, and all that is stored on these rows except
 * their keys. Leaves a suppression hash for each lookup.
 */
export async function eraseLookups(tx: Tx, ids: readonly number[]): Promise<ErasedLookups> {
  const these = sql`${[...ids]}::bigint[]`
  // Rows first: this waits for a write-back that holds one of them, and then sees its changes.
  const { rows } = await sql<{ source: string; key: string }>`
    with erased as (
    update fillrate.rows r
       set state = 'suppressed', reason = ${ERASED_REASON}, lookup_id = null, missed_lookup_ids = null, is_dry_run = false, last_written = null, own_writes = null,
           notes = null, settled_at = now(), due_at = null
     where lookup_id = any(${these}) or missed_lookup_ids && ${these}
    returning source, key
    ) select source, key from erased order by source, key`.execute(tx)
  const { rows: deleted } = await sql<{ changes: number }>`
    with keys as (
      select * from unnest(${rows.map((row) => row.source)}::text[], ${rows.map((row) => row.key)}::text[]) k (source, key)
       union select source, key from fillrate.changes where lookup_id = any(${these})
    ), deleted as (
      delete from fillrate.changes c using keys k where k.source = c.source and k.key = c.key
      returning c.source, c.key
    ), unclaimed as (
      -- A row whose subject has changed since loses only what was written before.
      update fillrate.rows r set last_written = null, own_writes = null from (select distinct source, key from deleted) g
       where r.source = g.source and r.key = g.key and r.state <> 'suppressed'
    ), undeleted as (
      delete from fillrate.deleted_rows where lookup_ids && ${these}
    ), unskipped as (
      delete from fillrate.skipped_cells c using keys k where k.source = c.source and k.key = c.key
    )
    select count(*) as changes from deleted`.execute(tx)
  await clearJobKeys(tx, sql`select unnest(${these})`)
  await removeFromUnsentJobs(tx, ids)
  const { rows: lookups } = await sql<{ kind: LookupKind; key: string; record: boolean }>`
    delete from fillrate.lookups where id = any(${these})
    returning kind, key, record is not null as record`.execute(tx)
  await suppressions.insertSuppressions(tx, lookups)
  return {
    lookups: lookups.length,
    records: lookups.filter((one) => one.record).length,
    rows,
    changes: deleted[0]?.changes ?? 0,
  }
}

/**
 * Removes members from jobs that are still to be submitted; a job that is empty then is rejected. In a submitted job
 * they keep their places, without a name, because the service matches by position.
 */
export async function removeFromUnsentJobs(tx: Tx, ids: readonly number[]): Promise<void> {
  const these = sql`${[...ids]}::bigint[]`
  const unsent = sql`j.state = 'submitting' and j.lease_token is null and j.lookup_ids && ${these}`
  await sql`
    update fillrate.jobs j set state = 'rejected', reason = 'all its inputs were erased', not_before = null,
           finished_at = now()
     where ${unsent} and j.lookup_ids <@ ${these}`.execute(tx)
  await sql`
    update fillrate.jobs j set lookup_ids = remaining.ids, size = cardinality(remaining.ids)
      from (select k.key as job, array_agg(m.id order by m.n) as ids
              from fillrate.jobs k cross join unnest(k.lookup_ids) with ordinality m (id, n)
             where k.lookup_ids && ${these} and m.id <> all(${these}) group by k.key) remaining
     where remaining.job = j.key and ${unsent}`.execute(tx)
}

export interface StoredDelivery {
  readonly eventId: string
  readonly job: string | null
  readonly jobId: string | null
  readonly body: string | null
  /** For a body that is no text: whether the pattern occurs in its bytes. */
  readonly unreadable: boolean
}

/**
 * Event ids of deliveries that may hold a copy: those of the jobs, those whose body matches the pattern, and those with
 * escapes in which it could be written differently. Reads all deliveries, locks none.
 */
export async function findDeliveries(tx: Tx, jobs: readonly string[], pattern: string): Promise<string[]> {
  const { rows } = await sql<{ eventId: string }>`
    select event_id as "eventId" from fillrate.deliveries d
     where ${isOfJobsSql(jobs)}
        or body ~* ${pattern} or body ~ '\\\\u00[0-7]|\\\\/' or encode(raw, 'escape') ~* ${pattern}
     order by event_id`.execute(tx)
  return rows.map((row) => row.eventId)
}

/** Locks deliveries and reads their bodies. */
export async function lockDeliveries(
  tx: Tx,
  eventIds: readonly string[],
  pattern: string,
): Promise<StoredDelivery[]> {
  const { rows } = await sql<StoredDelivery>`
    select event_id as "eventId", job_key as job, job_id as "jobId", body,
           coalesce(encode(raw, 'escape') ~* ${pattern}, false) as unreadable
      from fillrate.deliveries
     where event_id = any(${[...eventIds]}::text[]) order by event_id
       for no key update`.execute(tx)
  return rows
}

/** Replaces bodies that are no text by one and the same body. */
export async function replaceDeliveryBodies(
  tx: Tx,
  eventIds: readonly string[],
  body: string,
): Promise<void> {
  await sql`
    update fillrate.deliveries set raw = null, body = ${body} where event_id = any(${[...eventIds]}::text[])`.execute(
    tx,
  )
}

/** SQL: a text in the collation of the database. In that of the indexed columns, only ASCII letters match in any case. */
const inAnyCaseSql = (text: RawBuilder<unknown>): RawBuilder<unknown> => sql`(${text} collate "default")`

/** Stored text about rows that may name a person. */
const SEARCHED_TEXT = {
  rows: inAnyCaseSql(sql`key`),
  changes: inAnyCaseSql(sql`concat_ws(' ', key, before::text, after::text, last_written_before::text)`),
  written: inAnyCaseSql(sql`concat_ws(' ', last_written::text, own_writes::text)`),
  skipped: inAnyCaseSql(sql`concat_ws(' ', key, detail, value::text)`),
} as const

const SEARCHED_TABLE = {
  rows: 'fillrate.rows',
  changes: 'fillrate.changes',
  written: 'fillrate.rows',
  skipped: 'fillrate.skipped_cells',
} as const

/**
 * Physical places (ctid) of rows that match the pattern. Searches without a lock, and `eraseByPattern` deletes by place:
 * searching a large table takes minutes, and no pick or write-back may wait for that. A row that moves meanwhile is
 * found by the next search.
 */
export async function findByPattern(
  tx: Tx,
  what: keyof typeof SEARCHED_TEXT,
  pattern: string,
): Promise<string[]> {
  const { rows } = await sql<{ place: string }>`
    select ctid::text as place from ${sql.table(SEARCHED_TABLE[what])} where ${SEARCHED_TEXT[what]} ~* ${pattern}`.execute(
    tx,
  )
  return rows.map((row) => row.place)
}

/** Deletes changes and skipped cells that name a person, and rows whose key does. */
export async function eraseByPattern(
  tx: Tx,
  places: Readonly<Record<keyof typeof SEARCHED_TEXT, readonly string[]>>,
  pattern: string,
): Promise<Pick<ErasedLookups, 'rows' | 'changes'>> {
  const isAt = (what: keyof typeof SEARCHED_TEXT) =>
    sql`ctid = any(${[...places[what]]}::tid[]) and ${SEARCHED_TEXT[what]} ~* ${pattern}`
  await sql`update fillrate.rows set last_written = null, own_writes = null where ${isAt('written')}`.execute(
    tx,
  )
  const { rows } = await sql<{ source: string; key: string }>`
    delete from fillrate.rows where ${isAt('rows')} returning source, key`.execute(tx)
  const isNamed = sql`${inAnyCaseSql(sql`key`)} ~* ${pattern}`
  await sql`
    update fillrate.due_rows set keys = array(select key from unnest(keys) as k (key) where not ${isNamed})
     where exists (select from unnest(keys) as k (key) where ${isNamed})`.execute(tx)
  const { numAffectedRows: changes } = await sql`
    delete from fillrate.changes where ${isAt('changes')}`.execute(tx)
  await sql`delete from fillrate.skipped_cells where ${isAt('skipped')}`.execute(tx)
  return { rows, changes: Number(changes ?? 0) }
}

/** A column of Fillrate's own tables that can hold text. */
export interface TextColumn {
  readonly table: string
  readonly column: string
  readonly type: string
  /** Part of a key or a reference: its text cannot be replaced. */
  readonly isKey: boolean
}

/** Every text, JSON or bytea column of the schema `fillrate`, from the catalogue: includes those of later versions. */
export async function listTextColumns(tx: Tx): Promise<TextColumn[]> {
  const { rows } = await sql<TextColumn>`
    select c.relname as table, a.attname as column, t.typname as type,
           exists (select from pg_index i where i.indrelid = c.oid and i.indisunique and a.attnum = any(i.indkey)) as "isKey"
      from pg_attribute a
      join pg_class c on c.oid = a.attrelid and c.relkind in ('r', 'p')
      join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'fillrate'
      join pg_type t on t.oid = a.atttypid
     where a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
       and t.typname in ('text', 'varchar', 'json', 'jsonb', 'bytea', '_text', '_varchar', '_jsonb')
     order by 1, 2`.execute(tx)
  return rows
}

const columnTextSql = ({ column, type }: TextColumn) =>
  inAnyCaseSql(type === 'bytea' ? sql`encode(${sql.ref(column)}, 'escape')` : sql`${sql.ref(column)}::text`)

/** The number of rows whose column matches a pattern. */
export async function countMatches(tx: Tx, column: TextColumn, pattern: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from ${sql.table(`fillrate.${column.table}`)}
     where ${columnTextSql(column)} ~* ${pattern}`.execute(tx)
  return rows[0]?.count ?? 0
}

/** Physical places (ctid) of the matches in a redactable column. Takes no lock. */
export async function findMatches(tx: Tx, column: TextColumn, pattern: string): Promise<string[]> {
  if (column.isKey || !REDACTABLE.has(column.type)) return []
  const { rows } = await sql<{ place: string }>`
    select ctid::text as place from ${sql.table(`fillrate.${column.table}`)}
     where ${columnTextSql(column)} ~* ${pattern}`.execute(tx)
  return rows.map((row) => row.place)
}

/**
 * Replaces what a pattern matches by `[erased]`, in a text or JSON column.
 * @param places as `findMatches` returns them
 * @returns the number of rows
 */
export async function redactColumn(
  tx: Tx,
  column: TextColumn,
  pattern: string,
  places: readonly string[],
): Promise<number> {
  if (places.length === 0) return 0
  const name = sql.ref(column.column)
  const text = columnTextSql(column)
  const result = await sql`
    update ${sql.table(`fillrate.${column.table}`)}
       set ${name} = regexp_replace(${text}, ${pattern}, '[erased]', 'gi')::${sql.raw(column.type)}
     where ctid = any(${[...places]}::tid[]) and ${text} ~* ${pattern}`.execute(tx)
  return Number(result.numAffectedRows ?? 0)
}

const REDACTABLE = new Set(['text', 'varchar', 'json', 'jsonb'])
