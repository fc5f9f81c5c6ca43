import { sql, type RawBuilder } from 'kysely'
import { Row, type RowState } from '../domain/row.ts'
import type { Database } from './open.ts'

/** States of rows that could not be enriched, those first that most want somebody to act. A plain miss is none. */
export const FAILURE_STATES = [
  Row.failed,
  Row.refused,
  Row.writeRejected,
  Row.invalidInput,
  Row.belowConfidence,
] as const satisfies RowState[]
export type FailureState = (typeof FAILURE_STATES)[number]

const states = sql`${sql.join(FAILURE_STATES.map((state) => sql.lit(state)))}`
const ofSource = (source: string | null) => (source === null ? sql`true` : sql`source = ${source}`)

/** The reason without what is each row's own: how low a confidence was. */
const sharedReason = sql`
  case when state = ${sql.lit(Row.belowConfidence)}
       then regexp_replace(reason, '^confidence [0-9.eE+-]+', 'confidence') else coalesce(reason, '') end`

export interface FailureReason {
  readonly source: string
  readonly state: FailureState
  readonly reason: string
  readonly rows: number
}

/** Why rows failed, with their numbers, most frequent first. Of a confidence too low only the bound is told. */
export async function countReasons(db: Database, source: string | null): Promise<FailureReason[]> {
  const { rows } = await sql<FailureReason>`
    select source, state, ${sharedReason} as reason, count(*) as rows
      from fillrate.rows
     where state in (${states}) and ${ofSource(source)}
     group by 1, 2, 3
     order by array_position(array[${states}], state), rows desc, 1, 3`.execute(db)
  return rows
}

export interface FailedRow {
  readonly source: string
  readonly key: string
  readonly state: FailureState
  readonly reason: string | null
  readonly settled_at: Date
}

/** The rows that failed last. */
export async function latest(db: Database, source: string | null, limit: number): Promise<FailedRow[]> {
  const { rows } = await sql<FailedRow>`
    select source, key, state, reason, settled_at from fillrate.rows
     where state in (${states}) and ${ofSource(source)}
     order by settled_at desc, source, key limit ${limit}`.execute(db)
  return rows
}

/**
 * All of them, in the order of source and key, page by page: a million failures are never in memory at once.
 * @param limit rows at the most; null is all
 */
export async function* pages(
  db: Database,
  source: string | null,
  limit: number | null,
  size = 5_000,
): AsyncGenerator<FailedRow[]> {
  let after: Pick<FailedRow, 'source' | 'key'> | null = null
  let left = limit ?? Number.POSITIVE_INFINITY
  while (left > 0) {
    const beyond: RawBuilder<unknown> =
      after === null ? sql`true` : sql`(source, key) > (${after.source}, ${after.key})`
    const { rows }: { rows: FailedRow[] } = await sql<FailedRow>`
      select source, key, state, reason, settled_at from fillrate.rows
       where state in (${states}) and ${ofSource(source)} and ${beyond}
       order by source, key limit ${Math.min(left, size)}`.execute(db)
    if (rows.length > 0) yield rows
    if (rows.length < size) return
    left -= rows.length
    after = rows.at(-1) ?? null
  }
}

/** Which failures: null is any. `reason` as `countReasons` tells it. */
export interface FailureFilter {
  readonly source: string | null
  readonly state: FailureState | null
  readonly reason: string | null
}

/** A page of the rows behind a reason, in the order of source and key. @param after keyset: rows after this one */
export async function behind(
  db: Database,
  { source, state, reason }: FailureFilter,
  after: Pick<FailedRow, 'source' | 'key'> | null,
  limit: number,
): Promise<FailedRow[]> {
  const { rows } = await sql<FailedRow>`
    select source, key, state, reason, settled_at from fillrate.rows
     where state in (${states}) and ${ofSource(source)}
       and ${state === null ? sql`true` : sql`state = ${state}`}
       and ${reason === null ? sql`true` : sql`${sharedReason} = ${reason}`}
       and ${after === null ? sql`true` : sql`(source, key) > (${after.source}, ${after.key})`}
     order by source, key limit ${limit}`.execute(db)
  return rows
}
