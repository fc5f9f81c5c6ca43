import { sql, type Kysely } from 'kysely'

/**
 * What the service answered to a lookup in place of a record: the latest of each, a few in all, for people to look
 * at. Goes with its lookup, because it may hold what a person is known by.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table fillrate.kept_answers (
      lookup bigint primary key references fillrate.lookups (id) on delete cascade,
      received_at timestamptz not null default clock_timestamp(),
      status integer not null,
      body text not null
    )`.execute(db)
}
