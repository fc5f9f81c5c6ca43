import { describeFreshness } from '../../sources/freshness.ts'
import type { Source } from '../../sources/source-model.ts'
import { postponeDueRows } from '../../store/waiting-rows.ts'
import type { Tx } from '../../store/transaction.ts'
import * as writeBackQueue from '../../store/write-back-queue.ts'
import { toIdleRow } from '../row-results.ts'
import type { PickCandidate } from './candidates.ts'

/**
 * Settles candidates that another program has enriched: rows that waited for a dead run are finished, and due ones are due
 * again when their stamp is stale, so that a pass finds them although nothing changes.
 * @returns the others
 */
export async function settleStamped<Candidate extends Pick<PickCandidate, 'key' | 'settledUntil'>>(
  tx: Tx,
  source: Source,
  candidates: readonly Candidate[],
): Promise<Candidate[]> {
  const stamped = candidates.filter((candidate) => candidate.settledUntil !== null)
  if (stamped.length === 0) return [...candidates]
  const reason = describeFreshness(source)
  await writeBackQueue.finishRows(
    tx,
    source.name,
    stamped.map(({ key, settledUntil }) => ({ ...toIdleRow(key, reason), nextAt: settledUntil })),
  )
  await postponeDueRows(tx, source.name, stamped)
  return candidates.filter((candidate) => candidate.settledUntil === null)
}
