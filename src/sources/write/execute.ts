import { parseExactJson } from '../../domain/json.ts'
import { cellJsonSql } from '../cell.ts'
import { tryQuery, query, type Db } from '../db.ts'
import { bisectBatch, type RejectedRow } from './bisect.ts'
import { keyMatchesSql } from '../key.ts'
import type { MappedCell, Source } from '../source-model.ts'
import { filterCastableKeys } from '../page.ts'
import { quoteLiteral } from '../quote.ts'
import { isRowError, isAmbiguousError } from '../pg-errors.ts'
import { concatJson, jsonEntry } from './result-sql.ts'

/** A row of a batch, and its place in it. */
interface BatchItem {
  readonly i: number
  readonly key: string
}

/** What a statement tells of one row. */
interface StatementResult {
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
export async function executeBatch<One extends StatementResult>(
  tx: Db,
  source: Source,
  statement: string,
  batch: readonly BatchItem[],
  gone: (i: number) => One,
): Promise<ReadonlyMap<number, One | RejectedRow>> {
  await query(tx, 'savepoint fillrate_batch')
  let told: ReadonlyArray<One | RejectedRow>
  try {
    told = await runStatement<One>(tx, statement, batch)
    await query(tx, 'release savepoint fillrate_batch')
  } catch (error) {
    if (!isRowError(error)) throw error
    await query(tx, 'rollback to savepoint fillrate_batch')
    // What comes without any row as well is the statement's own: a privilege, a column that is gone.
    if (isAmbiguousError(error) && (await tryQuery(tx, statement, ['[]'])) !== null) throw error
    told = await bisectBatch<One>(tx, statement, batch)
    const refused = new Set(told.flatMap((one) => ('error' in one ? [one.i] : [])))
    const keys = batch.filter((row) => refused.has(row.i)).map((row) => row.key)
    const fine = new Set(await filterCastableKeys(tx, source, keys))
    const isGone = new Set(
      batch.filter((row) => refused.has(row.i) && !fine.has(row.key)).map((row) => row.i),
    )
    told = told.map((one) => (isGone.has(one.i) ? gone(one.i) : one))
  }
  return new Map(told.map((one) => [one.i, one]))
}

async function runStatement<Answer>(
  db: Db,
  statement: string,
  batch: readonly unknown[],
): Promise<readonly Answer[]> {
  const [row] = await query<{ told: string }>(db, statement, [JSON.stringify(batch)])
  return row === undefined ? [] : (parseExactJson(row.told) as Answer[])
}

/**
 * The same with `after` read once more where AFTER triggers of the user's may have changed what was just written:
 * RETURNING tells what a row held before they ran.
 */
export async function rereadAfterTriggers<One extends StatementResult>(
  tx: Db,
  source: Source,
  cells: readonly MappedCell[],
  batch: readonly BatchItem[],
  told: ReadonlyMap<number, One | RejectedRow>,
): Promise<ReadonlyMap<number, One | RejectedRow>> {
  if (!source.table.hasAfterTriggers) return told
  const written = batch.flatMap(({ i, key }) => {
    const one = told.get(i)
    return one && !('error' in one) && one.written ? [{ i, key, c: Object.keys(one.after ?? {}) }] : []
  })
  if (written.length === 0) return told
  const held = cells.map((cell) =>
    jsonEntry(`"~b".c ? ${quoteLiteral(cell.column)}`, cell.column, `coalesce(${cellJsonSql(cell)}, 'null')`),
  )
  const statement = `
    select coalesce(json_agg(json_build_object('i', "~b".i, 'after', ${concatJson(held)})), '[]')::text as told
      from jsonb_to_recordset($1::jsonb) as "~b"(i int, key text, c jsonb)
      join ${source.table.sql} as t on ${keyMatchesSql(source, '"~b".key')}`
  const now = await runStatement<Pick<StatementResult, 'i' | 'after'>>(tx, statement, written)
  return new Map([...told, ...now.map(({ i, after }) => [i, { ...(told.get(i) as One), after }] as const)])
}
