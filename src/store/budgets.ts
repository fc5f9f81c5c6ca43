import { sql, type RawBuilder } from 'kysely'
import { MAX_AWAITED_DELAY_MS } from '../domain/backoff.ts'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import type { SingleEndpoint } from '../domain/spend.ts'
import { END_LOCK_TIMEOUT, intervalSql, readOne } from './sql.ts'
import { hasLeasesSql, lockedHasSuppressionsSql, pricedAsSql } from './terms.ts'
import type { Connection, Tx } from './transaction.ts'
import type { RunService } from './pending-lookups.ts'

// A budget is a bound: what was billed, what lost answers may cost, and what is under way are never more. It is computed from what is
// stored, where lookups are leased or put into a job. Nothing is reserved, and so nothing has to be given back.

/** What a run may spend, as it is stored with it. In units of the budget: lookups, credits, or lookups at the highest price. */
export interface RunBound {
  /** Lookups do not cost one credit each. */
  readonly isInCredits: boolean
  /** Null: unlimited. */
  readonly limit: number | null
  /** By the number of each service. */
  readonly services: Readonly<Record<number, ServiceBound>>
}

export interface ServiceBound {
  /** Of the limit, the most for this service. Null: all. */
  readonly own: number | null
  /** What a credit is in units. */
  readonly unit: Readonly<Record<SingleEndpoint, number>>
  /** The most credits that a lookup may cost, as far as is known when the run begins. */
  readonly most: Readonly<Record<LookupKind, number>>
}

export interface BudgetUsage {
  /** In units: billed, in doubt, under way, and waiting to be requested for the run. */
  readonly spent: number
  /** Of it, at one service. */
  readonly own: number
  /** What lookups of that service cost at most, in units, by their kind, as its answers say by now. */
  readonly costs: Readonly<Partial<Record<LookupKind, number>>>
}

