import { sql, type RawBuilder } from 'kysely'
import { REQUEST_LIFETIME_MS, RESUME_LIFETIME_MS, type RunSpec } from '../domain/run.ts'
import { MAX_ATTEMPTS, QUEUED_REASON } from '../domain/schedule.ts'
import type { Database } from './open.ts'
import { intervalSql, jsonBatch, readOne } from './sql.ts'
import { isHeldSql } from './terms.ts'
import { inTransaction, type Connection } from './transaction.ts'

/** Postgres's clock in milliseconds since the epoch, which all processes share. */
export async function readDatabaseTime(db: Database): Promise<number> {
  const time = sql<{ now: number }>`select (extract(epoch from clock_timestamp()) * 1000)::float8 as now`
  return Math.floor((await readOne(db, time)).now)
}

/** The latest recorded time of each schedule up to `now`; ignores later ones, recorded while a clock was wrong. */
export async function latestScheduledRuns(
  db: Database,
  schedules: readonly string[],
  now: number,
): Promise<Map<string, Date>> {
  const { rows } = await sql<{ schedule: string; at: Date }>`
    select schedule, max(at) as at from fillrate.scheduled_runs
     where schedule = any(${[...schedules]}::text[]) and at <= ${new Date(now)} group by schedule`.execute(db)
  return new Map(rows.map((row) => [row.schedule, row.at]))
}

export interface DueScheduledRun {
  readonly schedule: string
  readonly at: Date
  readonly sources: readonly string[]
  readonly state: 'waiting' | 'skipped'
  readonly reason: string | null
}

/**
 * Records scheduled runs, each once however many processes see it. One that still waits when the next of its schedule
 * comes is skipped: the next one does its work.
 * @returns the new runs, and the runs that were skipped for them
 */
export async function recordScheduledRuns(
  db: Database,
  due: readonly DueScheduledRun[],
): Promise<{ readonly schedule: string; readonly at: Date; readonly skipped: boolean }[]> {
  if (due.length === 0) return []
  const { rows } = await sql<{ schedule: string; at: Date; skipped: boolean }>`
    with due as (
      select * from jsonb_to_recordset(${jsonBatch(due)}) as d
        (schedule text, at timestamptz, sources text[], state text, reason text)
    ), new as (
      insert into fillrate.scheduled_runs (schedule, at, sources, state, reason, finished_at)
      select schedule, at, sources, state, reason, case when state = 'skipped' then now() end from due
      on conflict (schedule, at) do nothing
      returning schedule, at
    ), late as (
      update fillrate.scheduled_runs t
         set state = 'skipped', finished_at = now(), reason = 'the next one was due before it could start'
        from new where t.schedule = new.schedule and t.at < new.at and t.state = 'waiting'
      returning t.schedule, t.at
    )
    select schedule, at, false as skipped from new union all select schedule, at, true from late`.execute(db)
  return rows
}

export interface ClaimedRun {
  readonly schedule: string
  readonly at: Date
  readonly sources: string[]
  readonly attempts: number
  readonly token: string
  /** Null: fired by a schedule. */
  readonly request: StoredRequest | null
}

interface BlockedRun {
  readonly schedule: string
  readonly at: Date
  /** The schedule whose run uses a source of this one. */
  readonly by: string
}

/** Advisory lock: processes claim one after the other, or two might start runs of one source at the same time. */
const CLAIM_LOCK_ID = 4_713_117_285

/**
 * Claims the oldest scheduled or requested run that waits or whose process died. A scheduled one waits for another one
 * that is using one of its sources.
 * @returns the claimed run, and the runs that are blocked now and were not before
 */
