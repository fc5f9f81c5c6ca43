import { sql } from 'kysely'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import { JOB_SIZE, type JobFields, type JobState } from '../domain/job.ts'
import type { CallCost } from '../domain/lookup.ts'
import { readStoredInputs } from '../domain/service/job-inputs.ts'
import type { JobInputs } from '../domain/service/messages.ts'
import {
  budgetSql,
  isPaidSql,
  lockBudget,
  mostOfKindsSql,
  paidSql,
  roomSql,
  type Bounding,
} from './budgets.ts'
import type { Database } from './open.ts'
import { addSpendSql, countCallsSql } from './spend.ts'
import { intervalSql, isTrue, jsonBatch, readOne } from './sql.ts'
import { hasResultsSql, isHeldSql, isOpenMemberSql } from './terms.ts'
import { inTransaction, type Connection, type Tx } from './transaction.ts'
import { claimPendingSql, hasPendingSql, type RunService } from './pending-lookups.ts'

interface Submittable {
  /** For each route whether enough lookups are pending. */
  readonly hasNew: boolean[]
  /** A job that the service did not accept is due again. */
  readonly hasRetries: boolean
}

/**
 * What a run has to submit to a service.
 * @param routes the kinds of lookups that go in one job, and how many of them are enough
 */
export function findSubmittable(
  db: Connection,
  of: RunService,
  routes: readonly { readonly kinds: readonly LookupKind[]; readonly least: number }[],
): Promise<Submittable> {
  const hasNew = routes.map(({ kinds, least }) => hasPendingSql(of, kinds, least))
  const submittable = sql<Submittable>`
    select array[${sql.join(hasNew)}]::boolean[] as "hasNew",
           exists (select from fillrate.jobs
                    where state = 'submitting' and lease_token is null and not_before <= now() and run_id = ${of.run} and service_id = ${of.service}) as "hasRetries"`
  return readOne(db, submittable)
}

export interface OutgoingJob extends JobInputs {
  readonly id: string
  readonly attempts: number
  readonly run: number | null
}

/** A job with its inputs as they are stored, in their order. */
type StoredJob = Omit<OutgoingJob, keyof JobInputs> & { readonly stored: Record<string, string>[] }

const toOutgoingJob = ({ stored, ...job }: StoredJob): OutgoingJob => ({
  ...job,
  ...readStoredInputs(stored),
})

/**
 * Creates jobs from a run's pending lookups and commits before the call, so that a delivery finds its job whatever
 * happens to the call.
 * @param ids one per job, and so the maximum number of jobs
 * @param least creates no job with fewer members than this
 */
export async function createJobs(db: Database, options: JobOptions): Promise<OutgoingJob[]> {
  if (!options.isBounded) return insertJobs(db, options)
  return inTransaction(db, async (tx) => {
    await lockBudget(tx, options.run)
    return insertJobs(tx, options)
  })
}

interface JobOptions extends RunService, Bounding {
  readonly ids: readonly string[]
  /** What a job may carry. Default: emails. */
  readonly kinds?: readonly LookupKind[]
  readonly least: number
  readonly token: string
  readonly leaseMs: number
  readonly deadlineMs: number
  /** Members of a full job. Default: 100. */
  readonly size?: number
}

