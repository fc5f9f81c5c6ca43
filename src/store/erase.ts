import { type RawBuilder, sql } from 'kysely'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import type { CallCost } from '../domain/lookup.ts'
import type { Identifier } from '../domain/subject.ts'
import { removeFromUnsentJobs } from './jobs.ts'
import { countCallsSql } from './spend.ts'
import { jsonBatch } from './sql.ts'
import * as suppressions from './suppressions.ts'
import { deliveringServiceSql, isOfRowSql } from './terms.ts'
import type { Tx } from './transaction.ts'

/** Reason stored on a row with an erased identifier, also while the erasure has not finished. */
export const SUPPRESSED_REASON = 'suppressed by forget: not looked up again'

export interface ErasedLookups {
  readonly lookups: number
  readonly records: number
  readonly rows: readonly { readonly source: string; readonly key: string }[]
  readonly changes: number
}

/** A lookup that identifiers occur in. */
export interface NamingLookup {
  readonly id: number
  readonly kind: LookupKind
  /** It is the lookup of one of these identifiers, or its input contains one. */
  readonly isRequested: boolean
  readonly record: unknown
}

/** Lookups per statement: each may have a record of a megabyte. */
const LOOKUPS_PER_PAGE = 200

/** SQL: kinds and keys, as a relation. */
const identifiersSql = (identifiers: readonly Identifier[]) =>
  sql`select * from unnest(${identifiers.map(({ kind }) => kind)}::text[], ${identifiers.map(({ key }) => key)}::text[])`

/** SQL: the short forms of the key of a name, as `listNameKeys` has them: services take different details. */
const nameFormsSql = sql`(
  select array_agg(n.name || '|' || c.company)
    from (values (split_part(key, '|', 1)), (split_part(key, '|', 3) || '+' || split_part(key, '|', 4))) n (name)
   cross join (values (split_part(key, '|', 2)), (split_part(key, '|', 5))) c (company)
   where n.name not in ('', '+') and c.company <> '')`

/** Lookups of identifiers, and those whose record or input contains one, with an id after the given one. */
export async function findLookups(
  tx: Tx,
  identifiers: readonly Identifier[],
  { inputs, pattern, after }: { readonly inputs: string; readonly pattern: string; readonly after: number },
): Promise<{ readonly lookups: NamingLookup[]; readonly next: number | null }> {
  const names = identifiers.flatMap(({ kind, key }) => (kind === 'name_company' ? key : []))
  const isName =
    names.length === 0 ? sql`false` : sql`(kind = 'name_company' and ${nameFormsSql} && ${names}::text[])`
  const isRequested = sql<boolean>`((kind, key) in (${identifiersSql(identifiers)}) or ${isName} or input::text ~* ${inputs})`
  const { rows } = await sql<NamingLookup>`
    select id, kind, ${isRequested} as "isRequested", record from fillrate.lookups
     where id > ${after} and (${isRequested} or record::text ~* ${pattern}) order by id
     limit ${LOOKUPS_PER_PAGE}`.execute(tx)
  return { lookups: rows, next: rows.length < LOOKUPS_PER_PAGE ? null : (rows.at(-1)?.id ?? null) }
}

/** A row of a source. */
export interface RowName {
  readonly source: string
  readonly key: string
}

const rowNamesSql = (rows: readonly RowName[]) =>
  sql`select * from unnest(${rows.map((row) => row.source)}::text[], ${rows.map((row) => row.key)}::text[]) k (source, key)`

/** A lookup of the subject. */
export interface LinkedLookup extends Identifier {
  readonly id: number
}

/**
 * One step of the links between what is stored of a subject: the rows that used its lookups, all lookups of
 * its rows, and the lookups of their identifiers at every service. Among the lookups of a row are those of
 * earlier inputs that wrote to it, unless another row uses that identifier now.
 * @param known lookups that need not be returned
 */
export async function findLinked(
  tx: Tx,
  {
    ids,
    known,
    rows,
    identifiers,
  }: {
    readonly ids: readonly number[]
    readonly known: readonly number[]
    readonly rows: readonly RowName[]
    readonly identifiers: readonly Identifier[]
  },
): Promise<{
  readonly lookups: readonly (LinkedLookup & { readonly record: unknown })[]
  readonly rows: RowName[]
}> {
  const these = sql`${[...ids]}::bigint[]`
  const named = await sql<RowName>`
    select source, key from fillrate.rows where lookup_id = any(${these}) or missed_lookup_ids && ${these}
     union ${rowNamesSql(rows)}`.execute(tx)
  const lookups = await sql<LinkedLookup & { readonly record: unknown }>`
    with named as materialized (${rowNamesSql(named.rows)}), used as (
      select unnest(r.missed_lookup_ids || r.lookup_id) as id from named join fillrate.rows r using (source, key)
       union select unnest(${these})
    ), earlier as materialized (
      select l.kind, l.key from fillrate.lookups l join (
        select c.lookup_id from named join fillrate.changes c using (source, key)
         union select c.lookup_id from named join fillrate.skipped_cells c using (source, key)) c on c.lookup_id = l.id
    ), subject as materialized (
      select l.kind, l.key from used join fillrate.lookups l using (id)
       union ${identifiersSql(identifiers)}
       union select e.kind, e.key from earlier e
        where not exists (
          select from fillrate.lookups l
           where l.kind = e.kind and l.key = e.key and ${isOfRowSql(sql`r.deleted_at is null`)})
    )
    select id, kind, key, record from subject join fillrate.lookups using (kind, key)
     where id <> all(${[...known]}::bigint[])`.execute(tx)
  return { lookups: lookups.rows, rows: named.rows }
}

