import { type InferResult, sql } from 'kysely'
import type { RunState, StoredRunOptions, Trigger } from '../domain/run.ts'
import type { TroubleCode } from '../domain/trouble.ts'
import { readVersion } from '../util/version.ts'
import type { Database } from './open.ts'
import { anyOf, fromNow, intervalSql, NOW } from './sql.ts'
import { whileSupported } from './supported-version.ts'
import type { Connection } from './transaction.ts'

/** Runs, newest first. */
function selectRuns(db: Connection) {
  const runs = db.selectFrom('fillrate.runs').orderBy('id', 'desc')
  const described = runs.select(['id', 'trigger', 'sources', 'options', 'state', 'reason'])
  return described.select(['started_at', 'finished_at', 'cancelled_by', 'totals', 'version'])
}

export type StoredRun = InferResult<ReturnType<typeof selectRuns>>[number]

/**
 * Inserts a run, leased by `token` for `leaseMs` milliseconds: while the lease is extended, other runs leave its rows
 * alone. Runs with the same `budgetName` spend from one budget. Repeated with the same token, it returns the same run: the
 * first answer may have been lost.
 * @throws UnusableSchemaError
 */
export async function insertRun(
  db: Database,
  run: {
    readonly trigger: Trigger
    readonly sources: readonly string[]
    readonly options: StoredRunOptions
    readonly owner: string
    readonly token: string
    readonly leaseMs: number
    readonly budgetName?: string | null
    /** The service and key that it calls with; null if it makes no calls. */
    readonly scope?: string | null
    readonly service?: number
    /** The first of the runs that it is started with. Default: it is alone, or the first. */
    readonly group?: number | null
  },
): Promise<number> {
  const { budgetName = null, scope = null, service = 0, group = null } = run
  const insert = sql<{ id: number }>`
    with budget as (
      insert into fillrate.budgets (name) select ${budgetName}::text where ${budgetName}::text is not null
      on conflict (name) do nothing
    ), existing as (
      select id from fillrate.runs where state = 'running' and lease_token = ${run.token}
    ), inserted as (
      insert into fillrate.runs (trigger, sources, options, state, owner, lease_token, leased_until, budget_name,
                                 scope, service_id, group_id, version)
      select ${run.trigger}, ${[...run.sources]}::text[], ${JSON.stringify(run.options)}::jsonb, 'running',
             ${run.owner}, ${run.token}::uuid, now() + ${intervalSql(run.leaseMs)}, ${budgetName}::text, ${scope}::text,
             ${service}::smallint, ${group}::bigint, ${readVersion()}::text
       where not exists (select from existing)
      returning id
    )
    select id from existing union all select id from inserted`
  const { rows } = await whileSupported(db, (tx) => insert.execute(tx))
  const id = rows[0]?.id
  if (id === undefined) throw new Error('inserting the run returned no row')
  return id
}

/** Makes a run the first of a group. */
export async function beginGroup(db: Connection, run: number): Promise<void> {
  await db.updateTable('fillrate.runs').set({ group_id: run }).where('id', '=', run).execute()
}

/**
 * Extends a run's lease: its heartbeat.
 * @param scope the process's current one: it changes when the service rejects a key and the next one is used
 * @returns who has cancelled the run, if anyone; null if the lease is lost: another process has declared the run dead
 */
export async function extendRunLease(
  db: Connection,
  run: number,
  token: string,
  leaseMs: number,
  scope: string | null = null,
): Promise<{ readonly cancelledBy: string | null } | null> {
  const set = { leased_until: fromNow(leaseMs), ...(scope !== null && { scope }) }
  const extended = updateHeld(db, run, token).where('state', '=', 'running').set(set)
  return (await extended.returning('cancelled_by as cancelledBy').executeTakeFirst()) ?? null
}

const updateHeld = (db: Connection, run: number, token: string) =>
  db.updateTable('fillrate.runs').where('id', '=', run).where('lease_token', '=', token)

/** The reason of a run whose lease expired. */
const EXPIRED_REASON_SQL = sql<string>`coalesce('cancelled by ' || cancelled_by || '; ', '') || 'its process died'`

/**
 * Cancels a running run, and with the first of a group all of it: its process reads this with its next heartbeat and closes it. One whose process is dead is
 * closed here. The first one to cancel a run is recorded.
 * @returns false if no such run is running
 */
export async function cancelRunningRun(db: Connection, run: number, by: string): Promise<boolean> {
  const result = await sql`
    update fillrate.runs
       set cancelled_at = coalesce(cancelled_at, now()), cancelled_by = coalesce(cancelled_by, ${by}::text),
           state = case when leased_until > now() then state else 'interrupted' end,
           finished_at = case when leased_until > now() then null else now() end,
           reason = case when leased_until > now() then reason
                       else 'cancelled by ' || coalesce(cancelled_by, ${by}::text) || '; its process died' end
     where (id = ${run} or group_id = ${run}) and state = 'running'`.execute(db)
  return (result.numAffectedRows ?? 0n) > 0n
}

/** Those of these runs that are cancelled. */
export async function listCancelled(db: Connection, ids: readonly number[]): Promise<number[]> {
  const runs = db.selectFrom('fillrate.runs').select('id').where('id', '=', anyOf(ids))
  return (await runs.where('cancelled_at', 'is not', null).execute()).map((row) => row.id)
}

/** Records that the process of these runs calls with another key from now on. */
export async function updateRunScope(db: Connection, ids: readonly number[], scope: string): Promise<void> {
  const runs = db.updateTable('fillrate.runs').where('id', '=', anyOf(ids)).where('state', '=', 'running')
  await runs.set({ scope }).execute()
}

