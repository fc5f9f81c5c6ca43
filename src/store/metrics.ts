import { sql } from 'kysely'
import type { JobState } from '../domain/job.ts'
import type { Database } from './open.ts'
import { intervalSql, jsonBatch } from './sql.ts'

/** The called endpoint of the service. */
export type CalledEndpoint = 'person' | 'company' | 'bulk'

export interface RequestCount {
  /** The start of its 10-second step, in milliseconds since the epoch. */
  readonly at: number
  readonly endpoint: CalledEndpoint
  /** HTTP status of the response; `none` if there was none. */
  readonly status: string
  readonly calls: number
}

/** A monotonic counter; `name` and `labels` as in the Prometheus format. */
export interface MetricCounter {
  readonly name: string
  readonly labels: string
  readonly value: number
}

/** Length of one step of the request counts, in milliseconds. */
export const REQUEST_COUNT_STEP_MS = 10_000
const REQUEST_COUNTS_TTL_MS = 24 * 3_600_000

/** Adds what one process has counted since its last call, in one statement. */
export async function addMetrics(
  db: Database,
  counted: {
    readonly calls: readonly RequestCount[]
    readonly counters: readonly MetricCounter[]
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
      delete from fillrate.request_counts where at < now() - ${intervalSql(REQUEST_COUNTS_TTL_MS)}
    )
    insert into fillrate.metric_counters as c (name, labels, value)
    select name, labels, value
      from jsonb_to_recordset(${jsonBatch(counted.counters)}) as v (name text, labels text, value double precision)
     order by name, labels
    on conflict (name, labels) do update set value = c.value + excluded.value`.execute(db)
}

/** Request counts of the last `ms` milliseconds, by step. */
export async function listRequestCounts(db: Database, ms: number): Promise<RequestCount[]> {
  const { rows } = await sql<Omit<RequestCount, 'at'> & { at: Date }>`
    select at, endpoint, status, calls from fillrate.request_counts
     where at > now() - ${intervalSql(ms)} order by at`.execute(db)
  return rows.map((row) => ({ ...row, at: row.at.getTime() }))
}

/** Every counter, in the order of the exposition. */
export async function listCounters(db: Database): Promise<MetricCounter[]> {
  const { rows } = await sql<MetricCounter>`
    select name, labels, value from fillrate.metric_counters order by name, labels`.execute(db)
  return rows
}

/** When a run of this trigger and outcome ended last. */
export interface RunEnd {
  readonly trigger: string
  /** As in a run's report; the state where a killed run left none. */
  readonly status: string
  readonly at: Date
}

export async function listRunEnds(db: Database): Promise<RunEnd[]> {
  const { rows } = await sql<RunEnd>`
    select trigger, coalesce(totals ->> 'status', state) as status, max(finished_at) as at
      from fillrate.runs where finished_at is not null group by 1, 2 order by 1, 2`.execute(db)
  return rows
}

/** How many rows of a source had a value in each column, at one time. */
export interface FillRateSample {
  readonly source: string
  readonly at: Date
  /** Rows that belong to the source. */
  readonly eligible: number
  /** Rows with a value, by column. */
  readonly filled: Readonly<Record<string, number>>
  readonly took_ms: number
}

const SAMPLE_INTERVAL_MS = 10_000
const HOURLY_AFTER_MS = 3_600_000
const DAILY_AFTER_MS = 7 * 24 * 3_600_000

/**
 * Saves a sample. A newer sample replaces the last one within ten seconds; after an hour the last of each hour is kept,
 * after a week the last of each day. The very first one stays, for comparison.
 */
export async function saveFillRateSample(
  db: Database,
  measured: Pick<FillRateSample, 'source' | 'eligible' | 'filled' | 'took_ms'>,
): Promise<void> {
  const { source } = measured
  await sql`
    with samples as (
      select at, lag(at) over (order by at) as before, lead(at) over (order by at) as after
        from fillrate.fill_rate_samples where source = ${source}
    ), superseded as (
      delete from fillrate.fill_rate_samples c using samples
       where c.source = ${source} and c.at = samples.at and samples.before is not null
         and (samples.after is null and samples.at < samples.before + ${intervalSql(SAMPLE_INTERVAL_MS)}
              or samples.at < now() - ${intervalSql(HOURLY_AFTER_MS)}
                 and date_trunc('hour', samples.after) = date_trunc('hour', samples.at)
              or samples.at < now() - ${intervalSql(DAILY_AFTER_MS)}
                 and date_trunc('day', samples.after) = date_trunc('day', samples.at))
    )
    insert into fillrate.fill_rate_samples (source, at, eligible, filled, took_ms)
    values (${source}, clock_timestamp(), ${measured.eligible}, ${JSON.stringify(measured.filled)}::jsonb,
            ${Math.round(measured.took_ms)})
    on conflict (source, at) do nothing`.execute(db)
}

/** The latest sample of a source. */
export async function latestFillRateSample(db: Database, source: string): Promise<FillRateSample | null> {
  const { rows } = await sql<FillRateSample>`
    select source, at, eligible, filled, took_ms from fillrate.fill_rate_samples
     where source = ${source} order by at desc limit 1`.execute(db)
  return rows[0] ?? null
}

/** A source's samples, oldest first: the first one of all, then the latest `limit`. */
export async function listFillRateSamples(
  db: Database,
  source: string,
  limit: number,
): Promise<FillRateSample[]> {
  const { rows } = await sql<FillRateSample>`
    (select source, at, eligible, filled, took_ms from fillrate.fill_rate_samples
      where source = ${source} order by at limit 1)
    union
    (select source, at, eligible, filled, took_ms from fillrate.fill_rate_samples
      where source = ${source} order by at desc limit ${limit})
    order by at`.execute(db)
  return rows
}

export interface JobGroup {
  readonly state: JobState
  readonly jobs: number
  readonly emails: number
  /** When the oldest of them was created. */
  readonly oldest: Date
  /** The first deadline of those that wait for a delivery; null if none does. */
  readonly deadline: Date | null
  /** How many of these are past their deadline. */
  readonly overdue: number
}

/** Jobs by state; unfinished ones come first. */
export async function listJobGroups(db: Database): Promise<JobGroup[]> {
  const { rows } = await sql<JobGroup>`
    select state, count(*) as jobs, sum(size)::bigint as emails, min(created_at) as oldest,
           min(deadline_at) filter (where finished_at is null) as deadline,
           count(*) filter (where finished_at is null and deadline_at < now()) as overdue
      from fillrate.jobs group by state
     order by array_position(array['submitting', 'submitted', 'in_doubt', 'expired', 'failed', 'rejected', 'completed'],
                             state)`.execute(db)
  return rows
}

export interface Usage {
  /** Lookups requested from the service. */
  readonly requested: number
  /** Cells written. */
  readonly written: number
  readonly runs: number
}

/** What the finished runs of the last `ms` milliseconds requested and wrote, from their reports. */
export async function usageWithin(db: Database, ms: number): Promise<Usage> {
  const { rows } = await sql<Usage>`
    select coalesce(sum((totals #>> '{lookups,requested}')::bigint), 0)::bigint as requested,
           coalesce(sum((totals #>> '{cells,written}')::bigint)
             filter (where options -> 'dry' is distinct from 'true'), 0)::bigint as written,
           count(*) as runs
      from fillrate.runs
     where started_at > now() - ${intervalSql(ms)} and state <> 'running'
       and options -> 'undoes' is null`.execute(db)
  return rows[0] ?? { requested: 0, written: 0, runs: 0 }
}

/** Age of the oldest unsettled delivery, in seconds; 0 if there is none. */
export async function oldestUnsettledSeconds(db: Database): Promise<number> {
  const { rows } = await sql<{ seconds: number }>`
    select coalesce(extract(epoch from now() - min(received_at)), 0)::float8 as seconds
      from fillrate.deliveries where state = 'received'`.execute(db)
  return rows[0]?.seconds ?? 0
}
