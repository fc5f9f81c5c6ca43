import { sql, type Kysely } from 'kysely'

/**
 * `runs.version`: the version of Fillrate that made the run; null: one that did not store it. `fillrate.processes` has that
 * of daemons and `run` only while they live. `undo` and `remap` are in no list of processes, so that a migration which ends
 * the support of a version could not see that they still ran. And what a version has written is found, and undone, by it.
 *
 * Adding a column without a default changes the catalogue alone. A version that does not know the column goes on beside it.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table fillrate.runs add column version text`.execute(db)
}
