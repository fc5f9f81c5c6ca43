import { sql, type Kysely } from 'kysely'

/** A tombstone is looked for by its hash alone, which holds the kind: once for each record that is stored. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`create index suppressions_by_hash on fillrate.suppressions (hash)`.execute(db)
}
