import { type QueryExecutorProvider, type RawBuilder, sql } from 'kysely'
import { parseExactJson } from '../domain/json.ts'
import { type ArrayType, postgresArray } from '../util/postgres-array.ts'

/**
 * A batch as one parameter, to be read with `jsonb_to_recordset`: one statement for any number of values. Cheaper than an
 * array of JSON texts, whose escaping costs more than the JSON.
 */
export function jsonBatch(values: readonly object[]): RawBuilder<unknown> {
  return sql`${JSON.stringify(values)}::jsonb`
}

/** Columns of the records of a batch and their SQL types: `{ state: 'text', record: 'jsonb' }`. */
type BatchColumns = Readonly<Record<string, ArrayType>>

/**
 * A batch of records `v`, an array for each column, hidden by a sub-select from the planner, which copies a constant
 * about ten times. It then expects a few records and searches an index for each; of `jsonb_to_recordset` it expects
 * a hundred, and reads the whole table for one record. Unnested in a select list: FROM copies each array twice.
 * @param records a missing column becomes NULL
 * @example
 * sql`update fillrate.lookups l set state = v.state
 *       from ${recordBatch(records, { id: 'bigint', state: 'text' })} where l.id = v.id`
 */
export function recordBatch(records: readonly object[], columns: BatchColumns): RawBuilder<unknown> {
  const unnested = Object.entries(columns).map(([name, type]) => {
    const values = records.map((record) => (record as Readonly<Record<string, unknown>>)[name])
    return sql`unnest((select ${postgresArray(type, values)}::${sql.raw(type)}[])) as ${sql.id(name)}`
  })
  return sql`(select ${sql.join(unnested)}) as v`
}

/**
 * A batch of records `v` for rows of a source, each with the row's physical place: for an update of
 * `fillrate.rows r` where `r.ctid = v.ctid`. With a join by key, or by the arrays' length, the planner reads all rows of a table
 * that has just filled, as if its source had hardly any: the batch is hidden from it. A row that is being updated
 * at the same moment may be skipped.
 * @param records `ctid`: the place, if this transaction has locked all of the rows; to find one by key costs as
 *   much as an index entry
 */
export function unnestByRow(
  source: string,
  records: readonly { readonly key: string; readonly ctid?: string | undefined }[],
  columns: BatchColumns,
): RawBuilder<unknown> {
  if (records.every(({ ctid }) => ctid !== undefined))
    return recordBatch(records, { key: 'text', ctid: 'tid', ...columns })
  return sql`(
    select v.*, (select ctid from fillrate.rows where source = ${source} and key = v.key) as ctid
      from ${recordBatch(records, { key: 'text', ...columns })} offset 0) as v`
}

/**
 * Begins a statement that connections prepare (`open.ts`): only statements that are sent many times a second with
 * few rows, of whose cost planning was more than a third. A plan is kept until the table is analyzed, or the
 * statement was sent four times as often: a plan for a small table, which reads it whole, is slow for up to a
 * minute after an import.
 */
export const PREPARED_MARK = '/* prepared */'
export const PREPARED = sql.raw(PREPARED_MARK)

/** SQL: the time of the transaction. */
export const NOW = sql<Date>`now()`

/** SQL: a time from now, in milliseconds; negative: before it. */
export const fromNow = (ms: number): RawBuilder<Date> => sql`now() + ${intervalSql(ms)}`

/** The row of a statement that always returns one. */
export async function readOne<Row>(db: QueryExecutorProvider, statement: RawBuilder<Row>): Promise<Row> {
  const [row] = (await statement.execute(db)).rows
  if (row === undefined) throw new Error('a statement that always returns a row returned none')
  return row
}

/** A row whose JSON is read as text, because the driver's parser would round its numbers. */
export type WithText<Row, Column extends keyof Row> = Omit<Row, Column> & {
  readonly [One in Column]: string | (null extends Row[One] ? null : never)
}

/** Parses such columns, without rounding. */
export const parseColumns = <Row extends object, Column extends keyof Row>(
  rows: readonly WithText<Row, Column>[],
  columns: readonly Column[],
): Row[] =>
  rows.map((row) => {
    const parsed = columns.map((column) => [column, row[column] && parseExactJson(row[column] as string)])
    return { ...row, ...Object.fromEntries(parsed) } as unknown as Row
  })

/** The number of rows of a relation, with its conditions: what follows FROM. */
export const readCount = async (db: QueryExecutorProvider, of: RawBuilder<unknown>): Promise<number> =>
  (await readOne(db, sql<{ count: number }>`select count(*) as count from ${of}`)).count

/** Whether a condition holds in the database. */
export const isTrue = async (db: QueryExecutorProvider, condition: RawBuilder<unknown>): Promise<boolean> =>
  (await readOne(db, sql<{ isTrue: boolean | null }>`select ${condition} as "isTrue"`)).isTrue === true

/** Milliseconds as an SQL interval. */
export function intervalSql(ms: number): RawBuilder<unknown> {
  return sql`make_interval(secs => ${ms / 1000}::double precision)`
}

/**
 * Hides a condition from the planner: it selects no index and does not count in estimates. States that rows pass through
 * in seconds look empty or full in the statistics: the planner would read a whole partial index, dead tuples included,
 * to find a few rows by key, or join them by a nested loop of a thousand by a thousand.
 */
export function opaque(condition: RawBuilder<unknown>): RawBuilder<boolean> {
  return sql`coalesce(${condition}, false)`
}

/** One source, some, or all (null). */
export type SourceFilter = string | readonly string[] | null

export function inSourceSql(column: RawBuilder<unknown>, source: SourceFilter): RawBuilder<unknown> {
  if (source === null) return sql`true`
  return typeof source === 'string'
    ? sql`${column} = ${source}`
    : sql`${column} = any(${[...source]}::text[])`
}

/** Rows page by page. @param read the rows after one of them, or from the first; at most `limit` */
export async function* readPages<Row>(
  read: (after: Row | null, limit: number) => Promise<Row[]>,
  limit = 5_000,
): AsyncGenerator<Row[]> {
  for (let after: Row | null = null; ;) {
    const page: Row[] = await read(after, limit)
    if (page.length > 0) yield page
    if (page.length < limit) return
    after = page.at(-1) ?? null
  }
}

/** SQL, a column: waits for locks are bounded no longer, as on a user's table. The locks of this statement's own tables still are. */
export const END_LOCK_TIMEOUT = sql`set_config('lock_timeout', '0', true)`
