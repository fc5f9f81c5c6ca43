import { sql } from 'kysely'
import { opaque, readOne, unnestByRow } from './sql.ts'
import type { Connection, Tx } from './transaction.ts'

// Finished rows that may be picked again from a time on. `due_rows` lists their keys by hour, so that `rows` needs no index
// of that time; `rows.due_at` decides.

/** Of more keys than that, sorting them for each page takes longer than walking `rows`. */
const MANY_KEYS = 200_000

/**
 * Rows of a source that are due again, for a pass that does not read the whole table.
 * @param after keyset: keys after this one
 * @param most listed keys that are sorted; of more, the rows are read in their order
 */
export async function listDueRows(
  db: Connection,
  source: string,
  after: string,
  limit: number,
  most = MANY_KEYS,
): Promise<string[]> {
  const counted = sql<{ listed: number }>`
    select coalesce(sum(cardinality(keys)), 0)::bigint as listed from fillrate.due_rows
     where source = ${source} and due_at <= now()`
  const { listed } = await readOne(db, counted)
  if (listed === 0) return []
  const isDue = opaque(sql`due_at <= now() and state <> 'waiting' and deleted_at is null`)
  const { rows } = await (
    listed > most
      ? sql<{ key: string }>`
    select key from fillrate.rows where source = ${source} and key > ${after} and ${isDue} order by key limit ${limit}`
      : sql<{ key: string }>`
    select listed.key
      from (select distinct k.key from fillrate.due_rows d cross join unnest(d.keys) as k (key)
             where d.source = ${source} and d.due_at <= now() and k.key > ${after} order by k.key) listed
     cross join lateral (
       select from fillrate.rows where source = ${source} and key = listed.key and ${isDue} offset 0) r
     order by listed.key limit ${limit}`
  ).execute(db)
  return rows.map((row) => row.key)
}

/** Makes due rows due later. */
export async function postponeDueRows(
  tx: Tx,
  source: string,
  postponed: readonly { readonly key: string; readonly settledUntil: Date | null }[],
): Promise<void> {
  const values = postponed.map(({ key, settledUntil }) => ({ key, until: settledUntil }))
  await sql`
    update fillrate.rows r set due_at = v.until
      from ${unnestByRow(source, values, { until: 'timestamptz' })}
     where r.ctid = v.ctid and r.state <> 'waiting' and r.due_at <= now()`.execute(tx)
}

/** Entries that are read at a time, and of these that are due the ones whose rows are searched. */
const READ_ENTRIES = 1_000
const PRUNED_ENTRIES = 100

/** SQL: where to begin, so that each entry is read as often; all entries if they are few. */
const startSql = sql`
  (select min(id) + case when max(id) - min(id) < ${READ_ENTRIES} then 0
                         else floor(random() * (max(id) - min(id) + ${READ_ENTRIES})) - ${READ_ENTRIES - 1} end
     from fillrate.due_rows)::bigint`

/**
 * Deletes entries that are due and list no row of their hour any more: what they listed was picked, and is listed by the entry of
 * its next time. Chosen at random: rows that stay due, because none of their cells is empty or their source is no longer
 * read, keep their entries for ever, and these would be the oldest each time. By `id`, the only order of the entries of all sources.
 */
export async function pruneDueRows(db: Connection): Promise<void> {
  const hasRows = sql`exists (
    select from unnest(d.keys) as k (key)
     cross join lateral (
       select from fillrate.rows
        where source = d.source and key = k.key
          and ${opaque(sql`state <> 'waiting' and deleted_at is null and due_at >= d.due_at and due_at < d.due_at + interval '1 hour'`)} offset 0) r)`
  await sql`
    with page as materialized (
      select * from fillrate.due_rows where id >= ${startSql} order by id limit ${READ_ENTRIES}
    ), chosen as materialized (
      select * from page where due_at <= now() order by random() limit ${PRUNED_ENTRIES}
    )
    delete from fillrate.due_rows where id = any(array(
      select id from fillrate.due_rows where id = any(array(select id from chosen d where not ${hasRows})) for update skip locked))`.execute(
    db,
  )
}
