import { sql, type RawBuilder } from 'kysely'
import { Tick, TICK_ATTEMPTS } from '../domain/tick.ts'
import { interval, jsonBatch } from './batch.ts'
import type { Database } from './open.ts'
import { inTransaction } from './transaction.ts'

const waiting = sql.lit(Tick.waiting)
const running = sql.lit(Tick.running)

/** The time of Postgres, in milliseconds since the epoch: the one clock that all processes share. */
export async function clock(db: Database): Promise<number> {
  const { rows } = await sql<{ now: number }>`
    select (extract(epoch from clock_timestamp()) * 1000)::float8 as now`.execute(db)
  return Math.floor(rows[0]?.now ?? 0)
}

/** When the latest recorded tick of each schedule was, up to `now`: what a wrong clock recorded beyond it does not count. */
export async function latest(
  db: Database,
  schedules: readonly string[],
  now: number,
): Promise<Map<string, Date>> {
  const { rows } = await sql<{ schedule: string; at: Date }>`
    select schedule, max(at) as at from fillrate.scheduled_runs
     where schedule = any(${[...schedules]}::text[]) and at <= ${new Date(now)} group by schedule`.execute(db)
  return new Map(rows.map((row) => [row.schedule, row.at]))
}

/** A clock that is put right by less than this makes no tick wrong: it is waited for. */
const STEP = sql`interval '1 minute'`

/**
 * Deletes ticks that lie in the future: they were recorded while a clock was wrong, and until their time came they would
 * stand for all that are due before. One that a process runs now stays until it has ended.
 */
export async function dropFuture(
  db: Database,
  schedules: readonly string[],
): Promise<{ readonly schedule: string; readonly at: Date }[]> {
  const { rows } = await sql<{ schedule: string; at: Date }>`
    delete from fillrate.scheduled_runs t
     where schedule = any(${[...schedules]}::text[]) and at > now() + ${STEP}
       and not (state = ${running} and ${isHeld(sql`t`)})
    returning schedule, at`.execute(db)
  return rows
}

/** A lease is seconds long. One that ends in an hour was taken while a clock was wrong, and would block its sources till then. */
const isHeld = (tick: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`${tick}.leased_until between now() and now() + interval '1 hour'`

export interface DueTick {
  readonly schedule: string
  readonly at: Date
  readonly sources: readonly string[]
  readonly state: 'waiting' | 'skipped'
  readonly reason: string | null
}

/**
 * Records ticks, each once however many processes see it. One that still waits when the next of its schedule comes is
 * skipped: the next does its work.
 * @returns those that were new, and those that were skipped for them
 */
export async function record(
  db: Database,
  due: readonly DueTick[],
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
         set state = 'skipped', finished_at = now(), reason = 'the next one came before it could begin'
        from new where t.schedule = new.schedule and t.at < new.at and t.state = ${waiting}
      returning t.schedule, t.at
    )
    select schedule, at, false as skipped from new union all select schedule, at, true from late`.execute(db)
  return rows
}

export interface BegunTick {
  readonly schedule: string
  readonly at: Date
  readonly sources: string[]
  readonly attempts: number
  readonly token: string
}

export interface BlockedTick {
  readonly schedule: string
  readonly at: Date
  /** The schedule whose run has a source of this one. */
  readonly by: string
}

/** All processes choose one after the other, or two might begin runs of one source at the same moment. */
const ONE_BY_ONE = 4_713_117_285

/**
 * Begins the oldest tick that waits, or whose process is gone, and none of whose sources another tick is running.
 * @returns the tick that was begun, and those that have to wait and were not told of before
 */
export async function begin(
  db: Database,
  options: {
    readonly schedules: readonly string[]
    readonly owner: string
    readonly token: string
    readonly leaseMs: number
  },
): Promise<{ readonly begun: BegunTick | null; readonly blocked: BlockedTick[] }> {
  const { schedules, owner, token, leaseMs } = options
  const open = sql`t.schedule = any(${[...schedules]}::text[])
    and t.at <= now() and (t.state = ${waiting} or (t.state = ${running} and not ${isHeld(sql`t`)}))`
  const busy = sql`o.state = ${running} and ${isHeld(sql`o`)} and o.sources && t.sources`
  const { rows: any } = await sql`select from fillrate.scheduled_runs t where ${open} limit 1`.execute(db)
  if (any.length === 0) return { begun: null, blocked: [] }
  return inTransaction(db, async (tx) => {
    await sql`select pg_advisory_xact_lock(${ONE_BY_ONE})`.execute(tx)
    await sql`
      update fillrate.scheduled_runs t
         set state = 'skipped', lease_token = null, leased_until = null, finished_at = now(),
             reason = 'begun ' || attempts || ' times, and its process was gone each time'
       where ${open} and t.attempts >= ${TICK_ATTEMPTS}`.execute(tx)
    const { rows } = await sql<BegunTick>`
      update fillrate.scheduled_runs t
         set state = ${running}, attempts = attempts + 1, owner = ${owner}, lease_token = ${token},
             leased_until = now() + ${interval(leaseMs)}
       where (t.schedule, t.at) = (
               select t.schedule, t.at from fillrate.scheduled_runs t
                where ${open} and not exists (select from fillrate.scheduled_runs o where ${busy})
                order by t.at, t.schedule limit 1)
      returning schedule, at, sources, attempts, lease_token as token`.execute(tx)
    const { rows: blocked } = await sql<BlockedTick>`
      update fillrate.scheduled_runs t set reason = 'waits for another run of its sources'
        from (select distinct on (t.schedule, t.at) t.schedule, t.at, o.schedule as by
                from fillrate.scheduled_runs t join fillrate.scheduled_runs o on ${busy}
               where ${open} and t.reason is distinct from 'waits for another run of its sources') b
       where t.schedule = b.schedule and t.at = b.at
      returning t.schedule, t.at, b.by`.execute(tx)
    return { begun: rows[0] ?? null, blocked }
  })
}

type Held = Pick<BegunTick, 'schedule' | 'at' | 'token'>

const held = ({ schedule, at, token }: Held) =>
  sql`schedule = ${schedule} and at = ${at} and lease_token = ${token}`

/** @returns false when another process has the tick by now */
export async function extend(db: Database, tick: Held, leaseMs: number): Promise<boolean> {
  const result = await sql`
    update fillrate.scheduled_runs set leased_until = now() + ${interval(leaseMs)} where ${held(tick)}`.execute(
    db,
  )
  return result.numAffectedRows === 1n
}

export async function startedRun(db: Database, tick: Held, run: number): Promise<void> {
  await sql`update fillrate.scheduled_runs set run_id = ${run} where ${held(tick)}`.execute(db)
}

export async function end(db: Database, tick: Held, reason: string | null): Promise<void> {
  await sql`
    update fillrate.scheduled_runs
       set state = ${Tick.done}, reason = ${reason}, lease_token = null, leased_until = null, finished_at = now()
     where ${held(tick)}`.execute(db)
}

/** Gives a tick up that is to be finished by another process, or after a restart. */
export async function release(db: Database, tick: Held): Promise<void> {
  await sql`
    update fillrate.scheduled_runs
       set state = ${waiting}, reason = 'begun, and to be finished', lease_token = null, leased_until = null,
           attempts = attempts - 1
     where ${held(tick)}`.execute(db)
}
