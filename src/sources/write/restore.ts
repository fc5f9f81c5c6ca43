import type { Transaction } from 'kysely'
import type { Db } from '../db.ts'
import { splitName } from '../quote.ts'
import { rejectProtectedRows } from '../row-security.ts'
import type { MappedCell, Source } from '../source-model.ts'
import { executeUpdate } from './execute.ts'
import { restoreUpdate, type UndoRow } from './restore-update.ts'
import { NO_RESULT, toResult, type WriteResult } from './write.ts'

/**
 * Undoes writes, cell by cell, in one statement: a cell that no longer holds what was written stays as it is, as do those of a row
 * with other inputs, and those that the table no longer has. Uses the table's columns, not the mapping's outputs, which may
 * have changed since the write. In a result, `before` and `after` have the form of a write: undoing the undo uses them.
 * @param batch at most one write of each row; of several writes the newest must be undone first
 */
export async function restoreBatch<Schema>(
  tx: Transaction<Schema>,
  source: Source,
  batch: readonly UndoRow[],
): Promise<WriteResult[]> {
  return await rejectProtectedRows(tx, source, await restore(tx, source, batch, false))
}

/** Previews `restoreBatch` without a lock or a write. Does not find what only a write raises, such as a new constraint. */
export const previewRestore = (db: Db, source: Source, batch: readonly UndoRow[]): Promise<WriteResult[]> =>
  restore(db, source, batch, true)

async function restore(
  db: Db,
  source: Source,
  batch: readonly UndoRow[],
  preview: boolean,
): Promise<WriteResult[]> {
  const columns = [...new Set(batch.flatMap((row) => Object.keys(row.after)))]
  const cells = columns.map((column) => findCell(source, column)).filter((cell) => cell !== null)
  if (cells.length === 0)
    return batch.map(({ key, after }) => ({
      ...NO_RESULT,
      key,
      outcome: 'unchanged',
      protectedColumns: Object.keys(after),
    }))
  const known = new Set(cells.map(({ column }) => column))
  const rows = batch.map((row, index) => ({ ...row, index }))
  const updated = await executeUpdate(
    db,
    source,
    (bisecting) => restoreUpdate(source, cells, bisecting),
    rows,
    { preview },
  )
  return rows.map((row) => {
    const result = toResult(row, updated.rows.get(row.index), describeCopies)
    const dropped = Object.keys(row.after).filter((column) => !known.has(column))
    return { ...result, protectedColumns: [...result.protectedColumns, ...dropped] }
  })
}

const describeCopies = (copies: number): string =>
  `its table and those that inherit from it have ${copies} rows with this key and these inputs`

function findCell(source: Source, name: string): MappedCell | null {
  const whole = source.table.columns.find((column) => column.name === name)
  const [first = '', ...path] = splitName(name)
  const column = whole ?? source.table.columns.find((column) => column.name === first)
  if (!column?.canUpdate || !column.canSelect) return null
  return { column: name, attribute: column.name, path: whole ? [] : path, type: column.type }
}
