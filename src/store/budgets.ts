import { type RawBuilder, sql } from 'kysely'
import { roundCredits } from '../domain/spend.ts'
import type { RunService } from './pending-lookups.ts'
import { PREPARED, readOne } from './sql.ts'
import { lockedHasSuppressionsSql } from './suppressions.ts'
import { type Connection, END_LOCK_TIMEOUT, type Tx } from './transaction.ts'

// Spending is counted in the database only: a counter in a process would be lost with it, and would be wrong after a
// COMMIT whose answer was lost.

export interface BudgetUsage {
  /** Credits: of a service that bills by the lookup, lookups. */
  readonly lookups: number
  readonly bySource: Readonly<Record<string, number>>
  /** What the run itself has spent of it at one service. */
  readonly own?: number
  /** Other runs spend from the same budget. */
  readonly isShared: boolean
}

/**
 * SQL: credits that were charged to runs and not spent, because lookups cost less than the most that they could. Empty where
 * a lookup costs one credit: the partial indexes then answer it at once.
 */
const returnedSql = (of: RawBuilder<boolean>): RawBuilder<unknown> => sql`(
  select source, service_id, returned from fillrate.spend where returned <> 0 and ${of})`

const ofRunSql = (run: RawBuilder<unknown>) => sql<boolean>`run_id = ${run}`
export const ofBudgetSql = (name: RawBuilder<unknown>) =>
  sql<boolean>`run_id in (select id from fillrate.runs where budget_name = ${name})`

/** SQL: the runs that spend from the budget of the run `r`. One condition, because each one is planned anew with every page. */
const ofSpenderSql = sql<boolean>`run_id = any(case when r.budget_name is null then array[r.id]
  else array(select id from fillrate.runs where budget_name = r.budget_name) end)`

/** SQL: the sum that was returned, of all or of one source or service. */
const returnedSumSql = (
  of: RawBuilder<boolean>,
  only: RawBuilder<boolean> = sql`true`,
): RawBuilder<unknown> => sql`
  coalesce((select sum(returned) from ${returnedSql(of)} as x where ${only}), 0)`

/** SQL: the same by source, as jsonb; null: nothing. */
export const returnedBySourceSql = (of: RawBuilder<boolean>): RawBuilder<unknown> => sql`
  (select jsonb_object_agg(source, returned)
     from (select source, sum(returned) as returned from ${returnedSql(of)} as x group by source) as y)`

/** A budget as it is stored, and what of it came back. */
interface StoredUsage {
  readonly lookups: number
  readonly bySource: Readonly<Record<string, number>>
  readonly returned: Readonly<Record<string, number>> | null
}

export function toNetUsage({
  lookups,
  bySource,
  returned,
}: StoredUsage): Pick<BudgetUsage, 'lookups' | 'bySource'> {
  if (returned === null) return { lookups, bySource }
  return {
    lookups: roundCredits(lookups - Object.values(returned).reduce((sum, credits) => sum + credits, 0)),
    bySource: Object.fromEntries(
      Object.entries(bySource).map(([source, charged]) => [
        source,
        roundCredits(charged - (returned[source] ?? 0)),
      ]),
    ),
  }
}

type UsageRow = StoredUsage & Pick<BudgetUsage, 'isShared'> & { readonly own: number }

/** SQL: what the run `r` was charged for a service, and what came back of it. */
const spentOnSql = (service: number): RawBuilder<unknown> =>
  sql`coalesce((r.spent_by_service ->> ${service}::text)::numeric, 0)`
const returnedOnSql = (service: number): RawBuilder<unknown> =>
  returnedSumSql(ofRunSql(sql`r.id`), sql`x.service_id = ${service}`)

const usageColumnsSql = (service: number | null): RawBuilder<unknown> => sql`
           case when r.budget_name is null then r.lookups_spent else coalesce(b.lookups_spent, 0) end::float8 as lookups,
           case when r.budget_name is null then r.spent_by_source else coalesce(b.spent_by_source, '{}') end as "bySource",
           r.budget_name is not null as "isShared",
           ${service === null ? sql`0` : sql`(${spentOnSql(service)} - ${returnedOnSql(service)})::float8`} as own,
           ${returnedBySourceSql(ofSpenderSql)} as returned`

const fromUsageSql = (run: number): RawBuilder<unknown> => sql`
      from fillrate.runs r left join fillrate.budgets b on b.name = r.budget_name
     where r.id = ${run}`

const toUsage = (usage: UsageRow | undefined): BudgetUsage =>
  usage
    ? { ...toNetUsage(usage), own: usage.own, isShared: usage.isShared }
    : { lookups: 0, bySource: {}, own: 0, isShared: false }

/**
 * Lookups charged to a run's budget so far. Reads without a lock: `chargeBudget` decides.
 * @param service whose part of it is wanted; null: none
 */
export async function readBudgetUsage(
  db: Connection,
  run: number,
  service: number | null = null,
): Promise<BudgetUsage> {
  const { rows } = await sql<UsageRow>`select ${usageColumnsSql(service)} ${fromUsageSql(run)}`.execute(db)
  return toUsage(rows[0])
}

/**
 * The same, and whether anything was ever erased, in one statement, which also ends the wait for locks of a
 * user's table (`OnTable`). The suppressions stay locked until the transaction ends (`lockExclusively`).
 */
export async function readBeforeClaim(
  tx: Tx,
  run: number,
  service: number | null = null,
): Promise<{ readonly spent: BudgetUsage; readonly hasSuppressions: boolean }> {
  const { rows } = await sql<UsageRow & { hasSuppressions: boolean }>`
    select ${usageColumnsSql(service)}, ${END_LOCK_TIMEOUT}, ${lockedHasSuppressionsSql} as "hasSuppressions"
           ${fromUsageSql(run)}`.execute(tx)
  const [row] = rows
  // Without the run nothing is claimed.
  return { spent: toUsage(row), hasSuppressions: row?.hasSuppressions ?? true }
}

