import { afterAnswer } from '../../domain/row.ts'
import { fitRecord } from '../../sources/fit/record.ts'
import type { Source } from '../../sources/source.ts'
import { rehearseBatch, type WriteResult } from '../../sources/write.ts'
import type { StoredAnswer } from '../../store/remap.ts'
import type { StoreTransaction } from '../../store/transaction.ts'

/** What a stored record would do to its row. */
export interface Rehearsed {
  readonly row: StoredAnswer
  /**
   * - `write`: a cell would change, or the database would have to say
   * - `same`: nothing would change
   * - `below_confidence`: the record is too uncertain for the source
   * - `inputs_changed`: to be picked by the next run
   * - `gone`: no longer in the source
   */
  readonly fate: Fate
  readonly before: WriteResult['before']
  readonly after: WriteResult['after']
}

export type Fate = 'write' | 'same' | 'below_confidence' | 'inputs_changed' | 'gone'

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
    if (result === undefined) return { row, fate: 'below_confidence', before: null, after: null }
    const { outcome, before, after } = result
    return { row, fate: FATES[outcome], before, after }
  })
}

const FATES: Readonly<Record<WriteResult['outcome'], Fate>> = {
  written: 'write',
  rejected: 'write',
  unchanged: 'same',
  inputs_changed: 'inputs_changed',
  gone: 'gone',
}
