import { type RawBuilder, sql } from 'kysely'
import {
  type EarlierWrites,
  FAILED_ROW_STATES,
  type RetryState,
  type RowState,
  UNDONE_NOTE,
} from '../domain/row.ts'
import { isTrue, opaque, readOne, unnestByRow } from './sql.ts'
import { ConflictError, type Connection, type Tx } from './transaction.ts'
import { parseRows, type Unparsed } from './write-back-queue.ts'

export interface RetryRow {
  readonly key: string
  readonly state: RetryState
  readonly reason: string | null
  /** The one that finished it. */
  readonly service: number
  readonly lookup: number | null
  /** A retry needs a call, because the lookup failed or is due for a refresh. */
  readonly needsCall: boolean
}

export interface RetryFilter {
  readonly states: readonly RetryState[]
  /** Part of the reason, in any case; null is any. */
  readonly reason: string | null
}

/** Finished rows of a source that can be retried, in key order. @param after keyset: keys after this one */
export async function listRetryRows(
  db: Connection,
  source: string,
  filter: RetryFilter,
  after: string,
  limit: number,
): Promise<RetryRow[]> {
  const { rows } = await sql<RetryRow>`
    select r.key, ${retryStateSql} as state, r.reason, r.service_id as service, r.lookup_id as lookup,
           case when l.id is null or l.state in (${unansweredSql}) then true
                else l.state in (${answeredSql}) and coalesce(l.refresh_at <= now(), false) end as "needsCall"
      from fillrate.rows r left join fillrate.lookups l on l.id = r.lookup_id
     where r.source = ${source} and r.key > ${after} and ${retryStateSql} = any(${[...filter.states]}::text[])
       and ${hasReasonSql(filter.reason)}
     order by r.key limit ${limit}`.execute(db)
  return rows
}

const statesSql = (list: readonly RowState[]): RawBuilder<unknown> =>
  sql.join(list.map((state) => sql.lit(state)))

const retryStateSql = sql<RetryState>`
  case when r.deleted_at is not null then null
       when r.state in (${statesSql(FAILED_ROW_STATES)}) then r.state
       when r.state = 'unchanged' and r.notes ? ${sql.lit(UNDONE_NOTE)} then ${sql.lit(UNDONE_NOTE)} end`

const unansweredSql = sql`'failed', 'rejected'`
const answeredSql = sql`'found', 'not_found'`

