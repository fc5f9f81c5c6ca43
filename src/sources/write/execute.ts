import { parseExactJson } from '../../domain/json.ts'
import { cellJsonSql } from '../cell.ts'
import { type Db, query, tryQuery } from '../db.ts'
import { keyMatchesSql } from '../key.ts'
import { filterCastableKeys } from '../page.ts'
import { ownWritesJsonSql, recordedCells, recordedJsonSql } from '../own-writes.ts'
import { isAmbiguousError, isRowError } from '../pg-errors.ts'
import { quoteLiteral } from '../quote.ts'
import type { MappedCell, Source } from '../source-model.ts'
import { bisectBatch, type RejectedRow } from './bisect.ts'
import { concatJson, jsonEntry } from './result-sql.ts'

/** A row of a batch, and its index in it. */
interface BatchItem {
  readonly index: number
  readonly key: string
}

/** What a statement returns for one row. */
interface StatementResult {
  readonly index: number
  readonly found: boolean
  readonly written: boolean
  readonly after: Record<string, unknown> | null
  readonly ownWrites?: Record<string, unknown> | null
  /** The recorded cells as the user gave them. */
  readonly given?: Record<string, unknown> | null
}

/**
 * Executes a statement that takes a batch as `$1` and returns a result for each of its rows, in JSON as text. If the
 * database rejects the batch, it is bisected: the bad rows are reported, the statement is executed for the others.
 * @param missingRow the result for a row whose key can no longer be a key of the source
 */
export async function executeBatch<One extends StatementResult>(
  tx: Db,
  source: Source,
  statement: string,
  batch: readonly BatchItem[],
  missingRow: (index: number) => One,
): Promise<ReadonlyMap<number, One | RejectedRow>> {
  await query(tx, 'savepoint fillrate_batch')
  let results: ReadonlyArray<One | RejectedRow>
  try {
    results = await runStatement<One>(tx, statement, batch)
    await query(tx, 'release savepoint fillrate_batch')
  } catch (error) {
    if (!isRowError(error)) throw error
    await query(tx, 'rollback to savepoint fillrate_batch')
    // If it fails without any row too, the statement itself is wrong: a privilege, a column that was dropped.
    if (isAmbiguousError(error) && (await tryQuery(tx, statement, ['[]'])) !== null) throw error
    results = await bisectBatch<One>(tx, statement, batch)
    const rejected = new Set(results.flatMap((one) => ('error' in one ? [one.index] : [])))
    const rejectedRows = batch.filter((row) => rejected.has(row.index))
    const keys = rejectedRows.map((row) => row.key)
    const castable = new Set(await filterCastableKeys(tx, source, keys))
    const missing = new Set(rejectedRows.filter((row) => !castable.has(row.key)).map((row) => row.index))
    results = results.map((one) => (missing.has(one.index) ? missingRow(one.index) : one))
  }
  return new Map(results.map((one) => [one.index, one]))
}

async function runStatement<Answer>(
  db: Db,
  statement: string,
  batch: readonly unknown[],
): Promise<readonly Answer[]> {
  const [row] = await query<{ results: string }>(db, statement, [JSON.stringify(batch)])
  return row === undefined ? [] : (parseExactJson(row.results) as Answer[])
}

/**
 * Reads `after` again if the user's AFTER triggers may have changed what was just written: RETURNING shows the row as it
 * was before they ran.
 */
export async function rereadAfterTriggers<One extends StatementResult>(
  tx: Db,
  source: Source,
  cells: readonly MappedCell[],
  batch: readonly BatchItem[],
  results: ReadonlyMap<number, One | RejectedRow>,
): Promise<ReadonlyMap<number, One | RejectedRow>> {
  if (!source.table.hasAfterTriggers) return results
  const written = batch.flatMap(({ index, key }) => {
    const one = results.get(index)
    return one && !('error' in one) && one.written
      ? [{ index, key, columns: Object.keys(one.after ?? {}), given: one.given ?? null }]
      : []
  })
  if (written.length === 0) return results
  const values = cells.map((cell) =>
    jsonEntry(
      `"~b".columns ? ${quoteLiteral(cell.column)}`,
      cell.column,
      `coalesce(${cellJsonSql(cell)}, 'null')`,
    ),
  )
  const left = recordedJsonSql(recordedCells(source.ownWrites?.writers ?? []))
  const statement = `
    select coalesce(json_agg(json_build_object('index', "~b".index, 'after', ${concatJson(values)},
             'ownWrites', ${ownWritesJsonSql(left, '"~b".given')})), '[]')::text as results
      from jsonb_to_recordset($1::jsonb) as "~b"(index int, key text, columns jsonb, given jsonb)
      join ${source.table.sql} as t on ${keyMatchesSql(source, '"~b".key')}`
  const now = await runStatement<Pick<StatementResult, 'index' | 'after' | 'ownWrites'>>(
    tx,
    statement,
    written,
  )
  return new Map([
    ...results,
    ...now.map(({ index, ...left }) => [index, { ...(results.get(index) as One), ...left }] as const),
  ])
}
