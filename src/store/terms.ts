import { type RawBuilder, sql } from 'kysely'
import { Lookup } from '../domain/lookup.ts'
import { FAILURE_STATES, WITHOUT_RECORD_STATES, type FailureState, type RowState } from '../domain/row.ts'
import { opaque } from './sql.ts'

// The terms that several statements share: what each means is said here, once. All of them are SQL. A term of one file stands in that
// file; what was written for which inputs has a file of its own (`own-values.ts`).

// Leases and processes.

/** A lease that ends then holds. Leases are minutes long at most; one that ends in more than an hour was taken while a clock was wrong. */
export const isHeldSql = (until: RawBuilder<unknown> = sql`leased_until`): RawBuilder<boolean> =>
  sql`${until} between now() and now() + interval '1 hour'`

/** A run goes on: it was not ended, and its process is alive. */
export const IS_RUNNING = sql<boolean>`(state = 'running' and ${isHeldSql()})`

/** A process is gone when it has not reported for this long: three reports. */
export const ALIVE_FOR = sql`interval '30 seconds'`

// Lookups: `l`.

/** The states of a lookup that has its result, for `in (…)`. */
export const ANSWERED_STATES = sql.raw(
  [Lookup.found, Lookup.notFound, Lookup.rejected, Lookup.failed].map((state) => `'${state}'`).join(', '),
)

/** The lookup is pending, and none of these runs requests it. */
export const isOrphanedSql = (runningRuns: readonly number[]): RawBuilder<boolean> => sql`(
  l.state = 'pending' and (l.run_id is null or l.run_id <> all(${[...runningRuns]}::bigint[])))`

/** The lookup is leased. Without statistics Postgres takes half of all for leased, and of a range of runs few. */
export const IS_LEASED = sql<boolean>`is_leased and run_id between 1 and ${sql.lit(Number.MAX_SAFE_INTEGER)}`

/** Lookups of a run are leased. */
export const hasLeasesSql = (run: number): RawBuilder<unknown> => sql`exists (
  select from fillrate.lookups where is_leased and run_id = ${run})`

/** The lookup still waits for the result of the job with the key in this column. */
export const isOpenMemberSql = (jobKey: string): RawBuilder<boolean> => sql`(
  l.job_key = ${sql.ref(jobKey)} and l.state = 'submitted')`

/** A row `r` of this condition has the lookup, or had it before a later one. */
export const isOfRowSql = (condition: RawBuilder<unknown> = sql`true`): RawBuilder<boolean> => sql`(
  exists (select from fillrate.rows r where r.lookup_id = l.id and ${condition})
  or exists (select from fillrate.rows r where r.missed_lookup_ids @> array[l.id] and ${condition}))`

/** The CTE `queued`: queues those of `lookups`, a relation of `id` and `state`, that have a result for write-back. */
export const enqueueWriteBackSql = (lookups: string): RawBuilder<unknown> => sql`queued as (
      insert into fillrate.answered_lookups select id from ${sql.ref(lookups)} where state in (${ANSWERED_STATES}) order by id
    )`

/**
 * A waiting row `r` of this condition waits for the queued lookup `q`. Fenced: one index probe each, which ends at the first
 * row. One scan for all of them is cheaper where each lookup has one row, and reads a hundred thousand where these share one.
 */
export const isAwaitedSql = (condition: RawBuilder<unknown> = sql`true`): RawBuilder<boolean> => sql`exists (
       select from fillrate.rows r
        where r.lookup_id = q.lookup_id and ${opaque(sql`r.state = 'waiting' and ${condition}`)} offset 0)`

/** Answers wait to be written to a row `r` of this condition. */
export const hasAnsweredRowsSql = (condition: RawBuilder<unknown>): RawBuilder<boolean> => sql`exists (
      select from fillrate.answered_lookups q where ${isAwaitedSql(condition)})`

// Jobs: `j`.

/** The inputs of the job as they are stored, in the order of submission; null for one that was erased. */
export const memberInputsSql = sql<readonly (Record<string, string> | null)[]>`(
  select coalesce(json_agg(l.input order by m.n), '[]')
    from unnest(j.lookup_ids) with ordinality m (id, n) left join fillrate.lookups l on l.id = m.id)`

// Rows.

const listStates = (states: readonly RowState[]): RawBuilder<unknown> =>
  sql.join(states.map((state) => sql.lit(state)))

/** The states of a row that could not be enriched, for `in (…)`. */
export const FAILURES = listStates(FAILURE_STATES)

/** The states of a row whose lookup has ended without a record, for `in (…)`. */
export const WITHOUT_RECORD = listStates(WITHOUT_RECORD_STATES)

/**
 * `rows.failure` of a row that is in its table and has this state; null for a state that is no failure. Every statement that sets
 * `state` or `deleted_at` sets it, too: the constraint `rows_failure` refuses a failure that is not the row's state.
 */
export const failureSql = (state: RawBuilder<unknown>): RawBuilder<FailureState | null> =>
  sql`case when ${state} in (${FAILURES}) then ${state} end`

/** The reason of a row without what differs from row to row (the confidence). */
export const sharedReasonSql = sql`
  case when state = 'below_confidence'
       then regexp_replace(reason, '^confidence [0-9.eE+-]+', 'confidence') else coalesce(reason, '') end`

