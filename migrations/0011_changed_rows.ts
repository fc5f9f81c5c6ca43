import { sql, type Kysely } from 'kysely'

/**
 * The list of changed rows, which the triggers on users' tables only append to. `followed`, the list before, is read as
 * long as there are triggers that write to it; no new one does.
 *
 * - One row a statement, with its keys. Each key only once would need a unique index: a user whose transaction changes a
 *   key that another one has changed would wait for it, and at REPEATABLE READ fail.
 * - The primary key gives the order of reading. No sequence: `alter sequence` in an open transaction locks it.
 * - `changed_rows_spare` takes the keys of statements that find `changed_rows` locked (VACUUM FULL, REINDEX, an ALTER).
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  // Without `vacuum_truncate = false`, autovacuum locks the list for moments in which it is not needed.
  const settings = sql`
    with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, vacuum_truncate = false)`
  for (const table of ['changed_rows', 'changed_rows_spare']) {
    const name = sql.id('fillrate', table)
    await sql`
      create table ${name} (
        changed_at timestamptz not null default now(),
        id uuid not null default gen_random_uuid(),
        source text not null,
        keys text[] not null,
        is_import boolean not null,
        primary key (changed_at, id)
      ) ${settings}`.execute(db)
    // 100,000 keys are a megabyte: the statement that changed them would wait for their compression.
    await sql`alter table ${name} alter column keys set storage external`.execute(db)
  }

  // The triggers' functions run with the rights of the role that installed them: with EXECUTE, another role could put
  // them on a table of its own and have them run its code. A trigger fires without that privilege.
  await sql`
    do $$
    declare
      function regprocedure;
    begin
      for function in
        select oid from pg_catalog.pg_proc
         where pronamespace = 'fillrate'::regnamespace and pg_catalog.pg_has_role(proowner, 'usage')
      loop
        execute format('revoke all on function %s from public', function);
      end loop;
    end $$`.execute(db)
}
