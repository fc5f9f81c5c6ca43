import { sql } from 'kysely'
import { JOB_SIZE, type JobFields, type JobState } from '../domain/job.ts'
import { intervalSql, jsonBatch } from './sql.ts'
import type { Connection, Tx } from './transaction.ts'

export interface Submittable {
  /** At least `least` emails are pending. */
  readonly hasNew: boolean
  /** A job that the service did not accept is due again. */
  readonly hasRetries: boolean
}

/** What a run has to submit. @param least pending emails that count as enough */
export async function findSubmittable(db: Connection, run: number, least: number): Promise<Submittable> {
  const { rows } = await sql<Submittable>`
    select (select count(*) from (
              select 1 from fillrate.lookups
               where run_id = ${run} and state = 'pending' and kind = 'email' and not sync_only
                 and (not_before is null or not_before <= now())
               limit ${least}::integer) waiting) >= ${least}::integer as "hasNew",
           exists (select from fillrate.jobs
                    where state = 'submitting' and lease_token is null and not_before <= now() and run_id = ${run}) as "hasRetries"`.execute(
    db,
  )
  return rows[0] ?? { hasNew: false, hasRetries: false }
}

export interface OutgoingJob {
  readonly id: string
  readonly attempts: number
  readonly run: number | null
  readonly emails: string[]
}

/**
 * Creates jobs from a run's pending email lookups and commits before the call, so that a delivery finds its job whatever
 * happens to the call.
 * @param ids one per job, and so the maximum number of jobs
 * @param least creates no job with fewer members than this
 */
export async function createJobs(
  db: Connection,
  options: {
    readonly run: number
    readonly ids: readonly string[]
    readonly least: number
    readonly token: string
    readonly leaseMs: number
    readonly deadlineMs: number
  },
): Promise<OutgoingJob[]> {
  const { run, ids, least, token, leaseMs, deadlineMs } = options
  const { rows } = await sql<OutgoingJob>`
    with claimed as (
      select id from fillrate.lookups
       where run_id = ${run} and state = 'pending' and kind = 'email' and not sync_only
         and (not_before is null or not_before <= now())
       order by run_id, id limit ${ids.length * JOB_SIZE} for no key update skip locked
    ), numbered as (
      select id, (row_number() over (order by id) - 1) / ${JOB_SIZE}::integer as n from claimed
    ), chosen as (
      select id, (${[...ids]}::uuid[])[n + 1] as job_key from (
        select *, count(*) over (partition by n) as size from numbered
      ) sized
       where size >= ${Math.min(least, JOB_SIZE)}::integer
    ), made as (
      insert into fillrate.jobs (key, state, size, run_id, scope, lookup_ids, lease_token, leased_until, deadline_at)
      select job_key, 'submitting', count(*), ${run}, (select scope from fillrate.runs where id = ${run}), array_agg(id order by id), ${token},
             now() + ${intervalSql(leaseMs)}, now() + ${intervalSql(deadlineMs)}
        from chosen group by job_key
      returning key
    ), moved as (
      update fillrate.lookups l
         set state = 'submitted', job_key = chosen.job_key, requested_at = now()
        from chosen where l.id = chosen.id
      returning l.id, l.job_key, l.input ->> 'email' as email
    )
    select job_key as id, 1 as attempts, ${run}::bigint as run, array_agg(email order by id) as emails
      from moved where job_key in (select key from made) group by job_key`.execute(db)
  return rows
}

/** Leases jobs of a run that the service certainly did not accept and that are due again. */
export async function leaseJobsForRetry(
  db: Connection,
  options: {
    readonly run: number
    readonly limit: number
    readonly token: string
    readonly leaseMs: number
  },
): Promise<OutgoingJob[]> {
  const { rows } = await sql<OutgoingJob>`
    with ready as (
      select key from fillrate.jobs
       where state = 'submitting' and lease_token is null and not_before <= now() and run_id = ${options.run}
       order by created_at limit ${options.limit} for no key update skip locked
    ), leased as (
      update fillrate.jobs j
         set lease_token = ${options.token}, leased_until = now() + ${intervalSql(options.leaseMs)}
        from ready where j.key = ready.key
      returning j.key, j.attempts, j.run_id, j.lookup_ids
    )
    select j.key as id, j.attempts, j.run_id as run,
           (select array_agg(l.input ->> 'email' order by m.n)
              from unnest(j.lookup_ids) with ordinality m (id, n) join fillrate.lookups l on l.id = m.id) as emails
      from leased j`.execute(db)
  return rows
}

