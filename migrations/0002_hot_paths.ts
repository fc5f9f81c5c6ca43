import { sql, type Kysely } from 'kysely'

/**
 * Half of what a row cost was spent on references and indexes that it passed through in seconds.
 *
 * - The rows of `lookups`, `rows` and `changes` refer to others without a foreign key: one looks at, and locks, the
 *   row that it refers to for each row that is inserted. Nothing refers to what was never there, because identifiers
 *   come from the same statement or the one before. What `on delete set null` did for rows and runs, a trigger a
 *   statement does; the lookup of a change and the job of a lookup may be one that is no more.
 * - `lookups.to_write` is a table of its own, `unwritten`: a flag costs a new version of the whole lookup, with an
 *   entry in each of its indexes, when it is set and again when it is taken away.
 * - `rows_waiting` held some of what `rows_by_lookup` holds.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table fillrate.unwritten (
      lookup bigint primary key
    ) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000)`.execute(db)
  await sql`insert into fillrate.unwritten (lookup) select id from fillrate.lookups where to_write`.execute(
    db,
  )
  await sql`alter table fillrate.lookups drop column to_write`.execute(db)

  await sql`alter table fillrate.lookups drop constraint lookups_run_fkey, drop constraint lookups_job_fkey`.execute(
    db,
  )
  await sql`alter table fillrate.rows drop constraint rows_lookup_fkey, drop constraint rows_run_fkey`.execute(
    db,
  )
  await sql`alter table fillrate.changes drop constraint changes_run_fkey, drop constraint changes_lookup_fkey`.execute(
    db,
  )
  await sql`drop index fillrate.rows_waiting`.execute(db)

  await sql`
    create function fillrate.leave_lookups() returns trigger language plpgsql as $$
    begin
      update fillrate.rows set lookup = null where lookup in (select id from gone);
      delete from fillrate.unwritten where lookup in (select id from gone);
      return null;
    end $$`.execute(db)
  await sql`
    create trigger leave after delete on fillrate.lookups referencing old table as gone
      for each statement execute function fillrate.leave_lookups()`.execute(db)

  await sql`
    create function fillrate.leave_runs() returns trigger language plpgsql as $$
    begin
      update fillrate.lookups set run = null where run in (select id from gone);
      update fillrate.rows set run = null where run in (select id from gone);
      update fillrate.changes set run = null where run in (select id from gone);
      return null;
    end $$`.execute(db)
  await sql`
    create trigger leave after delete on fillrate.runs referencing old table as gone
      for each statement execute function fillrate.leave_runs()`.execute(db)
}
