import { sql, type RawBuilder } from 'kysely'
import type { DeliveryState, JobState } from '../domain/job.ts'
import { isTrue, jsonBatch, readOne } from './sql.ts'
import {
  deliveringServiceSql,
  hasResultsSql,
  isOfJobSql,
  lockedHasSuppressionsSql,
  isOpenMemberSql,
  memberInputsSql,
} from './terms.ts'
import type { Connection, Tx } from './transaction.ts'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import { readStoredInputs } from '../domain/service/job-inputs.ts'
import type { JobInputs } from '../domain/service/messages.ts'

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
 * @returns the contents of new deliveries
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
    (result) =>
      sql`(case when exists (select from fillrate.jobs where key = ${result.job}::uuid) then ${result.contentForJob}::uuid else ${result.content}::uuid end,
           ${result.eventId}, ${service}::smallint, ${result.job}::uuid, ${result.jobId}, ${result.state}, ${result.reason}, ${result.body}, decode(${result.raw}, 'base64'))`,
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

/** SQL: a delivery has this state, and is of this service or of none that is known. Only its own description reads it rightly. */
const isInStateSql = (
  state: DeliveryState,
  service: number | undefined,
): RawBuilder<boolean> => sql<boolean>`(
  state = ${sql.lit(state)} and ${service === undefined ? sql`true` : sql`coalesce(service_id = ${service}, true)`})`

/** Whether any delivery is to be settled: a poll that finds nothing needs no transaction. */
export const hasReceived = (db: Connection, service: number | undefined): Promise<boolean> =>
  isTrue(db, sql`exists (select from fillrate.deliveries where ${isInStateSql('received', service)})`)

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
       where ${isInStateSql('received', service)}
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

/** Whether any delivery of the service was ever settled. */
export const hasSettled = (db: Connection, service: number): Promise<boolean> =>
  isTrue(db, sql`exists (select from fillrate.deliveries where ${isInStateSql('settled', service)})`)

/** Returns the results of unread jobs, to be read with the description as it is now. */
export async function requeueUnread(db: Connection, service: number): Promise<void> {
  await sql`
    update fillrate.deliveries d set state = 'received', reason = null, settled_at = null, quarantined_results = 0
      from fillrate.jobs j
     where j.state = 'unread' and j.service_id = ${service} and d.state = 'quarantined' and ${isOfJobSql(sql`d`)}`.execute(
    db,
  )
}

/** How many deliveries are in each state. */
export async function countDeliveryStates(db: Connection): Promise<Partial<Record<DeliveryState, number>>> {
  const { rows } = await sql<{ state: DeliveryState; count: number }>`
    select state, count(*) as count from fillrate.deliveries group by state`.execute(db)
  return Object.fromEntries(rows.map((row) => [row.state, row.count]))
}

export interface DeliveryJob {
  readonly id: string
  readonly service: number
  readonly jobId: string | null
  readonly state: JobState
  readonly requestIds: unknown
  readonly createdAt: Date
  /** A single lookup that the service accepted for later. */
  readonly single: boolean
  /** What is counted of the job so far; null: what its lookups have cost since it was accepted, one credit each or nothing. */
  readonly credits: number | null
  /** The most credits of a lookup of each kind; null: one each, counted when it was accepted. */
  readonly most: Readonly<Record<string, number>> | null
  /** What the service says that the whole job has cost; null: it has not said. */
  readonly creditsStated: number | null
  /**
   * In the order of submission. `identifier`: its address, profile URL or domain; empty for a name. An erased one keeps its place,
   * without a kind and an identifier.
   */
  readonly members: {
    readonly id: number
    readonly kind: LookupKind | null
    readonly identifier: string
    readonly open: boolean
  }[]
}

/**
 * The jobs that deliveries refer to, by our key or by the service's id, with their members. Those of other services are among them.
 * Locked until commit.
 */
export async function lockJobsForDeliveries(
  tx: Tx,
  ids: readonly string[],
  jobIds: readonly string[],
): Promise<DeliveryJob[]> {
  const { rows } = await sql<
    Omit<DeliveryJob, 'members'> & { readonly lookups: readonly number[]; readonly found: Members }
  >`
    select j.key as id,
           j.service_id as service,
           j.job_id as "jobId",
           j.state,
           j.request_ids as "requestIds",
           j.created_at as "createdAt",
           j.is_async_answer as single,
           j.credits::float8 as credits,
           j.most, j.credits_stated::float8 as "creditsStated", to_json(j.lookup_ids) as lookups,
           (select json_build_array(array_agg(l.id), array_agg(l.kind), array_agg(coalesce(l.input ->> 'email', l.input ->> 'linkedin_url', l.input ->> 'domain')),
                                    array_agg(${isOpenMemberSql('j.key')}))
              from fillrate.lookups l where l.id = any(j.lookup_ids)) as found
      from fillrate.jobs j
     where j.key = any(${[...ids]}::uuid[]) or j.job_id = any(${[...jobIds]}::text[])
     order by j.key for no key update of j`.execute(tx)
  return rows.map(({ lookups, found: [stored, kinds, identifiers, open], ...job }) => {
    const places = new Map(stored?.map((id, n) => [id, n]))
    const members = lookups.map((id) => {
      const n = places.get(id) ?? -1
      return { id, kind: kinds?.[n] ?? null, identifier: identifiers?.[n] ?? '', open: open?.[n] ?? false }
    })
    return { ...job, members }
  })
}

