import { type RawBuilder, sql } from 'kysely'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import type { CallCost } from '../domain/lookup.ts'
import { deliveringServiceSql } from './services.ts'
import { countCreditsSql } from './spend.ts'
import { jsonBatch } from './sql.ts'
import * as suppressions from './suppressions.ts'
import type { Tx } from './transaction.ts'

/** Reason stored on a row with an erased identifier, also while the erasure has not finished. */
export const SUPPRESSED_REASON = 'suppressed by forget: not looked up again'

export interface ErasedLookups {
  readonly lookups: number
  readonly records: number
  readonly rows: readonly { readonly source: string; readonly key: string }[]
  readonly changes: number
}

/** A lookup that an identifier occurs in. */
export interface NamingLookup {
  readonly id: number
  readonly kind: LookupKind
  /** It is the lookup of this identifier, or its input contains it. */
  readonly isRequested: boolean
  readonly record: unknown
}

/** Lookups per statement: each may have a record of a megabyte. */
const LOOKUPS_PER_PAGE = 200

/** Lookups of an identifier, and those whose record or input contains it, with an id after the given one. */
export async function findLookups(
  tx: Tx,
  kind: LookupKind,
  key: string,
  pattern: string,
  after: number,
): Promise<{ readonly lookups: NamingLookup[]; readonly next: number | null }> {
  const isRequested = sql<boolean>`(kind = ${kind} and key = ${key}${kind === 'domain' ? sql`` : sql` or input::text ~* ${pattern}`})`
  const { rows } = await sql<NamingLookup>`
    select id, kind, ${isRequested} as "isRequested", record from fillrate.lookups
     where id > ${after} and (${isRequested} or record::text ~* ${pattern}) order by id limit ${LOOKUPS_PER_PAGE}`.execute(
    tx,
  )
  return { lookups: rows, next: rows.length < LOOKUPS_PER_PAGE ? null : (rows.at(-1)?.id ?? null) }
}

/** A row of a source. */
export interface RowName {
  readonly source: string
  readonly key: string
}

const rowNamesSql = (rows: readonly RowName[]) =>
  sql`select * from unnest(${rows.map((row) => row.source)}::text[], ${rows.map((row) => row.key)}::text[]) k (source, key)`

/**
 * All lookups of the rows that used one of these, and of further rows: a row's other identifiers belong to the same subject.
 * Among them are those of earlier inputs that wrote to it, unless another row uses them now.
 */
export async function expandByRows(
  tx: Tx,
  ids: readonly number[],
  named: readonly RowName[],
): Promise<number[]> {
  const these = sql`${[...ids]}::bigint[]`
  const { rows } = await sql<{ id: number }>`
    with named as materialized (
      select source, key from fillrate.rows where lookup_id = any(${these}) or missed_lookup_ids && ${these}
      union ${rowNamesSql(named)}
    ), earlier as materialized (
      select distinct c.lookup_id as id from fillrate.changes c join named n on n.source = c.source and n.key = c.key
    )
    select distinct l.id from named n join fillrate.rows r on r.source = n.source and r.key = n.key
      join fillrate.lookups l on l.id = r.lookup_id or l.id = any(r.missed_lookup_ids)
     union select e.id from earlier e join fillrate.lookups l on l.id = e.id
            where not exists (select from fillrate.rows r where r.lookup_id = e.id and r.deleted_at is null)
              and not exists (select from fillrate.rows r where r.missed_lookup_ids @> array[e.id] and r.deleted_at is null)
     union select unnest(${these})`.execute(tx)
  return rows.map((row) => row.id)
}

/** Keys of the jobs that have one of these lookups as a member. */
export async function findJobsOfLookups(tx: Tx, ids: readonly number[]): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select key as id from fillrate.jobs where lookup_ids && ${[...ids]}::bigint[]`.execute(tx)
  return rows.map((row) => row.id)
}

/** The ids of the deliveries of jobs. */
export async function listDeliveriesOfJobs(tx: Tx, jobs: readonly string[]): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select id from fillrate.deliveries where ${isOfJobsSql(jobs)} order by id`.execute(tx)
  return rows.map((row) => row.id)
}

const isOfJobsSql = (jobs: readonly string[]): RawBuilder<boolean> => sql`(
  job_key = any(${[...jobs]}::uuid[])
  or (job_id, ${deliveringServiceSql(sql`service_id`)}) in (
    select job_id, service_id from fillrate.jobs where key = any(${[...jobs]}::uuid[])))`

/** What answered a call of a lookup that is erased instead. */
interface ErasedAnswer {
  readonly id: number
  readonly token: string
  readonly call?: CallCost | undefined
  readonly credits?: number | undefined
}

/**
 * Erases lookups with their records and inputs, the changes and skipped cells of their rows, and all that is stored on these rows except
 * their keys, and of deleted rows these too. Leaves a suppression hash for each lookup.
 * @param options.rows further rows of the subject, whether or not they have a lookup
 * @param options.answers calls that are counted although their answers are not stored. Of other calls in flight the answer will find no
 *   lookup: they are counted as in doubt.
 */
