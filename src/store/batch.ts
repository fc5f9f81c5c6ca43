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
 * A condition that no index is chosen for. A partial index over a state that rows pass through in seconds looks empty
 * to the planner, which then reads all of it, the dead rows too, to find the few that are named by their keys.
 */
export function unindexed(condition: RawBuilder<unknown>): RawBuilder<boolean> {
  return sql`coalesce(${condition}, false)`
}