/** Records that all rows are picked: emails that do not fill a job may go as synchronous calls now. */
export async function markPicked(db: Connection, run: number, token: string): Promise<void> {
  await updateHeld(db, run, token).set({ picking_finished_at: NOW }).execute()
}

/** Finishes a run. @returns false if its lease is lost */
export async function closeRun(
  db: Connection,
  run: number,
  token: string,
  end: {
    readonly state: Exclude<RunState, 'running'>
    readonly reason: string | null
    readonly totals: object
    /** The trouble for which it failed, if there is one. */
    readonly failedFor?: TroubleCode | null
  },
): Promise<boolean> {
  const { state, reason, totals, failedFor: failed_for = null } = end
  const set = { state, reason, totals: JSON.stringify(totals), failed_for, finished_at: NOW }
  const closed = updateHeld(db, run, token).where('state', '=', 'running').set(set)
  return (await closed.executeTakeFirst()).numUpdatedRows === 1n
}

export interface RunningRun {
  readonly id: number
  readonly trigger: Trigger
  readonly options: StoredRunOptions
  readonly picking: boolean
  /** The service and the key that it calls with; null: it makes no calls. */
  readonly scope: string | null
  readonly service: number
  /** The first of the runs that it was started with, one for each service; null: it is alone. */
  readonly group: number | null
}

/**
 * Runs with a live lease, the most urgent first.
 * @param scope only runs of this scope that are not cancelled: the leader makes calls for no other
 */
export async function listRunning(db: Connection, scope: string | null = null): Promise<RunningRun[]> {
  const { rows } = await sql<RunningRun>`
    select id, trigger, options, picking_finished_at is null as picking, scope, group_id as group, service_id as service from fillrate.runs
     where state = 'running' and leased_until > now() and ${scope === null ? sql`true` : sql`scope = ${scope} and cancelled_at is null`}
     order by array_position(array['follow', 'manual', 'schedule', 'backfill'], trigger), id`.execute(db)
  return rows
}

/**
 * Marks runs with an expired lease as interrupted.
 * @param except the process's own runs: after a database outage it may find its own lease expired
 * @returns their ids
 */
export async function interruptExpired(db: Connection, except: readonly number[]): Promise<number[]> {
  const running = db.updateTable('fillrate.runs').where('state', '=', 'running').returning('id')
  const expired = running.where('leased_until', '<', NOW).where('id', '<>', sql<number>`all(${except})`)
  const set = { state: 'interrupted', reason: EXPIRED_REASON_SQL, finished_at: NOW } as const
  return (await expired.set(set).execute()).map((row) => row.id)
}

/** The scopes of runs that ran at the same time as this one, with another service or key. */
export async function listOtherScopes(db: Connection, run: number): Promise<string[]> {
  const { rows } = await sql<{ scope: string }>`
    select distinct o.scope from fillrate.runs me join fillrate.runs o on o.id <> me.id and o.scope <> me.scope
       and (me.group_id is null or o.group_id is distinct from me.group_id)
     where me.id = ${run} and coalesce(o.finished_at, o.leased_until) > me.started_at
     order by o.scope`.execute(db)
  return rows.map((row) => row.scope)
}

/** The latest runs, newest first, in any state or in one. */
export async function listRuns(
  db: Connection,
  limit: number,
  state: RunState | null = null,
): Promise<StoredRun[]> {
  const runs = selectRuns(db).limit(limit)
  return (state === null ? runs : runs.where('state', '=', state)).execute()
}

/** Runs by their ids, newest first; those that were deleted are missing. */
export const findRuns = (db: Connection, ids: readonly number[]): Promise<StoredRun[]> =>
  selectRuns(db).where('id', '=', anyOf(ids)).execute()

/** A run by its id, and whether its process is alive. Null if there is none. */
export async function findRun(db: Connection, id: number): Promise<LivingRun | null> {
  return (await selectLivingRuns(db).where('id', '=', id).executeTakeFirst()) ?? null
}

/** A run with its place among those that were started together, one for each service. Absent: it is alone. */
export type GroupedRun = StoredRun & {
  /** The first run of the group. */
  readonly group?: number
  readonly service?: string
}

/** The same runs with their groups. */
export async function withGroups<Run extends StoredRun>(
  db: Connection,
  runs: readonly Run[],
): Promise<(Run & GroupedRun)[]> {
  const { rows } = await sql<{ id: number; group: number; service: string }>`
    select r.id, r.group_id as "group", coalesce(s.name, s.host, '') as service
      from fillrate.runs r left join fillrate.services s on s.id = r.service_id
     where r.id = any(${runs.map(({ id }) => id)}::bigint[]) and r.group_id is not null`.execute(db)
  const places = new Map(rows.map(({ id, group, service }) => [id, { group, service }]))
  return runs.map((run) => ({ ...run, ...places.get(run.id) }))
}

/** The others of a group, by the first of its runs, oldest first. */
export const listGroup = (db: Connection, first: number): Promise<LivingRun[]> =>
  selectLivingRuns(db)
    .clearOrderBy()
    .orderBy('id')
    .where('group_id', '=', first)
    .where('id', '<>', first)
    .execute()

/** A run, and whether its process is alive. */
export type LivingRun = StoredRun & { readonly alive: boolean }

const IS_ALIVE_SQL = sql<boolean>`state = 'running' and leased_until > now()`

export const selectLivingRuns = (db: Connection) =>
  selectRuns(db).select((run) => run.case().when(IS_ALIVE_SQL).then(true).else(false).end().as('alive'))
