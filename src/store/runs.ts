import { type InferResult, sql } from 'kysely'
import type { ConditionKind } from '../domain/condition.ts'
import { ROW_STATES, type RowState } from '../domain/row.ts'
import type { RunState, StoredRunOptions, Trigger } from '../domain/run.ts'
import { readVersion } from '../util/version.ts'
import type { RunBound } from './budgets.ts'
import type { Database } from './open.ts'
import type { RowStateCounts } from './rows.ts'
import { fromNow, intervalSql, NOW } from './sql.ts'
import { hasResultsSql, IS_RUNNING, isHeldSql } from './terms.ts'
import { type Connection, whileSupported } from './transaction.ts'

/** The services that a run calls, by number, each with the host and the key that it is called with. */
export type Scopes = Readonly<Record<string, string>>

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
    /** What it may spend. Default: anything. */
    readonly bound?: RunBound | null
    /** The services that it calls, and with which key. Default: none. */
    readonly scopes?: Scopes
    /** Services to which rows go on from one before. Default: none. */
    readonly gathering?: readonly number[]
  },
): Promise<number> {
  const { budgetName = null, bound = null, scopes = {}, gathering = [] } = run
  const insert = sql<{ id: number }>`
    with existing as (
      select id from fillrate.runs where state = 'running' and lease_token = ${run.token}
    ), inserted as (
      insert into fillrate.runs (trigger, sources, options, state, owner, lease_token, leased_until, budget_name, bound,
                                 scopes, gathering, version)
      select ${run.trigger}, ${[...run.sources]}::text[], ${JSON.stringify(run.options)}::jsonb, 'running',
             ${run.owner}, ${run.token}::uuid, now() + ${intervalSql(run.leaseMs)}, ${budgetName}::text, ${bound && JSON.stringify(bound)}::jsonb,
             ${JSON.stringify(scopes)}::jsonb, ${[...gathering]}::smallint[], ${readVersion()}::text
       where not exists (select from existing)
      returning id
    )
    select id from existing union all select id from inserted`
  const { rows } = await whileSupported(db, (tx) => insert.execute(tx))
  const id = rows[0]?.id
  if (id === undefined) throw new Error('inserting the run returned no row')
  return id
}

/**
 * Extends a run's lease: its heartbeat.
 * @returns who has cancelled the run, if anyone; null if the lease is lost: another process has declared the run dead
 */
export async function extendRunLease(
  db: Connection,
  run: number,
  token: string,
  leaseMs: number,
): Promise<{ readonly cancelledBy: string | null } | null> {
  const extended = updateHeld(db, run, token)
    .where('state', '=', 'running')
    .set({ leased_until: fromNow(leaseMs) })
  return (await extended.returning('cancelled_by as cancelledBy').executeTakeFirst()) ?? null
}

const updateHeld = (db: Connection, run: number, token: string) =>
  db.updateTable('fillrate.runs').where('id', '=', run).where('lease_token', '=', token)

/**
 * Cancels a running run: its process reads this with its next heartbeat and closes it. One whose process is dead is
 * closed here. The first one to cancel a run is recorded.
 * @returns false if no such run is running
 */
export async function cancelRunningRun(db: Connection, run: number, by: string): Promise<boolean> {
  const result = await sql`
    update fillrate.runs
       set cancelled_at = coalesce(cancelled_at, now()), cancelled_by = coalesce(cancelled_by, ${by}::text),
           state = case when ${isHeldSql()} then state else 'interrupted' end,
           finished_at = case when ${isHeldSql()} then null else now() end,
           reason = case when ${isHeldSql()} then reason
                       else 'cancelled by ' || coalesce(cancelled_by, ${by}::text) || '; its process died' end
     where id = ${run} and state = 'running'`.execute(db)
  return (result.numAffectedRows ?? 0n) > 0n
}

