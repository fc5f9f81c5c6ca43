import { sql, type Kysely } from 'kysely'

/**
 * What the process that calls tells the others: until when its successor must not call, because the limit may be used
 * up, and how it stands, for `status` and for the runs of other processes.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table fillrate.rate_limits
      add column spent_until timestamptz,
      add column told jsonb,
      add column told_at timestamptz,
      add check ((told is null) = (told_at is null))`.execute(db)
}
