import { sql } from 'kysely'
import type { RunService } from './pending-lookups.ts'
import { listKeys } from './rows.ts'
import { opaque, unnestByRow } from './sql.ts'
import { isPausedSql, runsWithWaitingSql } from './terms.ts'
import type { Connection, Tx } from './transaction.ts'

/**
 * Waiting rows of a source that no running run holds; none if the source is paused. The pause is checked in the same
 * statement: a pause that is older than the death of a run is seen wherever that death is.
 * @param after keyset: keys after this one
 */
export async function listAbandonedRows(
  db: Connection,
  source: string,
  runningRuns: readonly number[],
  after: string,
  limit: number,
): Promise<string[]> {
  const isAbandoned = opaque(sql`state = 'waiting'`)
  // Compared as a whole: only the index of rows by run has this order. By its parts, so has the primary key, which would read all
  // rows of the source.
  const { rows } = await sql<{ key: string }>`
    with holder as materialized ${runsWithWaitingSql([source])}
    select key from (
      select w.key from holder cross join lateral (
        select key from fillrate.rows
         where (run_id, key) > (holder.run_id, ${after}) and run_id <= holder.run_id and source = ${source} and ${isAbandoned}
         order by run_id, key limit ${limit}) w
       where holder.run_id <> all(${[...runningRuns]}::bigint[])
      union all
      select w.key from holder cross join lateral (
        select key from fillrate.rows where run_id is null and source = ${source} and key > ${after} and ${isAbandoned}
         order by key limit ${limit}) w
       where holder.run_id is null
    ) found
     where not ${isPausedSql(sql`${source}`)}
     order by key limit ${limit}`.execute(db)
  return rows.map((row) => row.key)
}

/**
 * A run's own rows to pick again at a service: their inputs changed before they were written, their next identifier is to be tried, or
 * the service before has left them to it.
 * @param after keyset: keys after this one
 */
export const listRequeuedRows = (
  db: Connection,
  source: string,
  { run, service }: RunService,
  after: string,
  limit: number,
): Promise<string[]> =>
  listKeys(
    db,
    source,
    sql`r.is_requeued and ${opaque(sql`r.run_id = ${run} and r.service_id = ${service}`)}`,
    {
      after,
      limit,
    },
  )

/**
 * Rows of a source that are due again, for a pass that does not read the whole table. Walks all rows of the source from `after` on:
 * a second for a million of them.
 * @param after keyset: keys after this one
 */
export const listDueRows = (
  db: Connection,
  source: string,
  after: string,
  limit: number,
): Promise<string[]> => {
  const isDue = opaque(sql`r.due_at <= now() and r.state <> 'waiting' and r.deleted_at is null`)
  return listKeys(db, source, isDue, { after, limit })
}

/** Makes due rows due later. */
export async function postponeDueRows(
  tx: Tx,
  source: string,
  postponed: readonly { readonly key: string; readonly settledUntil: Date | null }[],
): Promise<void> {
  await sql`
    update fillrate.rows r set due_at = v."settledUntil"
      from ${unnestByRow(source, postponed, { settledUntil: 'timestamptz' })}
     where r.ctid = v.ctid and r.state <> 'waiting' and r.due_at <= now()`.execute(tx)
}
