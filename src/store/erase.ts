import { sql } from 'kysely'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import { Job } from '../domain/job.ts'
import { Row } from '../domain/row.ts'
import * as suppressions from './suppressions.ts'
import type { StoreTransaction } from './transaction.ts'

/** What a row becomes whose person or company was erased. */
export const ERASED = 'erased, never to be asked again'

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
export async function find(
  tx: StoreTransaction,
  kind: LookupKind,
  key: string,
  pattern: string,
): Promise<number[]> {
  const named =
    kind === 'domain'
      ? sql`kind = 'domain' and (record ->> 'domain') ~* ${pattern}`
      : sql`record::text ~* ${pattern} or input::text ~* ${pattern}`
  const { rows } = await sql<{ id: number }>`
    select id from fillrate.lookups where (kind = ${kind} and key = ${key}) or ${named}`.execute(tx)
  return rows.map((row) => row.id)
}

/** The lookups of every row that has asked, or was to ask, one of these: its other identifiers are the same person's. */
export async function withSameRows(tx: StoreTransaction, ids: readonly number[]): Promise<number[]> {
  const these = sql`${[...ids]}::bigint[]`
  const { rows } = await sql<{ id: number }>`
    select distinct l.id from fillrate.rows r
      join fillrate.lookups l on l.id = r.lookup_id or l.id = any(r.missed_lookup_ids)
     where r.lookup_id = any(${these}) or r.missed_lookup_ids && ${these}
     union select unnest(${these})`.execute(tx)
  return rows.map((row) => row.id)
}

/** The jobs of which these are members. */
export async function jobsOf(tx: StoreTransaction, ids: readonly number[]): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select key as id from fillrate.jobs where lookup_ids && ${[...ids]}::bigint[]`.execute(tx)
  return rows.map((row) => row.id)
}

/**
 * Erases lookups with their records and inputs, the changes of their rows, and what Fillrate knows of these rows beside
 * their keys. Leaves a tombstone for each lookup.
 */
export async function eraseLookups(tx: StoreTransaction, ids: readonly number[]): Promise<ErasedLookups> {
  const these = sql`${[...ids]}::bigint[]`
  // The rows first: a write back that holds one of them is waited for, and its changes are then seen.
  const { rows } = await sql<{ source: string; key: string }>`
    update fillrate.rows r
       set state = ${Row.suppressed}, reason = ${ERASED}, lookup_id = null, missed_lookup_ids = '{}', is_dry_run = false, last_written = null,
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
       where r.source = g.source and r.key = g.key and r.state <> ${sql.lit(Row.suppressed)}
    )
    select count(*) as changes from gone`.execute(tx)
  await leaveUnsentJobs(tx, ids)
  const { rows: lookups } = await sql<{ kind: LookupKind; key: string; record: boolean }>`
    delete from fillrate.lookups where id = any(${these})
    returning kind, key, record is not null as record`.execute(tx)
  await suppressions.insert(tx, lookups)
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
async function leaveUnsentJobs(tx: StoreTransaction, ids: readonly number[]): Promise<void> {
  const these = sql`${[...ids]}::bigint[]`
  const unsent = sql`j.state = ${sql.lit(Job.submitting)} and j.lease_token is null and j.lookup_ids && ${these}`
  await sql`
    update fillrate.jobs j set state = ${Job.rejected}, reason = 'all its inputs were erased', not_before = null,
           finished_at = now()
     where ${unsent} and j.lookup_ids <@ ${these}`.execute(tx)
  await sql`
    update fillrate.jobs j set lookup_ids = kept.ids, size = cardinality(kept.ids)
      from (select k.key as job, array_agg(m.id order by m.n) as ids
              from fillrate.jobs k cross join unnest(k.lookup_ids) with ordinality m (id, n)
             where k.lookup_ids && ${these} and m.id <> all(${these}) group by k.key) kept
     where kept.job = j.key and ${unsent}`.execute(tx)
}

export interface KeptDelivery {
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
export async function deliveriesToLookAt(
  tx: StoreTransaction,
  jobs: readonly string[],
  pattern: string,
): Promise<string[]> {
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
  tx: StoreTransaction,
  eventIds: readonly string[],
  pattern: string,
): Promise<KeptDelivery[]> {
  const { rows } = await sql<KeptDelivery>`
    select event_id as "eventId", job_key as job, job_id as "jobId", body,
           coalesce(encode(raw, 'escape') ~* ${pattern}, false) as unreadable
      from fillrate.deliveries
     where event_id = any(${[...eventIds]}::text[]) order by event_id
       for no key update`.execute(tx)
  return rows
}

/** Puts one body in the place of those that could not be read. */
export async function replaceBodies(
  tx: StoreTransaction,
  eventIds: readonly string[],
  body: string,
): Promise<void> {
  await sql`
    update fillrate.deliveries set raw = null, body = ${body} where event_id = any(${[...eventIds]}::text[])`.execute(
    tx,
  )
}

/** What in Fillrate's own knowledge of rows may name a person. */
const NAMED = {
  rows: sql`key`,
  changes: sql`concat_ws(' ', key, before::text, after::text, last_written_before::text)`,
  written: sql`last_written::text`,
} as const

/**
 * Where a person is named. Looked for without a lock, and erased where it was found: a search of a large table takes
 * minutes, for which no pick and no write back may wait. What moves meanwhile is found by another search.
 */
export async function findNamed(
  tx: StoreTransaction,
  what: keyof typeof NAMED,
  pattern: string,
): Promise<string[]> {
  const table = sql.table(`fillrate.${what === 'changes' ? 'changes' : 'rows'}`)
  const { rows } = await sql<{ place: string }>`
    select ctid::text as place from ${table} where ${NAMED[what]} ~* ${pattern}`.execute(tx)
  return rows.map((row) => row.place)
}

/** Changes that name a person, and rows that do so in their very keys. */
export async function eraseNamed(
  tx: StoreTransaction,
  places: Readonly<Record<keyof typeof NAMED, readonly string[]>>,
  pattern: string,
): Promise<Pick<ErasedLookups, 'rows' | 'changes'>> {
  const isAt = (what: keyof typeof NAMED) =>
    sql`ctid = any(${[...places[what]]}::tid[]) and ${NAMED[what]} ~* ${pattern}`
  await sql`update fillrate.rows set last_written = null where ${isAt('written')}`.execute(tx)
  const { rows } = await sql<{ source: string; key: string }>`
    delete from fillrate.rows where ${isAt('rows')} returning source, key`.execute(tx)
  const { numAffectedRows: changes } = await sql`
    delete from fillrate.changes where ${isAt('changes')}`.execute(tx)
  return { rows, changes: Number(changes ?? 0) }
}
