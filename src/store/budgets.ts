import { sql } from 'kysely'
import type { Database } from './open.ts'
import type { Connection, Tx } from './transaction.ts'

// Spending is counted in the database only: a counter in a process would be lost with it, and would be wrong after a
// COMMIT whose answer was lost.

export interface BudgetUsage {
  readonly lookups: number
  /** Other runs spend from the same budget. */
  readonly isShared: boolean
}

/** Lookups charged to a run's budget so far. Reads without a lock: `chargeBudget` decides. */
export async function readBudgetUsage(db: Connection, run: number): Promise<BudgetUsage> {
  const { rows } = await sql<BudgetUsage>`
    select case when r.budget_name is null then r.lookups_spent else coalesce(b.lookups_spent, 0) end as lookups,
           r.budget_name is not null as "isShared"
      from fillrate.runs r left join fillrate.budgets b on b.name = r.budget_name
     where r.id = ${run}`.execute(db)
  return rows[0] ?? { lookups: 0, isShared: false }
}

/** What is left of a run's budget. @param limit lookups; null is unlimited */
export async function remainingBudget(db: Connection, run: number, limit: number | null): Promise<number> {
  if (limit === null) return Number.POSITIVE_INFINITY
  return Math.max(0, limit - (await readBudgetUsage(db, run)).lookups)
}

/**
 * Charges lookups to a run and to the budget that it shares. Call it as the last statement of the transaction that
 * claims them: the run's row stays locked until the end, and the run's heartbeat waits for that lock.
 * @param limit lookups; null is unlimited
 * @returns false, with nothing charged, if the budget does not cover them or the run is no longer running
 */
export async function chargeBudget(
  tx: Tx,
  run: number,
  limit: number | null,
  lookups: number,
): Promise<boolean> {
  if (lookups === 0) return true
  const result = await sql`
    with shared as (
      update fillrate.budgets b set lookups_spent = b.lookups_spent + ${lookups}::bigint
        from fillrate.runs r
       where r.id = ${run} and r.state = 'running' and b.name = r.budget_name
         and b.lookups_spent + ${lookups}::bigint <= coalesce(${limit}::bigint, 9223372036854775807)
      returning b.name
    )
    update fillrate.runs r set lookups_spent = r.lookups_spent + ${lookups}::integer
     where r.id = ${run} and r.state = 'running'
       and case when r.budget_name is null then r.lookups_spent + ${lookups}::bigint <= coalesce(${limit}::bigint, 9223372036854775807)
                else exists (select from shared) end`.execute(tx)
  return result.numAffectedRows === 1n
}

/** The budget that all runs of a day share, by Postgres's clock, and what it has spent. */
export interface DayBudget {
  readonly name: string
  readonly spent: number
}

/** Today's budget, in UTC: one row a day, charged in the transaction that claims lookups. */
export async function readDayBudget(db: Connection): Promise<DayBudget> {
  const { rows } = await sql<DayBudget>`
    select today.name, coalesce(b.lookups_spent, 0) as spent
      from (select 'follow ' || to_char(now() at time zone 'UTC', 'YYYY-MM-DD') as name) as today
      left join fillrate.budgets b on b.name = today.name`.execute(db)
  const [today] = rows
  if (!today) throw new Error('reading the budget of today returned no row')
  return today
}

/** Deletes shared budgets that are no longer needed. @returns how many were deleted */
export async function deleteBudgets(db: Database, keepMs: number, batch: number): Promise<number> {
  const result = await sql`
    delete from fillrate.budgets where name in (
      select name from fillrate.budgets b
       where created_at < now() - make_interval(secs => ${keepMs / 1000}::double precision)
         and not exists (select from fillrate.runs r where r.state = 'running' and r.budget_name = b.name)
       limit ${batch})`.execute(db)
  return Number(result.numAffectedRows ?? 0)
}
