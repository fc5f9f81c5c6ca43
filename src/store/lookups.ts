import { type RawBuilder, sql } from 'kysely'
import { Lookup, RETRY_FAILED_AFTER_MS } from '../domain/lookup.ts'
import type { RunService } from './pending-lookups.ts'
import { countCallsSql } from './spend.ts'
import { intervalSql, isHeldSql, readOne } from './sql.ts'
import type { Connection } from './transaction.ts'

/** The states of a lookup that has its result, for `in (…)`. */
export const ANSWERED_STATES = sql.raw(
  [Lookup.found, Lookup.notFound, Lookup.rejected, Lookup.failed].map((state) => `'${state}'`).join(', '),
)

/** SQL: queues those of `lookups` that have a result for write-back. @param lookups a relation of `id` and `state` */
export const enqueueWriteBackSql = (lookups: string): RawBuilder<unknown> => sql`queued as (
      insert into fillrate.answered_lookups select id from ${sql.ref(lookups)} where state in (${ANSWERED_STATES}) order by id
    )`

/** SQL: the lookup `l` still waits for the result of the job with the key in this column. */
export const isOpenMemberSql = (jobKey: string): RawBuilder<boolean> => sql`(
  l.job_key = ${sql.ref(jobKey)} and l.state = 'submitted')`

/** SQL: the lookup `l` is pending, and none of these runs requests it. */
export const isOrphanedSql = (runningRuns: readonly number[]): RawBuilder<boolean> => sql`(
  l.state = 'pending' and (l.run_id is null or l.run_id <> all(${[...runningRuns]}::bigint[])))`

interface SyncRetry {
  readonly reason: string
  /** The service may have processed and billed them already. */
  readonly mayBeBilled: boolean
  /** Attempts after which a lookup fails; null: no limit. */
  readonly attempts: number | null
}

/**
 * Queues members of these jobs that still wait for a result again, once, as synchronous calls. A member that used up its
 * attempts fails: the service accepted it for later again and again and never delivered. @returns how many
 */
export async function requeueSingly(
  tx: Connection,
  jobs: readonly string[],
  retry: SyncRetry,
): Promise<number> {
  if (jobs.length === 0) return 0
  const isFailed = sql`l.attempts >= ${retry.attempts}::integer`
  const queued = sql<{ count: number }>`
    with stored as (
      update fillrate.lookups l
         set state = case when ${isFailed} then 'failed' else 'pending' end, sync_only = true, ${LEFT_JOB},
             reason = case when ${isFailed} then ${retry.reason} || ', ' || l.attempts || case when l.attempts = 1 then ' attempt' else ' attempts' end else ${retry.reason} end,
             unconfirmed_calls = l.unconfirmed_calls + ${retry.mayBeBilled}::boolean::integer, not_before = null,
             resolved_at = case when ${isFailed} then now() end,
             refresh_at = case when ${isFailed} then now() + ${intervalSql(RETRY_FAILED_AFTER_MS)} end
        from ${membersSql(jobs)}
       where l.id = member.id and ${isOpenMemberSql('member.job_key')}
      returning l.id, l.state
    ), ${enqueueWriteBackSql('stored')}
    select count(*) as count from stored`
  return (await readOne(tx, queued)).count
}

/** Queues members of jobs that the service never accepted again, on any route. @returns how many */
export async function requeueMembers(
  tx: Connection,
  jobs: readonly string[],
  reason: string,
): Promise<number> {
  if (jobs.length === 0) return 0
  const { numAffectedRows } = await sql`
    update fillrate.lookups l set state = 'pending', reason = ${reason}, not_before = null, ${LEFT_JOB}
      from ${membersSql(jobs)}
     where l.id = member.id and ${isOpenMemberSql('member.job_key')}`.execute(tx)
  return Number(numAffectedRows ?? 0)
}

/** SQL: the members of jobs. One may belong to another job since. */
const membersSql = (jobs: readonly string[]): RawBuilder<unknown> => sql`(
         select m.id, j.key as job_key, j.created_at from fillrate.jobs j cross join lateral unnest(j.lookup_ids) as m (id)
          where j.key = any(${[...jobs]}::uuid[])) as member`

/** SQL: the inputs of the job `j` as they are stored, in the order of submission; null for one that was erased. */
export const memberInputsSql = sql<readonly (Record<string, string> | null)[]>`(
  select coalesce(json_agg(l.input order by m.n), '[]')
    from unnest(j.lookup_ids) with ordinality m (id, n) left join fillrate.lookups l on l.id = m.id)`

/** SQL: what a lookup that leaves its job is given. */
const LEFT_JOB = sql`job_key = null, requested_at = coalesce(l.requested_at, member.created_at)`

/** Adds one unconfirmed call to the members of jobs that are submitted again: the first submission may have been billed. */
export async function addUnconfirmedCalls(tx: Connection, jobs: readonly string[]): Promise<void> {
  if (jobs.length === 0) return
  await sql`
    update fillrate.lookups l set unconfirmed_calls = l.unconfirmed_calls + 1
      from ${membersSql(jobs)}
     where l.id = member.id and ${isOpenMemberSql('member.job_key')}`.execute(tx)
}

/** SQL: the lookup is leased. Without statistics Postgres takes half of all for leased, and of a range of runs few. */
export const IS_LEASED = sql<boolean>`is_leased and run_id between 1 and ${sql.lit(Number.MAX_SAFE_INTEGER)}`

/**
 * Makes lookups pending whose lease has expired. Their calls may have been answered and billed: each is counted as in doubt.
 * @returns how many
 */
export async function releaseExpiredLookups(db: Connection, limit: number): Promise<number> {
  const released = sql<{ count: number }>`
    with expired as (
      select ctid as tid from fillrate.lookups
       where ${IS_LEASED} and not (${isHeldSql()})
       limit ${limit} for no key update skip locked
    ), stored as (
      update fillrate.lookups l
         set state = 'pending', lease_token = null, unconfirmed_calls = l.unconfirmed_calls + 1, attempts = l.attempts + 1,
             requested_at = least(l.leased_until, now()), reason = 'lease expired during a call'
        from expired where l.ctid = expired.tid
      returning l.run_id, l.service_id, l.kind, l.source, 'retried' as call, 1 as doubt, 0 as credits,
                coalesce(l.most, 1) as credits_in_doubt, null::numeric as overrun
    ), ${countCallsSql}
    select count(*) as count from stored`
  return (await readOne(db, released)).count
}

/** Lookups per statement. */
const ADOPT_BATCH_SIZE = 1_000

/**
 * Moves lookups that dead runs left pending, and that this run's rows need, to this run. Whether its budget pays them is decided where
 * they are leased.
 * @returns how many
 */
export async function adoptLookups(
  db: Connection,
  { run, service }: RunService,
  runningRuns: readonly number[],
): Promise<number> {
  const orphaned = isOrphanedSql(runningRuns)
  const { numAffectedRows } = await sql`
    with orphan as (
      select distinct on (l.id) l.id, r.source
        from fillrate.rows r join fillrate.lookups l on l.id = r.lookup_id
       where r.run_id = ${run} and r.state = 'waiting' and l.service_id = ${service} and ${orphaned}
       order by l.id, r.source limit ${ADOPT_BATCH_SIZE}
    )
    update fillrate.lookups l set run_id = ${run}, source = orphan.source, requested_at = null
      from orphan where l.id = orphan.id and ${orphaned}`.execute(db)
  return Number(numAffectedRows ?? 0)
}
