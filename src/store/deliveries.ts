import { sql } from 'kysely'
import { Delivery, type DeliveryState } from '../domain/delivery.ts'
import { jsonBatch } from './batch.ts'
import type { Database } from './open.ts'
import type { StoreTransaction } from './transaction.ts'

type Connection = Database | StoreTransaction

export interface ReceivedDelivery {
  readonly eventId: string
  /** From the webhook's path. */
  readonly job: string | null
  /** From the body. */
  readonly jobId: string | null
  readonly state: DeliveryState
  readonly reason: string | null
  /** The body as text, or in base64 where it is not text that Postgres can hold. */
  readonly body: string | null
  readonly raw: string | null
}

/** Keeps deliveries, each event once. @returns the event ids that were new */
export async function insert(db: Connection, deliveries: readonly ReceivedDelivery[]): Promise<string[]> {
  if (deliveries.length === 0) return []
  // In one order, so that two receivers with the same events don't wait for each other. A parameter each: bodies are long,
  // and inside of JSON they would be escaped and read again.
  const sorted = deliveries.toSorted((a, b) => (a.eventId < b.eventId ? -1 : 1))
  const values = sorted.map(
    (one) =>
      sql`(${one.eventId}, ${one.job}::uuid, ${one.jobId}, ${one.state}, ${one.reason}, ${one.body}, decode(${one.raw}, 'base64'))`,
  )
  const { rows } = await sql<{ event_id: string }>`
    insert into fillrate.deliveries (event_id, job, job_id, state, reason, body, raw)
    values ${sql.join(values)}
    on conflict (event_id) do nothing
    returning event_id`.execute(db)
  return rows.map((row) => row.event_id)
}

export interface OpenDelivery {
  readonly eventId: string
  readonly job: string | null
  readonly jobId: string | null
  readonly body: string
  /** How long it has waited, in milliseconds. */
  readonly waitedMs: number
}

/** Deliveries that nobody has settled, oldest first; locked, so that two processes never settle one. */
export async function claim(tx: StoreTransaction, limit: number): Promise<OpenDelivery[]> {
  const { rows } = await sql<OpenDelivery>`
    select event_id as "eventId", job, job_id as "jobId", body,
           extract(epoch from clock_timestamp() - received_at)::float8 * 1000 as "waitedMs" from fillrate.deliveries
     where state = ${sql.lit(Delivery.received)}
     order by received_at limit ${limit} for no key update skip locked`.execute(tx)
  return rows
}

/** Where deliveries went. */
export async function close(
  tx: Connection,
  closed: readonly {
    readonly eventId: string
    readonly state: DeliveryState
    readonly reason: string | null
  }[],
): Promise<void> {
  if (closed.length === 0) return
  await sql`
    update fillrate.deliveries d set state = v.state, reason = v.reason, settled_at = now()
      from jsonb_to_recordset(${jsonBatch(closed)}) as v ("eventId" text, state text, reason text)
     where d.event_id = v."eventId"`.execute(tx)
}

/** Puts other bodies in the place of these: those without what was erased. */
export async function redact(
  tx: StoreTransaction,
  bodies: readonly { readonly eventId: string; readonly body: string }[],
): Promise<void> {
  if (bodies.length === 0) return
  await sql`
    update fillrate.deliveries d set body = v.body, raw = null
      from jsonb_to_recordset(${jsonBatch(bodies)}) as v ("eventId" text, body text)
     where d.event_id = v."eventId"`.execute(tx)
}

/** Orphans whose job has become known are settled after all. @returns how many */
export async function attachOrphans(db: Connection): Promise<number> {
  const result = await sql`
    update fillrate.deliveries d set state = ${Delivery.received}, reason = null, settled_at = null
     where d.state = ${sql.lit(Delivery.orphaned)}
       and exists (select from fillrate.jobs j where j.job_id = d.job_id)`.execute(db)
  return Number(result.numAffectedRows ?? 0)
}

/** How many deliveries are in each state. */
export async function countStates(db: Connection): Promise<Partial<Record<DeliveryState, number>>> {
  const { rows } = await sql<{ state: DeliveryState; count: number }>`
    select state, count(*) as count from fillrate.deliveries group by state`.execute(db)
  return Object.fromEntries(rows.map((row) => [row.state, row.count]))
}