export async function eraseLookups(
  tx: Tx,
  ids: readonly number[],
  options: { readonly rows?: readonly RowName[]; readonly answers?: readonly ErasedAnswer[] } = {},
): Promise<ErasedLookups> {
  const these = sql`${[...ids]}::bigint[]`
  const named = options.rows ?? []
  // Rows first: this waits for a write-back that holds one of them, and then sees its changes.
  const hasLookup = sql`(lookup_id = any(${these}) or missed_lookup_ids && ${these})`
  const { rows: deletedRows } = await sql<RowName>`
    delete from fillrate.rows where deleted_at is not null and (${hasLookup} or (source, key) in (${rowNamesSql(named)}))
    returning source, key`.execute(tx)
  const byLookup = await eraseRowState(tx, hasLookup)
  const byName =
    named.length === 0
      ? []
      : await eraseRowState(
          tx,
          sql`(source, key) in (${rowNamesSql(named)}) and not (state = 'suppressed' and last_written is null and earlier_writes is null and own_writes is null)`,
        )
  const rows = [...byLookup, ...byName].sort(
    (a, b) => compareTexts(a.source, b.source) || compareTexts(a.key, b.key),
  )
  const { rows: deleted } = await sql<{ changes: number }>`
    with keys as (
      ${rowNamesSql([...rows, ...deletedRows, ...named])}
       union select source, key from fillrate.changes where lookup_id = any(${these})
    ), deleted as (
      delete from fillrate.changes c using keys k where k.source = c.source and k.key = c.key
      returning c.source, c.key
    ), unclaimed as (
      -- A row whose subject has changed since loses only what was written before.
      update fillrate.rows r set last_written = null, earlier_writes = null, own_writes = null from (select distinct source, key from deleted) g
       where r.source = g.source and r.key = g.key and num_nonnulls(r.last_written, r.earlier_writes, r.own_writes) > 0
    ), unskipped as (
      delete from fillrate.skipped_cells c using keys k where k.source = c.source and k.key = c.key
    )
    select count(*) as changes from deleted`.execute(tx)
  await removeFromUnsentJobs(tx, ids)
  const lookups = await deleteLookups(tx, ids, options.answers ?? [])
  await suppressions.insertSuppressions(tx, lookups)
  return {
    lookups: lookups.length,
    records: lookups.filter((one) => one.record).length,
    rows,
    changes: deleted[0]?.changes ?? 0,
  }
}

const compareTexts = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

async function eraseRowState(tx: Tx, condition: RawBuilder<unknown>): Promise<RowName[]> {
  const { rows } = await sql<RowName>`
    update fillrate.rows
       set state = 'suppressed', failure = null, reason = ${SUPPRESSED_REASON}, lookup_id = null, missed_lookup_ids = null, last_written = null, earlier_writes = null, own_writes = null,
           notes = null, settled_at = now(), due_at = null
     where ${condition} returning source, key`.execute(tx)
  return rows
}

interface ErasedLookup {
  readonly kind: LookupKind
  readonly key: string
  /** It had one. */
  readonly record: boolean
}

/** Deletes lookups, and counts their calls that are answered or in flight. */
async function deleteLookups(
  tx: Tx,
  ids: readonly number[],
  answers: readonly ErasedAnswer[],
): Promise<ErasedLookup[]> {
  const { rows } = await sql<ErasedLookup>`
    with gone as (
      delete from fillrate.lookups where id = any(${[...ids]}::bigint[])
      returning id, kind, key, run_id, service_id, source, state, lease_token, credits_reserved,
                record is not null as record
    ), answered as (
      select * from jsonb_to_recordset(${jsonBatch(answers.map(({ id, token, call = null, credits = null }) => ({ id, token, call, credits })))})
          as v (id bigint, token uuid, call text, credits numeric)
    ), stored as (
      select g.run_id, g.service_id, g.source, g.kind, v.call, coalesce(v.credits, (v.call = 'billed')::integer, 0) as credits, 0 as returned, d.doubt,
             d.doubt * coalesce(g.credits_reserved, 1) as credits_in_doubt
        from gone g left join answered v on v.id = g.id and v.token = g.lease_token
       cross join lateral (select (v.id is null and g.state = 'leased')::integer as doubt) d
    ), ${countCreditsSql}
    select kind, key, record from gone`.execute(tx)
  return rows
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

interface StoredDelivery {
  readonly id: string
  readonly service: number | null
  readonly job: string | null
  readonly jobId: string | null
  readonly body: string | null
  /** For a body that is no text: whether the pattern occurs in its bytes. */
  readonly unreadable: boolean
}

/**
 * The ids of deliveries that may hold a copy: those of the jobs, those whose body matches the pattern, and those with
 * escapes in which it could be written differently. Reads all deliveries, locks none.
 */
export async function findDeliveries(tx: Tx, jobs: readonly string[], pattern: string): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select id from fillrate.deliveries d
     where ${isOfJobsSql(jobs)}
        or body ~* ${pattern} or body ~ '\\\\u00[0-7]|\\\\/' or encode(raw, 'escape') ~* ${pattern}
     order by id`.execute(tx)
  return rows.map((row) => row.id)
}

/** Locks deliveries and reads their bodies. */
export async function lockDeliveries(
  tx: Tx,
  ids: readonly string[],
  pattern: string,
): Promise<StoredDelivery[]> {
  const { rows } = await sql<StoredDelivery>`
    select id, ${deliveringServiceSql(sql`service_id`)} as service, job_key as job, job_id as "jobId", body,
           coalesce(encode(raw, 'escape') ~* ${pattern}, false) as unreadable
      from fillrate.deliveries
     where id = any(${[...ids]}::uuid[]) order by id
       for no key update`.execute(tx)
  return rows
}

/** Replaces bodies that are no text by one and the same body. */
export async function replaceDeliveryBodies(tx: Tx, ids: readonly string[], body: string): Promise<void> {
  await sql`
    update fillrate.deliveries set raw = null, body = ${body} where id = any(${[...ids]}::uuid[])`.execute(tx)
}
