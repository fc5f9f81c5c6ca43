import { type RawBuilder, sql } from 'kysely'
import { Lookup, type LookupFields } from '../domain/lookup.ts'
import { enqueueWriteBackSql } from './lookups.ts'
import type { Database } from './open.ts'
import { settleCredits } from './spend.ts'
import { jsonBatch, opaque, recordBatch } from './sql.ts'
import { lockToReadSql } from './suppressions.ts'
import type { Connection, Tx } from './transaction.ts'

/** Columns of a result that a delivery sets. Each column costs up to a fifteenth of what it takes to store the result. */
const DELIVERED_COLUMNS = {
  id: 'bigint',
  state: 'text',
  reason: 'text',
  requestedAt: 'timestamptz',
  resolvedAt: 'timestamptz',
  refreshAt: 'timestamptz',
  record: 'json',
  confidence: 'double precision',
} as const

/** Columns of the result of a call. */
export const RESULT_COLUMNS = {
  ...DELIVERED_COLUMNS,
  token: 'uuid',
  attempts: 'integer',
  notBefore: 'timestamptz',
  hashes: 'jsonb',
  unconfirmedCalls: 'integer',
  call: 'text',
  credits: 'double precision',
  overrun: 'double precision',
} as const

/** SQL: none of the suppression hashes of the result `v` is suppressed. */
export const notSuppressedSql = sql`${lockToReadSql} and not exists (
  select from fillrate.suppressions s where s.hash in (select jsonb_array_elements_text(v.hashes)))`

/**
 * Stores a paid record that arrived after its lease or job was lost, if the lookup has no record yet, even if it was
 * marked not found since. Rows that finished without the record become due.
 */
export async function storeLateRecords(
  db: Connection,
  results: readonly (LookupFields & { readonly id: number; readonly hashes?: readonly string[] })[],
): Promise<void> {
  if (results.length === 0) return
  await sql`
    with stored as (
      update fillrate.lookups l
         set state = v.state, reason = v.reason, resolved_at = v."resolvedAt", refresh_at = v."refreshAt", not_before = null,
             lease_token = null, record = v.record, confidence = v.confidence
        from ${recordBatch(results, RESULT_COLUMNS)}
       where l.id = v.id and ${opaque(sql`l.record is null`)} and ${notSuppressedSql}
      returning l.id, l.state
    ), ${enqueueWriteBackSql('stored')}, due as (
      update fillrate.rows r set due_at = now() from stored
       where r.lookup_id = stored.id and ${opaque(sql`r.state in ('not_found', 'rejected', 'failed')`)}
      returning r.source
    )
    update fillrate.source_state set due_after = now() where source in (select source from due)`.execute(db)
}

export interface DeliveredResult extends LookupFields {
  readonly id: number
  /** When its job was made. */
  readonly requestedAt: Date
  /** The lookup waits for the result of this job. */
  readonly isOpen: boolean
  readonly job: string
  /** What it cost. Missing: one credit, counted when its job was accepted. */
  readonly credits?: number
  /** The most that it could cost, in doubt since its job was accepted; null: one credit, counted then. */
  readonly reserved: number | null
  /** The cost of its whole job is settled already. */
  readonly isSettled?: boolean
}

/**
 * Stores results from deliveries. A lookup that has a result keeps it. One that has left the job without a result takes what
 * comes late, unless it has been requested anew since: a repeated delivery of an old job is no answer to a refresh.
 * @returns those that were stored
 */
export async function completeFromDelivery<Result extends DeliveredResult>(
  tx: Tx,
  results: readonly Result[],
): Promise<Result[]> {
  const awaited = await storeDelivered(
    tx,
    results.filter(({ isOpen }) => isOpen),
    sql`true`,
  )
  // A Date has milliseconds.
  const late = await storeDelivered(
    tx,
    results.filter(({ isOpen }) => !isOpen),
    sql`date_trunc('milliseconds', l.enqueued_at) <= v."requestedAt"`,
  )
  const stored = [...awaited, ...late]
  const settled = stored.flatMap(({ id, job, credits, reserved, isSettled = false }) =>
    credits === undefined ? [] : [{ id, job, credits, reserved, isSettled }],
  )
  await settleCredits(tx, settled)
  return stored
}

async function storeDelivered<Result extends DeliveredResult>(
  tx: Tx,
  results: readonly Result[],
  condition: RawBuilder<unknown>,
): Promise<Result[]> {
  if (results.length === 0) return []
  const { rows } = await sql<{ id: number }>`
    with stored as (
      update fillrate.lookups l
         set state = v.state, reason = v.reason, resolved_at = v."resolvedAt", refresh_at = v."refreshAt", not_before = null,
             lease_token = null, requested_at = coalesce(l.requested_at, v."requestedAt"),
             record = case when v.state = 'found' then v.record else l.record end,
             confidence = case when v.state = 'found' then v.confidence else l.confidence end
        from ${recordBatch(results, DELIVERED_COLUMNS)}
       where l.id = v.id and ${opaque(sql`l.state in ('submitted', 'pending', 'leased')`)} and ${condition}
      returning l.id, l.state
    ), ${enqueueWriteBackSql('stored')}
    select id from stored`.execute(tx)
  const storedIds = new Set(rows.map((row) => row.id))
  const [stored, others] = [true, false].map((isStored) =>
    results.filter(({ id }) => storedIds.has(id) === isStored),
  ) as [Result[], Result[]]
  await storeLateRecords(
    tx,
    others.filter((one) => one.state === Lookup.found),
  )
  return stored
}

/** A response that was no valid record, stored for diagnosis. */
export interface MalformedResponse {
  readonly lookup: number
  readonly status: number
  /** The start of its body. */
  readonly body: string
}

/** Stores malformed responses, the latest one of each lookup. */
export async function storeMalformedResponses(
  db: Database,
  results: readonly MalformedResponse[],
): Promise<void> {
  if (results.length === 0) return
  await sql`
    update fillrate.lookups l
       set malformed = jsonb_build_object('status', v.status, 'body', v.body, 'received_at', clock_timestamp())
      from (select * from jsonb_to_recordset(${jsonBatch(results)}) as v (lookup bigint, status integer, body text) order by lookup) v
     where l.id = v.lookup`.execute(db)
}
