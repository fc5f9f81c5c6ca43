import type { Source } from '../../sources/source.ts'
import type { Wanted } from '../../store/lookups.ts'
import * as storedAnswers from '../../store/stored-answers.ts'
import { inTransaction } from '../../store/transaction.ts'
import type { Deps } from '../deps.ts'
import type { DiffRow } from '../dry-run/diff.ts'
import { rehearse } from '../dry-run/rehearse.ts'
import type { Candidate } from '../pick/candidates.ts'

/** A row whose lookup costs nothing. */
export interface Answered {
  readonly candidate: Candidate
  readonly lookup: Wanted
}

/** Rows rehearsed at once. */
const AT_ONCE = 200

/** What stored records would put into the first of these rows that they would change. Writes nothing, calls nothing. */
export async function sampleStored(
  deps: Pick<Deps, 'db' | 'rules' | 'service'>,
  source: Source,
  answered: readonly Answered[],
  most: number,
): Promise<DiffRow[]> {
  const sample: DiffRow[] = []
  for (let from = 0; from < answered.length && sample.length < most; from += AT_ONCE) {
    const asking = answered.slice(from, from + AT_ONCE).map(({ candidate, lookup }) => ({
      row: candidate.key,
      inputHash: candidate.input_hash,
      kind: lookup.kind,
      key: lookup.key,
    }))
    const rehearsed = await inTransaction(
      deps.db,
      async (tx) =>
        rehearse(tx, source, await storedAnswers.recordsFor(tx, source.name, asking, deps.service)),
      deps.rules.sourceTimeoutMs,
    )
    sample.push(...rehearsed.flatMap(({ diff }) => diff ?? []))
  }
  return sample.slice(0, most)
}