// Waiting rows. No index lists them: it would be written whenever one is finished, and the row's other indexes with it. The
// kept counts say which runs have some, and the index of rows by run gives these.

/** `(run_id)` of the runs that have waiting rows of these sources (null: any); null: of a run that was deleted. */
export const runsWithWaitingSql = (sources: readonly string[] | null): RawBuilder<unknown> => sql`(
  select run_id from fillrate.row_counts
   where state = 'waiting' and ${sources === null ? sql`true` : sql`source = any(${[...sources]}::text[])`}
   group by run_id having sum(rows) > 0)`

/**
 * The waiting rows of a run, a reference, for a lateral join. The run is compared as a range: an equality with a run that its
 * statistics do not know lets the planner expect every row.
 */
export const waitingRowsSql = (run: string, sources: readonly string[]): RawBuilder<unknown> => sql`(
  select run_id, service_id, source, key, lookup_id, due_at from fillrate.rows
   where run_id between ${sql.ref(run)} and ${sql.ref(run)} and source = any(${[...sources]}::text[])
     and ${opaque(sql`state = 'waiting'`)} offset 0)`

// Sources.

/** A source is paused. */
export const isPausedSql = (source: RawBuilder<unknown>): RawBuilder<boolean> =>
  sql`exists (select from fillrate.source_state p where p.source = ${source} and p.paused_at is not null)`

/** The tables of what live sync has not picked yet: the second is written by statements that find the first locked. */
export const CHANGE_TABLES = [
  sql.raw('fillrate.changed_rows'),
  sql.raw('fillrate.changed_rows_spare'),
] as const

/** What is selected from either of them, as a relation. */
export const changesSql = (
  select: (table: RawBuilder<unknown>) => RawBuilder<unknown>,
): RawBuilder<unknown> =>
  sql`(${sql.join(
    CHANGE_TABLES.map((table) => sql`(${select(table)})`),
    sql` union all `,
  )}) as changed`

/** Later statements are not counted: it is read every two seconds, and a million takes a second. */
const MAX_COUNTED_STATEMENTS = 100_000

/** What waits for live sync, by source; nothing of sources that are up to date. The one definition of its backlog. */
export const queuedChangesSql = sql`(
    select source, is_import, sum(rows - rows_picked)::bigint as rows, min(changed_at) as oldest_at
      from ${changesSql(
        (table) => sql`
        select source, is_import, changed_at, rows, rows_picked from ${table}
         order by changed_at limit ${MAX_COUNTED_STATEMENTS}`,
      )}
     group by source, is_import)`

// Services, and what they cost.

/** The number of a service that the configuration names; NULL if it was never called. */
export const serviceNumberSql = (name: string): RawBuilder<number | null> =>
  sql`(select max(id) from fillrate.services where name = ${name})`

/**
 * The service of a delivery; where its receiver did not know it, the only one of this database. NULL: one of several, and nothing
 * that only a service names is found for it.
 */
export const deliveringServiceSql = (service: RawBuilder<number | null>): RawBuilder<number | null> =>
  sql`coalesce(${service}, (select coalesce(min(id), 0) from fillrate.services having count(*) < 2))::smallint`

/** A delivery belongs to the job `j`: by our key, or by the name that its service gave the job. Another service may give that name, too. */
export const isOfJobSql = (delivery: RawBuilder<unknown>): RawBuilder<boolean> => sql`(
  ${delivery}.job_key = j.key
  or (${delivery}.job_id = j.job_id and ${deliveringServiceSql(sql`${delivery}.service_id`)} = j.service_id))`

/** Results of the job `j` came, and are not settled yet. As `isOfJobSql`, but those that only a service names are read once for all jobs. */
export const hasResultsSql = sql<boolean>`(
  exists (select from fillrate.deliveries d where d.job_key = j.key and d.state = 'received')
  or coalesce((j.job_id, j.service_id) in (
       select d.job_id, ${deliveringServiceSql(sql`d.service_id`)} from fillrate.deliveries d
        where d.state = 'received' and d.job_id is not null), false))`

/** Whether a lookup of this kind, or an endpoint, has the price of a person or of a company: the endpoint of a single lookup, too. */
export const pricedAsSql = (kind: RawBuilder<unknown>): RawBuilder<string> =>
  sql`case when ${kind} in ('domain', 'company') then 'company' else 'person' end`

// Erased identifiers.

/**
 * A condition that is true: locks the table in the mode ROW SHARE until the transaction ends, so that `lockExclusively`
 * waits for it. It reads and locks no row. The lock is taken before the statement's snapshot, which an advisory lock is not.
 */
export const lockToReadSql = sql<boolean>`not exists (select from fillrate.suppressions where false for key share)`

/** Anything was ever erased. Mostly nothing was, and no hash needs comparing. */
export const hasSuppressionsSql = sql<boolean>`exists (select from fillrate.suppressions)`

/** The same, for a transaction that then stores what is not suppressed. */
export const lockedHasSuppressionsSql = sql<boolean>`(${hasSuppressionsSql} and ${lockToReadSql})`