export interface SubmittedJob extends JobFields {
  readonly id: string
  readonly token: string
}

/** Records the results of submissions. A job whose delivery came first keeps its state and gets its identifier. */
export async function recordJobSubmissions(db: Connection, jobs: readonly SubmittedJob[]): Promise<void> {
  if (jobs.length === 0) return
  await sql`
    update fillrate.jobs j
       set state = case when j.state in ('submitting', 'in_doubt') then v.state else j.state end,
           reason = case when j.state in ('submitting', 'in_doubt') then v.reason else j.reason end,
           finished_at = case when j.state in ('submitting', 'in_doubt') then v."finishedAt" else j.finished_at end,
           job_id = coalesce(v."jobId", j.job_id), request_ids = coalesce(v."requestIds", j.request_ids),
           attempts = v.attempts, not_before = v."notBefore", submitted_at = coalesce(v."submittedAt", j.submitted_at),
           lease_token = null, leased_until = null
      from jsonb_to_recordset(${jsonBatch(jobs)}) as v
           (id uuid, token uuid, state text, reason text, "jobId" text, "requestIds" jsonb, attempts integer,
            "notBefore" timestamptz, "submittedAt" timestamptz, "finishedAt" timestamptz)
     where j.key = v.id and (j.lease_token = v.token or (j.lease_token is null and v."jobId" is not null))`.execute(
    db,
  )
}

/**
 * Creates a job of one lookup from an asynchronous answer (202) to a synchronous call; it waits for its delivery like
 * any other job. It counts as an attempt: a service that accepts and never delivers would be called without end.
 */
export async function createFromAsyncAnswer(
  db: Connection,
  lookup: { readonly id: number; readonly token: string },
  jobId: string | null,
  run: number | null,
  deadlineMs: number,
): Promise<void> {
  await sql`
    with made as (
      insert into fillrate.jobs (key, job_id, state, reason, size, is_async_answer, run_id, scope, lookup_ids, submitted_at, deadline_at)
      select gen_random_uuid(), ${jobId}, 'submitted', 'a single lookup, accepted for later', 1, true, ${run},
             (select scope from fillrate.runs where id = ${run}),
             array[l.id], now(), now() + ${intervalSql(deadlineMs)}
        from fillrate.lookups l
       where l.id = ${lookup.id} and l.state = 'leased' and l.lease_token = ${lookup.token}
      returning key
    )
    update fillrate.lookups l
       set state = 'submitted', job_key = made.key, sync_only = true, attempts = l.attempts + 1, requested_at = now(),
           lease_token = null, leased_until = null
      from made where l.id = ${lookup.id}`.execute(db)
}

/** Marks jobs in doubt whose process died while submitting: they may or may not have arrived. @returns how many */
export async function markAbandonedInDoubt(db: Connection): Promise<number> {
  const result = await sql`
    update fillrate.jobs
       set state = 'in_doubt', reason = 'its process died while submitting it', lease_token = null,
           leased_until = null
     where state = 'submitting' and leased_until < now()`.execute(db)
  return Number(result.numAffectedRows ?? 0)
}

/**
 * Rejects jobs that the service certainly did not accept and whose run is no longer running: nothing would submit them
 * again, and their deadline is too far to wait for. @returns their ids
 */