async function insertJobs(db: Connection, options: JobOptions): Promise<OutgoingJob[]> {
  const { run, service, ids, kinds = ['email'], least, token, leaseMs, deadlineMs, size = JOB_SIZE } = options
  const { isBounded = false } = options
  const keys = sql`(${[...ids]}::uuid[])`
  const { rows } = await sql<StoredJob>`
    with ${isBounded ? sql`${budgetSql(sql`r.id = ${run} and r.state = 'running'`)}, ${roomSql(service)},` : sql``}
    claimed as (
      select c.*,
             row_number() over () as n,
             count(*) over () as total
        from (${claimPendingSql({
          run,
          service,
          limit: sql`${ids.length * size}::integer`,
          bulk: [{ kinds, isTaken: sql`true` }],
          single: null,
          ...(isBounded && { condition: isPaidSql(service, sql`l.kind`) }),
        })}) c
    ), paid as (${isBounded ? paidSql(service) : sql`select * from claimed`}
    ), expected as materialized (
      select ${mostOfKindsSql(service, options)} as most
    ), chosen as materialized (
      -- What waits beside them decides whether they are enough for a job, and not what a budget leaves.
      select id,
             tid,
             ${keys}[part + 1] as key,
             source,
             coalesce((most ->> kind)::numeric, 1) as credits,
             input
        from (
          select *,
                 (row_number() over (order by n) - 1) / ${size}::integer as part
            from paid
        ) numbered
       cross join expected
       where total - part * ${size}::integer >= ${Math.min(least, size)}::integer
    ), job as materialized (
      select key,
             min(id) as first,
             count(*) as size,
             array_agg(id) as lookup_ids,
             json_agg(input) as inputs
        from chosen
       group by key
    ), of_source as (
      select key,
             jsonb_object_agg(source, members) as members,
             jsonb_object_agg(source, credits) as credits
        from (
          select key,
                 coalesce(source, '') as source,
                 count(*) as members,
                 sum(credits) as credits
            from chosen
           group by 1, 2
        ) s
       group by key
    ), made as (
      insert into fillrate.jobs
             (key, service_id, state, size, run_id, scope, lookup_ids, is_company, members_by_source, credits_by_source, most, lease_token,
              leased_until, deadline_at)
      select key, ${service}::smallint, 'submitting', size, ${run}, (select scopes ->> ${service}::text from fillrate.runs where id = ${run}), lookup_ids,
             ${kinds.includes('domain')}::boolean,
             members,
             credits,
             (select most from expected),
             ${token},
             now() + ${intervalSql(leaseMs)},
             now() + ${intervalSql(deadlineMs)}
        from job join of_source using (key)
    ), moved as (
      update fillrate.lookups l
         set state = 'submitted', job_key = chosen.key, requested_at = now()
        from chosen where l.ctid = chosen.tid
    )
    select key as id, 1 as attempts, ${run}::bigint as run, inputs as stored from job
     order by first`.execute(db)
  return rows.map(toOutgoingJob)
}

/**
 * Leases jobs of a run and service that the service certainly did not accept and that are due again. What was erased meanwhile leaves its
 * job: results that come by their place are those of the inputs that are sent now.
 */
export async function leaseJobsForRetry(
  db: Connection,
  options: RunService & {
    readonly limit: number
    readonly token: string
    readonly leaseMs: number
  },
): Promise<OutgoingJob[]> {
  const { rows } = await sql<StoredJob>`
    with ready as (
      select key, lookup_ids from fillrate.jobs
       where state = 'submitting' and lease_token is null and not_before <= now() and run_id = ${options.run} and service_id = ${options.service}
       order by created_at limit ${options.limit} for no key update skip locked
    ), kept as (
      select ready.key, array_agg(l.id order by m.n) as lookup_ids, json_agg(l.input order by m.n) as inputs
        from ready cross join lateral unnest(ready.lookup_ids) with ordinality m (id, n)
        join fillrate.lookups l on l.id = m.id group by ready.key
    ), emptied as (
      update fillrate.jobs j
         set state = 'rejected', reason = 'its inputs were erased', not_before = null, finished_at = now()
        from ready where j.key = ready.key and ready.key not in (select key from kept)
    ), leased as (
      update fillrate.jobs j
         set lookup_ids = kept.lookup_ids, size = cardinality(kept.lookup_ids),
             lease_token = ${options.token}, leased_until = now() + ${intervalSql(options.leaseMs)},
             deadline_at = greatest(j.deadline_at, now() + ${intervalSql(options.leaseMs)})
        from kept where j.key = kept.key
      returning j.key as id, j.attempts, j.run_id as run, kept.inputs as stored
    )
    select * from leased`.execute(db)
  return rows.map(toOutgoingJob)
}

export interface SubmittedJob extends JobFields {
  readonly id: string
  readonly token: string
  /** Missing: nothing was sent. The lookups of an accepted job, and of one in doubt, are counted by its state. */
  readonly call?: Exclude<CallCost, 'billed'> | undefined
  /** It may have been accepted and billed although the service said that it was not. */
  readonly mayBeBilled?: boolean
  /** Until when its results are awaited, if that is later than was known before the call. */
  readonly deadlineAt?: Date | null
  /** When it is fetched first. */
  readonly pollAt?: Date | null
}

