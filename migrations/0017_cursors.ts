import { sql, type Kysely } from 'kysely'

/** What bounds how far `changedAt` was read: the start of the pass, what was running then, the last whole pass. */
export async function up(db: Kysely<unknown>): Promise<void> {
  // What was noted by a process's own clock bounds nothing: the next pass reads the whole table.
  await sql`delete from fillrate.passes`.execute(db)
  await sql`
    alter table fillrate.passes
      add column started_at timestamptz not null,
      add column snapshot_xmax bigint not null,
      add column full_pass_at timestamptz not null`.execute(db)
}
