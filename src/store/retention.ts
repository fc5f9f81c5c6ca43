import { type RawBuilder, sql } from 'kysely'
import type { Database } from './open.ts'
import { fromNow, intervalSql, opaque, readOne } from './sql.ts'
import { isOfJobSql, isOfRowSql, isOpenMemberSql } from './terms.ts'
import type { Connection } from './transaction.ts'

// Deletes expired data in small batches. The lowest ids are the oldest rows, so no table that is written all day needs
// another index for this.

/**
 * Deletes expired records with their lookups. A lookup links its identifier to what was written, by which
 * `forget` finds it. So it stays, without its record, as long as a row has it or a change may name it, and
 * is requested again when it is needed.
 * @param keep.changesMs null: changes are kept forever
 * @param after the id to continue after
 * @returns how many were deleted, and the id to continue after (null: done)
 */
export async function deleteRecords(
  db: Database,
  { recordsMs, changesMs }: { readonly recordsMs: number; readonly changesMs: number | null },
  after: number,
  batch: number,
): Promise<{ readonly dropped: number; readonly next: number | null }> {
  // What is written last from a record is written before it expires.
  const keptFor = changesMs === null ? sql`null::interval` : intervalSql(changesMs)
  const mayHaveChange = sql`(l.record is not null or l.reason is not distinct from ${EXPIRED_REASON})
           and coalesce(l.resolved_at > now() - ${intervalSql(recordsMs)} - ${keptFor}, true)`
  const deleted = sql<{ looked: number; last: number | null; dropped: number }>`
    with page as (
      select id from fillrate.lookups where id > ${after} order by id limit ${batch}
    ), chosen as materialized (
      select l.id, ${mayHaveChange} or ${isOfRowSql()} as is_link
        from fillrate.lookups l
       -- Judged again once it is locked: a record that was stored meanwhile is no old one.
       where l.id in (select id from page) and l.resolved_at < now() - ${intervalSql(recordsMs)}
         and not exists (select from fillrate.rows r where r.lookup_id = l.id and ${opaque(sql`r.state = 'waiting'`)})
         for update skip locked
    ), dropped as (
      delete from fillrate.lookups l using chosen where l.id = chosen.id and not is_link returning 1
    ), emptied as (
      update fillrate.lookups l
         set state = case when l.state = 'found' then 'failed' else l.state end,
             reason = case when l.state = 'found' then ${EXPIRED_REASON} else l.reason end,
             record = null, malformed = null, confidence = null, refresh_at = least(l.refresh_at, now())
        from chosen where l.id = chosen.id and is_link and (l.record is not null or l.malformed is not null or l.refresh_at > now())
      returning l.id
    ), skipped as (
      delete from fillrate.skipped_cells where lookup_id in (select id from emptied)
    )
    select (select count(*) from page) as looked, (select max(id) from page) as last,
           (select count(*) from dropped) + (select count(*) from emptied) as dropped`
  const { looked, last, dropped } = await readOne(db, deleted)
  return { dropped, next: looked === batch ? last : null }
}

/** Reason of a lookup whose record has expired. */
const EXPIRED_REASON = 'its record is older than keepRecords'

/** Deletes changes, those of each run in the order of their ids: no index has the ids of all runs. @returns how many were deleted */
export async function deleteChanges(db: Connection, keepMs: number, batch: number): Promise<number> {
  const expired = (run: RawBuilder<unknown>): RawBuilder<unknown> => sql`
    select ctid from (select ctid, written_at from fillrate.changes where run_id ${run} order by id limit ${batch}) oldest
     where written_at < now() - ${intervalSql(keepMs)}`
  const result = await sql`
    delete from fillrate.changes where ctid = any(array(
      select expired.ctid from fillrate.runs r cross join lateral (${expired(sql`= r.id`)} offset 0) expired
       where r.started_at < now() - ${intervalSql(keepMs)}
       union all (${expired(sql`is null`)})
       limit ${batch}))`.execute(db)
  return Number(result.numAffectedRows ?? 0)
}

/** By table: which rows `t` may be deleted once they are older than `before`, and in which order. Results that are paid for and not read stay. */
const EXPIRED = {
  deliveries: (before) => sql`
    received_at < ${before} and state <> 'received' and not exists (
      select from fillrate.jobs j where j.state = 'unread' and ${isOfJobSql(sql`t`)}) order by received_at`,
  jobs: (before) => sql`
    finished_at < ${before}
      and not exists (select from unnest(t.lookup_ids) as m (id) join fillrate.lookups l on l.id = m.id where ${isOpenMemberSql('t.key')})`,
  // Without any row, job or change. A lookup may name one that is gone.
  runs: (before) => sql`
    finished_at < ${before}
      and not exists (select from fillrate.rows where run_id = t.id)
      and not exists (select from fillrate.jobs where run_id = t.id)
      -- A scheduled run may be resumed days later, with what is left of its budget.
      and (budget_name is null or finished_at < now() - interval '30 days')
      and not exists (select from fillrate.changes where run_id = t.id) order by id`,
  // Except the latest of each schedule.
  scheduled_runs: (before) => sql`
    at < ${before} and state <> 'running'
      and (request is not null or
           exists (select from fillrate.scheduled_runs later where later.schedule = t.schedule and later.at > t.at))`,
  conditions: (before) => sql`ended_at < ${before}`,
  audit_events: (before) => sql`at < ${before} order by id`,
} as const satisfies Record<string, (before: RawBuilder<Date>) => RawBuilder<unknown>>

/** Deletes expired rows of a table. @returns how many */
export async function deleteExpired(
  db: Connection,
  table: keyof typeof EXPIRED,
  keepMs: number,
  batch: number,
): Promise<number> {
  const name = sql.id('fillrate', table)
  const { numAffectedRows } = await sql`
    delete from ${name} where ctid = any(array(
      select ctid from ${name} t where ${EXPIRED[table](fromNow(-keepMs))} limit ${batch} for update skip locked))`.execute(
    db,
  )
  return Number(numAffectedRows ?? 0)
}
