import { sql, type RawBuilder } from 'kysely'

/**
 * A batch as one parameter, to be read with `jsonb_to_recordset`: one statement for any number of values, and no
 * array of JSON strings, whose escaping costs more than the JSON.
 */
export function jsonBatch(values: readonly object[]): RawBuilder<unknown> {
  return sql`${JSON.stringify(values)}::jsonb`
}

/**
 * A batch of records `v`, one for each key `k.key`, for a join by that key. The planner takes every
 * `jsonb_to_recordset` for a hundred rows, so it reads the whole table for one record, or goes through a thousand
 * records for each of a thousand rows; of an array it knows the length.
 * @param keys as many as records, with the cast to their type: sql`${ids}::bigint[]`
 * @param columns of the records: sql`state text, record jsonb`
 */
export function unnestByKey(
  keys: RawBuilder<unknown>,
  records: readonly object[],
  columns: RawBuilder<unknown>,
): RawBuilder<unknown> {
  return sql`unnest(${keys}) with ordinality as k (key, n)
       cross join lateral jsonb_to_record(${jsonBatch(records)} -> (k.n - 1)::integer) as v (${columns})`
}

/**
 * A batch of records `v` for the rows of a source that they name, with the place of each: for an update of
 * `fillrate.rows r` where `r.ctid = place.ctid`. Joined by their keys instead, a table that has just filled looks as if
 * its source had next to no rows, and all of them would be read for each batch. A row that somebody changes at this
 * moment may be left out.
 * @param columns of the records, without the key
 */
export function unnestByRow(
  source: string,
  records: readonly { readonly key: string }[],
  columns: RawBuilder<unknown>,
): RawBuilder<unknown> {
  return sql`${unnestByKey(sql`${records.map(({ key }) => key)}::text[]`, records, columns)}
       cross join lateral (select ctid from fillrate.rows where source = ${source} and key = k.key offset 0) as place`
}

/** Milliseconds as an interval. */
export function intervalSql(ms: number): RawBuilder<unknown> {
  return sql`make_interval(secs => ${ms / 1000}::double precision)`
}

/**
 * A condition that neither chooses an index nor counts in the planner's estimates. The states that rows pass through in
 * seconds look empty to it, or full: it would read a whole partial index, the dead rows too, to find the few rows that
 * are named by their keys, or join them by a nested loop of a thousand by a thousand.
 */
export function opaque(condition: RawBuilder<unknown>): RawBuilder<boolean> {
  return sql`coalesce(${condition}, false)`
}
