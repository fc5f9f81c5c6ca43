import { sql, type Kysely } from 'kysely'

/**
 * Budgets that outlive a process, and services that never mix.
 *
 * - `runs.spent` counts the lookups of every run, in the transaction that takes them. Several runs can share one budget:
 *   those that were begun for the same tick of the schedule, because the processes of the first ones died.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table fillrate.budgets (
      name text primary key,
      spent bigint not null default 0 check (spent >= 0),
      created_at timestamptz not null default now()
    )`.execute(db)
  await sql`alter table fillrate.runs add column budget_name text`.execute(db)
}
