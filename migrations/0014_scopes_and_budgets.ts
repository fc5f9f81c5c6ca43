import { sql, type Kysely } from 'kysely'

/**
 * Budgets that outlive a process, and services that never mix.
 *
 * - `runs.spent` counts the lookups of every run, in the transaction that takes them. Several runs can share one budget:
 *   those that were begun for the same tick of the schedule, because the processes of the first ones died.
 * - `services` numbers the services that this database has met, and a lookup is a question to one of them: what a test
 *   service made up is no answer of the live one. A number of two bytes in place of the host in three million lookups;
 *   what was there before belongs to the first service that is met, number 0, without a write to any row. A row keeps
 *   which service settled it, so that a pass needs no join to see that another one did.
 * - `runs.scope` and `jobs.scope`: only the process that calls for a scope, one key of one service, serves its runs.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table fillrate.budgets (
      name text primary key,
      spent bigint not null default 0 check (spent >= 0),
      created_at timestamptz not null default now()
    )`.execute(db)
  await sql`
    create table fillrate.services (
      id smallint primary key check (id >= 0),
      host text not null unique,
      first_seen_at timestamptz not null default now()
    )`.execute(db)
  await sql`
    alter table fillrate.runs add column budget_name text, add column scope text,
      add column service smallint not null default 0`.execute(db)
  await sql`alter table fillrate.jobs add column scope text`.execute(db)
  await sql`alter table fillrate.rows add column service smallint not null default 0`.execute(db)
  await sql`alter table fillrate.lookups add column service smallint not null default 0`.execute(db)
  // The new index first: there is no moment without one.
  await sql`create unique index lookups_by_question on fillrate.lookups (kind, key, service)`.execute(db)
  await sql`alter table fillrate.lookups drop constraint lookups_kind_key_key`.execute(db)
}
