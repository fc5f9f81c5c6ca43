import { type RawBuilder, sql } from 'kysely'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import type { JobState } from '../domain/job.ts'
import { readStoredInputs } from '../domain/service/job-inputs.ts'
import type { JobInputs } from '../domain/service/messages.ts'
import type { SettledDelivery } from './deliveries.ts'
import { jsonBatch } from './sql.ts'
import { deliveringServiceSql, isOpenMemberSql, memberInputsSql } from './terms.ts'
import type { Connection, Tx } from './transaction.ts'

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
 * Records how deliveries were settled, and applies them to their jobs, in whatever state these are. Members without a result are released when the job is
 * finished and no further delivery has come for its `graceMs`, at the deadline at the latest, and at once where the service says that
 * the job failed. A delivery proves that the job arrived, so it is no longer in doubt; a completed job stays completed. The
 * lease stays: results may come before the answer to the submission, which counts the call under it.
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

/** Takes jobs that are finished and got no further delivery within the grace period. @returns their ids */
export async function releaseDueJobs(tx: Tx, limit: number): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    with due as (
      select key from fillrate.jobs where release_at < now()
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