/** SQL: what a credit of a service is in units of `budget`. One that the run does not know counts as it is. */
const unitSql = (service: RawBuilder<unknown>, of: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`coalesce((budget.bound #>> array['services', ${service}::text, 'unit', ${of}])::numeric, 1)`
const JOB_CLASS = sql`case when j.is_company then 'company' else 'person' end`

/**
 * SQL: the CTEs of a run's budget:
 *
 * - `budget (id, bound, spenders)`. `spenders`: the runs that share it.
 * - `cost (service_id, kind, credits, units)`: the most that a lookup may cost, as described, or as an answer
 *   stated if that is more.
 * - `used (service_id, units)`: what is billed, in doubt and under way.
 *
 * All is found by indexes of the run: its rows of `spend` (accepted jobs included), its leases, and the jobs that
 * it submits. A statement that decides by it runs under `lockBudget`, because of a lease that was committed after
 * its snapshot.
 * @param run a condition on the run `r`
 */
export const budgetSql = (run: RawBuilder<boolean>): RawBuilder<unknown> => sql`
    budget as materialized (
      select r.id,
             r.bound,
             case
               when r.budget_name is null then array[r.id]
               else array(
                 select id
                   from fillrate.runs
                  where budget_name = r.budget_name
               )
             end as spenders
        from fillrate.runs r
       where ${run}
    ), spent as materialized (
      select s.service_id,
             ${pricedAsSql(sql`s.endpoint`)} as class,
             sum(s.credits + s.credits_in_doubt) as credits,
             max(s.overrun) as overrun
        from budget
        join fillrate.spend s
          on s.run_id = any(budget.spenders)
       group by 1, 2
    ), cost as materialized (
      select v.service_id,
             m.kind,
             c.credits,
             c.credits * v.unit as units
        from (
          select key::smallint as service_id, value as bound
            from budget
           cross join lateral jsonb_each(bound -> 'services')
        ) b
       cross join lateral jsonb_each_text(b.bound -> 'most') m (kind, most)
       cross join lateral (
         select b.service_id,
                (b.bound -> 'unit' ->> ${pricedAsSql(sql`m.kind`)})::numeric as unit,
                (
                  select max(overrun)
                    from spent
                   where service_id = b.service_id
                     and class = ${pricedAsSql(sql`m.kind`)}
                ) as overrun
       ) v
       cross join lateral (
         select greatest(m.most::numeric, v.overrun) as credits
       ) c
    ), used as materialized (
      select service_id,
             sum(units) as units
        from (
          select s.service_id,
                 s.credits * ${unitSql(sql`s.service_id`, sql`s.class`)} as units
            from spent s
           cross join budget
          union all
          select h.service_id,
                 coalesce(cost.units, 1)
            from budget
            join fillrate.lookups h
              on h.is_leased
             and h.run_id = any(budget.spenders)
            left join cost
              on cost.service_id = h.service_id
             and cost.kind = h.kind
          union all
          select j.service_id,
                 m.credits::numeric * ${unitSql(sql`j.service_id`, JOB_CLASS)}
            from budget
            join fillrate.jobs j
              on j.run_id = any(budget.spenders)
             and j.state = 'submitting'
           cross join lateral jsonb_each_text(j.credits_by_source) as m (source, credits)
        ) part
       group by 1
    )`

/** SQL: what waits to be requested for the run of `budgetSql`, as `used`. */
const pendingSql = sql`(
      select p.service_id,
             p.lookups * coalesce(cost.units, 1) as units
        from budget
       cross join lateral (
         select service_id, kind, count(*) as lookups
           from fillrate.lookups
          where is_pending
            and run_id = budget.id
          group by 1, 2
       ) p
        left join cost
          on cost.service_id = p.service_id
         and cost.kind = p.kind
    )`

const usageColumns = (service: number | null, isWithPending: boolean): RawBuilder<unknown> => {
  const all = isWithPending
    ? sql`(select * from used union all select * from ${pendingSql} as waiting)`
    : sql`used`
  return sql`coalesce((select round(sum(units), 6) from ${all} as u), 0)::float8 as spent,
           coalesce((select round(sum(units), 6) from ${all} as u where service_id = ${service}::smallint), 0)::float8 as own,
           (select coalesce(jsonb_object_agg(kind, units), '{}') from cost where service_id = ${service}::smallint) as costs`
}

/**
 * What a run has used of its budget at a service, and what waits to be requested: how much more it may pick. Reads without a lock,
 * because only a lease decides.
 */
export const readBudgetUsage = (db: Connection, { run, service }: RunService): Promise<BudgetUsage> =>
  readOne(db, sql<BudgetUsage>`with ${budgetSql(sql`r.id = ${run}`)} select ${usageColumns(service, true)}`)

/**
 * The same, and whether anything was ever erased, in one statement, which also ends the wait for locks of a
 * user's table (`OnTable`). The suppressions stay locked until the transaction ends (`lockExclusively`).
 * @param of null: of an unlimited run nothing is read
 */
export async function readBeforeClaim(
  tx: Tx,
  of: RunService | null,
): Promise<{ readonly spent: BudgetUsage | null; readonly hasSuppressions: boolean }> {
  const others = sql`${END_LOCK_TIMEOUT}, ${lockedHasSuppressionsSql} as "hasSuppressions"`
  if (of === null)
    return { spent: null, ...(await readOne(tx, sql<{ hasSuppressions: boolean }>`select ${others}`)) }
  const { hasSuppressions, ...usage } = await readOne(
    tx,
    sql<BudgetUsage & { hasSuppressions: boolean }>`
    with ${budgetSql(sql`r.id = ${of.run}`)} select ${usageColumns(of.service, true)}, ${others}`,
  )
  return { spent: usage, hasSuppressions }
}

/**
 * Locks a budget until the transaction ends, as a statement of its own: the next one sees every lease that was committed before.
 * Of runs that share it, the first one is locked.
 */
export async function lockBudget(tx: Tx, run: number): Promise<void> {
  await sql`
    select from fillrate.runs
     where id = (
             select coalesce(
                      (
                        select min(o.id)
                          from fillrate.runs o
                         where o.budget_name = r.budget_name
                      ),
                      r.id
                    )
               from fillrate.runs r
              where r.id = ${run}
           )
       for no key update`.execute(tx)
}

/** SQL: the CTE `room (units)` of what a budget still pays of a service, behind those of `budgetSql`. */
export const roomSql = (service: number): RawBuilder<unknown> => sql`
    room as materialized (
      select least(
               coalesce((bound ->> 'limit')::numeric - all_used.units, 'infinity'),
               coalesce((bound #>> array['services', ${service}::text, 'own'])::numeric - own_used.units, 'infinity')
             ) as units
        from budget
       cross join (
         select coalesce(sum(units), 0) as units
           from used
       ) all_used
       cross join (
         select coalesce(sum(units), 0) as units
           from used
          where service_id = ${service}
       ) own_used
    )`

/** What a lookup may cost where it is leased or put into a job, and whether a budget bounds how many are. */
export interface Bounding {
  /** The budget of their run bounds them, and says what they may cost by now. */
  readonly isBounded?: boolean
  /** The most credits that a lookup of each kind may cost. Null, the default: one each, whatever it finds. */
  readonly most?: Readonly<Record<LookupKind, number>> | null
}

/** SQL: the most credits of a lookup by its kind, to be stored; null: one each. */
export const mostOfKindsSql = (
  service: number,
  { isBounded = false, most = null }: Bounding,
): RawBuilder<unknown> =>
  isBounded
    ? sql`(select case when ${most !== null}::boolean or max(credits) > 1 then jsonb_object_agg(kind, credits) end from cost where service_id = ${service})`
    : sql`${most === null ? null : JSON.stringify(most)}::jsonb`

/** SQL: the same of one kind. */
export const mostSql = (
  service: number,
  bounding: Bounding,
  kind: RawBuilder<unknown>,
): RawBuilder<unknown> => sql`(${mostOfKindsSql(service, bounding)} ->> ${kind})::numeric`

/** SQL: a lookup of this kind and service is paid, were it the only one. */
export const isPaidSql = (service: number, kind: RawBuilder<unknown>): RawBuilder<boolean> => sql`exists (
  select
    from room
    join cost
      on cost.service_id = ${service}
     and cost.kind = ${kind}
     and cost.units <= room.units
)`

/** SQL: those of `claimed`, which has `kind` and a place (`n`), that the budget pays, in their order. */
export const paidSql = (service: number): RawBuilder<unknown> => sql`
      select *
        from (
          select claimed.*,
                 sum(cost.units) over (order by claimed.n) as of_all
            from claimed
            join cost
              on cost.service_id = ${service}
             and cost.kind = claimed.kind
        ) payable
       where of_all <= (select units from room)`

/** What may still leave more of a run's budget at a service. */
type Prospect = 'calls' | 'jobs' | 'nothing'

/**
 * Whether a run with a budget goes on at a service: by its calls and what the budget pays of what waits soon, or by the results of
 * its jobs. What each is billed as soon as its job is accepted leaves nothing.
 */
export async function readProspect(db: Connection, { run, service }: RunService): Promise<Prospect> {
  const isSoon = sql`(p.not_before is null or p.not_before < now() + ${intervalSql(MAX_AWAITED_DELAY_MS)})`
  const found = sql<{ prospect: Prospect }>`
    with ${budgetSql(sql`r.id = ${run}`)}, ${roomSql(service)}
    select case
             when ${hasLeasesSql(run)}
               or exists (select from fillrate.jobs where run_id = ${run} and state = 'submitting')
               or exists (select from fillrate.lookups p
                           where p.is_pending and p.run_id = ${run} and p.service_id = ${service} and ${isSoon} and ${isPaidSql(service, sql`p.kind`)})
               then 'calls'
             when exists (select from fillrate.jobs
                           where run_id = ${run} and most is not null and (state in ('submitted', 'in_doubt') or release_at is not null))
               then 'jobs'
             else 'nothing' end as prospect`
  return (await readOne(db, found)).prospect
}

/** What a page shows of a budget. */
export interface ShownUsage extends BudgetUsage {
  /** Of it, what is billed, or may be because the answer was lost. */
  readonly billed: number
}

/** SQL: what a page shows of the run of `budgetSql`: the columns, and FROM. */
const shownSql = sql`${usageColumns(null, false)}, billed.* from (
  select round(coalesce(sum(s.credits * ${unitSql(sql`s.service_id`, sql`s.class`)}), 0), 6)::float8 as billed
    from spent s cross join budget) billed`

/** The budget that all runs of live sync share on a day, by Postgres's clock, and what it has spent. */
export interface DayUsage extends ShownUsage {
  readonly name: string
  /** Of the latest run. Null: it has none, or there was no run. */
  readonly bound: RunBound | null
}

/** Today's budget of live sync, in UTC. */
export function readDayBudget(db: Connection): Promise<DayUsage> {
  const today = sql`'follow ' || to_char(now() at time zone 'UTC', 'YYYY-MM-DD')`
  const latest = sql<boolean>`r.id = (select max(id) from fillrate.runs where budget_name = ${today})`
  const usage = sql<DayUsage>`
    with ${budgetSql(latest)} select ${today} as name, (select bound from budget) as bound, ${shownSql}`
  return readOne(db, usage)
}

/** The budget of a run in progress. */
interface RunBudgetUsage extends ShownUsage {
  readonly id: number
  readonly isScheduled: boolean
  /** Null is unlimited. */
  readonly limit: number | null
}

/** The budgets of the runs in progress, except those of live sync, which share the budget of the day. */
export async function listRunBudgets(db: Connection): Promise<RunBudgetUsage[]> {
  const { rows } = await sql<Omit<RunBudgetUsage, keyof ShownUsage>>`
    select id, trigger = 'schedule' as "isScheduled", (bound ->> 'limit')::float8 as "limit"
      from fillrate.runs
     where state = 'running' and options ->> 'follow' is distinct from 'true' and scopes <> '{}'
     order by id`.execute(db)
  const listed: RunBudgetUsage[] = []
  for (const run of rows) {
    const usage = sql<ShownUsage>`with ${budgetSql(sql`r.id = ${run.id}`)} select ${shownSql}`
    listed.push({ ...run, ...(await readOne(db, usage)) })
  }
  return listed
}
