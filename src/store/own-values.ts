import { type RawBuilder, sql } from 'kysely'
import { RETURNED_NOTE } from '../domain/row.ts'

/*
 * Whose values a row of `fillrate.rows`, `r`, has. `last_written` belongs to the inputs of `input_hash`, and `earlier_writes` to
 * others: by column, the hash of these inputs and the value. A row that is picked with other inputs moves the one into the
 * other, and back if it gets its earlier inputs again.
 */

/** SQL: the notes of a deleted row `r` that its table has again. */
export const returnedNotesSql = sql`
  coalesce(r.notes, '{}') || jsonb_build_object(${sql.lit(RETURNED_NOTE)}::text, true)`

/** SQL: the row was deleted, and inserted again with the key. With other inputs it is another row, in which Fillrate wrote nothing. */
const hasReturnedSql = sql<boolean>`(r.deleted_at is not null or coalesce(r.notes ? ${sql.lit(RETURNED_NOTE)}, false))`

/** SQL: `earlier_writes` once the inputs of `r` are others; without a hash, once they are unknown. */
export const earlierWritesSql = (hash: RawBuilder<unknown> = sql`null::bigint`): RawBuilder<unknown> => sql`
  case when (r.last_written is not null or r.earlier_writes is not null) and not ${hasReturnedSql} then (
    select jsonb_object_agg(e.key, e.value)
      from (select key, value from jsonb_each(r.earlier_writes) where value ->> 0 is distinct from (${hash})::text
            union all
            select key, jsonb_build_array(r.input_hash::text, value) from jsonb_each(r.last_written)) e) end`

/** SQL: the values that Fillrate wrote into the row `r` for other inputs than those of a hash, by column; NULL: none. */
export const earlierValuesSql = (hash: RawBuilder<unknown>): RawBuilder<unknown> => sql`(
  select jsonb_object_agg(e.key, e.value -> 1)
    from jsonb_each(case when r.input_hash = ${hash} then r.earlier_writes else ${earlierWritesSql(hash)} end) e
   where e.value -> 2 is null)`

/**
 * SQL: `earlier_writes` of `r` once the columns of an object are written. In the row of another, what is left is a user's, equal by
 * chance: it is marked, or the next write would count it alone, as one value of one.
 * @param isAnothers SQL: whether the row is not the one that was written for earlier inputs (`sources/earlier-values.ts`)
 */
export const earlierAfterWriteSql = (
  columns: RawBuilder<unknown>,
  isAnothers: RawBuilder<unknown>,
): RawBuilder<unknown> => sql`(
  select jsonb_object_agg(e.key, case when ${isAnothers} then jsonb_set(e.value, '{2}', 'true') else e.value end)
    from jsonb_each(r.earlier_writes) e where not (${columns}) ? e.key)`

/** SQL: a value of the row `r` that stays with its inputs. */
const ofInputs = (
  hash: RawBuilder<unknown>,
  value: RawBuilder<unknown>,
  otherwise: RawBuilder<unknown>,
): RawBuilder<unknown> => sql`case when r.input_hash = ${hash} then ${value} else ${otherwise} end`

/** SQL: `last_written` and `earlier_writes` of the row `r` with the inputs of a hash. */
export const lastWrittenWithSql = (hash: RawBuilder<unknown>): RawBuilder<unknown> =>
  ofInputs(
    hash,
    sql`r.last_written`,
    sql`case when r.earlier_writes is not null then (
      select jsonb_object_agg(e.key, e.value -> 1) from jsonb_each(r.earlier_writes) e where e.value ->> 0 = (${hash})::text) end`,
  )
export const earlierWritesWithSql = (hash: RawBuilder<unknown>): RawBuilder<unknown> =>
  ofInputs(hash, sql`r.earlier_writes`, earlierWritesSql(hash))

const claimedHash = sql`excluded.input_hash`

/** SQL: what a row `r` that is claimed anew, with the inputs of `excluded`, is set to. */
export const claimedValuesSql = sql`
  last_written = ${lastWrittenWithSql(claimedHash)},
  earlier_writes = ${earlierWritesWithSql(claimedHash)},
  own_writes = ${ofInputs(claimedHash, sql`r.own_writes`, sql`case when not ${hasReturnedSql} then r.own_writes end`)}`
