import { sql, type Kysely } from 'kysely'

/**
 * What the process that calls tells the others: until when its successor must not call, because the limit may be used
 * up; how it stands, for `status`; and that the service is down.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table fillrate.rate_limits
      add column spent_until timestamptz,
      add column told jsonb,
      add column told_at timestamptz,
      add check ((told is null) = (told_at is null))`.execute(db)

  await sql`
    create table fillrate.outages (
      scope text primary key,
      since timestamptz not null default now(),
      probe_at timestamptz not null,
      pause_ms integer not null check (pause_ms > 0)
    )`.execute(db)
}
