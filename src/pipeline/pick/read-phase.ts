import { listDueRows } from '../../store/due-rows.ts'
import { listAbandonedRows, listRequeuedRows } from '../../store/waiting-rows.ts'
import type { Tx } from '../../store/transaction.ts'
import type * as writeBackQueue from '../../store/write-back-queue.ts'
import { toMissingRow } from '../row-results.ts'
import {
  type PickCandidate,
  readCandidates,
  readCandidatesByKey,
  type ReadOptions,
  type ScannedPage,
} from './candidates.ts'
import type { PickContext, PickOptions, PickPass } from './pass.ts'
import { settleStamped } from './stamped.ts'

export interface PhasePage extends Pick<ScannedPage, 'known' | 'newcomers'> {
  readonly candidates: PickCandidate[]
  /** Rows that wait and are no longer in the source. */
  readonly gone: writeBackQueue.FinishedRow[]
  readonly next: string | null
  readonly scanned: number
  /** The most candidates in one page. */
  readonly densest: number
}

/** How the table is read on, from where the pass is. */
export const scanOptions = (
  run: Pick<PickContext, 'isDryRun' | 'service'>,
  live: readonly number[],
  { scan, changedSince }: Pick<PickPass, 'scan' | 'changedSince'>,
  { where }: Pick<PickOptions, 'where'>,
  size: number,
): ReadOptions => ({
  ...scan.range,
  size,
  where,
  changedSince,
  staleSince: changedSince,
  live,
  dry: run.isDryRun,
  service: run.service,
})

/** Reads a page of a phase; `stretch` is what was read of the table before the transaction. */
export async function readPhase(
  tx: Tx,
  run: PickContext,
  runningIds: readonly number[],
  pass: PickPass,
  options: PickOptions,
  {
    size,
    allowed,
    stretch,
  }: { readonly size: number; readonly allowed: number; readonly stretch: ScannedPage | null },
): Promise<PhasePage> {
  if (stretch !== null)
    return { ...stretch, candidates: await settleStamped(tx, pass.source, stretch.candidates), gone: [] }
  if (pass.phase === 'scan') {
    const page = await readCandidates(tx, pass.source, scanOptions(run, runningIds, pass, options, size))
    return { ...page, candidates: await settleStamped(tx, pass.source, page.candidates), gone: [] }
  }
  const listed = Math.min(allowed, size)
  const keys = await listPhaseKeys(tx, run, runningIds, pass, listed)
  const byKey = new Map(
    (await readCandidatesByKey(tx, pass.source, keys, run.service)).map((one) => [one.key, one]),
  )
  // In the order of the list, because a claim may end within it.
  const found = keys.flatMap((key) => byKey.get(key) ?? [])
  const candidates = await settleStamped(tx, pass.source, found)
  const isWaiting = pass.phase !== 'due'
  return {
    candidates: isWaiting ? candidates : candidates.filter((candidate) => candidate.lacks),
    gone: isWaiting ? keys.filter((key) => !byKey.has(key)).map(toMissingRow) : [],
    known: 0,
    newcomers: 0,
    next: keys.length === listed ? (keys.at(-1) ?? null) : null,
    scanned: keys.length,
    densest: candidates.length,
  }
}

/** The keys of a phase that reads Fillrate's own tables. */
export function listPhaseKeys(
  tx: Tx,
  run: PickContext,
  runningIds: readonly number[],
  pass: PickPass,
  allowed: number,
): Promise<string[]> {
  const { source, after } = pass
  switch (pass.phase) {
    case 'requeued':
      return listRequeuedRows(tx, source.name, run.id, after ?? '', allowed)
    case 'abandoned':
      return listAbandonedRows(tx, source.name, runningIds, after ?? '', allowed, run.isDryRun)
    default:
      return listDueRows(tx, source.name, after ?? '', allowed)
  }
}
