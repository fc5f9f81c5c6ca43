import { describeServerError } from '../../util/error-text.ts'
import type { Transaction } from 'kysely'
import type { Db } from '../db.ts'
import { splitName } from '../quote.ts'
import { rejectProtectedRows } from '../row-security.ts'
import type { MappedCell, Source } from '../source-model.ts'
import type { RejectedRow } from './bisect.ts'
import { executeBatch, rereadAfterTriggers } from './execute.ts'
import { type RestoreResultRow, type RestoreRow, restoreStatement } from './restore-statement.ts'

/** One write to undo, as `writeBatch` returned it. */
export interface UndoRow {
  readonly key: string
  /** The inputs that it was made for: a row with others is not the one that was written. */
  readonly inputHash: string | null
  readonly before: Readonly<Record<string, unknown>>
  readonly after: Readonly<Record<string, unknown>>
  /** Columns of a later write that is not undone: they stay. */
  readonly writtenLater?: readonly string[]
}

export interface UndoResult {
  readonly key: string
  /**
   * `restored`: at least one cell. `unchanged`: all of them were changed since. `locked`: not touched, because another
   * transaction had locked the row.
   */
  readonly outcome: 'restored' | 'unchanged' | 'row_missing' | 'rejected' | 'locked'
  readonly reason: string | null
  /** The restored cells before and after, in the form of a write: undoing the undo uses them. */
  readonly before: Record<string, unknown> | null
  readonly after: Record<string, unknown> | null
  /** As in `WriteResult`. */
  readonly ownWrites?: Record<string, unknown> | null
  /**
   * Cells that stay, because they or another cell of their group were changed since, because the row has other inputs, or because
   * the table no longer has such a column.
   */
  readonly keptColumns: readonly string[]
  /** The row has other inputs than the write: its cells are not Fillrate's. */
  readonly isOther?: boolean
}

/**
 * Undoes writes, cell by cell, in one statement: a cell that no longer holds what was written stays as it is.
 * Uses the table's columns, not the mapping's outputs, which may have changed since the write.
 * @param batch at most one write of each row; of several writes the newest must be undone first
 */
export async function restoreBatch<Schema>(
  tx: Transaction<Schema>,
  source: Source,
  batch: readonly UndoRow[],
): Promise<UndoResult[]> {
  const { cells, toResults } = prepare(source, batch)
  if (cells.length === 0) return toResults(null)
  const rows = toRestoreRows(batch)
  const sent = await executeBatch(tx, source, { sql: restoreStatement(source, cells) }, rows, untouchedRow)
  const results = toResults(await rereadAfterTriggers(tx, source, cells, rows, sent.rows))
  return await rejectProtectedRows(tx, source, results)
}

/**
 * Previews `restoreBatch` without a lock or a write. Does not find what only a write raises, such as a new constraint;
 * `before` and `after` are not returned.
 */
export async function previewRestore(
  db: Db,
  source: Source,
  batch: readonly UndoRow[],
): Promise<UndoResult[]> {
  const { cells, toResults } = prepare(source, batch)
  if (cells.length === 0) return toResults(null)
  const sql = restoreStatement(source, cells, { preview: true })
  const { rows } = await executeBatch(db, source, { sql }, toRestoreRows(batch), untouchedRow)
  return toResults(
    new Map([...rows].map(([index, one]) => [index, 'error' in one ? one : { ...one, after: null }])),
  )
}

const toRestoreRows = (batch: readonly UndoRow[]): RestoreRow[] =>
  batch.map(({ key, inputHash, before, after, writtenLater = [] }, index) => ({
    index,
    key,
    inputHash,
    before,
    after,
    writtenLater,
  }))

interface Prepared {
  readonly cells: readonly MappedCell[]
  /** @param results null: the table no longer has any of the cells as columns */
  readonly toResults: (results: ReadonlyMap<number, RestoreResultRow | RejectedRow> | null) => UndoResult[]
}

function prepare(source: Source, batch: readonly UndoRow[]): Prepared {
  const columns = [...new Set(batch.flatMap((row) => Object.keys(row.after)))]
  const cells = columns.map((column) => findCell(source, column)).filter((cell) => cell !== null)
  const missing = columns.filter((column) => cells.every((cell) => cell.column !== column))
  const droppedColumns = (row: UndoRow): string[] => missing.filter((column) => column in row.after)
  return {
    cells,
    toResults: (results) =>
      batch.map((row, index) => {
        if (results === null)
          return { ...EMPTY_RESULT, key: row.key, outcome: 'unchanged', keptColumns: droppedColumns(row) }
        const result = toUndoResult(row.key, results.get(index))
        return { ...result, keptColumns: [...result.keptColumns, ...droppedColumns(row)] }
      }),
  }
}

const untouchedRow = (index: number, why: 'missing' | 'locked'): RestoreResultRow => ({
  index,
  found: why === 'locked',
  locked: why === 'locked',
  written: false,
  isOther: false,
  copies: null,
  before: null,
  after: null,
  changed: null,
})

const EMPTY_RESULT = { reason: null, before: null, after: null, keptColumns: [] } as const

function toUndoResult(key: string, result: RestoreResultRow | RejectedRow | undefined): UndoResult {
  if (result === undefined) throw new Error(`the statement returned no result for a row`)
  if ('error' in result)
    return { ...EMPTY_RESULT, key, outcome: 'rejected', reason: describeServerError(result.error) }
  if (result.locked) return { ...EMPTY_RESULT, key, outcome: 'locked' }
  if (!result.found) return { ...EMPTY_RESULT, key, outcome: 'row_missing' }
  const keptColumns = result.changed ?? []
  if (result.copies !== null && result.copies > 1) {
    const reason = `its table and those that inherit from it have ${result.copies} rows with this key and these inputs`
    return { ...EMPTY_RESULT, key, outcome: 'rejected', reason }
  }
  if (!result.written)
    return {
      ...EMPTY_RESULT,
      key,
      outcome: 'unchanged',
      keptColumns,
      ...(result.isOther && { isOther: true }),
    }
  const { before, after, ownWrites } = result
  return {
    key,
    outcome: 'restored',
    reason: null,
    before,
    after,
    ...(ownWrites && { ownWrites }),
    keptColumns,
  }
}

function findCell(source: Source, name: string): MappedCell | null {
  const whole = source.table.columns.find((column) => column.name === name)
  const [first = '', ...path] = splitName(name)
  const column = whole ?? source.table.columns.find((column) => column.name === first)
  if (!column?.canUpdate || !column.canSelect) return null
  return { column: name, attribute: column.name, path: whole ? [] : path, type: column.type }
}
