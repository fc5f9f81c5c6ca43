import * as suppressions from './suppressions.ts'
import { sql } from 'kysely'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import type { Tx } from './transaction.ts'

/** What a row becomes whose person or company was erased. */
export const ERASED_REASON = 'erased, never to be asked again'

export interface ErasedLookups {
  readonly lookups: number
  readonly records: number
  readonly rows: readonly { readonly source: string; readonly key: string }[]
  readonly changes: number
}

/**
 * Lookups of an identifier, and those whose record or input names it.
 * @param pattern null: only the record's own domain counts
 */
export async function findLookups(tx: Tx, kind: LookupKind, key: string, pattern: string): Promise<number[]> {
  const named =
    kind === 'domain'
      ? sql`kind = 'domain' and (record ->> 'domain') ~* ${pattern}`
      : sql`record::text ~* ${pattern} or input::text ~* ${pattern}`
  const { rows } = await sql<{ id: number }>`
    select id from fillrate.lookups where (kind = ${kind} and key = ${key}) or ${named}`.execute(tx)
  return rows.map((row) => row.id)
}

/** The lookups of every row that has asked, or was to ask, one of these: its other identifiers are the same person's. */
export async function expandByRows(tx: Tx, ids: readonly number[]): Promise<number[]> {
  const these = sql`${[...ids]}::bigint[]`
  const { rows } = await sql<{ id: number }>`
    select distinct l.id from fillrate.rows r
      join fillrate.lookups l on l.id = r.lookup_id or l.id = any(r.missed_lookup_ids)
     where r.lookup_id = any(${these}) or r.missed_lookup_ids && ${these}
     union select unnest(${these})`.execute(tx)
  return rows.map((row) => row.id)
}

