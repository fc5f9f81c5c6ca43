import { sql } from 'kysely'
import { jsonBatch } from './sql.ts'
import {
  CHANGE_TABLES,
  changesSql,
  IS_RUNNING,
  queuedChangesSql,
  runsWithWaitingSql,
  waitingRowsSql,
} from './terms.ts'
import type { Connection } from './transaction.ts'

/** The keys that one statement has changed, or some of them. */
export interface ChangedRows {
  readonly source: string
  readonly keys: string[]
  readonly id: string
  /** The statement has deleted them: a row that has one of them by now is another row, or was inserted again. */
  readonly isDelete: boolean
  /** When the statement's transaction began, as Postgres text: a Date would lose the microseconds. */
  readonly at: string
}

/**
 * The oldest changes that are not bulk changes: as many as hold `limit` keys, and at least one. Takes no lock, so it may
 * run in a long transaction: a user who changes such a row again adds another change.
 */
export async function listChangedRows(
  db: Connection,
  sources: readonly string[],
  limit: number,
): Promise<ChangedRows[]> {
  const { rows } = await sql<ChangedRows>`
    select id, source, keys, is_delete as "isDelete", changed_at::text as at
      from ${changesSql(
        (table) => sql`
        select * from ${table} where source = any(${[...sources]}::text[]) and not is_import
         order by changed_at, id limit ${limit}`,
      )}
     order by changed_at, id limit ${limit}`.execute(db)
  let keys = 0
  return rows.filter((row, n) => {
    keys += row.keys.length
    return n === 0 || keys <= limit
  })
}

/** The next keys of a bulk change (an import). */
export interface BulkChange extends ChangedRows {
  /** How many of its keys are picked, these not among them. */
  readonly picked: number
  readonly total: number
}

/** The oldest bulk change, with the next of its keys. Null if there is none. */
export async function nextBulkChange(
  db: Connection,
  sources: readonly string[],
  limit: number,
): Promise<BulkChange | null> {
  for (const list of CHANGE_TABLES) {
    const { rows } = await sql<BulkChange>`
      select id, source, is_delete as "isDelete", changed_at::text as at, rows as total, rows_picked as picked,
             keys[rows_picked + 1:rows_picked + ${limit}::integer] as keys
        from ${list} where source = any(${[...sources]}::text[]) and is_import
       order by changed_at, id limit 1`.execute(db)
    if (rows[0]) return rows[0]
  }
  return null
}

/** Stores that all keys of this part of a bulk change are picked; removes the change after the last ones. */
export async function advanceBulkChange(db: Connection, part: BulkChange): Promise<void> {
  const picked = part.picked + part.keys.length
  if (picked >= part.total || part.keys.length === 0) return removeChanges(db, [part])
  for (const list of CHANGE_TABLES)
    await sql`
      update ${list} set rows_picked = ${picked}
       where changed_at = ${part.at}::timestamptz and id = ${part.id}`.execute(db)
}

/** Takes out of changes the keys that were picked, where a budget was spent before the `skipped` ones. */
export async function keepSkippedKeys(
  db: Connection,
  changes: readonly (Pick<ChangedRows, 'at' | 'id'> & {
    readonly skipped: readonly string[]
    /** How many of its first keys were read so far, with the skipped ones. */
    readonly read: number
  })[],
): Promise<void> {
  if (changes.length === 0) return
  for (const list of CHANGE_TABLES)
    await sql`
      update ${list} l set keys = array(select jsonb_array_elements_text(v.skipped)) || l.keys[v.read + 1:], rows_picked = 0
        from jsonb_to_recordset(${jsonBatch(changes)}) as v (at timestamptz, id uuid, skipped jsonb, read integer)
       where l.changed_at = v.at and l.id = v.id`.execute(db)
}

/** Removes changes from the queue. A change made since they were read is a row of its own, and stays. */
export async function removeChanges(db: Connection, changes: readonly ChangedRows[]): Promise<void> {
  if (changes.length === 0) return
  const read = sql`unnest(${changes.map(({ at }) => at)}::timestamptz[], ${changes.map(({ id }) => id)}::uuid[])
                   as read (changed_at, id)`
  for (const list of CHANGE_TABLES)
    await sql`
      delete from ${list} as l using ${read}
       where l.changed_at = read.changed_at and l.id = read.id`.execute(db)
}

/** Changes per merge; fewer are not worth one. */
const MERGE_BATCH_SIZE = 1_000

/**
 * Merges the changes of sources that are currently not picked from, each key once or twice, or the queue would grow with every
 * change. A merge of many keys becomes a bulk change.
 */
export async function mergeChanges(db: Connection, sources: readonly string[], many: number): Promise<void> {
  if (sources.length === 0) return
  await sql`
    with oldest as (
      select changed_at, id, count(*) over () as count from (
        select changed_at, id from fillrate.changed_rows
         where source = any(${[...sources]}::text[]) and not is_import
         order by changed_at, id limit ${MERGE_BATCH_SIZE}
      ) o
    ), taken as (
      delete from fillrate.changed_rows l using oldest o
       where o.count = ${MERGE_BATCH_SIZE} and l.changed_at = o.changed_at and l.id = o.id
      returning l.changed_at, l.source, l.keys, l.is_delete
    )
    insert into fillrate.changed_rows (changed_at, source, keys, is_import, is_delete)
    select min(changed_at), source, array_agg(distinct k), count(distinct k) > ${many}, is_delete
      from taken, unnest(keys) k group by source, is_delete`.execute(db)
}

interface AbandonedRow {
  readonly source: string
  readonly key: string
  readonly trigger: 'follow' | 'backfill'
}

/**
 * Waiting rows that dead live-sync runs had picked because they changed. Rows of other dead runs wait for the next run
 * of that kind. They are picked from here and not queued as changes again, because writing to the queue can conflict
 * with a user's transaction.
 */
export async function listAbandonedChanges(
  db: Connection,
  sources: readonly string[],
  limit: number,
): Promise<AbandonedRow[]> {
  const { rows } = await sql<AbandonedRow>`
    with dead_run as materialized (
      select id, trigger from fillrate.runs
       where options ->> 'follow' = 'true' and not ${IS_RUNNING}
         and started_at > now() - interval '7 days' and cancelled_at is null and id in ${runsWithWaitingSql(sources)}
    )
    select r.source, r.key, d.trigger from dead_run d cross join lateral ${waitingRowsSql('d.id', sources)} r
     where not exists (select from fillrate.lookups l where l.id = r.lookup_id and l.state = 'submitted')
     limit ${limit}`.execute(db)
  return rows
}

/** Changed rows of a source that live sync has not picked yet. */
export interface QueuedChanges {
  readonly source: string
  /** One that several statements have changed is counted with each. */
  readonly rows: number
  /** Of an import, which is picked after all other changes. */
  readonly isImport: boolean
  readonly oldestAt: Date
}

export async function listQueuedChanges(db: Connection): Promise<QueuedChanges[]> {
  const { rows } = await sql<QueuedChanges>`
    select source, is_import as "isImport", rows, oldest_at as "oldestAt"
      from ${queuedChangesSql} q order by source, is_import`.execute(db)
  return rows
}