export async function claimScheduledRun(
  db: Database,
  options: {
    readonly schedules: readonly string[]
    /** The requests that this process can execute. */
    readonly requests: RequestCapability
    readonly owner: string
    readonly token: string
    readonly leaseMs: number
    /** Whether a run whose lease has expired is taken over. False: its process lives, as far as is known. */
    readonly takesOver: boolean
  },
): Promise<{ readonly claimed: ClaimedRun | null; readonly blocked: BlockedRun[] }> {
  const { schedules, requests, owner, token, leaseMs, takesOver } = options
  const isAliveSql = (run: RawBuilder<unknown>) =>
    takesOver ? isHeldSql(sql`${run}.leased_until`) : sql`true`
  const isOursSql = sql`case when t.request is null then t.schedule = any(${[...schedules]}::text[])
                             else t.sources <@ ${[...requests.sources]}::text[]
                                  and (t.request ->> 'service')::integer in (0, ${requests.service}::integer) end`
  const isClaimableSql = sql`t.at <= now()
    and (t.state = 'waiting' or (t.state = 'running' and not ${isAliveSql(sql`t`)})) and ${isOursSql}`
  // One that was interrupted by a shutdown has a day, for a daemon that is back the next morning.
  const isExpiredSql = sql`(t.request is not null and t.state = 'waiting'
    and t.at < now() - case when t.run_id is null then ${intervalSql(REQUEST_LIFETIME_MS)} else ${intervalSql(RESUME_LIFETIME_MS)} end)`
  const isBlockedBySql = sql`t.request is null and o.request is null and o.state = 'running'
    and ${isAliveSql(sql`o`)} and o.sources && t.sources`
  const { rows: claimable } = await sql`select from fillrate.scheduled_runs t
               where ${isClaimableSql} or ${isExpiredSql} limit 1`.execute(db)
  if (claimable.length === 0) return { claimed: null, blocked: [] }
  return inTransaction(db, async (tx) => {
    await sql`select pg_advisory_xact_lock(${CLAIM_LOCK_ID})`.execute(tx)
    await sql`
      with skipped as (
        update fillrate.scheduled_runs t
           set state = 'skipped', lease_token = null, leased_until = null, finished_at = now(),
               reason = case when t.attempts < ${MAX_ATTEMPTS} then 'no process with its sources executed it in time'
                             else 'started ' || attempts || ' times, and its process died each time' end
         where (${isClaimableSql} and t.attempts >= ${MAX_ATTEMPTS}) or ${isExpiredSql}
        returning t.request, t.reason
      )
      update fillrate.audit_events a set outcome = 'failed', detail = s.reason, finished_at = now()
        from skipped s where a.request_id = (s.request ->> 'id')::uuid`.execute(tx)
    // Its process was stopped or killed before it read that the run is cancelled.
    await sql`
      with cancelled as (
        update fillrate.scheduled_runs t
           set state = 'done', lease_token = null, leased_until = null, finished_at = now(),
               reason = 'interrupted: cancelled by ' || r.cancelled_by
          from fillrate.runs r
         where r.id = t.run_id and r.cancelled_at is not null and ${isClaimableSql}
        returning t.request, t.reason
      )
      update fillrate.audit_events a set outcome = 'interrupted', detail = c.reason, finished_at = now()
        from cancelled c where a.request_id = (c.request ->> 'id')::uuid`.execute(tx)
    const { rows } = await sql<ClaimedRun>`
      update fillrate.scheduled_runs t
         set state = 'running', attempts = attempts + 1, owner = ${owner}, lease_token = ${token},
             leased_until = now() + ${intervalSql(leaseMs)}
       where (t.schedule, t.at) = (
               select t.schedule, t.at from fillrate.scheduled_runs t
                where ${isClaimableSql} and not exists (select from fillrate.scheduled_runs o where ${isBlockedBySql})
                order by t.at, t.schedule limit 1)
      returning schedule, at, sources, attempts, lease_token as token, request`.execute(tx)
    const { rows: blocked } = await sql<BlockedRun>`
      update fillrate.scheduled_runs t set reason = ${QUEUED_REASON}
        from (select distinct on (t.schedule, t.at) t.schedule, t.at, o.schedule as by
                from fillrate.scheduled_runs t join fillrate.scheduled_runs o on ${isBlockedBySql}
               where ${isClaimableSql} and t.reason is distinct from ${QUEUED_REASON}) b
       where t.schedule = b.schedule and t.at = b.at
      returning t.schedule, t.at, b.by`.execute(tx)
    return { claimed: rows[0] ?? null, blocked }
  })
}

