import { type RawBuilder, sql } from 'kysely'
import type { DeliveryState } from '../domain/job.ts'
import { isTrue, jsonBatch, readOne } from './sql.ts'
import { deliveringServiceSql, lockedHasSuppressionsSql } from './terms.ts'
import type { Connection, Tx } from './transaction.ts'

export interface ReceivedDelivery {
  /** The digest of the content. */
  readonly content: string
  /** The same with the job of the webhook's path. */
  readonly contentForJob: string
  /** As the service calls it: no key, since it may number its events by job. */
  readonly eventId: string
  /** From the webhook's path. */
  readonly job: string | null
  /** From the body. */
  readonly jobId: string | null
  readonly state: DeliveryState
  readonly reason: string | null
  /** The body as text, or in base64 if Postgres cannot store it as text. */
  readonly body: string | null
  readonly raw: string | null
}

/**
 * Stores deliveries, each once for its job. The path is not signed: one that names no job of ours adds nothing to the key, so that
 * one captured body cannot be stored again and again.
 * @param service whose they are; null: it is not configured here
 * @returns the contents of those that were new
 */
export async function insertDeliveries(
  db: Connection,
  deliveries: readonly ReceivedDelivery[],
  service: number | null,
): Promise<string[]> {
  if (deliveries.length === 0) return []
  // Sorted, so that two receivers with the same deliveries do not deadlock. One parameter each: bodies are long, and inside
  // JSON they would be escaped and parsed again.
  const sorted = deliveries.toSorted((a, b) => (a.contentForJob < b.contentForJob ? -1 : 1))
  const values = sorted.map(
    (one) =>
      sql`(case when exists (select from fillrate.jobs where key = ${one.job}::uuid) then ${one.contentForJob}::uuid else ${one.content}::uuid end,
           ${one.eventId}, ${service}::smallint, ${one.job}::uuid, ${one.jobId}, ${one.state}, ${one.reason}, ${one.body}, decode(${one.raw}, 'base64'))`,
  )
  const { rows } = await sql<{ id: string }>`
    insert into fillrate.deliveries (id, event_id, service_id, job_key, job_id, state, reason, body, raw)
    values ${sql.join(values)}
    on conflict (id) do nothing
returning id`.execute(db)
  return rows.map((row) => row.id)
}

/** Takes the pages of jobs that are stored, to be made one delivery. @returns of each job, in their order, and whose service it is */
export async function takePages(
  tx: Tx,
  jobs: readonly string[],
): Promise<ReadonlyMap<string, { readonly bodies: readonly string[]; readonly service: number | null }>> {
  if (jobs.length === 0) return new Map()
  const { rows } = await sql<{ job: string; bodies: string[]; service: number | null }>`
    with taken as (
      delete from fillrate.deliveries where job_key = any(${[...jobs]}::uuid[]) and state = 'partial'
      returning job_key, event_id, body, service_id
    )
    select job_key as job, array_agg(body order by event_id) as bodies, max(service_id) as service from taken
     group by job_key`.execute(tx)
  return new Map(rows.map(({ job, ...pages }) => [job, pages]))
}

/** SQL: a delivery is to be settled, and is of this service or of none that is known. Only its own description reads it rightly. */
const isReceivedSql = (service: number | undefined): RawBuilder<boolean> => sql<boolean>`(
  state = 'received' and ${service === undefined ? sql`true` : sql`coalesce(service_id = ${service}, true)`})`

/** Whether any delivery is to be settled: a poll that finds nothing needs no transaction. */
export const hasReceived = (db: Connection, service: number | undefined): Promise<boolean> =>
  isTrue(db, sql`exists (select from fillrate.deliveries where ${isReceivedSql(service)})`)

export interface ClaimedDelivery {
  readonly id: string
  readonly eventId: string
  /** Null: one of several, and the receiver did not know which. */
  readonly service: number | null
  readonly job: string | null
  readonly jobId: string | null
  readonly body: string
  /** How long it has waited, in milliseconds. */
  readonly waitedMs: number
  /** Anything was ever erased. */
  readonly hasSuppressions: boolean
}

/**
 * Claims unsettled deliveries, oldest first; locked, so that two processes never settle the same one. Also locks the
 * suppressions until the transaction ends (`lockExclusively`): what is said about them stays true as long.
 * @param bytes limit on the bodies in total; the last one may exceed it, so a longer one comes alone
 */
export async function claimDeliveries(
  tx: Tx,
  limit: number,
  bytes: number,
  service?: number,
): Promise<ClaimedDelivery[]> {
  const { rows } = await sql<ClaimedDelivery>`
    with claimed as materialized (
      select id, received_at, octet_length(body) as size from fillrate.deliveries
       where ${isReceivedSql(service)}
       order by received_at limit ${limit} for no key update skip locked
    ), summed as (
      select id, received_at, sum(size) over (order by received_at, id) - size as before from claimed
    )
    select d.id, d.event_id as "eventId", ${deliveringServiceSql(sql`d.service_id`)} as service, d.job_key as job, d.job_id as "jobId", d.body,
           extract(epoch from clock_timestamp() - d.received_at)::float8 * 1000 as "waitedMs",
           ${lockedHasSuppressionsSql} as "hasSuppressions"
      from summed join fillrate.deliveries d on d.id = summed.id
     where summed.before < ${bytes}::bigint
     order by summed.received_at, summed.id`.execute(tx)
  return rows
}

export interface SettledDelivery {
  readonly id: string
  readonly state: DeliveryState
  readonly reason: string | null
  /** Results that matched no member. */
  readonly quarantinedResults: number
}

/** Quarantines a delivery that cannot be settled (a dead letter): stored whole, with the reason, and it blocks no other. */
export async function quarantineDelivery(db: Connection, id: string, reason: string): Promise<void> {
  await sql`
    update fillrate.deliveries set state = 'quarantined', reason = ${reason}, settled_at = now()
     where id = ${id}::uuid and state = 'received'`.execute(db)
}

/** Results of settled and quarantined deliveries that matched no member of their job and were not used. */
export async function countQuarantinedResults(db: Connection): Promise<number> {
  const counted = sql<{ count: number }>`
    select coalesce(sum(quarantined_results), 0)::bigint as count from fillrate.deliveries
     where quarantined_results > 0`
  return (await readOne(db, counted)).count
}

/** Replaces the bodies of deliveries by redacted ones. */
export async function redactDeliveries(
  tx: Tx,
  bodies: readonly { readonly id: string; readonly body: string }[],
): Promise<void> {
  if (bodies.length === 0) return
  await sql`
    update fillrate.deliveries d set body = v.body, raw = null
      from jsonb_to_recordset(${jsonBatch(bodies)}) as v (id uuid, body text)
     where d.id = v.id`.execute(tx)
}

/** Returns orphaned deliveries whose job has become known to the queue. @returns how many */
export async function requeueOrphans(db: Connection): Promise<number> {
  const result = await sql`
    update fillrate.deliveries d set state = 'received', reason = null, settled_at = null
     where d.state = 'orphaned'
       and exists (select from fillrate.jobs j where j.job_id = d.job_id and j.service_id = ${deliveringServiceSql(sql`d.service_id`)})`.execute(
    db,
  )
  return Number(result.numAffectedRows ?? 0)
}

/** How many deliveries are in each state. */
export async function countDeliveryStates(db: Connection): Promise<Partial<Record<DeliveryState, number>>> {
  const { rows } = await sql<{ state: DeliveryState; count: number }>`
    select state, count(*) as count from fillrate.deliveries group by state`.execute(db)
  return Object.fromEntries(rows.map((row) => [row.state, row.count]))
}
