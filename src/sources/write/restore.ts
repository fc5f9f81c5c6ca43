import { findColumn } from '../catalogue.ts'
import type { Db } from '../db.ts'
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
 * @param preview locks and writes nothing. Does not find what only a write raises, such as a new constraint
 */
export async function restoreBatch(
  tx: Db,
  source: Source,
  batch: readonly UndoRow[],
  { preview = false } = {},
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
  const updated = await executeUpdate(
    tx,
    source,
    (bisecting) => restoreUpdate(source, cells, bisecting),
    batch,
    { preview },
  )
  const results = batch.map((row, index) => {
    const result = toResult(row.key, updated.rows.get(index), describeCopies)
    const dropped = Object.keys(row.after).filter((column) => !known.has(column))
    return { ...result, protectedColumns: [...result.protectedColumns, ...dropped] }
  })
  return await rejectProtectedRows(tx, source, results)
}

const describeCopies = (copies: number): string =>
  `its table and those that inherit from it have ${copies} rows with this key and these inputs`

function findCell({ table }: Source, name: string): MappedCell | null {
  const { column, path } = findColumn(table, name)
  if (!column?.canUpdate || !column.canSelect) return null
  return { column: name, attribute: column.name, path, type: column.type }
}
