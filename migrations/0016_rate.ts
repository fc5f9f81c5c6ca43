import { sql, type Kysely } from 'kysely'

/**
 * Limits of 2^31 calls and more, and windows of 25 days and more, did not fit: what was known of such a limit was lost,
 * and the last call of each window never made. The table has one row a key, so that it is rewritten in no time.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table fillrate.rate_limits
      alter column "limit" type bigint,
      alter column window_ms type bigint`.execute(db)
}
