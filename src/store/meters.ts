import { sql } from 'kysely'
import { interval, jsonBatch } from './batch.ts'
import type { Database } from './open.ts'

/** Which of the service's endpoints was called. */
export type CalledEndpoint = 'person' | 'company' | 'bulk'

export interface CallCount {
  /** The beginning of its ten seconds, in milliseconds since the epoch. */
  readonly at: number
  readonly endpoint: CalledEndpoint
  /** The status of the answer; `none` where none came. */
  readonly status: string
  readonly calls: number
}

/** A number that only grows: `name` and `labels` as Prometheus writes them. */
export interface Counter {
  readonly name: string
  readonly labels: string
  readonly value: number
}

/** The length of one step of the call rate, in milliseconds. */
export const STEP_MS = 10_000
const KEPT_MS = 24 * 3_600_000

/** Adds what one process has counted since it did so last: one statement, whatever the number of calls. */
export async function add(
  db: Database,
  counted: {
    readonly calls: readonly CallCount[]
    readonly counters: readonly Counter[]
  },
): Promise<void> {
  const calls = counted.calls.map((one) => ({ ...one, at: new Date(one.at) }))
  await sql`
    with calls as (
      insert into fillrate.request_counts as r (at, endpoint, status, calls)
      select at, endpoint, status, calls
        from jsonb_to_recordset(${jsonBatch(calls)}) as v (at timestamptz, endpoint text, status text, calls integer)
       order by at, endpoint, status
      on conflict (at, endpoint, status) do update set calls = r.calls + excluded.calls
    ), past as (
      delete from fillrate.request_counts where at < now() - ${interval(KEPT_MS)}
    )
    insert into fillrate.metric_counters as c (name, labels, value)
    select name, labels, value
      from jsonb_to_recordset(${jsonBatch(counted.counters)}) as v (name text, labels text, value double precision)
     order by name, labels
    on conflict (name, labels) do update set value = c.value + excluded.value`.execute(db)
}

/** Calls of the last so many milliseconds, by step. */
export async function callsWithin(db: Database, ms: number): Promise<CallCount[]> {
  const { rows } = await sql<Omit<CallCount, 'at'> & { at: Date }>`
    select at, endpoint, status, calls from fillrate.request_counts
     where at > now() - ${interval(ms)} order by at`.execute(db)
  return rows.map((row) => ({ ...row, at: row.at.getTime() }))
}

/** Every counter, in the order of the exposition. */
export async function counters(db: Database): Promise<Counter[]> {
  const { rows } = await sql<Counter>`
    select name, labels, value from fillrate.metric_counters order by name, labels`.execute(db)
  return rows
}