/** Records the results of submissions. A job whose delivery came first keeps its state and gets its identifier. */
export async function recordJobSubmissions(db: Connection, jobs: readonly SubmittedJob[]): Promise<void> {
  if (jobs.length === 0) return
  await sql`
    with recorded as (
    update fillrate.jobs j
       set state = case when j.state in ('submitting', 'in_doubt') then v.state else j.state end,
           reason = case when j.state in ('submitting', 'in_doubt') then v.reason else j.reason end,
           finished_at = case when j.state in ('submitting', 'in_doubt') then v."finishedAt" else j.finished_at end,
           job_id = coalesce(v."jobId", j.job_id), request_ids = coalesce(v."requestIds", j.request_ids),
           deadline_at = greatest(j.deadline_at, v."deadlineAt"), poll_at = v."pollAt",
           attempts = v.attempts, not_before = v."notBefore", submitted_at = coalesce(v."submittedAt", j.submitted_at),
           lease_token = null, leased_until = null
      from jsonb_to_recordset(${jsonBatch(jobs)}) as v
           (id uuid, token uuid, state text, reason text, "jobId" text, "requestIds" jsonb, attempts integer,
            "notBefore" timestamptz,
            "submittedAt" timestamptz,
            "finishedAt" timestamptz,
            call text,
            "mayBeBilled" boolean,
            "deadlineAt" timestamptz,
            "pollAt" timestamptz)
     where j.key = v.id and (j.lease_token = v.token or (j.lease_token is null and v."jobId" is not null))
    -- A job that a delivery has reached is not in doubt.
    returning coalesce(j.run_id, 0) as run_id,
              j.service_id,
              j.is_company,
              j.members_by_source,
              j.credits_by_source,
              v.call,
              v."mayBeBilled" and j.state = v.state as "mayBeBilled"
    )
    ${addSpendSql(
      {
        calls: sql`count(*) filter (where n = 1 and endpoint = 'bulk')`,
        retried: sql`count(*) filter (where n = 1 and call = 'retried' and endpoint = 'bulk')`,
        throttled: sql`count(*) filter (where n = 1 and call = 'throttled' and endpoint = 'bulk')`,
        in_doubt: sql`coalesce(sum(size::bigint) filter (where "mayBeBilled" and (endpoint = 'company') = is_company), 0)`,
        credits_in_doubt: sql`coalesce(sum((credits_by_source ->> source)::numeric) filter (where "mayBeBilled" and (endpoint = 'company') = is_company), 0)`,
      },
      sql`from (
        select recorded.*, (now() at time zone 'UTC')::date as day, m.source, m.size, m.n, e.endpoint
          from recorded cross join lateral jsonb_each_text(members_by_source) with ordinality as m (source, size, n)
         cross join lateral unnest(case when is_company then array['bulk', 'company'] else array['bulk'] end) as e (endpoint)
         where call is not null) part`,
    )}`.execute(db)
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
  pollAt: Date | null = null,
): Promise<void> {
  await sql`
    with made as (
      insert into fillrate.jobs (key, service_id, job_id, state, reason, size, is_async_answer, run_id, scope, lookup_ids, most, submitted_at, deadline_at, poll_at)
      select gen_random_uuid(), l.service_id, ${jobId}, 'submitted', 'a single lookup, accepted for later', 1, true, ${run},
             (select scopes ->> l.service_id::text from fillrate.runs where id = ${run}),
             array[l.id], case when l.most is not null then jsonb_build_object(l.kind, l.most) end, now(), now() + ${intervalSql(deadlineMs)}, ${pollAt}
        from fillrate.lookups l
       where l.id = ${lookup.id} and l.state = 'leased' and l.lease_token = ${lookup.token}
      returning key, lookup_ids[1] as lookup_id, most
    ), stored as (
      select l.run_id, l.service_id, l.source, l.kind, 'billed' as call, 0 as doubt, null::numeric as overrun,
             case when made.most is null then 1 else 0 end as credits, coalesce((made.most ->> l.kind)::numeric, 0) as credits_in_doubt
        from made join fillrate.lookups l on l.id = made.lookup_id
    ), ${countCallsSql}
    update fillrate.lookups l
       set state = 'submitted', job_key = made.key, sync_only = true, attempts = l.attempts + 1, requested_at = now(),
           lease_token = null
      from made where l.id = ${lookup.id}`.execute(db)
}

