import { sql } from 'kysely'
import { interval } from './batch.ts'
import type { Database } from './open.ts'

/** How many rows of a source held a value in each column, at one moment. */
export interface Measurement {
  readonly source: string
  readonly at: Date
  /** Rows that belonged to the source. */
  readonly eligible: number
  /** By column. */
  readonly filled: Readonly<Record<string, number>>
  readonly took_ms: number
}

const STEP_MS = 10_000
const HOURLY_AFTER_MS = 3_600_000
const DAILY_AFTER_MS = 7 * 24 * 3_600_000

/**
 * Keeps a measurement. While work goes on the latest moves along with it, so that there is one in ten seconds; after an
 * hour the last one of each hour is left, after a week that of each day. The very first stays, to be compared with.
 */
export async function keep(
  db: Database,
  measured: Pick<Measurement, 'source' | 'eligible' | 'filled' | 'took_ms'>,
): Promise<void> {
  const { source } = measured
  await sql`
    with kept as (
      select at, lag(at) over (order by at) as before, lead(at) over (order by at) as after
        from fillrate.fill_rate_samples where source = ${source}
    ), superseded as (
      delete from fillrate.fill_rate_samples c using kept
       where c.source = ${source} and c.at = kept.at and kept.before is not null
         and (kept.after is null and kept.at < kept.before + ${interval(STEP_MS)}
              or kept.at < now() - ${interval(HOURLY_AFTER_MS)}
                 and date_trunc('hour', kept.after) = date_trunc('hour', kept.at)
              or kept.at < now() - ${interval(DAILY_AFTER_MS)}
                 and date_trunc('day', kept.after) = date_trunc('day', kept.at))
    )
    insert into fillrate.fill_rate_samples (source, at, eligible, filled, took_ms)
    values (${source}, clock_timestamp(), ${measured.eligible}, ${JSON.stringify(measured.filled)}::jsonb,
            ${Math.round(measured.took_ms)})
    on conflict (source, at) do nothing`.execute(db)
}

/** The latest measurement of a source. */
export async function latest(db: Database, source: string): Promise<Measurement | null> {
  const { rows } = await sql<Measurement>`
    select source, at, eligible, filled, took_ms from fillrate.fill_rate_samples
     where source = ${source} order by at desc limit 1`.execute(db)
  return rows[0] ?? null
}

/** A source's measurements, oldest first: the first one of all, then the latest `most`. */
export async function history(db: Database, source: string, most: number): Promise<Measurement[]> {
  const { rows } = await sql<Measurement>`
    (select source, at, eligible, filled, took_ms from fillrate.fill_rate_samples
      where source = ${source} order by at limit 1)
    union
    (select source, at, eligible, filled, took_ms from fillrate.fill_rate_samples
      where source = ${source} order by at desc limit ${most})
    order by at`.execute(db)
  return rows
}
