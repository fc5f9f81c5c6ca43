import { type RawBuilder, sql } from 'kysely'
import type { LookupSummary, RowStatus } from '../domain/report/explain.ts'
import type { EarlierWrites } from '../domain/row.ts'
import type { Database } from './open.ts'

export interface RowHistoryRow extends Omit<RowStatus, 'alive' | 'inputs_changed'> {
  /** The service whose results it waits for. */
  readonly service: number
  readonly lookup: number | null
  /** Earlier lookups that found nothing. */
  readonly tried: readonly number[]
  readonly input_hash: string | null
  readonly written: Readonly<Record<string, unknown>> | null
  /** What was written for earlier inputs. */
  readonly earlier: EarlierWrites | null
}

/** A lookup as it is stored: with its record, and its service by number. */
export interface LookupHistory extends Omit<LookupSummary, 'service' | 'went_on'> {
  readonly service: number
  readonly record: unknown
}

export type JobHistory = NonNullable<Awaited<ReturnType<typeof findJobHistory>>>

export interface ChangeHistory {
  readonly id: number
  readonly run: number | null
  readonly lookup: number | null
  /** The service whose record it wrote. Null: it is not known any more. */
  readonly service: number | null
  readonly written_at: Date
  readonly before: Readonly<Record<string, unknown>>
  readonly after: Readonly<Record<string, unknown>>
  /** The run whose write it undoes. */
  readonly undoes: number | null
  /** The run that has undone it, and in which cells. */
  readonly undone_by: number | null
  readonly undone: readonly string[]
}

/** SQL: while `remap` writes the record of one of several lookups, `missed_lookup_ids` has all of them (`requeueForRecord`). */
const inOrder = (remapped: RawBuilder<unknown>, otherwise: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`case when lookup_id = any(missed_lookup_ids) then ${remapped} else ${otherwise} end`

/** The stored state of a row, also of a deleted one. Null: it was never picked. */
export async function findRowHistory(
  db: Database,
  source: string,
  key: string,
): Promise<RowHistoryRow | null> {
  const { rows } = await sql<RowHistoryRow>`
    select state, reason, notes, run_id as run, service_id as service,
           ${inOrder(sql`missed_lookup_ids[cardinality(missed_lookup_ids)]`, sql`lookup_id`)} as lookup,
           coalesce(to_jsonb(${inOrder(sql`missed_lookup_ids[:cardinality(missed_lookup_ids) - 1]`, sql`missed_lookup_ids`)}), '[]') as tried, input_hash::text, last_written as written, earlier_writes as earlier, picked_at, settled_at,
           due_at
      from fillrate.rows where source = ${source} and key = ${key}`.execute(db)
  return rows[0] ?? null
}

/** Lookups, in the order of the given ids. */
export async function listLookupHistory(db: Database, ids: readonly number[]): Promise<LookupHistory[]> {
  if (ids.length === 0) return []
  const { rows } = await sql<LookupHistory>`
    select id,
           service_id as service,
           kind,
           input,
           state,
           reason,
           attempts,
           unconfirmed_calls,
           confidence,
           run_id as run,
           (select j.key from fillrate.jobs j where j.key = l.job_key) as job,
           requested_at,
           resolved_at,
           not_before,
           case when is_leased then leased_until end as leased_until, refresh_at, record,
           (select count(*) from fillrate.rows r where r.lookup_id = l.id and r.deleted_at is null) as rows,
           malformed as malformed_response
      from fillrate.lookups l where id = any(${[...ids]}::bigint[])
     order by array_position(${[...ids]}::bigint[], id)`.execute(db)
  return rows
}

/** A job by its key; null if there is none. */
export async function findJobHistory(db: Database, id: string) {
  const job = db.selectFrom('fillrate.jobs').where('key', '=', id)
  const described = job.select(['key', 'job_id', 'state', 'reason', 'size', 'run_id as run', 'created_at'])
  return (await described.select(['submitted_at', 'deadline_at', 'finished_at']).executeTakeFirst()) ?? null
}

/** All changes of a row, newest first. */
export async function listChangeHistory(db: Database, source: string, key: string): Promise<ChangeHistory[]> {
  const { rows } = await sql<ChangeHistory>`
    select c.id, c.run_id as run, c.lookup_id as lookup,
           (select l.service_id from fillrate.lookups l where l.id = c.lookup_id) as service, c.written_at, c.before, c.after, b.run_id as undone_by,
           coalesce((select jsonb_agg(k) from jsonb_object_keys(b.after) k), '[]') as undone,
           (select u.run_id from fillrate.changes u where u.undone_by_change_id = c.id order by u.id desc limit 1) as undoes
      from fillrate.changes c
      left join fillrate.changes b on b.key = c.key and b.source = c.source and b.id = c.undone_by_change_id
     where c.source = ${source} and c.key = ${key} order by c.id desc`.execute(db)
  return rows
}