/** Which run was undone by which, if that one was not undone itself. */
export async function readUndone(db: Connection): Promise<ReadonlyMap<number, number>> {
  const { rows } = await sql<{ id: number; undoes: number }>`
    select id, (options ->> 'undoes')::bigint as undoes from fillrate.runs
     where options ? 'undoes' and state = 'completed' order by id desc`.execute(db)
  const undone = new Map<number, number>()
  // What undoes a run is newer: it comes first.
  for (const { id, undoes } of rows) if (!undone.has(id) && !undone.has(undoes)) undone.set(undoes, id)
  return undone
}

/** Those of these runs that are cancelled. */
export async function listCancelled(db: Connection, ids: readonly number[]): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select id from fillrate.runs where id = any(${[...ids]}::bigint[])
       and cancelled_at is not null`.execute(db)
  return rows.map((row) => row.id)
}

/** Records that all rows are picked: emails that do not fill a job may go as synchronous calls now. */
export async function markPicked(db: Connection, run: number, token: string): Promise<void> {
  await updateHeld(db, run, token).set({ picking_finished_at: NOW }).execute()
}

/** Records that no more rows go on to these services: what does not fill a job may be requested singly now. */
export async function endGathering(
  db: Connection,
  run: number,
  token: string,
  services: readonly number[],
): Promise<void> {
  await sql`
    update fillrate.runs
       set gathering = array(select s from unnest(gathering) s where s <> all(${[...services]}::smallint[]))
     where id = ${run} and lease_token = ${token}::uuid`.execute(db)
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
    /** The kind of condition for which it failed, if there is one. */
    readonly failedFor?: ConditionKind | null
    /** Of which service and key. */
    readonly failedScope?: string | null
  },
): Promise<boolean> {
  const { state, reason, totals, failedFor: failed_for = null, failedScope: failed_scope = null } = end
  const set = { state, reason, totals: JSON.stringify(totals), failed_for, failed_scope, finished_at: NOW }
  const closed = updateHeld(db, run, token).where('state', '=', 'running').set(set)
  return (await closed.executeTakeFirst()).numUpdatedRows === 1n
}

export interface RunningRun {
  readonly id: number
  readonly trigger: Trigger
  readonly options: StoredRunOptions
  /** More rows may come: of the source, or of a service before the leader's. */
  readonly picking: boolean
  readonly scopes: Scopes
  /** Its budget bounds what is requested for it. */
  readonly isBounded: boolean
  /** A job of the leader's service whose results name none of its inputs, as none ever did; those to be read again are not judged yet. */
  readonly unread: string | null
}

/**
 * Runs with a live lease, the most urgent first.
 * @param of only runs that call this service with this key and are not cancelled: the leader makes calls for no other
 */
export async function listRunning(
  db: Connection,
  of: { readonly service: number; readonly scope: string } | null = null,
): Promise<RunningRun[]> {
  const { rows } = await sql<RunningRun>`
    select id, trigger, options, scopes, bound is not null as "isBounded",
           (select min(j.key::text) from fillrate.jobs j
             where j.state = 'unread' and j.service_id = ${of?.service ?? null}::smallint and not ${hasResultsSql}) as unread,
           picking_finished_at is null or ${of === null ? sql`false` : sql`${of.service}::smallint = any(gathering)`} as picking
      from fillrate.runs
     where ${IS_RUNNING}
       and ${of === null ? sql`true` : sql`scopes ->> ${of.service}::text = ${of.scope} and cancelled_at is null`}
     order by array_position(array['follow', 'manual', 'schedule', 'backfill'], trigger), id`.execute(db)
  return rows
}

/** The running runs that hold rows and lookups against others, the most urgent first: dry runs hold none. @returns their ids */
export const listHolding = async (db: Connection): Promise<number[]> =>
  (await listRunning(db)).filter(isHolding).map(({ id }) => id)

export const isHolding = ({ options }: Pick<RunningRun, 'options'>): boolean => options.dry !== true

/**
 * Marks runs with an expired lease as interrupted.
 * @param except the process's own runs: after a database outage it may find its own lease expired
 * @returns their ids
 */
export async function interruptExpired(db: Connection, except: readonly number[]): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    update fillrate.runs
       set state = 'interrupted', finished_at = now(),
           reason = coalesce('cancelled by ' || cancelled_by || '; ', '') || 'its process died'
     where state = 'running' and not (${isHeldSql()}) and id <> all(${[...except]}::bigint[])
    returning id`.execute(db)
  return rows.map((row) => row.id)
}

