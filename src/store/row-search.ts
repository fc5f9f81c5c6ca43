import { sql, type RawBuilder } from 'kysely'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import { FAILURE_STATES, type FailureState, type RowState } from '../domain/row.ts'
import type { Database } from './open.ts'
import { withServiceNames } from './services.ts'
import { runsWithWaitingSql, sharedReasonSql, FAILURES } from './terms.ts'
import { inSourceSql, readPages, type SourceFilter } from './sql.ts'

/** Which rows; null is any. */
export interface RowFilter {
  readonly source: string | null
  /** `not_enriched`: any of `FAILURE_STATES`. */
  readonly state: RowState | 'not_enriched' | null
  /** As `countFailureReasons` reports it. */
  readonly reason: string | null
  /** The run that finished the row last, or that holds it. */
  readonly run: number | null
  readonly identity: SearchedIdentity | null
}

/** A row's own key, or what it was looked up by. */
export interface SearchedIdentity {
  readonly key: string
  readonly lookups: ReadonlyArray<{ readonly kind: LookupKind; readonly key: string }>
}

export interface FoundRow {
  readonly source: string
  readonly key: string
  readonly state: RowState
  readonly reason: string | null
  readonly run: number | null
  /** What it is looked up by; null if nothing is. */
  readonly lookupKey: string | null
  /** When it was finished; when it was picked, if it waits. */
  readonly at: Date
  /** The service that it was looked up by last. Absent: the database knows one alone. */
  readonly service?: string
}

/** The place of a row in the order. */
export type RowPlace = Pick<FoundRow, 'source' | 'key' | 'state'>

export interface FoundRows {
  readonly rows: readonly FoundRow[]
  /** Where to go on; null: no further row matches. */
  readonly next: RowPlace | null
}

type StoredRow = Omit<FoundRow, 'service'> & {
  readonly service_id: number
  readonly isMatch: boolean
  /** The last one that was read. */
  readonly isLast: boolean
}

/**
 * Some of the rows that match a filter, by source and key; failures by their state before, and rows of a run by
 * key. Goes by the order of an index, and no further than `most` rows, whether they match or not: no index has what
 * changes when a row is finished, and a million rows take seconds.
 * @param page.after the place that the search before has returned as `next`
 */
export async function searchRows(
  db: Database,
  filter: RowFilter,
  page: { readonly after: RowPlace | null; readonly limit: number; readonly most: number },
): Promise<FoundRows> {
  const { after, limit, most } = page
  const columns = listOrder(filter)
  const order = sql.join(columns.map((column) => sql.ref(`r.${column}`)))
  const place = after && sql.join(columns.map((column) => after[column === 'failure' ? 'state' : column]))
  const beyond = place === null ? sql`true` : sql`(${order}) > (${place})`
  const ranges = await listRanges(db, filter)
  if (ranges.length === 0) return { rows: [], next: null }
  const walks = ranges.map(
    (range) => sql`(
      select * from fillrate.rows r where ${range} and ${beyond} order by ${order} limit ${most})`,
  )
  const { rows } = await db.transaction().execute(async (tx) => {
    // The planner expects each walk to be read to its end, and would sort whatever is in its range.
    if (filter.identity === null)
      await sql`select set_config(name, 'off', true) from unnest('{enable_sort,enable_bitmapscan,enable_seqscan}'::text[]) name`.execute(
        tx,
      )
    return sql<StoredRow>`
      with page as (
        select *
          from (
            select r.*, ${matchesSql(filter)} as is_match, row_number() over (order by ${order}) as n
              from (${sql.join(walks, sql` union all `)}) r
             order by ${order} limit ${most}
          ) r
         where is_match or n = ${most}
         order by ${order} limit ${limit + 1}
      )
      select r.source, r.key, r.state, r.reason, r.run_id as run, l.key as "lookupKey",
             coalesce(r.settled_at, r.picked_at) as at, r.service_id, r.is_match as "isMatch", r.n = ${most} as "isLast"
        from page r left join fillrate.lookups l on l.id = r.lookup_id
       order by ${order}`.execute(tx)
  })
  const found = rows.filter((row) => row.isMatch).slice(0, limit)
  // The last row that was read leads on, also where it does not match.
  const last = rows.length > limit ? found.at(-1) : rows.find((row) => row.isLast)
  return {
    rows: await withServiceNames(db, found),
    next: last ?? null,
  }
}

const isByRun = ({ run, state }: RowFilter): boolean => run !== null || state === 'waiting'

/** The failures that are wanted alone; none: other rows are, too. */
const failuresOf = ({ state }: RowFilter): FailureState[] =>
  FAILURE_STATES.filter((failure) => state === 'not_enriched' || state === failure)

/** The order of a search, by columns; of an only source, its name would hide that an index has the order. */
function listOrder(filter: RowFilter): ReadonlyArray<'failure' | 'source' | 'key'> {
  if (isByRun(filter)) return ['key', 'source']
  const place = filter.source === null ? (['source', 'key'] as const) : (['key'] as const)
  return failuresOf(filter).length > 0 ? ['failure', ...place] : place
}

/** Conditions of rows that an index has in the order of a search: together they have all rows that can match. */
async function listRanges(db: Database, filter: RowFilter): Promise<RawBuilder<unknown>[]> {
  const { source, run, identity } = filter
  const ofSource = source === null ? sql`true` : sql`r.source = ${source}`
  if (identity !== null) return [sql`${hasIdentitySql(identity)} and ${ofSource}`]
  if (run !== null) return [sql`r.run_id = ${run}`]
  if (filter.state === 'waiting') return listRunsWithWaiting(db, source)
  const failures = failuresOf(filter).toSorted()
  if (failures.length === 0) return [ofSource]
  // As a range: of one failure, the primary key would have the order, too.
  return [sql`r.failure between ${failures[0]} and ${failures.at(-1)} and ${ofSource}`]
}

