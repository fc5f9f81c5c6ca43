import { parseKeepingNumbers } from '../domain/json.ts'
import { cellJson } from './cell.ts'
import { attempt, query, type Db } from './db.ts'
import { isolate, type Refused } from './isolate.ts'
import { keyMatches } from './key.ts'
import type { Cell, Source } from './mapped.ts'
import { castable } from './page.ts'
import { quoteLiteral } from './quote.ts'
import { isRefusal, isUnclear } from './refused.ts'
import { concatenated, entry } from './told.ts'

/** A row of a batch, and its place in it. */
interface Sent {
  readonly i: number
  readonly key: string
}

/** What a statement tells of one row. */
interface Told {
  readonly i: number
  readonly found: boolean
  readonly written: boolean
  readonly after: Record<string, unknown> | null
}

/**
 * Sends a statement that takes a batch as `$1` and tells of each of its rows, in JSON as text. When the database refuses
 * the batch, the bad rows are isolated and the statement is carried out for the others.
 * @param gone what to tell of a row whose key is no key of the source any more
 */
export async function sendBatch<One extends Told>(
  tx: Db,
  source: Source,
  statement: string,
  batch: readonly Sent[],
  gone: (i: number) => One,
): Promise<ReadonlyMap<number, One | Refused>> {
  await query(tx, 'savepoint fillrate_batch')
  let told: ReadonlyArray<One | Refused>
  try {
    told = await send<One>(tx, statement, batch)
    await query(tx, 'release savepoint fillrate_batch')
  } catch (error) {
    if (!isRefusal(error)) throw error
    await query(tx, 'rollback to savepoint fillrate_batch')
    // What comes without any row as well is the statement's own: a privilege, a column that is gone.
    if (isUnclear(error) && (await attempt(tx, statement, ['[]'])) !== null) throw error
    told = await isolate<One>(tx, statement, batch)
    const refused = new Set(told.flatMap((one) => ('error' in one ? [one.i] : [])))
    const keys = batch.filter((row) => refused.has(row.i)).map((row) => row.key)
    const fine = new Set(await castable(tx, source, keys))
    const isGone = new Set(
      batch.filter((row) => refused.has(row.i) && !fine.has(row.key)).map((row) => row.i),
    )
    told = told.map((one) => (isGone.has(one.i) ? gone(one.i) : one))
  }
  return new Map(told.map((one) => [one.i, one]))
}

async function send<Answer>(
  db: Db,
  statement: string,
  batch: readonly unknown[],
): Promise<readonly Answer[]> {
  const [row] = await query<{ told: string }>(db, statement, [JSON.stringify(batch)])
  return row === undefined ? [] : (parseKeepingNumbers(row.told) as Answer[])
}

/**
 * The same with `after` read once more where AFTER triggers of the user's may have changed what was just written:
 * RETURNING tells what a row held before they ran.
 */
export async function afterTriggers<One extends Told>(
  tx: Db,
  source: Source,
  cells: readonly Cell[],
  batch: readonly Sent[],
  told: ReadonlyMap<number, One | Refused>,
): Promise<ReadonlyMap<number, One | Refused>> {
  if (!source.table.hasAfterTriggers) return told
  const written = batch.flatMap(({ i, key }) => {
    const one = told.get(i)
    return one && !('error' in one) && one.written ? [{ i, key, c: Object.keys(one.after ?? {}) }] : []
  })
  if (written.length === 0) return told
  const held = cells.map((cell) =>
    entry(`"~b".c ? ${quoteLiteral(cell.column)}`, cell.column, `coalesce(${cellJson(cell)}, 'null')`),
  )
  const statement = `
    select coalesce(json_agg(json_build_object('i', "~b".i, 'after', ${concatenated(held)})), '[]')::text as told
      from jsonb_to_recordset($1::jsonb) as "~b"(i int, key text, c jsonb)
      join ${source.table.sql} as t on ${keyMatches(source, '"~b".key')}`
  const now = await send<Pick<Told, 'i' | 'after'>>(tx, statement, written)
  return new Map([...told, ...now.map(({ i, after }) => [i, { ...(told.get(i) as One), after }] as const)])
}
