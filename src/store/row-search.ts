import { type RawBuilder, sql } from 'kysely'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import { FAILURE_STATES, type RowState } from '../domain/row.ts'
import { sharedReasonSql } from './failures.ts'
import type { Database } from './open.ts'
import { nameServices, toServiceName } from './services.ts'
import type { Tx } from './transaction.ts'
import { runsWithWaitingSql } from './waiting-rows.ts'

/** Which rows; null is any. */
export interface RowFilter {
  readonly source: string | null
  /** `not_enriched`: any of `FAILURE_STATES`. */
  readonly state: RowState | 'not_enriched' | null
  /** As `countFailureReasons` reports it. */
  readonly reason: string | null
  /** The run that finished the row last, or that holds it. */
  readonly run: number | null
  readonly identity: RowIdentity | null
}

/** A row's own key, or what it was looked up by. */
export interface RowIdentity {
  readonly key: string
  readonly lookups: ReadonlyArray<{ readonly kind: LookupKind; readonly key: string }>
}

/** `key`: by source and key. `newest`: by the time at which the row was finished, or picked if it waits. */
export type RowSort = 'key' | 'newest'

export interface FoundRow {
  readonly source: string
  readonly key: string
  readonly state: RowState
  readonly reason: string | null
  readonly run: number | null
  /** What it is looked up by; null if nothing is. */
  readonly lookupKind: LookupKind | null
  readonly lookupKey: string | null
  readonly cellsWritten: number
  /** When it was finished; when it was picked, if it waits. */
  readonly at: Date
  readonly dueAt: Date | null
  /** The service that it was looked up by last. Absent: the database knows one alone. */
  readonly service?: string
  /** Identifies its place in the order. */
  readonly cursor: RowCursor
}

/** The place of a row in the order: `at` as Postgres writes it, because a Date would lose the microseconds. */
export interface RowCursor {
  readonly at: string
  readonly source: string
  readonly key: string
}

/** Sorting a large table by time is given up after this long: a narrower filter is fast. */
const SEARCH_TIMEOUT = '8s'

const atSql = sql`coalesce(r.settled_at, r.picked_at)`

/**
 * One page of the rows that match a filter. By key it costs the same at any size of the table; by time it sorts the rows
 * that match.
 * @throws Postgres's error 57014 if it takes longer than eight seconds
 */
export async function searchRows(
  db: Database,
  filter: RowFilter,
  page: {
    readonly sort: RowSort
    readonly cursor: RowCursor | null
    readonly limit: number
  },
): Promise<FoundRow[]> {
  const { sort, cursor, limit } = page
  const isDescending = sort === 'newest'
  const order = sql.raw(isDescending ? 'desc' : 'asc')
  const beyond = sql.raw(isDescending ? '<' : '>')
  const [place, columns] =
    sort === 'key'
      ? [sql`(r.source, r.key)`, sql`r.source ${order}, r.key ${order}`]
      : [sql`(${atSql}, r.source, r.key)`, sql`${atSql} ${order}, r.source ${order}, r.key ${order}`]
  const bound =
    cursor === null
      ? sql`true`
      : sort === 'key'
        ? sql`${place} ${beyond} (${cursor.source}, ${cursor.key})`
        : sql`${place} ${beyond} (${cursor.at}::timestamptz, ${cursor.source}, ${cursor.key})`
  return db.transaction().execute(async (tx) => {
    await sql`set local statement_timeout = ${sql.lit(SEARCH_TIMEOUT)}`.execute(tx)
    const waitingRuns = filter.state === 'waiting' ? await listRunsWithWaiting(tx, filter.source) : []
    const names = await nameServices(tx)
    const { rows } = await sql<Omit<FoundRow, 'cursor' | 'service'> & { cursorAt: string; service: number }>`
      with page as (
        select r.source, r.key, r.state, r.reason, r.run_id, r.lookup_id, r.service_id, r.cells_written, ${atSql} as at, r.due_at
          from fillrate.rows r where ${matchesSql(filter, waitingRuns)} and ${bound}
         order by ${columns} limit ${limit}
      )
      select r.source, r.key, r.state, r.reason, r.run_id as run, l.kind as "lookupKind", l.key as "lookupKey",
             r.cells_written as "cellsWritten", r.at, r.at::text as "cursorAt", r.due_at as "dueAt", r.service_id as service
        from page r left join fillrate.lookups l on l.id = r.lookup_id
       order by ${sort === 'key' ? sql`r.source ${order}, r.key ${order}` : sql`r.at ${order}, r.source ${order}, r.key ${order}`}`.execute(
      tx,
    )
    return rows.map(({ cursorAt, service, ...row }) => ({
      ...row,
      ...toServiceName(names, service),
      cursor: { at: cursorAt, source: row.source, key: row.key },
    }))
  })
}

/** Read first: the planner then knows how many rows these runs have. Of runs that it does not see it expects all rows. */
async function listRunsWithWaiting(tx: Tx, source: string | null): Promise<Array<number | null>> {
  const { rows } = await sql<{ run_id: number | null }>`
    select run_id from ${runsWithWaitingSql(source === null ? null : [source])} u`.execute(tx)
  return rows.map((row) => row.run_id)
}

function matchesSql(filter: RowFilter, waitingRuns: ReadonlyArray<number | null>): RawBuilder<unknown> {
  const { source, state, reason, run, identity } = filter
  const states = state === 'not_enriched' ? FAILURE_STATES : state === null ? null : [state]
  const conditions = [
    sql`r.deleted_at is null`,
    source !== null && sql`r.source = ${source}`,
    state === 'waiting' &&
      sql`(r.run_id = any(${waitingRuns.filter((one) => one !== null)}::bigint[])${waitingRuns.includes(null) ? sql` or r.run_id is null` : sql``})`,
    // An index has these alone; literals, because it is used only where the planner sees them.
    states !== null &&
      sql`${sql.ref(isFailure(states) ? 'r.failure' : 'r.state')} in (${sql.join(states.map((one) => sql.lit(one)))})`,
    reason !== null && sql`${sharedReasonSql} = ${reason}`,
    run !== null && sql`r.run_id = ${run}`,
    identity !== null && hasIdentitySql(identity),
  ].filter((one) => one !== false)
  return sql.join(conditions, sql` and `)
}

const isFailure = (states: readonly RowState[]): boolean =>
  states.every((state) => (FAILURE_STATES as readonly RowState[]).includes(state))

/** Searches of an index each, in place of an OR, which would read the whole table. */
function hasIdentitySql({ key, lookups }: RowIdentity): RawBuilder<unknown> {
  const ids = sql`select l.id from fillrate.lookups l
     where (l.kind, l.key) in (select * from unnest(${lookups.map((one) => one.kind)}::text[], ${lookups.map((one) => one.key)}::text[]))`
  return sql`(r.source, r.key) in (
    select n.source, x.key from (select distinct source from fillrate.row_counts) n
      join fillrate.rows x on x.source = n.source and x.key = ${key}
    union
    select x.source, x.key from fillrate.rows x where x.lookup_id = any(array(${ids}))
    union
    select x.source, x.key from fillrate.rows x
     where x.missed_lookup_ids && array(${ids}))`
}
