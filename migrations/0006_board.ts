import { sql, type Kysely } from 'kysely'

/**
 * What people look at: paused sources, coverage over time, and what was asked, kept by the processes that do it so that
 * any other process can tell. None of it decides anything but the pauses.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table fillrate.pauses (
      source text primary key,
      paused_at timestamptz not null default now(),
      paused_by text not null
    )`.execute(db)

  // One row a measurement. The first of a source stays, so that there is something to compare with.
  await sql`
    create table fillrate.coverage (
      source text not null,
      at timestamptz not null default now(),
      eligible bigint not null check (eligible >= 0),
      filled jsonb not null,
      took_ms integer not null check (took_ms >= 0),
      primary key (source, at)
    )`.execute(db)

  // Calls in steps of ten seconds, for a day.
  await sql`
    create table fillrate.requests (
      at timestamptz not null,
      endpoint text not null check (endpoint in ('person', 'company', 'bulk')),
      status text not null,
      calls integer not null check (calls >= 0),
      primary key (at, endpoint, status)
    ) with (fillfactor = 70)`.execute(db)

  // Numbers that only grow, each under its Prometheus name and labels, summed over every process there ever was.
  await sql`
    create table fillrate.counters (
      name text not null,
      labels text not null,
      value double precision not null,
      primary key (name, labels)
    ) with (fillfactor = 70)`.execute(db)
}
