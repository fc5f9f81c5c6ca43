import { sql } from 'kysely'
import { FAILURE_STATES, Row } from '../domain/row.ts'
import { withdrawLookups } from './pending-lookups.ts'
import { ALIVE_FOR, failureSql, IS_RUNNING } from './terms.ts'
import type { Connection, Tx } from './transaction.ts'

/** A source that is not in the configuration, and of which rows or other work are kept. */
export interface RetiredSource {
  readonly source: string
  /** Rows that were picked while it was configured. */
  readonly rows: number
  /** Those of them that wait for an answer or a run. */
  readonly waiting: number
  /** Those of them that could not be enriched. */
  readonly failed: number
  /** Rows that its table had lost. */
  readonly deleted: number
}

/** Names of which something is kept that the work on a source needs, and which are not configured. */
export async function listRetiredSources(
  db: Connection,
  configured: readonly string[],
): Promise<RetiredSource[]> {
  const { rows } = await sql<RetiredSource>`
    with counted as (
      select source, sum(rows)::bigint as rows, coalesce(sum(rows) filter (where state = 'waiting'), 0)::bigint as waiting,
             coalesce(sum(rows) filter (where state = any(${[...FAILURE_STATES]}::text[])), 0)::bigint as failed
        from fillrate.row_counts group by source having sum(rows) <> 0
    ), deleted as (select source, count(*) as rows from fillrate.rows where deleted_at is not null group by source)
    select source,
           coalesce(c.rows, 0) as rows,
           coalesce(c.waiting, 0) as waiting,
           coalesce(c.failed, 0) as failed,
           coalesce(d.rows, 0) as deleted
      from counted c full join deleted d using (source)
      full join (select source from fillrate.source_state where paused_at is not null) paused using (source)
     where source <> all(${[...configured]}::text[]) order by source`.execute(db)
  return rows
}

/** The run of a living process that works on a source; null: none does. */
export async function findRunOf(db: Connection, source: string): Promise<number | null> {
  const { rows } = await sql<{ id: number }>`
    select id from fillrate.runs where ${source} = any(sources) and ${IS_RUNNING} order by id
     limit 1`.execute(db)
  return rows[0]?.id ?? null
}

/** A process that still has a source in its configuration, as `host (pid)`; null: none has. */
export async function findProcessOf(db: Connection, source: string): Promise<string | null> {
  const { rows } = await sql<{ process: string }>`
    select format('%s on %s (process %s)', role, host, pid) as process from fillrate.processes
     where seen_at > now() - ${ALIVE_FOR} and config -> 'sources' ? ${source}
     order by started_at limit 1`.execute(db)
  return rows[0]?.process ?? null
}

/**
 * Ends rows that wait, of sources that no process has had in its configuration for seven days. Lookups that only waited for them,
 * and were never requested, are withdrawn as for deleted rows. Configured again, such a row is due at once.
 * @returns how many rows, at most `limit`
 */
export async function endRowsOfLeftSources(tx: Tx, limit: number): Promise<number> {
  const { rows } = await sql<{ lookup: number | null }>`
    update fillrate.rows set state = ${Row.failed}, failure = ${failureSql(sql`${Row.failed}`)}, reason = 'its source is no longer in the configuration',
           settled_at = now(), due_at = now()
     where ctid = any(array(
       select r.ctid from fillrate.source_state c join fillrate.rows r using (source)
        where c.configured_at < now() - interval '7 days' and r.state = ${Row.waiting}
          and (select sum(n.rows) from fillrate.row_counts n where n.source = c.source and n.state = ${Row.waiting}) > 0
        limit ${limit} for update of r skip locked))
    returning lookup_id as lookup`.execute(tx)
  const lookups = rows.map(({ lookup }) => lookup)
  await withdrawLookups(tx, lookups)
  return rows.length
}