export async function cancelUnsubmitted(db: Connection, limit: number): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    with untaken as (
      select j.key from fillrate.jobs j left join fillrate.runs r on r.id = j.run_id
       where j.state = 'submitting' and j.lease_token is null and r.state is distinct from 'running'
       order by j.created_at limit ${limit} for no key update of j skip locked
    )
    update fillrate.jobs j
       set state = 'rejected', not_before = null, finished_at = now(),
           reason = 'its run ended before the service accepted it' || coalesce(': ' || j.reason, '')
      from untaken where j.key = untaken.key
    returning j.key as id`.execute(db)
  return rows.map((row) => row.id)
}

/** Expires jobs whose delivery did not come before the deadline. @returns their ids */
export async function expireJobs(db: Connection, limit: number): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    with late as (
      select key from fillrate.jobs
       where state in ('submitted', 'in_doubt') and deadline_at < now()
       order by deadline_at limit ${limit} for no key update skip locked
    )
    update fillrate.jobs j
       set state = 'expired', finished_at = now(),
           reason = case when j.state = 'in_doubt' then 'no delivery before the deadline; it is unknown whether it was submitted'
                         else 'no delivery before the deadline' end
      from late where j.key = late.key
    returning j.key as id`.execute(db)
  return rows.map((row) => row.id)
}

export interface StoredJob {
  readonly key: string
  readonly job_id: string | null
  readonly state: JobState
  readonly reason: string | null
  readonly size: number
  readonly attempts: number
  readonly run: number | null
  readonly created_at: Date
  readonly submitted_at: Date | null
  readonly deadline_at: Date
  readonly finished_at: Date | null
}

/** The latest jobs, newest first, in any state or in one. */
export async function listJobs(db: Connection, limit: number, state: JobState | null): Promise<StoredJob[]> {
  const { rows } = await sql<StoredJob>`
    select key, job_id, state, reason, size, attempts, run_id as run, created_at, submitted_at, deadline_at, finished_at
      from fillrate.jobs where ${state === null ? sql`true` : sql`state = ${state}`}
     order by created_at desc, key limit ${limit}`.execute(db)
  return rows
}

/** How many jobs of a run, or of all runs, are in each state. */
export async function countJobStates(
  db: Connection,
  run: number | null,
): Promise<Partial<Record<JobState, number>>> {
  const { rows } = await sql<{ state: JobState; count: number }>`
    select state, count(*) as count from fillrate.jobs
     where ${run === null ? sql`true` : sql`run_id = ${run}`} group by state`.execute(db)
  return Object.fromEntries(rows.map((row) => [row.state, row.count]))
}

export interface LockedJob {
  readonly id: string
  readonly state: JobState
  /** A living process is submitting it. */
  readonly held: boolean
  /** Members that still wait for their result. */
  readonly open: number
}

/** Locks a job, found by our key or by the service's id, so that no delivery completes it meanwhile. */
export async function lockJob(tx: Tx, id: string): Promise<LockedJob | null> {
  const { rows } = await sql<LockedJob>`
    select j.key as id, j.state, j.lease_token is not null and j.leased_until > now() as held,
           (select count(*) from fillrate.lookups l where l.job_key = j.key and l.state = 'submitted') as open
      from fillrate.jobs j where j.key::text = ${id.toLowerCase()} or j.job_id = ${id}
     order by j.created_at desc limit 1 for no key update of j`.execute(tx)
  return rows[0] ?? null
}

/** Expires a job before its deadline. */
export async function expireJobNow(tx: Tx, id: string, reason: string): Promise<void> {
  await sql`
    update fillrate.jobs
       set state = 'expired', reason = ${reason}, finished_at = now(), lease_token = null, leased_until = null,
           not_before = null
     where key = ${id}`.execute(tx)
}

/** Makes a job that the service did not accept due now, without the rest of its backoff. */
export async function submitJobNow(tx: Tx, id: string): Promise<void> {
  await sql`update fillrate.jobs set not_before = now() where key = ${id}`.execute(tx)
}

/** Releases jobs under a token that were certainly not submitted: they are due at once. */
export async function releaseJobs(db: Connection, token: string): Promise<void> {
  await sql`
    update fillrate.jobs set lease_token = null, leased_until = null, not_before = now()
     where state = 'submitting' and lease_token = ${token}`.execute(db)
}