/**
 * Whether there may be jobs for the four functions that recover them, here and in `job-deliveries.ts`. Mostly there are none, and
 * they sent ten statements every few seconds.
 */
export const hasRecoverableJobs = (db: Connection): Promise<boolean> =>
  isTrue(
    db,
    sql`exists (select from fillrate.jobs where state = 'submitting' and (lease_token is null or not (${isHeldSql()})))
        or exists (select from fillrate.jobs where state in ('submitted', 'in_doubt') and deadline_at < now())
        or exists (select from fillrate.jobs where release_at < now())
        or exists (select from fillrate.deliveries where state = 'partial')`,
  )

/** Marks jobs in doubt whose process died while submitting: they may or may not have arrived. @returns how many */
export async function markAbandonedInDoubt(db: Connection): Promise<number> {
  const { numAffectedRows } = await sql`
    update fillrate.jobs
       set state = 'in_doubt', reason = 'its process died while submitting it', lease_token = null, leased_until = null
     where state = 'submitting' and not (${isHeldSql()})`.execute(db)
  return Number(numAffectedRows ?? 0)
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

/**
 * Expires jobs whose delivery did not come before the deadline. One that is stored and not settled yet is no lost one: its
 * inputs would be requested, and paid, again. @returns their ids
 */
export async function expireJobs(db: Connection, limit: number): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    with late as (
      select key from fillrate.jobs j
       where state in ('submitted', 'in_doubt') and deadline_at < now()
         and not ${hasResultsSql}
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

/** How many jobs of a run, or of all runs, are in each state. */
export async function countJobStates(
  db: Connection,
  run: number,
): Promise<Partial<Record<JobState, number>>> {
  const { rows } = await sql<{ state: JobState; count: number }>`
    select state, count(*) as count from fillrate.jobs where run_id = ${run} group by state`.execute(db)
  return Object.fromEntries(rows.map((row) => [row.state, row.count]))
}

/** Releases jobs under a token that were certainly not submitted: they are due at once. */
export async function releaseJobs(db: Connection, token: string): Promise<void> {
  await sql`
    update fillrate.jobs set lease_token = null, leased_until = null, not_before = now()
     where state = 'submitting' and lease_token = ${token}`.execute(db)
}

// What an operator does with a job.

interface LockedJob {
  readonly id: string
  readonly state: JobState
  /** A living process is submitting it. */
  readonly held: boolean
  readonly hasResults: boolean
  /** Members that still wait for their result. */
  readonly open: number
}

/**
 * Locks the job of our key, or those of the service's id, so that no delivery completes them meanwhile: two services may have given
 * the same one, and a service one again. Newest first, one of each service.
 */
export async function lockJobs(tx: Tx, id: string): Promise<LockedJob[]> {
  const { rows } = await sql<LockedJob & { readonly service: number }>`
    select j.key as id, j.service_id as service, j.state, j.lease_token is not null and ${isHeldSql(sql`j.leased_until`)} as held,
           ${hasResultsSql} as "hasResults", (select count(*) from unnest(j.lookup_ids) as m (id) join fillrate.lookups l on l.id = m.id
             where ${isOpenMemberSql('j.key')}) as open
      from fillrate.jobs j where j.key::text = ${id.toLowerCase()} or j.job_id = ${id}
     order by j.created_at desc for no key update of j`.execute(tx)
  return [...Map.groupBy(rows, ({ service }) => service).values()].flatMap(([newest]) => newest ?? [])
}

/** Gives up jobs before their deadline, or before their results can be read: they expire, or are rejected if the service certainly did not accept them. */
export async function giveUpJobs(tx: Tx, keys: readonly string[], reason: string): Promise<void> {
  await sql`
    update fillrate.jobs
       set state = case when state = 'submitting' then 'rejected' else 'expired' end, reason = ${reason},
           finished_at = now(), lease_token = null, leased_until = null, not_before = null
     where key = any(${[...keys]}::uuid[]) and state in ('submitting', 'submitted', 'in_doubt', 'unread')`.execute(
    tx,
  )
}
