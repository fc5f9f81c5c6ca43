import { sql, type RawBuilder } from 'kysely'

/**
 * A batch as one parameter, to be read with `jsonb_to_recordset`: one statement for any number of values, and no
 * array of JSON strings, whose escaping costs more than the JSON.
 */
export function jsonBatch(values: readonly object[]): RawBuilder<unknown> {
  return sql`${JSON.stringify(values)}::jsonb`
}

/** Milliseconds as an interval. */
export function interval(ms: number): RawBuilder<unknown> {
  return sql`make_interval(secs => ${ms / 1000}::double precision)`
}

/**
 * A condition that neither chooses an index nor counts in the planner's estimates. The states that rows pass through in
 * seconds look empty to it, or full: it would read a whole partial index, the dead rows too, to find the few rows that
 * are named by their keys, or join them by a nested loop of a thousand by a thousand.
 */
export function unindexed(condition: RawBuilder<unknown>): RawBuilder<boolean> {
  return sql`coalesce(${condition}, false)`
}
