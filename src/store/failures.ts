import { type RawBuilder, sql } from 'kysely'
import type { FailureState } from '../domain/row.ts'
import type { Database } from './open.ts'
import { withServiceNames } from './services.ts'
import { inSourceSql, readPages, type SourceFilter } from './sql.ts'
import { FAILURES, sharedReasonSql } from './terms.ts'

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
  return named.map(({ isPartial, ...one }) => ({ ...one, ...(isPartial && { isPartial }) }))
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
