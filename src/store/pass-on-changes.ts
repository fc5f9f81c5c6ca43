import { type RawBuilder, sql } from 'kysely'
import { isStandingSql } from './changes.ts'
import { jsonBatch } from './sql.ts'
import type { Tx } from './transaction.ts'

/* What an undone write leaves to the later writes of its row, which stand: their undo must restore what was there before both. */

interface UndoneParents {
  /** The id of the undone change. */
  readonly id: number
  readonly key: string
  /** The empty objects and JSON nulls in which it had created keys. */
  readonly parents: Readonly<Record<string, unknown>>
}

/**
 * Gives the later writes into an object that was empty before an undone one: only the last undo of them leaves it without
 * a key, and must know that it was there.
 * @param sources those that share the rows
 */
export async function passOnParents(
  tx: Tx,
  sources: readonly string[],
  undone: readonly UndoneParents[],
): Promise<void> {
  if (undone.length === 0) return
  await sql`
    update fillrate.changes c set before = v.parents || c.before
      from jsonb_to_recordset(${jsonBatch(undone)}) as v (id bigint, key text, parents jsonb), fillrate.runs r
     where c.source = any(${[...sources]}::text[]) and c.key = v.key and c.id > v.id and r.id = c.run_id and ${isStandingSql}`.execute(
    tx,
  )
}

interface KeptColumns {
  /** The id of the undone change. */
  readonly id: number
  readonly key: string
  /** Its columns that stay, because a later write has written them again. */
  readonly columns: readonly string[]
}

/**
 * Gives the next write of a column what an undone one had found there, unless the column was changed between the two: an undo
 * of the next write would otherwise restore the value that is undone. A blank cell is null in what an undo has left, and left
 * out of what a write has found.
 * @param sources those that share the rows
 */
export async function passOnPreviousValues(
  tx: Tx,
  sources: readonly string[],
  undone: readonly KeptColumns[],
): Promise<void> {
  if (undone.length === 0) return
  const withPrevious = (column: string, previous: string): RawBuilder<unknown> => sql`
    (coalesce(c.${sql.id(column)}, '{}') - v.columns) || coalesce(v.${sql.id(previous)}, '{}')`
  await sql`
    update fillrate.changes c
       set before = ${withPrevious('before', 'previous')},
           last_written_before = nullif(${withPrevious('last_written_before', 'written')}, '{}'),
           earlier_writes_before = nullif(${withPrevious('earlier_writes_before', 'earlier')}, '{}')
      from (
        select next.id, next.key, next.source, array_agg(n.name) as columns,
               jsonb_object_agg(n.name, u.before -> n.name) filter (where u.before ? n.name) as previous,
               jsonb_object_agg(n.name, u.last_written_before -> n.name) filter (where u.last_written_before ? n.name) as written,
               jsonb_object_agg(n.name, u.earlier_writes_before -> n.name) filter (where u.earlier_writes_before ? n.name) as earlier
          from jsonb_to_recordset(${jsonBatch(undone)}) as k (id bigint, key text, columns jsonb)
          join fillrate.changes u on u.source = any(${[...sources]}::text[]) and u.key = k.key and u.id = k.id
         cross join lateral jsonb_array_elements_text(k.columns) as n (name)
         cross join lateral (
           select c.id, c.key, c.source, c.before
             from fillrate.changes c join fillrate.runs r on r.id = c.run_id
            where c.source = any(${[...sources]}::text[]) and c.key = k.key and c.id > k.id and c.after ? n.name
              and ${isStandingSql}
            order by c.id limit 1) next
         where nullif(next.before -> n.name, 'null') is not distinct from nullif(u.after -> n.name, 'null')
         group by next.id, next.key, next.source) v
     where c.source = v.source and c.key = v.key and c.id = v.id`.execute(tx)
}
