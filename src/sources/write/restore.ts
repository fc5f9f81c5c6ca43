import type { Transaction } from 'kysely'
import { query, type Db } from '../db.ts'
import type { RejectedRow } from './bisect.ts'
import type { MappedCell, Source } from '../source-model.ts'
import { splitName } from '../quote.ts'
import { describeRowError } from '../pg-errors.ts'
import { restoreStatement, type RestoreResultRow, type RestoreRow } from './restore-statement.ts'
import { rereadAfterTriggers, executeBatch } from './execute.ts'

/** One write to be taken back, as `writeBatch` told it. */
export interface UndoRow {
  readonly key: string
  readonly before: Readonly<Record<string, unknown>>
  readonly after: Readonly<Record<string, unknown>>
  /** Columns that a later write has written, and nobody has taken that back: they stay. */
  readonly writtenLater?: readonly string[]
}

export interface UndoResult {
  readonly key: string
  /**
   * `restored`: at least one cell. `unchanged`: each of them has been changed since. `locked`: not touched, because
   * another transaction had locked the row.
   */
  readonly outcome: 'restored' | 'unchanged' | 'row_missing' | 'rejected' | 'locked'
  readonly reason: string | null
  /** What the restored cells held and hold, in the form of a write: taking back the undo takes these. */
  readonly before: Record<string, unknown> | null
  readonly after: Record<string, unknown> | null
  /**
   * Cells that stay, because somebody has changed them or another of their group since, or because the table has no
   * such column any more.
   */
  readonly keptColumns: readonly string[]
}

/**
 * Takes writes back, cell by cell, in one statement: a cell that no longer holds what was written stays as it is.
 * Looks at the table, not at the mapping's outputs, which may have changed since the write.
 * @param batch at most one write of each row; of several writes the newest must be taken back first
 */
export async function restoreBatch<Schema>(
  tx: Transaction<Schema>,
  source: Source,
  batch: readonly UndoRow[],
): Promise<UndoResult[]> {
  const { cells, toResults } = prepare(source, batch)
  if (cells.length === 0) return toResults(null)
  if (source.table.hasDeferred) await query(tx, 'set constraints all immediate')
  const rows = toRestoreRows(batch)
  const sent = await executeBatch(tx, source, restoreStatement(source, cells), rows, missingRow)
  return toResults(await rereadAfterTriggers(tx, source, cells, rows, sent))
}

/**
 * What `restoreBatch` would do, without a lock and without a write. What only the write can show, such as a constraint
 * that forbids it by now, is not found; `before` and `after` are not told.
 */
export async function previewRestore(
  db: Db,
  source: Source,
  batch: readonly UndoRow[],
): Promise<UndoResult[]> {
  const { cells, toResults } = prepare(source, batch)
  if (cells.length === 0) return toResults(null)
  const statement = restoreStatement(source, cells, { rehearse: true })
  const told = await executeBatch(db, source, statement, toRestoreRows(batch), missingRow)
  return toResults(new Map([...told].map(([i, one]) => [i, 'error' in one ? one : { ...one, after: null }])))
}

const toRestoreRows = (batch: readonly UndoRow[]): RestoreRow[] =>
  batch.map(({ key, before, after, writtenLater = [] }, i) => ({
    i,
    key,
    b: before,
    a: after,
    l: writtenLater,
  }))

interface Prepared {
  readonly cells: readonly MappedCell[]
  /** @param told null: none of the cells is a column of the table any more */
  readonly toResults: (told: ReadonlyMap<number, RestoreResultRow | RejectedRow> | null) => UndoResult[]
}

function prepare(source: Source, batch: readonly UndoRow[]): Prepared {
  const columns = [...new Set(batch.flatMap((row) => Object.keys(row.after)))]
  const cells = columns.map((column) => findCell(source, column)).filter((cell) => cell !== null)
  const missing = columns.filter((column) => cells.every((cell) => cell.column !== column))
  const gone = (row: UndoRow): string[] => missing.filter((column) => column in row.after)
  return {
    cells,
    toResults: (told) =>
      batch.map((row, i) => {
        if (told === null)
          return { ...EMPTY_RESULT, key: row.key, outcome: 'unchanged', keptColumns: gone(row) }
        const result = toUndoResult(row.key, told.get(i))
        return { ...result, keptColumns: [...result.keptColumns, ...gone(row)] }
      }),
  }
}

const missingRow = (i: number): RestoreResultRow => ({
  i,
  found: false,
  locked: false,
  written: false,
  before: null,
  after: null,
  changed: null,
})

const EMPTY_RESULT = { reason: null, before: null, after: null, keptColumns: [] } as const

function toUndoResult(key: string, told: RestoreResultRow | RejectedRow | undefined): UndoResult {
  if (told === undefined) throw new Error(`the statement told nothing of the row ${key}`)
  if ('error' in told)
    return { ...EMPTY_RESULT, key, outcome: 'rejected', reason: describeRowError(told.error) }
  if (told.locked) return { ...EMPTY_RESULT, key, outcome: 'locked' }
  if (!told.found) return { ...EMPTY_RESULT, key, outcome: 'row_missing' }
  const keptColumns = told.changed ?? []
  if (!told.written) return { ...EMPTY_RESULT, key, outcome: 'unchanged', keptColumns }
  return { key, outcome: 'restored', reason: null, before: told.before, after: told.after, keptColumns }
}

function findCell(source: Source, name: string): MappedCell | null {
  const whole = source.table.columns.find((column) => column.name === name)
  const [first = '', ...path] = splitName(name)
  const column = whole ?? source.table.columns.find((column) => column.name === first)
  if (!column?.canUpdate || !column.canSelect) return null
  return { column: name, attribute: column.name, path: whole ? [] : path, type: column.type }
}
