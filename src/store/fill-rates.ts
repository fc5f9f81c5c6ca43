import { sql } from 'kysely'
import type { Database } from './open.ts'

/** How many rows of a source had a value in each column, as a run counted them at its end, in its totals. */
export interface FillRate {
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

/** Keeps what a run has counted, once it is closed: closing it stores its totals as a whole. */
export async function saveFillRates(
  db: Database,
  run: number,
  counted: readonly Omit<FillRate, 'at'>[],
): Promise<void> {
  if (counted.length === 0) return
  await sql`
    update fillrate.runs
       set totals = coalesce(totals, '{}') || jsonb_build_object('fill_rates', (
             select jsonb_object_agg(one ->> 'source', one - 'source' || jsonb_build_object('at', clock_timestamp()))
               from jsonb_array_elements(${JSON.stringify(counted)}::jsonb) as one))
     where id = ${run}`.execute(db)
}

/** Counts that are read, of the latest runs. */
const MAX_COUNTS = 1_000

/** The counts of sources, oldest first. */
export async function listFillRates(db: Database, sources: readonly string[]): Promise<FillRate[]> {
  const { rows } = await sql<FillRate>`
    select v.source, v.at, v.eligible, v.filled, v.took_ms, v.table_node
      from (
        select id, totals -> 'fill_rates' as counted
          from fillrate.runs
         where totals ? 'fill_rates'
         order by id desc
         limit ${MAX_COUNTS}
      ) r
     cross join lateral jsonb_each(r.counted) as c (name, count)
     cross join lateral (
       select c.name as source, of.*
         from jsonb_to_record(c.count)
           as of (at timestamptz, eligible bigint, filled jsonb, took_ms integer, table_node text)
     ) v
     where c.name = any(${[...sources]}::text[])
     order by r.id`.execute(db)
  return rows
}

/** The latest count of a source; null: there was none yet. */
export const findFillRate = async (db: Database, source: string): Promise<FillRate | null> =>
  (await listFillRates(db, [source])).at(-1) ?? null