/**
 * The scopes of runs that ran at the same time as this one, with another key of its services, or with a service of another configuration:
 * those of one have names.
 */
export async function listOtherScopes(db: Connection, run: number): Promise<string[]> {
  const { rows } = await sql<{ scope: string }>`
    select distinct s.value as scope
      from fillrate.runs me join fillrate.runs o on o.id <> me.id
     cross join lateral jsonb_each_text(o.scopes) s
     where me.id = ${run} and me.scopes <> '{}' and coalesce(o.finished_at, o.leased_until) > me.started_at
       and case when me.scopes ? s.key then me.scopes ->> s.key <> s.value
                else exists (select from fillrate.services v where v.id = s.key::smallint and v.name is null) end
     order by 1`.execute(db)
  return rows.map((row) => row.scope)
}

/** The latest runs, newest first. */
export const listRuns = (db: Connection, limit: number): Promise<StoredRun[]> =>
  selectRuns(db).limit(limit).execute()

/** A run by its id, and whether its process is alive. Null if there is none. */
export async function findRun(db: Connection, id: number): Promise<LivingRun | null> {
  return (await selectLivingRuns(db).where('id', '=', id).executeTakeFirst()) ?? null
}

/** A run, and whether its process is alive. */
export type LivingRun = StoredRun & { readonly alive: boolean }

const selectLivingRuns = (db: Connection) => selectRuns(db).select(IS_RUNNING.as('alive'))

/**
 * A page of runs, newest first.
 * @param source null: of any
 * @param before only runs with a lower id; null: the first page
 */
export async function listRunPage(
  db: Database,
  source: string | null,
  before: number | null,
  limit: number,
): Promise<LivingRun[]> {
  let runs = selectLivingRuns(db).limit(limit)
  if (before !== null) runs = runs.where('id', '<', before)
  if (source !== null) runs = runs.where(sql<boolean>`${source} = any(sources)`)
  return runs.execute()
}

/** The rows of a run by source and state, as they are now: a later run takes over the rows that it picks. */
export async function countRunRowsBySource(
  db: Database,
  run: number,
): Promise<Readonly<Record<string, RowStateCounts>>> {
  const { rows } = await sql<{ source: string; state: RowState; count: number }>`
    select source, state, count(*) as count from fillrate.rows where run_id = ${run}
     group by source, state order by source`.execute(db)
  const names = [...new Set(rows.map((row) => row.source))]
  return Object.fromEntries(
    names.map((name) => [
      name,
      Object.fromEntries(
        ROW_STATES.map((state) => [
          state,
          rows.find((row) => row.source === name && row.state === state)?.count ?? 0,
        ]),
      ) as RowStateCounts,
    ]),
  )
}

/** The latest run over a source. `totals` of its report: how it ended. */
export interface SourceRun extends Pick<StoredRun, 'state' | 'totals'> {
  readonly source: string
  readonly run: number
  readonly at: Date
}

/** Runs that are searched for the latest ones over each source. */
const SEARCHED_RUNS = 1_000

/** The latest run over each of these sources, among the latest runs. */
export async function listLastRuns(db: Database, sources: readonly string[]): Promise<SourceRun[]> {
  const { rows } = await sql<SourceRun>`
    select distinct on (source) source, r.id as run, r.state, jsonb_build_object('status', r.totals -> 'status') as totals,
           coalesce(r.finished_at, r.started_at) as at
      from (select id, state, sources, started_at, finished_at, totals from fillrate.runs order by id desc limit ${SEARCHED_RUNS}) r
     cross join lateral unnest(r.sources) as source
     where source = any(${[...sources]}::text[])
     order by source, r.id desc`.execute(db)
  return rows
}
