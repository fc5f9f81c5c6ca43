import { type RawBuilder, sql } from 'kysely'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import { type LookupState, RETRY_FAILED_AFTER_MS } from '../domain/lookup.ts'
import type { RunService } from './pending-lookups.ts'
import { countCallsSql } from './spend.ts'
import { intervalSql, jsonBatch, readOne, recordBatch } from './sql.ts'
import {
  ANSWERED_STATES,
  enqueueWriteBackSql,
  IS_LEASED,
  isHeldSql,
  isOpenMemberSql,
  isOrphanedSql,
} from './terms.ts'
import type { Connection, Tx } from './transaction.ts'

export interface LookupSpec {
  readonly kind: LookupKind
  readonly key: string
  readonly input: object
}

export interface UpsertedLookup {
  readonly id: number
  readonly kind: LookupKind
  readonly key: string
  readonly state: LookupState
  /** This run makes the call: the lookup is new, due for a refresh, or was left pending by a dead run. */
  readonly claimed: boolean
}

/** SQL: the lookup `l` has a result that is due for a refresh, or is pending for a run that is no longer running. */
const claimableSql = (runningRuns: readonly number[]) => sql<boolean>`(
  (l.state in (${ANSWERED_STATES}) and l.refresh_at <= now()) or ${isOrphanedSql(runningRuns)})`

/**
 * Creates the lookups of a service that do not exist yet, and claims for `run` and `source` those that need a call. A lookup that a
 * dead run left pending keeps its attempts and the time of its next try.
 * Locks each one until the transaction ends: a result that arrives meanwhile waits, and then sees the new rows.
 */
export async function upsertLookups(
  tx: Tx,
  lookups: readonly LookupSpec[],
  source: string,
  run: number,
  runningRuns: readonly number[],
  service: number,
): Promise<UpsertedLookup[]> {
  if (lookups.length === 0) return []
  // The order of the index, and the same for all: two transactions that insert the same lookups wait for each other in turn.
  const order = sql`v.key collate "C", v.kind collate "C"`
  const { rows } = await sql<UpsertedLookup>`
    with upserted as (
    insert into fillrate.lookups as l (kind, key, service_id, input, state, run_id, source)
    select v.kind, v.key, ${service}, v.input, 'pending', ${run}, ${source}
      from ${recordBatch(lookups, { kind: 'text', key: 'text', input: 'jsonb' })}
     order by ${order}
    on conflict (kind, key, service_id) do update
       set (state, job_key, run_id, source, requested_at, enqueued_at, resolved_at, refresh_at,
            sync_only, input, reason, attempts, not_before, unconfirmed_calls) = (
             select case when is_claimed then 'pending' else l.state end,
                    case when is_claimed then null else l.job_key end,
                    case when is_claimed then excluded.run_id else l.run_id end,
                    case when is_claimed then excluded.source else l.source end,
                    case when is_claimed then null else l.requested_at end,
                    case when is_claimed then now() else l.enqueued_at end,
                    case when is_claimed then null else l.resolved_at end,
                    case when is_claimed then null else l.refresh_at end,
                    case when is_claimed then l.sync_only and l.state = 'pending' else l.sync_only end,
                    case when is_claimed then excluded.input else l.input end,
                    case when is_renewed then null else l.reason end,
                    case when is_renewed then 0 else l.attempts end,
                    case when is_renewed then null else l.not_before end,
                    case when is_renewed then 0 else l.unconfirmed_calls end
               from (select is_claimed, is_claimed and l.state <> 'pending' as is_renewed
                       from (select coalesce(${claimableSql(runningRuns)}, false) as is_claimed offset 0) c) c)
    returning l.id, l.kind, l.key, l.state, l.run_id = ${run} and l.enqueued_at = now() as claimed
    ), ${enqueueWriteBackSql('upserted')}
    select id, kind, key, state, claimed from upserted`.execute(tx)
  return rows
}

/** What is stored of a lookup. */
export interface StoredAnswer {
  /** `upsertLookups` would claim it for a run, so that it costs a call. */
  readonly costs: boolean
  /** Null: the service was never called with it. */
  readonly state: LookupState | null
  readonly confidence: number | null
}

/** What a service has answered to these lookups, in the same order. */
export async function readStoredAnswers(
  db: Connection,
  lookups: readonly LookupSpec[],
  runningRuns: readonly number[],
  service: number,
): Promise<StoredAnswer[]> {
  if (lookups.length === 0) return []
  const { rows } = await sql<StoredAnswer>`
    select l.id is null or coalesce(${claimableSql(runningRuns)}, false) as costs, l.state, l.confidence
      from jsonb_to_recordset(${jsonBatch(lookups.map(({ kind, key }, n) => ({ n, kind, key })))})
           as w (n integer, kind text, key text)
      left join fillrate.lookups l on l.kind = w.kind and l.key = w.key and l.service_id = ${service}
     order by w.n`.execute(db)
  return rows
}

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

/** Makes lookups pending whose lease has expired. @returns how many */
export const releaseExpiredLookups = (db: Connection, limit: number): Promise<number> =>
  releaseInDoubt(db, sql`not (${isHeldSql()}) limit ${limit}`, 'lease expired during a call')

/**
 * Ends the leases of lookups whose result comes another way: what their calls bring is not stored.
 * @param results a FROM item `v` with the column `id`
 * @param condition on the lookup `l` and its result
 */
export const releaseOvertaken = (
  db: Connection,
  results: RawBuilder<unknown>,
  condition: RawBuilder<unknown>,
): Promise<number> =>
  releaseInDoubt(
    db,
    sql`l.id in (select v.id from ${results} where v.id = l.id and ${condition})`,
    'answered during a call',
  )

/** Releases leased lookups whose calls may have been answered and billed: each is counted as in doubt. @returns how many */
async function releaseInDoubt(db: Connection, which: RawBuilder<unknown>, reason: string): Promise<number> {
  const released = sql<{ count: number }>`
    with released as (
      select ctid as tid from fillrate.lookups l
       where ${IS_LEASED} and ${which} for no key update skip locked
    ), stored as (
      update fillrate.lookups l
         set state = 'pending', lease_token = null, unconfirmed_calls = l.unconfirmed_calls + 1, attempts = l.attempts + 1,
             requested_at = least(l.leased_until, now()), reason = ${reason}
        from released where l.ctid = released.tid
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
