import { sql } from 'kysely'
import type { JobState } from '../domain/job.ts'
import { overdueJobsSql } from './jobs.ts'
import type { Database } from './open.ts'
import { intervalSql, readOne } from './sql.ts'

/** How many rows of a source had a value in each column, at one time. */
export interface FillRateSample {
  readonly source: string
  readonly at: Date
  /** Rows that belong to the source. */
  readonly eligible: number
  /** Rows with a value, by column. */
  readonly filled: Readonly<Record<string, number>>
  readonly took_ms: number
  /** The table that was counted: it may have been replaced since. Null: not known. */
  readonly table_node: string | null
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
  measured: Pick<FillRateSample, 'source' | 'eligible' | 'filled' | 'took_ms' | 'table_node'>,
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
    insert into fillrate.fill_rate_samples (source, at, eligible, filled, took_ms, table_node)
    values (${source}, clock_timestamp(), ${measured.eligible}, ${JSON.stringify(measured.filled)}::jsonb,
            ${Math.round(measured.took_ms)}, ${measured.table_node})
    on conflict (source, at) do nothing`.execute(db)
}

/** The latest sample of a source. */
export async function latestFillRateSample(db: Database, source: string): Promise<FillRateSample | null> {
  const samples = db.selectFrom('fillrate.fill_rate_samples').selectAll().where('source', '=', source)
  return (await samples.orderBy('at', 'desc').limit(1).executeTakeFirst()) ?? null
}

/** A source's samples, oldest first: the first one of all, then the latest `limit`. */
export async function listFillRateSamples(
  db: Database,
  source: string,
  limit: number,
): Promise<FillRateSample[]> {
  const { rows } = await sql<FillRateSample>`
    (select source, at, eligible, filled, took_ms, table_node from fillrate.fill_rate_samples
      where source = ${source} order by at limit 1)
    union
    (select source, at, eligible, filled, took_ms, table_node from fillrate.fill_rate_samples
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
  /** How many are past their deadline, or expired without a delivery since. */
  readonly overdue: number
}

/** Jobs by state; unfinished ones come first. */
export async function listJobGroups(db: Database): Promise<JobGroup[]> {
  const { rows } = await sql<JobGroup>`
    select state, count(*) as jobs, sum(size)::bigint as emails, min(created_at) as oldest,
           min(deadline_at) filter (where finished_at is null) as deadline,
           (select count(*) from ${overdueJobsSql} late where late.state = j.state) as overdue
      from fillrate.jobs j group by state
     order by array_position(array['submitting', 'submitted', 'in_doubt', 'expired', 'failed', 'rejected', 'completed'],
                             state)`.execute(db)
  return rows
}

/**
 * Cells that the runs of the last `ms` milliseconds have written, less those that were undone since: by the reports of runs and of
 * their undos, and of a run in progress by its rows.
 */
export async function countWrittenCells(db: Database, ms: number): Promise<number> {
  const counted = sql<{ written: number }>`
    with recursive counted as (
      select id, 1 as sign,
             case when state = 'running' then (select sum(cells_written) from fillrate.rows where run_id = r.id)
                  else (totals #>> '{cells,written}')::bigint end as cells
        from fillrate.runs r
       where started_at > now() - ${intervalSql(ms)} and options -> 'undoes' is null and options -> 'dry' is distinct from 'true'
      union all
      select u.id, -c.sign, (u.totals #>> '{cells,restored}')::bigint
        from counted c join fillrate.runs u on u.options -> 'undoes' = to_jsonb(c.id)
    )
    select coalesce(sum(sign * cells), 0)::bigint as written from counted`
  return (await readOne(db, counted)).written
}
