import { type RawBuilder, sql } from 'kysely'
import type { BilledEndpoint, SingleEndpoint, SpendCounts } from '../domain/spend.ts'
import { jsonBatch } from './sql.ts'
import { pricedAsSql } from './terms.ts'
import type { Connection, Tx } from './transaction.ts'

// What was requested of the service and is billed. Counted only in the transaction that stores the answer: a counter in a
// process would be lost with it, and would count for whichever run it has open.

/** The figures of a run, day, service, source and endpoint. */
const COUNTS = [
  'calls',
  'retried',
  'throttled',
  'lookups',
  'in_doubt',
  'credits',
  'credits_in_doubt',
] as const
type Count = (typeof COUNTS)[number] | 'overrun'

/**
 * SQL: adds figures to what is counted.
 * @param figures sums over `of`
 * @param of a FROM clause with the columns `run_id, day, service_id, source, endpoint`. It is grouped and sorted by them here, so that two
 *   statements lock what they add to in the same order.
 */
export const addSpendSql = (
  figures: Readonly<Partial<Record<Count, RawBuilder<unknown>>>>,
  of: RawBuilder<unknown>,
): RawBuilder<unknown> => {
  const names = Object.keys(figures) as Count[]
  const sum = (name: Count) =>
    name === 'overrun'
      ? sql`overrun = greatest(s.overrun, excluded.overrun)`
      : sql`${sql.ref(name)} = ${sql.ref(`s.${name}`)} + ${sql.ref(`excluded.${name}`)}`
  return sql`
      insert into fillrate.spend as s (run_id, day, service_id, source, endpoint, ${sql.join(names.map((name) => sql.ref(name)))})
      select run_id, day, service_id, source, endpoint, ${sql.join(names.map((name) => figures[name]))}
        ${of} group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5
      on conflict (run_id, day, service_id, source, endpoint) do update set ${sql.join(names.map(sum))}`
}

/**
 * SQL: counts the calls of `stored`, which has run_id, service_id, source and kind of a lookup, the `CallCost` of
 * its call (null: nothing was sent), `credits` that it cost, `doubt`, 1 if it may be billed without an answer,
 * `credits_in_doubt`, the most that it may then cost, and `overrun`: the cost, if it is more than expected. The
 * bulk endpoint is counted with its jobs.
 */
export const countCallsSql = sql`counted as (${addSpendSql(
  {
    calls: sql`count(call)`,
    retried: sql`count(*) filter (where call = 'retried')`,
    throttled: sql`count(*) filter (where call = 'throttled')`,
    lookups: sql`count(*) filter (where call = 'billed')`,
    in_doubt: sql`sum(doubt)`,
    credits: sql`sum(credits)`,
    credits_in_doubt: sql`coalesce(sum(credits_in_doubt), 0)`,
    overrun: sql`max(overrun)`,
  },
  sql`from (
        select coalesce(run_id, 0) as run_id,
               (now() at time zone 'UTC')::date as day,
               service_id,
               coalesce(source, '') as source,
               ${pricedAsSql(sql`kind`)} as endpoint,
               call,
               doubt,
               credits,
               credits_in_doubt,
               overrun
          from stored
         where call is not null or doubt > 0
      ) called`,
)})`

/** What a delivered result of a job cost. */
export interface SettledCredits {
  readonly id: number
  readonly job: string
  readonly credits: number
  /** The most that it could cost, in doubt since its job was accepted; null: one credit, counted then. */
  readonly reserved: number | null
  /** Nothing is counted of it any more. */
  readonly isSettled: boolean
}

/** Counts what delivered results cost, for the run that made their job and the day on which it did. */
export async function settleCredits(tx: Tx, settled: readonly SettledCredits[]): Promise<void> {
  if (settled.length === 0) return
  const counted = sql`case when reserved is null and not is_settled then 1 else 0 end`
  await addSpendSql(
    {
      credits: sql`sum(credits - ${counted})`,
      credits_in_doubt: sql`-coalesce(sum(reserved) filter (where not is_settled), 0)`,
      overrun: sql`max(credits) filter (where credits > coalesce(reserved, 1))`,
    },
    sql`from (
        select coalesce(j.run_id, 0) as run_id,
               (j.created_at at time zone 'UTC')::date as day,
               j.service_id,
               coalesce(l.source, '') as source,
               case
                 when l.kind = 'domain' then 'company'
                 when j.is_async_answer then 'person'
                 else 'bulk'
               end as endpoint,
               v.credits,
               v.reserved,
               v."isSettled" as is_settled
          from jsonb_to_recordset(${jsonBatch(settled)}) as v (id bigint, job uuid, credits numeric, reserved numeric, "isSettled" boolean)
          join fillrate.jobs j on j.key = v.job
          join fillrate.lookups l on l.id = v.id
      ) results`,
  ).execute(tx)
}

/** What the service says of the cost of a whole job, beside what its results are counted with. */
export interface StatedJobCost {
  readonly id: string
  /** To be added to what is counted. */
  readonly credits: number
  /** Members without a result: nothing more is in doubt of them. */
  readonly unanswered: readonly number[]
}

/** Counts what jobs cost beside their results, for the day on which they were made and their first source. */
export async function countJobCosts(tx: Tx, costs: readonly StatedJobCost[]): Promise<void> {
  if (costs.length === 0) return
  await addSpendSql(
    { credits: sql`sum(credits)`, credits_in_doubt: sql`-coalesce(sum(reserved), 0)` },
    sql`from (
        select coalesce(j.run_id, 0) as run_id,
               (j.created_at at time zone 'UTC')::date as day,
               j.service_id,
               part.source,
               case when j.is_company then 'company' else 'bulk' end as endpoint,
               part.credits,
               part.reserved
          from jsonb_to_recordset(${jsonBatch(costs)}) as v (id uuid, credits numeric, unanswered bigint[])
          join fillrate.jobs j on j.key = v.id
         cross join lateral (
           select coalesce(min(m.source), '') as source,
                  v.credits,
                  0 as reserved
             from jsonb_object_keys(j.members_by_source) as m (source)
            union all
           select coalesce(source, ''),
                  0,
                  (j.most ->> kind)::numeric
             from fillrate.lookups
            where id = any(v.unanswered)
         ) part
      ) parts`,
  ).execute(tx)
}

const COUNTS_SQL = sql.join(COUNTS.map((name) => sql`sum(${sql.ref(name)})::float8 as ${sql.ref(name)}`))

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
      from fillrate.spend where run_id = any(${[...runs]}::bigint[])
     group by run_id, service_id, endpoint`.execute(db)
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
     group by s.day, source, endpoint, s.service_id, v.name
     order by s.day, source, endpoint, s.service_id`.execute(db)
  return rows
}

/** The most that answers of today and yesterday have stated to cost, by service, where that is more than was expected of them. */
export async function readOverruns(
  db: Connection,
): Promise<ReadonlyMap<number, Readonly<Record<SingleEndpoint, number>>>> {
  const { rows } = await sql<{ service: number; person: number; company: number }>`
    select service_id as service,
           coalesce(max(overrun) filter (where endpoint <> 'company'), 0)::float8 as person,
           coalesce(max(overrun) filter (where endpoint = 'company'), 0)::float8 as company
      from fillrate.spend
     where day >= (now() at time zone 'UTC')::date - 1
       and overrun is not null
     group by service_id`.execute(db)
  return new Map(rows.map(({ service, ...most }) => [service, most]))
}