/** SQL: the reason contains a text. Compared literally, not as a pattern: reasons contain underscores and dots. */
const hasReasonSql = (reason: string | null): RawBuilder<unknown> =>
  reason === null ? sql`true` : sql`position(lower(${reason}) in lower(coalesce(r.reason, ''))) > 0`

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
      select id from fillrate.lookups where id = any(${lookups}::bigint[]) and state in (${unansweredSql})
       order by id for no key update
    )
    update fillrate.lookups l set refresh_at = now() from failed where l.id = failed.id`.execute(tx)
  await sql`
    update fillrate.rows r set due_at = now()
      from ${unnestByRow(source, rows, { lookup: 'bigint' })}
     where r.ctid = v.ctid
       and r.lookup_id is not distinct from v.lookup and r.state <> 'waiting'`.execute(tx)
}

/** A finished row with its stored record. */
export interface RemapRow {
  readonly key: string
  readonly inputHash: string
  readonly state: RowState
  /** When it was finished, as it was read. */
  readonly settledAt: string
  readonly lookup: number
  readonly record: unknown
  readonly confidence: number | null
  readonly written: Readonly<Record<string, unknown>> | null
  readonly earlier: EarlierWrites | null
  /** Its write was undone. */
  readonly undone: boolean
}

/**
 * Finished rows of a source whose lookup has found a record, in key order.
 * @param after keyset: keys after this one
 * @param service whose records; null: any
 */
export async function listRemapRows(
  db: Connection,
  source: string,
  after: string,
  limit: number,
  service: number | null,
): Promise<RemapRow[]> {
  const { rows } = await sql<Unparsed<RemapRow>>`
    select r.key, r.input_hash::text as "inputHash", r.state, r.settled_at::text as "settledAt", r.lookup_id as lookup, l.record::text, l.confidence, r.last_written::text as written, r.earlier_writes::text as earlier,
           coalesce(r.notes ? ${sql.lit(UNDONE_NOTE)}, false) as undone
      from fillrate.rows r join fillrate.lookups l on l.id = r.lookup_id
     where r.source = ${source} and r.key > ${after} and ${hasRecordSql(service)}
     order by r.key limit ${limit}`.execute(db)
  return parseRows<RemapRow>(rows)
}

const hasRecordSql = (service: number | null) => sql`
  r.state <> 'waiting' and r.deleted_at is null and r.input_hash is not null and l.state = 'found'
       and ${service === null ? sql`true` : sql`l.service_id = ${service}`}`

/** The number of those rows. */
export async function countRemapRows(
  db: Connection,
  source: string,
  service: number | null,
): Promise<number> {
  const counted = sql<{ count: number }>`
    select count(*) as count from fillrate.rows r join fillrate.lookups l on l.id = r.lookup_id
     where r.source = ${source} and ${hasRecordSql(service)}`
  return (await readOne(db, counted)).count
}

/**
 * Queues rows for write-back from their stored record. A row belongs to the run that took it last: one that another run has
 * written since it was read would be missing from that run's report.
 * @throws ConflictError if a row has changed since it was read; the next attempt reads it again
 */
export async function requeueRowsForWrite(
  tx: Tx,
  source: string,
  run: number,
  rows: readonly Pick<RemapRow, 'key' | 'inputHash' | 'settledAt' | 'lookup'>[],
): Promise<void> {
  const values = rows.map(({ key, inputHash, settledAt, lookup }) => ({ key, inputHash, settledAt, lookup }))
  await queueForWrite(
    tx,
    rows,
    sql`
    update fillrate.rows r
       set state = 'waiting', failure = null, reason = null, run_id = ${run}, picked_at = now(), settled_at = null, due_at = null,
           notes = null, cells_written = 0, cells_protected = 0, cells_skipped = 0
      from ${unnestByRow(source, values, { inputHash: 'text', settledAt: 'timestamptz', lookup: 'bigint' })}
     where r.ctid = v.ctid
       and r.lookup_id = v.lookup and r.input_hash = v."inputHash"::bigint and r.settled_at = v."settledAt" and r.deleted_at is null`,
  )
}

/**
 * Queues found lookups for write-back together with their rows.
 * @param requeue makes these rows wait, unless they have changed
 * @throws ConflictError if it has left one out, or a lookup has lost its record
 */
export async function queueForWrite(
  tx: Tx,
  rows: readonly { readonly lookup: number }[],
  requeue: RawBuilder<unknown>,
): Promise<void> {
  if (rows.length === 0) return
  const lookups = [...new Set(rows.map((row) => row.lookup))]
  // As in the pick, the lookups stay locked until the rows wait: whatever dequeues them then sees the rows.
  const { rows: locked } = await sql`
    select from fillrate.lookups where id = any(${lookups}::bigint[]) and state = 'found'
     order by id for no key update`.execute(tx)
  const { numAffectedRows: taken } = await requeue.execute(tx)
  if (locked.length < lookups.length || Number(taken ?? 0) < rows.length)
    throw new ConflictError('rows have changed since they were read')
  await tx.insertInto('fillrate.write_back_queue').values({ lookup_ids: lookups }).execute()
}

/** Whether rows of a run wait to be written from a stored record. @param options.left include postponed rows */
export const hasRowsToWrite = (
  db: Connection,
  source: string,
  run: number,
  { left }: { readonly left: boolean },
): Promise<boolean> =>
  isTrue(
    db,
    sql`exists (
      select from fillrate.write_back_queue u cross join lateral unnest(u.lookup_ids) as q (lookup_id)
       cross join lateral (
         select from fillrate.rows r
          where r.lookup_id = q.lookup_id
            and ${opaque(sql`r.source = ${source} and r.state = 'waiting' and r.run_id = ${run} and (${left} or r.due_at is null)`)}
         offset 0) r)`,
  )
