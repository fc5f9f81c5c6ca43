import { afterAnswer } from '../../domain/row.ts'
import { fitRecord } from '../../sources/fit/record.ts'
import type { Source } from '../../sources/source.ts'
import { rehearseBatch, type WriteResult } from '../../sources/write.ts'
import type { StoredAnswer } from '../../store/remap.ts'
import type { StoreTransaction } from '../../store/transaction.ts'
import { diffOf, type DiffRow } from '../dry-run/diff.ts'

/** What a stored record would do to its row. */
export interface Rehearsed {
  readonly row: StoredAnswer
  /**
   * - `changed`: a cell would change, or the database would have to say
   * - `unchanged`: nothing would change
   * - `below_confidence`: the record is too uncertain for the source
   * - `inputs_changed`: to be picked by the next run
   * - `row_missing`: no longer in the source
   */
  readonly fate: Fate
  /** What would be written, as far as that can be told; null where nothing. */
  readonly diff: DiffRow | null
}

export type Fate = 'changed' | 'unchanged' | 'below_confidence' | 'inputs_changed' | 'row_missing'

/** Holds stored records against their rows under the mapping as it is now. Locks nothing and writes nothing. */
export async function rehearse(
  tx: StoreTransaction,
  source: Source,
  rows: readonly StoredAnswer[],
): Promise<Rehearsed[]> {
  const { minConfidence } = source.mapping
  const isTold = (row: StoredAnswer): boolean =>
    afterAnswer({ state: 'found', reason: null, confidence: row.confidence }, minConfidence) === null
  const told = rows.filter(isTold)
  const results = await rehearseBatch(
    tx,
    source,
    told.map(({ key, inputHash, written, record, confidence }) => {
      const { values } = fitRecord(source, record, confidence)
      return { key, inputHash, values, written, confidence }
    }),
  )
  const byKey = new Map(results.map((result) => [result.key, result]))
  return rows.map((row) => {
    const result = byKey.get(row.key)
    if (result === undefined) return { row, fate: 'below_confidence', diff: null }
    return { row, fate: FATES[result.outcome], diff: diffOf(source, result, row.confidence) }
  })
}

const FATES: Readonly<Record<WriteResult['outcome'], Fate>> = {
  written: 'changed',
  rejected: 'changed',
  unchanged: 'unchanged',
  inputs_changed: 'inputs_changed',
  row_missing: 'row_missing',
  // A rehearsal locks nothing.
  locked: 'changed',
}
