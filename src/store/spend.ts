import { type RawBuilder, sql } from 'kysely'
import type { BilledEndpoint, SpendCounts } from '../domain/spend.ts'
import type { Connection } from './transaction.ts'

// What was requested of the service and is billed. Counted only in the transaction that stores the answer: a counter in a
// process would be lost with it, and would count for whichever run it has open.

/**
 * SQL: counts the calls of `stored`, which has run_id, source and kind of a lookup, the `CallCost` of its call (null:
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
      insert into fillrate.spend (run_id, source, endpoint, calls, retried, throttled, lookups, in_doubt${columns})
      select coalesce(run_id, 0), coalesce(source, ''), case when kind = 'domain' then 'company' else 'person' end,
             count(call), count(*) filter (where call = 'retried'), count(*) filter (where call = 'throttled'),
             count(*) filter (where call = 'billed'), sum(doubt)${sums}
        from stored where call is not null or doubt > 0 group by 1, 2, 3
    )`
}

/**
 * SQL: settles the credits of delivered results. `stored` has `credits` and, null if its lookup costs one credit, `reserved`:
 * what was in doubt since its job was accepted. They count for the day on which it was requested.
 */
export const settleCreditsSql = sql`settled as (
      insert into fillrate.spend (run_id, day, source, endpoint, credits, credits_in_doubt, returned)
      select coalesce(run_id, 0), (coalesce(requested_at, now()) at time zone 'UTC')::date, coalesce(source, ''),
             case when kind = 'domain' then 'company' when sync_only then 'person' else 'bulk' end,
             sum(credits), -sum(reserved), sum(returned)
        from stored where reserved is not null group by 1, 2, 3, 4
    )`

const CREDITS = sql`sum(coalesce(credits, lookups))`
const CREDITS_IN_DOUBT = sql`sum(coalesce(credits_in_doubt, in_doubt))`
const COUNTS_SQL = sql`sum(calls)::bigint as calls, sum(retried)::bigint as retried, sum(throttled)::bigint as throttled,
  sum(lookups)::bigint as lookups, sum(in_doubt)::bigint as in_doubt, ${CREDITS}::bigint as credits,
  ${CREDITS_IN_DOUBT}::bigint as credits_in_doubt`

/** What was requested through an endpoint. */
export interface EndpointSpend extends SpendCounts {
  readonly endpoint: BilledEndpoint
}

/** What runs have requested, by run and endpoint. Runs that requested nothing are missing. */
export async function listRunSpend(
  db: Connection,
  runs: readonly number[],
): Promise<(EndpointSpend & { readonly run: number })[]> {
  const { rows } = await sql<EndpointSpend & { run: number }>`
    select run_id as run, endpoint, ${COUNTS_SQL} from fillrate.spend where run_id = any(${[...runs]}::bigint[])
     group by run_id, endpoint`.execute(db)
  return rows
}

/** What was requested on a day, for a source, through an endpoint. */
interface DaySpend extends EndpointSpend {
  /** UTC: `2026-11-22`. */
  readonly day: string
  readonly source: string
}

/** What was requested today and on the days before it, by Postgres's clock, in UTC. @param days including today */
export async function listDaySpend(db: Connection, days: number): Promise<DaySpend[]> {
  const { rows } = await sql<DaySpend>`
    select to_char(day, 'YYYY-MM-DD') as day, source, endpoint, ${COUNTS_SQL} from fillrate.spend s
     where day > (now() at time zone 'UTC')::date - ${days}::integer
     group by s.day, source, endpoint order by s.day, source, endpoint`.execute(db)
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
    insert into fillrate.spend (run_id, day, source, endpoint, calls, retried, throttled, lookups, in_doubt, returned,
                                credits, credits_in_doubt, is_entry)
    select run_id, day, source, endpoint, sum(calls), sum(retried), sum(throttled), sum(lookups), sum(in_doubt), sum(returned),
           ${CREDITS}, ${CREDITS_IN_DOUBT}, false
      from folded group by run_id, day, source, endpoint`.execute(db)
}
