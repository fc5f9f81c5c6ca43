import { type RawBuilder, sql } from 'kysely'
import type { BilledEndpoint, SpendCounts } from '../domain/spend.ts'
import { jsonBatch } from './sql.ts'
import type { Connection, Tx } from './transaction.ts'

// What was requested of the service and is billed. Counted only in the transaction that stores the answer: a counter in a
// process would be lost with it, and would count for whichever run it has open.

/**
 * SQL: counts the calls of `stored`, which has run_id, service_id, source and kind of a lookup, the `CallCost` of its call (null:
 * nothing was sent), and `doubt`, 1 if it may be billed without an answer. The bulk endpoint is counted with its jobs.
 */
export const countCallsSql = countSql(false)

/**
 * SQL: the same where a lookup does not cost one credit. `stored` has besides what the call cost (`credits`), the most that
 * a lost answer may cost (`credits_in_doubt`), and what the lookup cost less than was charged for it (`returned`).
 */
export const countCreditsSql = countSql(true)

function countSql(withCredits: boolean): RawBuilder<unknown> {
  const [columns, sums] = withCredits
    ? [
        sql.raw(', credits, credits_in_doubt, returned'),
        sql.raw(', sum(credits), sum(credits_in_doubt), sum(returned)'),
      ]
    : [sql``, sql``]
  return sql`counted as (
      insert into fillrate.spend (run_id, service_id, source, endpoint, calls, retried, throttled, lookups, in_doubt${columns})
      select coalesce(run_id, 0), service_id, coalesce(source, ''), case when kind = 'domain' then 'company' else 'person' end,
             count(call), count(*) filter (where call = 'retried'), count(*) filter (where call = 'throttled'),
             count(*) filter (where call = 'billed'), sum(doubt)${sums}
        from stored where call is not null or doubt > 0 group by 1, 2, 3, 4
    )`
}

/**
 * SQL: settles the credits of delivered results. `stored` has `credits`, null if they are as counted since its job was accepted:
 * `reserved` in doubt, or, where that is null, one credit. `is_settled`: nothing is counted of it any more. They count for the day on
 * which it was requested.
 */
export const settleCreditsSql = sql`settled as (
      insert into fillrate.spend (run_id, service_id, day, source, endpoint, credits, credits_in_doubt, returned)
      select coalesce(run_id, 0), service_id, (coalesce(requested_at, now()) at time zone 'UTC')::date, coalesce(source, ''),
             case when kind = 'domain' then 'company' when sync_only then 'person' else 'bulk' end,
             sum(credits) - count(*) filter (where reserved is null and not is_settled),
             -coalesce(sum(reserved) filter (where not is_settled), 0), sum(returned)
        from stored where credits is not null group by 1, 2, 3, 4, 5
    )`

/** What the service says of the cost of a whole job, beside what its results are counted with. */
export interface StatedJobCost {
  readonly id: string
  /** To be added to what is counted. */
  readonly credits: number
  /** Of it, what the budget is charged with. */
  readonly charged: number
  /** Members without a result: nothing more is in doubt of them. */
  readonly unanswered: readonly number[]
}

/** Counts what jobs cost beside their results, for the day on which they were made and their first source. */
export async function countJobCosts(tx: Tx, costs: readonly StatedJobCost[]): Promise<void> {
  if (costs.length === 0) return
  await sql`
    with cost as materialized (
      select v.*, coalesce(j.run_id, 0) as run_id, j.service_id, (j.created_at at time zone 'UTC')::date as day,
             coalesce((select min(source) from jsonb_object_keys(j.members_by_source) as m (source)), '') as source,
             case when j.is_company then 'company' else 'bulk' end as endpoint
        from jsonb_to_recordset(${jsonBatch(costs)}) as v (id uuid, credits numeric, charged numeric, unanswered bigint[])
        join fillrate.jobs j on j.key = v.id
    )
    insert into fillrate.spend (run_id, service_id, day, source, endpoint, credits, credits_in_doubt, returned)
    select run_id, service_id, day, source, endpoint, credits, 0, -charged from cost where credits <> 0 or charged <> 0
     union all
    select cost.run_id, cost.service_id, cost.day, coalesce(l.source, ''), cost.endpoint, 0, -sum(l.credits_reserved), 0
      from cost join fillrate.lookups l on l.id = any(cost.unanswered)
     where l.credits_reserved is not null group by 1, 2, 3, 4, 5`.execute(tx)
}

