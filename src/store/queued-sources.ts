import { sql } from 'kysely'
import { opaque } from './sql.ts'
import type { Connection } from './transaction.ts'

/** Whether anything is queued: a poll that finds nothing needs no transaction. */
export async function hasQueued(db: Connection): Promise<boolean> {
  const { rows } = await sql<{ any: boolean }>`
    select exists (select from fillrate.write_back_queue) as any`.execute(db)
  return rows[0]?.any ?? false
}

/**
 * The sources whose rows wait for queued lookups.
 * @param most lookups that are looked at
 * @returns null: more are queued
 */
export async function listQueuedSources(db: Connection, most: number): Promise<ReadonlySet<string> | null> {
  const { rows } = await sql<{ lookups: number; sources: string[] }>`
    with queued as materialized (
      select q.lookup_id from (select id, lookup_ids from fillrate.write_back_queue order by id) u
       cross join lateral unnest(u.lookup_ids) as q (lookup_id) limit ${most + 1}
    )
    select (select count(*)::int from queued) as lookups,
           array(select distinct r.source from queued q cross join lateral (
             select source from fillrate.rows
              where lookup_id = q.lookup_id and ${opaque(sql`state = 'waiting'`)} offset 0) r) as sources`.execute(
    db,
  )
  const [queued] = rows
  return queued === undefined || queued.lookups > most ? null : new Set(queued.sources)
}
