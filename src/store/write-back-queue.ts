import { sql } from 'kysely'
import { Row } from '../domain/row.ts'
import { opaque } from './sql.ts'
import type { AnsweredRow } from './rows.ts'
import type { Tx } from './transaction.ts'

// Rows that are answered and could not be written yet: a person's transaction has locked them. `due_at` of a row that
// waits is the time of the next try.

const waiting = sql.lit(Row.waiting)

/** Locks an answered row that was claimed before, if it still waits as it did. */
export async function lockAnsweredRow(
  tx: Tx,
  source: string,
  { key, lookup, inputHash }: Pick<AnsweredRow, 'key' | 'lookup' | 'inputHash'>,
): Promise<boolean> {
  const { rows } = await sql`
    select key from fillrate.rows
     where source = ${source} and key = ${key} and state = ${waiting} and lookup_id = ${lookup}
       and input_hash is not distinct from ${inputHash}
       for no key update skip locked`.execute(tx)
  return rows.length > 0
}

/** How soon a row that was left is tried again: a part of the time for which it has waited, within these bounds. */
const retryDelaySql = sql`least(greatest((now() - greatest(r.picked_at, l.resolved_at)) / 4, interval '1 s'), interval '1 minute')`

/** Leaves answered rows for later: they go on waiting, with a reason and the time of the next try. */
export async function postponeRows(
  tx: Tx,
  source: string,
  keys: readonly string[],
  reason: string,
): Promise<void> {
  if (keys.length === 0) return
  await sql`
    update fillrate.rows r set due_at = now() + ${retryDelaySql}, reason = ${reason}
      from (select ctid, lookup_id from fillrate.rows
             where source = ${source} and key = any(${[...keys]}::text[])
               and ${opaque(sql`state = ${waiting}`)}
               for no key update skip locked) as held
      join fillrate.lookups l on l.id = held.lookup_id
     where r.ctid = held.ctid`.execute(tx)
}
