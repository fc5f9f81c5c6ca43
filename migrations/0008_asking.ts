import { sql, type Kysely } from 'kysely'

/**
 * How far the lookups under a lease's token have been asked, in the order of their ids. A process leases more than it
 * has calls on the wire, so that none of these waits for a search; those that were not asked when it was killed are
 * not in doubt. One row for many calls, and a new one each time: a mark on each lookup would cost a version of each,
 * and one row that grows would hold up the writes that go side by side.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table fillrate.asking (
      token uuid not null,
      up_to bigint not null,
      at timestamptz not null default now()
    ) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000)`.execute(db)
  await sql`create index asking_by_token on fillrate.asking (token)`.execute(db)
  // Leased by an older version, which asked at once whatever it leased.
  await sql`
    insert into fillrate.asking (token, up_to)
    select lease_token, max(id) from fillrate.lookups where state = 'leased' group by lease_token`.execute(db)
}