/** The jobs of which these are members. */
export async function findJobsOfLookups(tx: Tx, ids: readonly number[]): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select key as id from fillrate.jobs where lookup_ids && ${[...ids]}::bigint[]`.execute(tx)
  return rows.map((row) => row.id)
}

/**
 * Erases lookups with their records and inputs, the changes of their rows, and what Fillrate knows of these rows beside
 * their keys. Leaves a tombstone for each lookup.
 */
export async function eraseLookups(tx: Tx, ids: readonly number[]): Promise<ErasedLookups> {
  const these = sql`${[...ids]}::bigint[]`
  // The rows first: a write back that holds one of them is waited for, and its changes are then seen.
  const { rows } = await sql<{ source: string; key: string }>`
    update fillrate.rows r
       set state = 'suppressed', reason = ${ERASED_REASON}, lookup_id = null, missed_lookup_ids = '{}', is_dry_run = false, last_written = null,
           notes = null, settled_at = now(), due_at = null
     where lookup_id = any(${these}) or missed_lookup_ids && ${these}
    returning source, key`.execute(tx)
  const { rows: gone } = await sql<{ changes: number }>`
    with keys as (
      select * from unnest(${rows.map((row) => row.source)}::text[], ${rows.map((row) => row.key)}::text[]) k (source, key)
       union select source, key from fillrate.changes where lookup_id = any(${these})
    ), gone as (
      delete from fillrate.changes c using keys k where k.source = c.source and k.key = c.key
      returning c.source, c.key
    ), unclaimed as (
      -- Of a row that is somebody else's by now only what was written before goes.
      update fillrate.rows r set last_written = null from (select distinct source, key from gone) g
       where r.source = g.source and r.key = g.key and r.state <> 'suppressed'
    )
    select count(*) as changes from gone`.execute(tx)
  await removeFromUnsentJobs(tx, ids)
  const { rows: lookups } = await sql<{ kind: LookupKind; key: string; record: boolean }>`
    delete from fillrate.lookups where id = any(${these})
    returning kind, key, record is not null as record`.execute(tx)
  await suppressions.insertSuppressions(tx, lookups)
  return {
    lookups: lookups.length,
    records: lookups.filter((one) => one.record).length,
    rows,
    changes: gone[0]?.changes ?? 0,
  }
}

/**
 * A job that is to be posted again goes without them; one that would then be empty is not posted. In a job that was
 * posted their places stay, without a name, because the service counts them.
 */
async function removeFromUnsentJobs(tx: Tx, ids: readonly number[]): Promise<void> {
  const these = sql`${[...ids]}::bigint[]`
  const unsent = sql`j.state = 'submitting' and j.lease_token is null and j.lookup_ids && ${these}`
  await sql`
    update fillrate.jobs j set state = 'rejected', reason = 'all its inputs were erased', not_before = null,
           finished_at = now()
     where ${unsent} and j.lookup_ids <@ ${these}`.execute(tx)
  await sql`
    update fillrate.jobs j set lookup_ids = kept.ids, size = cardinality(kept.ids)
      from (select k.key as job, array_agg(m.id order by m.n) as ids
              from fillrate.jobs k cross join unnest(k.lookup_ids) with ordinality m (id, n)
             where k.lookup_ids && ${these} and m.id <> all(${these}) group by k.key) kept
     where kept.job = j.key and ${unsent}`.execute(tx)
}

export interface StoredDelivery {
  readonly eventId: string
  readonly job: string | null
  readonly jobId: string | null
  readonly body: string | null
  /** Of one that could not be read: whether the identifier is among its bytes. */
  readonly unreadable: boolean
}

/**
 * Deliveries that may hold a copy: those of the jobs, those in which the identifier is read, and those in which it
 * could be written in another way. Reads them all, and locks none.
 */
export async function findDeliveries(tx: Tx, jobs: readonly string[], pattern: string): Promise<string[]> {
  const { rows } = await sql<{ eventId: string }>`
    select event_id as "eventId" from fillrate.deliveries d
     where job_key = any(${[...jobs]}::uuid[])
        or job_id in (select job_id from fillrate.jobs where key = any(${[...jobs]}::uuid[]))
        or body ~* ${pattern} or body ~ '\\\\u00[0-7]|\\\\/' or encode(raw, 'escape') ~* ${pattern}
     order by event_id`.execute(tx)
  return rows.map((row) => row.eventId)
}

/** Locks deliveries, with what is to be looked at. */
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

/** Puts one body in the place of those that could not be read. */
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

/** What in Fillrate's own knowledge of rows may name a person. */
const SEARCHED_TEXT = {
  rows: sql`key`,
  changes: sql`concat_ws(' ', key, before::text, after::text, last_written_before::text)`,
  written: sql`last_written::text`,
} as const

/**
 * Where a person is named. Looked for without a lock, and erased where it was found: a search of a large table takes
 * minutes, for which no pick and no write back may wait. What moves meanwhile is found by another search.
 */
export async function findByPattern(
  tx: Tx,
  what: keyof typeof SEARCHED_TEXT,
  pattern: string,
): Promise<string[]> {
  const table = sql.table(`fillrate.${what === 'changes' ? 'changes' : 'rows'}`)
  const { rows } = await sql<{ place: string }>`
    select ctid::text as place from ${table} where ${SEARCHED_TEXT[what]} ~* ${pattern}`.execute(tx)
  return rows.map((row) => row.place)
}

/** Changes that name a person, and rows that do so in their very keys. */
export async function eraseByPattern(
  tx: Tx,
  places: Readonly<Record<keyof typeof SEARCHED_TEXT, readonly string[]>>,
  pattern: string,
): Promise<Pick<ErasedLookups, 'rows' | 'changes'>> {
  const isAt = (what: keyof typeof SEARCHED_TEXT) =>
    sql`ctid = any(${[...places[what]]}::tid[]) and ${SEARCHED_TEXT[what]} ~* ${pattern}`
  await sql`update fillrate.rows set last_written = null where ${isAt('written')}`.execute(tx)
  const { rows } = await sql<{ source: string; key: string }>`
    delete from fillrate.rows where ${isAt('rows')} returning source, key`.execute(tx)
  const { numAffectedRows: changes } = await sql`
    delete from fillrate.changes where ${isAt('changes')}`.execute(tx)
  return { rows, changes: Number(changes ?? 0) }
}

/** A column of Fillrate's own tables that can hold words. */
export interface TextColumn {
  readonly table: string
  readonly column: string
  readonly type: string
  /** Part of a key or a reference, so that its words can't be put out of it. */
  readonly isKey: boolean
}

/** Every column of text, JSON or bytes in the schema `fillrate`, out of the catalogue: also those of later versions. */
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
  type === 'bytea' ? sql`encode(${sql.ref(column)}, 'escape')` : sql`${sql.ref(column)}::text`

/** In how many rows a pattern is found in a column. */
export async function countMatches(tx: Tx, column: TextColumn, pattern: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from ${sql.table(`fillrate.${column.table}`)}
     where ${columnTextSql(column)} ~* ${pattern}`.execute(tx)
  return rows[0]?.count ?? 0
}

/** Where a pattern is found in a column that can be blotted. Locks nothing. */
export async function findMatches(tx: Tx, column: TextColumn, pattern: string): Promise<string[]> {
  if (column.isKey || !REDACTABLE.has(column.type)) return []
  const { rows } = await sql<{ place: string }>`
    select ctid::text as place from ${sql.table(`fillrate.${column.table}`)}
     where ${sql.ref(column.column)}::text ~* ${pattern}`.execute(tx)
  return rows.map((row) => row.place)
}

/**
 * Puts `[erased]` in the place of what a pattern finds in a column of text or JSON.
 * @param places as `find` gives them
 * @returns in how many rows
 */
export async function redactColumn(
  tx: Tx,
  column: TextColumn,
  pattern: string,
  places: readonly string[],
): Promise<number> {
  if (places.length === 0) return 0
  const name = sql.ref(column.column)
  const result = await sql`
    update ${sql.table(`fillrate.${column.table}`)}
       set ${name} = regexp_replace(${name}::text, ${pattern}, '[erased]', 'gi')::${sql.raw(column.type)}
     where ctid = any(${[...places]}::tid[]) and ${name}::text ~* ${pattern}`.execute(tx)
  return Number(result.numAffectedRows ?? 0)
}

const REDACTABLE = new Set(['text', 'varchar', 'json', 'jsonb'])