type HeldRun = Pick<ClaimedRun, 'schedule' | 'at' | 'token'>

const isHolderSql = ({ schedule, at, token }: HeldRun) =>
  sql<boolean>`schedule = ${schedule} and at = ${at} and lease_token = ${token}`

/** Extends the lease of a scheduled run. @returns false if another process has claimed it */
export async function extendScheduledRun(db: Database, run: HeldRun, leaseMs: number): Promise<boolean> {
  const result = await sql`
    update fillrate.scheduled_runs set leased_until = now() + ${intervalSql(leaseMs)}
     where ${isHolderSql(run)}`.execute(db)
  return result.numAffectedRows === 1n
}

/** Records which run a scheduled or requested run has started. */
export async function attachRun(db: Database, scheduled: HeldRun, run: number): Promise<void> {
  await sql`
    with attached as (
      update fillrate.scheduled_runs set run_id = ${run} where ${isHolderSql(scheduled)} returning request
    )
    update fillrate.audit_events a set run_id = ${run}
      from attached where a.request_id = (attached.request ->> 'id')::uuid`.execute(db)
}

/**
 * Marks a scheduled run as done. For a requested one, the outcome is added to the audit list in the same statement.
 * @param outcome of a requested run
 */
export async function endScheduledRun(
  db: Database,
  run: HeldRun,
  reason: string | null,
  outcome: 'done' | 'interrupted' | 'failed' = 'done',
): Promise<void> {
  await sql`
    with ended as (
      update fillrate.scheduled_runs
         set state = 'done', reason = ${reason}, lease_token = null, leased_until = null, finished_at = now()
       where ${isHolderSql(run)} returning request
    )
    update fillrate.audit_events a set outcome = ${outcome}, detail = ${reason}, finished_at = now()
      from ended where a.request_id = (ended.request ->> 'id')::uuid`.execute(db)
}

/** Releases a scheduled run, to be finished by another process or after a restart. */
export async function releaseScheduledRun(db: Database, run: HeldRun): Promise<void> {
  await sql`
    update fillrate.scheduled_runs
       set state = 'waiting', reason = 'interrupted; to be finished', lease_token = null, leased_until = null,
           attempts = attempts - 1
     where ${isHolderSql(run)}`.execute(db)
}

// Requested runs are scheduled runs with a `request`: claimed, leased, released and finished by the same statements.
// Unlike those of a schedule they wait for no other run of their sources, as `fillrate run` does not either.

/** A run that was requested on the dashboard, as it is stored. */
export interface StoredRequest {
  readonly id: string
  readonly work: RunSpec
  /** Who requested it. */
  readonly by: string
}

/** The schedule's name of a request, which is unique. */
const scheduleOf = (id: string): string => `request ${id}`

/**
 * Stores a request, to be claimed by a process that can execute it.
 * @param service the service that the requesting process calls; 0 if it calls none: any will do
 * @returns false if this request is stored already
 */
export async function insertRequest(
  db: Connection,
  { id, work, by }: StoredRequest,
  service: number,
): Promise<boolean> {
  // `at` is part of the key, and a Date holds milliseconds.
  const result = await sql`
    insert into fillrate.scheduled_runs (schedule, at, sources, state, request)
    values (${scheduleOf(id)}, date_trunc('milliseconds', now()), ${[...work.sources]}::text[], 'waiting',
            ${JSON.stringify({ id, work, by, service })}::jsonb)
    on conflict (schedule) where request is not null do nothing`.execute(db)
  return result.numAffectedRows === 1n
}

/** What a process can execute. */
export interface RequestCapability {
  /** The sources of its configuration. */
  readonly sources: readonly string[]
  /** The service that it calls; 0 if none. */
  readonly service: number
}