/** Read first: the planner then knows how many rows these runs have. Of runs that it does not see it expects all rows. */
async function listRunsWithWaiting(db: Database, source: string | null): Promise<RawBuilder<unknown>[]> {
  const { rows } = await sql<{ run_id: number | null }>`
    select run_id from ${runsWithWaitingSql(source === null ? null : [source])} u`.execute(db)
  return rows.map(({ run_id: run }) => (run === null ? sql`r.run_id is null` : sql`r.run_id = ${run}`))
}

function matchesSql({ source, state, run, reason }: RowFilter): RawBuilder<unknown> {
  const states = state === 'not_enriched' ? FAILURE_STATES : state === null ? null : [state]
  return sql`r.deleted_at is null
    and ${states === null ? sql`true` : sql`r.state = any(${[...states]}::text[])`}
    and ${source === null ? sql`true` : sql`r.source = ${source}`}
    and ${run === null ? sql`true` : sql`r.run_id = ${run}`}
    and ${reason === null ? sql`true` : sql`${sharedReasonSql} = ${reason}`}`
}

/** Searches of an index each, in place of an OR, which would read the whole table. */
function hasIdentitySql({ key, lookups }: SearchedIdentity): RawBuilder<unknown> {
  const ids = sql`select l.id from fillrate.lookups l
     where (l.kind, l.key) in (select * from unnest(${lookups.map(({ kind }) => kind)}::text[], ${lookups.map(({ key }) => key)}::text[]))`
  return sql`(r.source, r.key) in (
    select n.source, x.key from (select distinct source from fillrate.row_counts) n
      join fillrate.rows x on x.source = n.source and x.key = ${key}
    union
    select x.source, x.key from fillrate.rows x where x.lookup_id = any(array(${ids}))
    union
    select x.source, x.key from fillrate.rows x
     where x.missed_lookup_ids && array(${ids}))`
}

/** Which failures: null is all. */
export interface FailureFilter {
  readonly source: SourceFilter
  readonly states: readonly FailureState[] | null
}

export interface FailureReason {
  readonly source: string
  /** The service that finished the rows. Absent: the database knows one alone. */
  readonly service?: string
  readonly state: FailureState
  readonly reason: string
  readonly rows: number
  /** More rows are in this state than were read. */
  readonly isPartial?: true
}

/**
 * Failure reasons with their numbers of rows, most frequent first; a confidence that is too low is reduced to its bound.
 * @param most rows of each source and state that are read; null: all
 */
export async function countFailureReasons(
  db: Database,
  { source, states }: FailureFilter,
  most: number | null = null,
): Promise<FailureReason[]> {
  const { rows } = await sql<
    Omit<FailureReason, 'service' | 'isPartial'> & {
      readonly service_id: number
      readonly isPartial: boolean
    }
  >`
    select source, state, ${sharedReasonSql} as reason, count(*) as rows, bool_or(known > ${most}) is true as "isPartial", service_id
      from (
        select source, state as failure, sum(rows) as known
          from fillrate.row_counts
         where state in (${states === null ? FAILURES : sql.join(states)}) and ${inSourceSql(sql`source`, source)}
         group by source, state
        having sum(rows) > 0
      ) c
     cross join lateral (
       select state, reason, service_id from fillrate.rows r
        where r.failure between c.failure and c.failure and r.source = c.source order by r.failure, r.key limit ${most}) r
     group by source, state, 3, 6
     order by rows desc, array_position(array[${FAILURES}], state), source, 3, 6`.execute(db)
  const named = await withServiceNames(db, rows)
  return named.map(({ isPartial, ...row }) => ({ ...row, ...(isPartial && { isPartial }) }))
}

export interface FailedRow {
  readonly source: string
  /** The service that finished it. Absent: the database knows one alone. */
  readonly service?: string
  readonly key: string
  readonly state: FailureState
  readonly reason: string | null
  readonly settled_at: Date
}

/** Some of the failed rows. */
async function selectFailures(
  db: Database,
  { source, states }: FailureFilter,
  {
    where = sql`true`,
    orderBy,
    limit,
  }: { where?: RawBuilder<unknown>; orderBy: RawBuilder<unknown>; limit: number },
): Promise<FailedRow[]> {
  const { rows } = await sql<Omit<FailedRow, 'service'> & { readonly service_id: number }>`
    select source, key, state, reason, settled_at, service_id from fillrate.rows
     where failure in (${states === null ? FAILURES : sql.join(states)}) and ${inSourceSql(sql`source`, source)} and ${where}
     order by ${orderBy} limit ${limit}`.execute(db)
  return withServiceNames(db, rows)
}

/** The latest failed rows. */
export const latestFailures = (db: Database, filter: FailureFilter, limit: number): Promise<FailedRow[]> =>
  selectFailures(db, filter, { orderBy: sql`settled_at desc, source, key`, limit })

/** Failed rows by source and key, page by page, so that a million failures are never in memory at once. */
export const iterateFailures = (
  db: Database,
  filter: FailureFilter,
  size?: number,
): AsyncGenerator<FailedRow[]> =>
  readPages<FailedRow>(
    (after, limit) =>
      selectFailures(db, filter, {
        where: after ? sql`(source, key) > (${after.source}, ${after.key})` : sql`true`,
        orderBy: sql`source, key`,
        limit,
      }),
    size,
  )