/** Ids, kinds, identifiers, and whether they are open, of the lookups of a job that are stored, in any order; null: none. */
type Members = readonly [
  readonly number[] | null,
  readonly LookupKind[] | null,
  readonly (string | null)[] | null,
  readonly (boolean | null)[] | null,
]

/** The inputs of a job, and what the service calls it; null: it has said nothing yet. */
export interface StoredJobInputs extends JobInputs {
  readonly jobId: string | null
}

/**
 * The inputs of a service's job with our key, or of its only one with its identifier. Null: there is none.
 * @param service null: not known to the receiver
 */
export async function findJobInputs(
  db: Connection,
  by: { readonly job: string } | { readonly jobId: string },
  service: number | null,
): Promise<StoredJobInputs | null> {
  const isIt = 'job' in by ? sql`j.key = ${by.job}::uuid` : sql`j.job_id = ${by.jobId}`
  const { rows } = await sql<{ jobId: string | null; stored: Parameters<typeof readStoredInputs>[0] }>`
    select j.job_id as "jobId", ${memberInputsSql} as stored
      from fillrate.jobs j where ${isIt} and j.service_id = ${deliveringServiceSql(sql`${service}::smallint`)} limit 2`.execute(
    db,
  )
  const [job] = rows
  return job === undefined || rows.length > 1 ? null : { jobId: job.jobId, ...readStoredInputs(job.stored) }
}

export interface DeliveredJob {
  readonly id: string
  readonly jobId: string | null
  /** Null: no delivery said that the job is finished. */
  readonly state: JobState | null
  readonly reason: string | null
  /** Members still wait for a result. */
  readonly isOpen: boolean
  /** How long they wait for a further delivery, in milliseconds. */
  readonly graceMs: number
  /** What is counted of it from now on. Missing: as before. */
  readonly credits?: number
  readonly creditsStated?: number | null
}

/**
 * Records how deliveries were settled, and applies them to their jobs, whatever their state. Members without a
 * result are released when the job is finished and its `graceMs` are over, at the deadline at the latest, and at
 * once where the service says that the job failed. A delivery proves that the job arrived, so the job is no longer
 * in doubt. The lease stays: results may come before the answer to the submission, which counts the call under it.
 */
export async function completeJobsFromDeliveries(
  tx: Tx,
  closed: readonly SettledDelivery[],
  jobs: readonly DeliveredJob[],
): Promise<void> {
  await sql`
    with closed as (${closeDeliveriesSql(closed)})
    update fillrate.jobs j
       set state = case when j.state = 'completed' then j.state
                        when v.state is not null then v.state
                        when j.state in ('submitting', 'in_doubt') then 'submitted'
                        else j.state end,
           reason = coalesce(v.reason, case when v.state is null then j.reason end),
           job_id = coalesce(j.job_id, v."jobId"),
           submitted_at = coalesce(j.submitted_at, now()),
           finished_at = case when v.state is null then j.finished_at else now() end,
           release_at = case when v."isOpen" and (v.state is not null or j.release_at is not null)
                             then case when j.state <> 'completed' and coalesce(v.state, j.state) = 'failed' then now()
                                       else least(now() + v."graceMs" * interval '1 ms', greatest(j.deadline_at, now())) end end,
           not_before = null, credits = coalesce(v.credits, j.credits), credits_stated = coalesce(v."creditsStated", j.credits_stated)
      from jsonb_to_recordset(${jsonBatch(jobs)}) as v
           (id uuid, state text, reason text, "jobId" text, "isOpen" boolean, "graceMs" double precision, credits numeric, "creditsStated" numeric)
     where j.key = v.id`.execute(tx)
}

/** Takes jobs that are finished and got no further delivery within the grace period, settled or not. @returns their ids */
export async function releaseDueJobs(tx: Tx, limit: number): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    with due as (
      select key from fillrate.jobs j where release_at < now() and not ${hasResultsSql}
       order by release_at limit ${limit} for no key update skip locked
    )
    update fillrate.jobs j set release_at = null from due where j.key = due.key
    returning j.key as id`.execute(tx)
  return rows.map((row) => row.id)
}

/**
 * SQL, a statement for a WITH clause: records how deliveries were settled. Of what else the given objects have, nothing is
 * sent: with a delivery's answers the batch would have a thousand times its size.
 */
export const closeDeliveriesSql = (closed: readonly SettledDelivery[]): RawBuilder<unknown> => sql`
  update fillrate.deliveries d
     set state = v.state, reason = v.reason, quarantined_results = v."quarantinedResults", settled_at = now()
    from jsonb_to_recordset(${jsonBatch(
      closed.map(({ id, state, reason, quarantinedResults }) => ({
        id,
        state,
        reason,
        quarantinedResults,
      })),
    )}) as v
         (id uuid, state text, reason text, "quarantinedResults" integer)
   where d.id = v.id`