/** Keys of the jobs that have one of these lookups as a member. */
export async function findJobsOfLookups(tx: Tx, ids: readonly number[]): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select key as id from fillrate.jobs where lookup_ids && ${[...ids]}::bigint[]`.execute(tx)
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
  {
    rows: named = [],
    answers = [],
  }: { readonly rows?: readonly RowName[]; readonly answers?: readonly ErasedAnswer[] } = {},
): Promise<ErasedLookups> {
  const these = sql`${[...ids]}::bigint[]`
  const hasLookup = sql`(r.lookup_id = any(${these}) or r.missed_lookup_ids && ${these})`
  const found = sql`(
    select source, key, true as is_named from (${rowNamesSql(named)}) n
     union all select source, key, false from fillrate.rows r where ${hasLookup}) f`
  // A row that was locked may have another subject by then.
  const isOfSubject = sql`r.source = f.source and r.key = f.key and (f.is_named or ${hasLookup})`
  // Rows first: this waits for a write-back that holds one of them, and then sees its changes.
  const deletedRows = await sql<RowName>`
    delete from fillrate.rows r using ${found} where ${isOfSubject} and r.deleted_at is not null
    returning r.source, r.key`.execute(tx)
  const { rows } = await sql<RowName>`
    with erased as (
      update fillrate.rows r
         set state = 'suppressed', failure = null, reason = ${SUPPRESSED_REASON}, notes = null,
             lookup_id = null, missed_lookup_ids = null, settled_at = now(), due_at = null,
             last_written = null, earlier_writes = null, own_writes = null
        from ${found}
       where ${isOfSubject}
         and (r.state <> 'suppressed' or
              num_nonnulls(r.lookup_id, r.missed_lookup_ids, r.last_written, r.earlier_writes, r.own_writes) > 0)
      returning r.source, r.key
    )
    select source, key from erased order by source, key`.execute(tx)
  const { rows: deleted } = await sql<{ changes: number }>`
    with keys as (
      ${rowNamesSql([...rows, ...deletedRows.rows, ...named])}
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
  const lookups = await deleteLookups(tx, ids, answers)
  await suppressions.insertSuppressions(tx, lookups)
  return {
    lookups: lookups.length,
    records: lookups.filter((one) => one.record).length,
    rows,
    changes: deleted[0]?.changes ?? 0,
  }
}

interface ErasedLookup extends Identifier {
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
      returning id, kind, key, run_id, service_id, source, state, lease_token, most,
                record is not null as record
    ), answered as (
      select * from jsonb_to_recordset(${jsonBatch(answers.map(({ id, token, call = null, credits = null }) => ({ id, token, call, credits })))})
          as v (id bigint, token uuid, call text, credits numeric)
    ), stored as (
      select g.run_id,
             g.service_id,
             g.source,
             g.kind,
             v.call,
             coalesce(v.credits, (v.call = 'billed')::integer, 0) as credits,
             d.doubt,
             d.doubt * coalesce(g.most, 1) as credits_in_doubt,
             null::numeric as overrun
        from gone g left join answered v on v.id = g.id and v.token = g.lease_token
       cross join lateral (select (v.id is null and g.state = 'leased')::integer as doubt) d
    ), ${countCallsSql}
    select kind, key, record from gone`.execute(tx)
  return rows
}

/**
 * The ids of deliveries that may hold a copy: those of the jobs, those whose body matches the pattern, and those with
 * escapes in which it could be written differently. Reads all deliveries, locks none.
 * @param pattern null: only those of the jobs
 */
export async function findDeliveries(
  tx: Tx,
  jobs: readonly string[],
  pattern: string | null,
): Promise<string[]> {
  const mayName = sql`(body ~* ${pattern} or body ~ '\\\\u00[0-7]|\\\\/' or encode(raw, 'escape') ~* ${pattern})`
  const { rows } = await sql<{ id: string }>`
    select id from fillrate.deliveries
     where ${isOfJobsSql(jobs)} or ${pattern === null ? sql`false` : mayName} order by id`.execute(tx)
  return rows.map((row) => row.id)
}

interface StoredDelivery {
  readonly id: string
  readonly service: number | null
  readonly job: string | null
  readonly jobId: string | null
  /** Null: it cannot be read. */
  readonly body: string | null
  /** Some of its results were quarantined: their order says nothing. */
  readonly isUnordered: boolean
  /** A page: how many results of its job are on the pages before. */
  readonly firstPlace: number | null
}

/** Locks deliveries and reads their bodies. */
export async function lockDeliveries(tx: Tx, ids: readonly string[]): Promise<StoredDelivery[]> {
  const { rows } = await sql<StoredDelivery>`
    select id, ${deliveringServiceSql(sql`service_id`)} as service, job_key as job, job_id as "jobId", body,
           state = 'quarantined' or quarantined_results > 0 as "isUnordered",
           case when state = 'partial' then (
             select coalesce(sum(case when json_typeof(p.body::json -> 'results') = 'array' then json_array_length(p.body::json -> 'results') end), 0)
               from fillrate.deliveries p
              where p.job_key = d.job_key and p.state = 'partial' and p.event_id < d.event_id) end as "firstPlace"
      from fillrate.deliveries d
     where id = any(${[...ids]}::uuid[]) order by id
       for no key update`.execute(tx)
  return rows
}