const CREDITS = sql`sum(coalesce(credits, lookups))`
const CREDITS_IN_DOUBT = sql`sum(coalesce(credits_in_doubt, in_doubt))`
const COUNTS_SQL = sql`sum(calls)::bigint as calls, sum(retried)::bigint as retried, sum(throttled)::bigint as throttled,
  sum(lookups)::bigint as lookups, sum(in_doubt)::bigint as in_doubt, ${CREDITS}::float8 as credits,
  ${CREDITS_IN_DOUBT}::float8 as credits_in_doubt`

/** What was requested through an endpoint. */
export interface EndpointSpend extends SpendCounts {
  readonly endpoint: BilledEndpoint
}

/** What was requested of a service that the configuration may name. */
export interface NamedSpend extends EndpointSpend {
  readonly service_id: number
  /** Null: it has no name. */
  readonly service: string | null
}

/** What runs have requested, by run, service and endpoint. Runs that requested nothing are missing. */
export async function listRunSpend(
  db: Connection,
  runs: readonly number[],
): Promise<(NamedSpend & { readonly run: number })[]> {
  const { rows } = await sql<NamedSpend & { run: number }>`
    select run_id as run, service_id, endpoint, ${COUNTS_SQL}, (select name from fillrate.services where id = service_id) as service
      from fillrate.spend where run_id = any(${[...runs]}::bigint[]) group by run_id, service_id, endpoint`.execute(
    db,
  )
  return rows
}

/** What was requested on a day, for a source, through an endpoint. */
export interface DaySpend extends NamedSpend {
  /** UTC: `2026-11-22`. */
  readonly day: string
  readonly source: string
}

/** What was requested today and on the days before it, by Postgres's clock, in UTC. @param days including today */
export async function listDaySpend(db: Connection, days: number): Promise<DaySpend[]> {
  const { rows } = await sql<DaySpend>`
    select to_char(day, 'YYYY-MM-DD') as day, source, endpoint, s.service_id, v.name as service, ${COUNTS_SQL}
      from fillrate.spend s left join fillrate.services v on v.id = s.service_id
     where day > (now() at time zone 'UTC')::date - ${days}::integer
     group by s.day, source, endpoint, s.service_id, v.name order by s.day, source, endpoint, s.service_id`.execute(
    db,
  )
  return rows
}

/** What was requested of a service for a source through an endpoint. */
export interface ServiceSpend extends EndpointSpend {
  readonly source: string
  readonly service: number
}

/** What was requested of each service. @param sources null: for all */
export async function listServiceSpend(
  db: Connection,
  { sources, since }: { readonly sources: readonly string[] | null; readonly since: Date | null },
): Promise<ServiceSpend[]> {
  const ofSources = sources === null ? sql`true` : sql`s.source = any(${[...sources]}::text[])`
  const ofDays = since === null ? sql`true` : sql`s.day >= (${since}::timestamptz at time zone 'UTC')::date`
  const { rows } = await sql<ServiceSpend>`
    select service_id as service, source, endpoint, ${COUNTS_SQL}
      from fillrate.spend s
     where ${ofSources} and ${ofDays} group by service_id, source, endpoint order by service_id, source, endpoint`.execute(
    db,
  )
  return rows
}

/** The latest runs that requested something, newest first. */
export async function listSpendingRuns(db: Connection, limit: number): Promise<number[]> {
  const { rows } = await sql<{ run: number }>`
    select distinct run_id as run from fillrate.spend where run_id > 0 order by run_id desc limit ${limit}`.execute(
    db,
  )
  return rows.map((row) => row.run)
}

/** Below this, the entries are added up in less than a millisecond. */
const MAX_UNFOLDED_ENTRIES = 1_000

/** Adds up the entries, with what was added up of their runs before. Skips those that another process adds up. */
export async function foldSpend(db: Connection, max = MAX_UNFOLDED_ENTRIES): Promise<void> {
  await sql`
    with folded as (
      delete from fillrate.spend
       where ctid = any(case when (select count(*) from fillrate.spend where is_entry) > ${max} then array(
         select ctid from fillrate.spend where run_id in (select run_id from fillrate.spend where is_entry) for update skip locked) end)
      returning *
    )
    insert into fillrate.spend (run_id, service_id, day, source, endpoint, calls, retried, throttled, lookups, in_doubt, returned,
                                credits, credits_in_doubt, is_entry)
    select run_id, service_id, day, source, endpoint, sum(calls), sum(retried), sum(throttled), sum(lookups), sum(in_doubt), sum(returned),
           ${CREDITS}, ${CREDITS_IN_DOUBT}, false
      from folded group by run_id, service_id, day, source, endpoint`.execute(db)
}
