import { type RawBuilder, sql } from 'kysely'
import type { Connection } from './transaction.ts'

// Which lookups each run requests. `lookups.run_id` decides; `run_lookups` says where to look.

/**
 * SQL: lists the lookups of these entries of the queue for their runs. A lookup that gets another run is pending, and so it is
 * in one of those that the same statement has appended: grouping them once more would cost as much again.
 * @param entries relations of `run_id` and `lookup_ids`, as `enqueuePendingSql` and `enqueueKeyedSql` return them: the queue has
 *   them in the order in which they are read here
 */
export const listForRunSql = (entries: readonly string[]): RawBuilder<unknown> => sql`listed as (
      insert into fillrate.run_lookups (run_id, lookup_ids)
      ${sql.join(
        entries.map((relation) => sql`select run_id, lookup_ids from ${sql.ref(relation)}`),
        sql` union all `,
      )}
    )`

/** SQL: the lookup `l` is one of a run's. Each is met once, however many entries list it. */
export const isOfRunSql = (run: number): RawBuilder<boolean> => sql`(
  l.id = any(array(select unnest(lookup_ids) from fillrate.run_lookups where run_id = ${run})) and l.run_id = ${run})`

/** Pages of the table that are read at a time: each lists a thousand lookups at most. */
const READ_PAGES = 10

/**
 * Deletes entries that list no lookup of their run any more, and shortens those of which at most half are left: a run whose lookups
 * later ones request again, each time they are out of date, would keep what it has listed for as long as one of its rows is left.
 * Reads a few pages, chosen at random: most entries keep what they list, and a pass over all would read every lookup.
 * @returns how many entries were deleted or shortened
 */
export async function pruneRunLookups(db: Connection): Promise<number> {
  const placeSql = (page: RawBuilder<unknown>) => sql`(select format('(%s,0)', ${page})::tid from start)`
  const { rows } = await sql<{ count: number }>`
    with start as materialized (
      select case when pages <= ${READ_PAGES} then 0
                  else floor(random() * (pages + ${READ_PAGES} - 1))::bigint - ${READ_PAGES} + 1 end as page
        from (select pg_relation_size('fillrate.run_lookups') / current_setting('block_size')::bigint as pages) size
    ), read as materialized (
      select ctid, run_id, lookup_ids from fillrate.run_lookups
       where ctid >= ${placeSql(sql`greatest(page, 0)`)} and ctid < ${placeSql(sql`page + ${READ_PAGES}`)}
    ), stale as materialized (
      select read.ctid, own.ids from read
       cross join lateral (
         select array_agg(l.id) as ids from fillrate.lookups l
          where l.id = any(read.lookup_ids) and l.run_id = read.run_id offset 0) own
       where coalesce(cardinality(own.ids), 0) <= cardinality(read.lookup_ids) / 2
    ), removed as (
      delete from fillrate.run_lookups r using stale where r.ctid = stale.ctid returning r.run_id, stale.ids
    ), shortened as (
      insert into fillrate.run_lookups (run_id, lookup_ids) select run_id, ids from removed where ids is not null
    )
    select count(*) as count from removed`.execute(db)
  return rows[0]?.count ?? 0
}