/** What a budget allows, in credits. Null is unlimited. */
export interface ChargeLimits {
  readonly run: number | null
  readonly source: number | null
  /** Of a shared budget, for this run and service alone. */
  readonly own?: number | null
}

/**
 * Charges credits to a run, to its source and service, and to the budget that it shares. Call it as the last statement of the
 * transaction that claims them: the run's row stays locked until the end, and the run's heartbeat waits for that lock.
 * @returns false, with nothing charged, if the budget does not cover them or the run is no longer running
 */
export async function chargeBudget(
  tx: Tx,
  { run, service }: RunService,
  source: string,
  limits: ChargeLimits,
  lookups: number,
): Promise<boolean> {
  if (lookups === 0) return true
  const addedSql = (of: RawBuilder<unknown>) => sql`
    lookups_spent = ${of}.lookups_spent + ${lookups}::numeric,
    spent_by_source = ${of}.spent_by_source || jsonb_build_object(${source}::text,
      coalesce((${of}.spent_by_source ->> ${source}::text)::numeric, 0) + ${lookups}::numeric)`
  // What is unlimited needs no sums, which take longer to plan than the rest.
  const isCoveredSql = (of: RawBuilder<unknown>, runs: RawBuilder<boolean>) => {
    const spentBySource = sql`coalesce((${of}.spent_by_source ->> ${source}::text)::numeric, 0)`
    const isCovered = [
      ...(limits.run === null
        ? []
        : [
            sql`${of}.lookups_spent + ${lookups}::numeric - ${returnedSumSql(runs)} <= ${limits.run}::numeric`,
          ]),
      ...(limits.source === null
        ? []
        : [
            sql`${spentBySource} + ${lookups}::numeric - ${returnedSumSql(runs, sql`x.source = ${source}`)} <= ${limits.source}::numeric`,
          ]),
    ]
    return isCovered.length === 0 ? sql`true` : sql`(${sql.join(isCovered, sql` and `)})`
  }
  // Prepared where it goes by primary keys alone: what was returned is found by indexes that a plan from before may not use.
  const isUnlimited = limits.run === null && limits.source === null
  const isOwnCovered =
    limits.own == null
      ? sql``
      : sql`and ${spentOnSql(service)} + ${lookups}::numeric - ${returnedOnSql(service)} <= ${limits.own}::numeric`
  const result = await sql`${isUnlimited ? PREPARED : sql``}
    with shared as (
      update fillrate.budgets b set ${addedSql(sql`b`)}
        from fillrate.runs r
       where r.id = ${run} and r.state = 'running' and b.name = r.budget_name
         and ${isCoveredSql(sql`b`, ofBudgetSql(sql`b.name`))}
      returning b.name
    )
    update fillrate.runs r set ${addedSql(sql`r`)},
           spent_by_service = r.spent_by_service || jsonb_build_object(${service}::text, ${spentOnSql(service)} + ${lookups}::numeric)
     where r.id = ${run} and r.state = 'running'
       and case when r.budget_name is null then ${isCoveredSql(sql`r`, ofRunSql(sql`r.id`))} else exists (select from shared) end
       ${isOwnCovered}`.execute(tx)
  return result.numAffectedRows === 1n
}

/** The budget that all runs of live sync share on a day, by Postgres's clock, and what it has spent. */
interface DayBudget {
  readonly name: string
  readonly spent: number
  readonly bySource: Readonly<Record<string, number>>
}

/** Today's budget, in UTC: one row a day, charged in the transaction that claims lookups. */
export async function readDayBudget(db: Connection): Promise<DayBudget> {
  const budget = sql<StoredUsage & Pick<DayBudget, 'name'>>`
    select today.name, coalesce(b.lookups_spent, 0)::float8 as lookups, coalesce(b.spent_by_source, '{}') as "bySource",
           ${returnedBySourceSql(ofBudgetSql(sql`today.name`))} as returned
      from (select 'follow ' || to_char(now() at time zone 'UTC', 'YYYY-MM-DD') as name) as today
      left join fillrate.budgets b on b.name = today.name`
  const today = await readOne(db, budget)
  const { lookups, bySource } = toNetUsage(today)
  return { name: today.name, spent: lookups, bySource }
}

/** The budget of a run in progress. */
interface RunBudgetUsage extends BudgetUsage {
  readonly id: number
  readonly isScheduled: boolean
  /** Null is unlimited. */
  readonly limit: number | null
  readonly sources: readonly string[]
}

/** The budgets of the runs in progress, except those of live sync, which share the budget of the day. */
export async function listRunBudgets(db: Connection): Promise<RunBudgetUsage[]> {
  const { rows } = await sql<RunBudgetUsage & StoredUsage>`
    select r.id, r.trigger = 'schedule' as "isScheduled", (r.options ->> 'budget')::bigint as "limit", r.sources,
           coalesce(b.lookups_spent, r.lookups_spent)::float8 as lookups, coalesce(b.spent_by_source, r.spent_by_source) as "bySource",
           b.name is not null as "isShared",
           case when b.name is null then ${returnedBySourceSql(ofRunSql(sql`r.id`))}
                else ${returnedBySourceSql(ofBudgetSql(sql`b.name`))} end as returned
      from fillrate.runs r left join fillrate.budgets b on b.name = r.budget_name
     where r.state = 'running' and r.options ->> 'follow' is distinct from 'true' and r.scopes <> '{}'
     order by r.id`.execute(db)
  return rows.map(({ returned, lookups, bySource, ...run }) => ({
    ...run,
    ...toNetUsage({ lookups, bySource, returned }),
  }))
}
