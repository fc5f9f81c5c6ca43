import type { RawInputs } from '../../domain/identifiers/choose.ts'
import type { Source } from '../../sources/source.ts'
import type { Database } from '../../store/open.ts'
import * as suppressions from '../../store/suppressions.ts'
import type { StoreTransaction } from '../../store/transaction.ts'
import { identifiers } from './choose.ts'

/**
 * The rows that tell of somebody who was erased, by their place: those of which any identifier was, whether or not it
 * is the one that would be asked. Holds the tombstones until the transaction ends, so that none can come in between.
 */
export async function suppressedRows(
  db: Database | StoreTransaction,
  source: Source,
  rows: readonly RawInputs[],
): Promise<ReadonlySet<number>> {
  if (!(await suppressions.any(db))) return new Set()
  const all = rows.flatMap((row, at) =>
    [...identifiers(source, row)].flatMap(({ lookup }) => (lookup === null ? [] : [{ at, ...lookup }])),
  )
  const flags = await suppressions.areSuppressed(db, all)
  return new Set(all.filter((_, n) => flags[n]).map(({ at }) => at))
}
