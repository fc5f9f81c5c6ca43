import { sql, type Kysely } from 'kysely'

/**
 * What matching the results of deliveries needs to keep.
 * - `jobs.release_at`: a job is over, and some of its inputs have no result. Until then a further delivery may bring
 *   them; afterwards they are requested again, singly. The index serves the look for those that are due.
 * - `jobs.single`: the service accepted one lookup for later. Its only result is its own, whatever it is called.
 * - `deliveries.quarantined_results`: results that match no input of the job, and were used for none.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table fillrate.jobs
      add column release_at timestamptz,
      add column single boolean not null default false`.execute(db)
  await sql`
    create index jobs_to_release on fillrate.jobs (release_at) where release_at is not null`.execute(db)
  await sql`
    alter table fillrate.deliveries add column quarantined_results integer not null default 0`.execute(db)
  await sql`
    create index deliveries_quarantined on fillrate.deliveries (quarantined_results)
      where quarantined_results > 0`.execute(db)
}
