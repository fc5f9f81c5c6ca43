import { sql } from 'kysely'
import { FAILURE_STATES } from '../domain/row.ts'
import { withdrawLookups } from './deleted-rows.ts'
import { ALIVE_FOR } from './processes.ts'
import { NOW } from './sql.ts'
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
    select source, coalesce(c.rows, 0) as rows, coalesce(c.waiting, 0) as waiting, coalesce(c.failed, 0) as failed,
           coalesce(d.rows, 0) as deleted
      from counted c full join deleted d using (source)
      full join (select source from fillrate.paused_sources union select source from fillrate.source_cursors
                 union select source from fillrate.fill_rate_samples) other using (source)
     where source <> all(${[...configured]}::text[]) order by source`.execute(db)
  return rows
}

/** The run of a living process that works on a source; null: none does. */
export async function findRunOf(db: Connection, source: string): Promise<number | null> {
  const runs = db
    .selectFrom('fillrate.runs')
    .select('id')
    .where(sql<boolean>`${source} = any(sources)`)
  const alive = runs.where('state', '=', 'running').where('leased_until', '>', NOW)
  return (await alive.orderBy('id').limit(1).executeTakeFirst())?.id ?? null
}

/** A process that still has a source in its configuration, as `host (pid)`; null: none has. */
export async function findProcessOf(db: Connection, source: string): Promise<string | null> {
  const { rows } = await sql<{ process: string }>`
    select format('%s on %s (process %s)', role, host, pid) as process from fillrate.processes
     where seen_at > now() - ${ALIVE_FOR} and config -> 'sources' ? ${source}
     order by started_at limit 1`.execute(db)
  return rows[0]?.process ?? null
}

/** Rows forgotten in one transaction. */
const FORGOTTEN_ROWS = 10_000

/**
 * Forgets some rows of a source. Lookups that only waited for them, and were never requested, are withdrawn as for deleted rows;
 * answered ones stay, and serve the source if it comes back.
 * @returns how many; 0: no row is left
 */
export async function forgetSomeRows(tx: Tx, source: string): Promise<number> {
  const { rows } = await sql<{ lookup: number | null }>`
    delete from fillrate.rows where ctid = any(array(
      select ctid from fillrate.rows where source = ${source} order by key limit ${FORGOTTEN_ROWS} for update))
    returning lookup_id as lookup`.execute(tx)
  await withdrawLookups(
    tx,
    rows.flatMap(({ lookup }) => lookup ?? []),
  )
  return rows.length
}

const BY_SOURCE = [
  'fillrate.due_rows',
  'fillrate.skipped_cells',
  'fillrate.changed_rows',
  'fillrate.changed_rows_spare',
  'fillrate.source_cursors',
  'fillrate.paused_sources',
  'fillrate.write_pace',
  'fillrate.fill_rate_samples',
] as const

/** Forgets what else is kept to work on a source. Changes, runs and spend stay: they explain and undo what was written. */
export async function forgetSource(tx: Tx, source: string): Promise<void> {
  for (const table of BY_SOURCE) await tx.deleteFrom(table).where('source', '=', source).execute()
  await tx.deleteFrom('fillrate.metric_counters').where('labels', '=', `source="${source}"`).execute()
  await sql`
    update fillrate.troubles set ended_at = greatest(now(), began_at) where subject = ${source} and ended_at is null`.execute(
    tx,
  )
  const waiting = tx.updateTable('fillrate.scheduled_runs').where('state', '=', 'waiting')
  const skipped = waiting.set({ state: 'skipped', finished_at: NOW, reason: 'its source was retired' })
  await skipped.where(sql<boolean>`sources = array[${source}::text]`).execute()
}
