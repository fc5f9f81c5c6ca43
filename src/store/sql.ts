import { type RawBuilder, sql } from 'kysely'

/**
 * A batch as one parameter, to be read with `jsonb_to_recordset`: one statement for any number of values. Cheaper than an
 * array of JSON texts, whose escaping costs more than the JSON.
 */
export function jsonBatch(values: readonly object[]): RawBuilder<unknown> {
  return sql`${JSON.stringify(values)}::jsonb`
}

/** Columns of the records of a batch and their SQL types: `{ state: 'text', record: 'jsonb' }`. */
export type BatchColumns = Readonly<Record<string, string>>

/**
 * A batch of records `v`. Only these columns are sent, and no nulls, which are what a missing one becomes: Postgres takes
 * longer to read a batch than to find the rows that it is for.
 */
export const recordBatch = (records: readonly object[], columns: BatchColumns): RawBuilder<unknown> =>
  sql`jsonb_to_recordset(${jsonBatch(takeColumns(records, columns))}) as v (${listColumns(columns)})`

function takeColumns(records: readonly object[], columns: BatchColumns): object[] {
  const names = Object.keys(columns)
  return records.map((record) => {
    const taken: Record<string, unknown> = {}
    for (const name of names) {
      const value = (record as Readonly<Record<string, unknown>>)[name]
      if (value !== null && value !== undefined) taken[name] = value
    }
    return taken
  })
}

const listColumns = (columns: BatchColumns): RawBuilder<unknown> =>
  sql.raw(
    Object.entries(columns)
      .map(([name, type]) => `"${name}" ${type}`)
      .join(', '),
  )

/**
 * A batch of records `v`, one for each key `k.key`, to be joined by that key. The planner estimates every
 * `jsonb_to_recordset` at a hundred rows, and then reads the whole table for one record, or a thousand records for each
 * of a thousand rows; of an array it knows the length.
 * @param keys as many as records, cast to their type: sql`${ids}::bigint[]`
 * @example
 * sql`update fillrate.lookups l set state = v.state
 *       from ${unnestByKey(sql`${ids}::bigint[]`, records, { state: 'text' })} where l.id = k.key`
 */
export function unnestByKey(
  keys: RawBuilder<unknown>,
  records: readonly object[],
  columns: BatchColumns,
): RawBuilder<unknown> {
  const batch = jsonBatch(takeColumns(records, columns))
  return sql`unnest(${keys}) with ordinality as k (key, n)
       cross join lateral jsonb_to_record(${batch} -> (k.n - 1)::integer) as v (${listColumns(columns)})`
}

/**
 * A batch of records `v` for the rows of a source that they name, each with the row's physical place: for an update of
 * `fillrate.rows r` where `r.ctid = target.ctid`. With a join by key instead, a table that has just filled looks as if
 * its source had hardly any rows, and the planner reads all of them for each batch. A row that is being updated at the
 * same moment may be skipped.
 * @param records `ctid`: the place, where this transaction has locked the row already. To find it by key costs as much as
 *   an index entry.
 */
export function unnestByRow(
  source: string,
  records: readonly { readonly key: string; readonly ctid?: string | undefined }[],
  columns: BatchColumns,
): RawBuilder<unknown> {
  return sql`${recordBatch(records, { key: 'text', ctid: 'tid', ...columns })}
       cross join lateral (
         select coalesce(v.ctid, (select ctid from fillrate.rows where source = ${source} and key = v.key)) as ctid offset 0
       ) as target`
}

/**
 * Begins a statement that connections prepare (`open.ts`). Only for those that are sent many times a second, with arrays, and
 * go by primary keys: planning them was more than a third of what they cost, and any plan of theirs is the same.
 */
export const PREPARED_MARK = '/* prepared */'
export const PREPARED = sql.raw(PREPARED_MARK)

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
