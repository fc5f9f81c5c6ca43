import type { Source } from '../../sources/source.ts'
import { rehearseBatch } from '../../sources/write.ts'
import type { AnsweredRow, SettledRow } from '../../store/rows.ts'
import type { StoreTransaction } from '../../store/transaction.ts'
import { close, sift } from '../write-back/close.ts'
import { diffOf, type DiffRow } from './diff.ts'

export interface Rehearsed {
  /** What would become of the row. */
  readonly row: SettledRow
  /** What would be written; null where nothing. */
  readonly diff: DiffRow | null
}

/**
 * What the write back would make of answered rows, by its own steps. Locks nothing and writes nothing; what only a
 * write can find (a check, a unique value, a trigger) it does not find.
 */
export async function rehearse(
  tx: StoreTransaction,
  source: Source,
  answered: readonly AnsweredRow[],
): Promise<Rehearsed[]> {
  const { settled, fitted } = sift(source, answered)
  const results = await rehearseBatch(
    tx,
    source,
    fitted.map((one) => one.write),
  )
  const written = fitted.map((one, n) => {
    const result = results[n]
    if (!result) throw new Error(`the rehearsal of source ${source.name} told nothing of one of its rows`)
    return { row: close(one, result), diff: diffOf(source, result, one.row.confidence) }
  })
  return [...settled.map((row) => ({ row, diff: null })), ...written]
}
