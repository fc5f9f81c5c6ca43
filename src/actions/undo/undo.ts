import * as changes from '../../store/changes.ts'
import * as runs from '../../store/runs.ts'
import * as waiting from '../../store/run-progress.ts'
import { ConfigProblems } from '../../config/problems.ts'
import type { Database } from '../../store/open.ts'
import { type MaintenanceDeps, runMaintenance } from '../../runs/maintenance.ts'
import {
  type RevertBatch,
  type RevertResult,
  previewRevert,
  revertBatch,
  toRevertBatches,
} from './revert-batch.ts'
import { CHANGES_PER_BATCH, RevertQueue } from './revert-queue.ts'
import { type UndoReport, UndoSummary } from './report.ts'

export interface UndoOptions {
  /** The run whose writes are to be taken back. */
  readonly run: number
  /** Tells what would be taken back, and writes nothing. */
  readonly dryRun: boolean
  readonly signal: AbortSignal
  readonly onProgress?: ((done: number, all: number) => void) | undefined
}

/**
 * Takes back what a run has written: cell by cell, the newest change first, and only what still holds what was
 * written. It is a run itself whose writes are changes, so that it can be taken back in its turn. Killed, it is typed
 * again and finishes, because what it has taken back is no longer among the changes that it looks for.
 *
 * Rows that another transaction has locked are tried again for a while, and then left: an undo that is run again takes
 * them back.
 *
 * The rows are settled with the reason that they were undone, and no run writes them again of its own accord before
 * their inputs change or their answer is due.
 * @throws ConfigProblems when there is no such run, or when it is still at work
 */
export async function undoRun(deps: MaintenanceDeps, options: UndoOptions): Promise<UndoReport> {
  const began = performance.now()
  const { db } = deps
  const { run: undoes, dryRun, signal } = options
  const undone = await findEndedRun(db, undoes)
  const writesAgain = undone.options.undoes !== undefined && undone.options.writesAgain !== true
  const found = await changes.summarizeRunChanges(db, undoes)
  const tally = new UndoSummary()

  const report = async (run: number | null, interrupted: boolean): Promise<UndoReport> => {
    // Another undo of the same run may have been at work meanwhile.
    const now = run === null ? found : await changes.summarizeRunChanges(db, undoes)
    const mine = run === null ? 0 : (await changes.summarizeRunChanges(db, run)).total
    return tally.report({
      run,
      undoes,
      writes_again: writesAgain,
      dry_run: dryRun,
      status: interrupted ? 'interrupted' : 'completed',
      undone_by: now.undoneBy.filter((by) => by !== run),
      waiting: await waiting.countWaitingRows(db, undoes),
      total: now.total,
      undoneBefore: now.undone - mine,
      durationMs: performance.now() - began,
    })
  }
  if (found.total === found.undone) return report(null, false)
  if (dryRun) {
    await forEachBatch(deps, options, found, tally, (batch) => previewRevert(deps, batch))
    return report(null, signal.aborted)
  }
  const run = { sources: Object.keys(found.bySource), options: { undoes, writesAgain } }
  return runMaintenance(deps, run, signal, async ({ id, attempt, signal: ending }) => {
    const undoing = { run: id, undoes, writesAgain }
    await forEachBatch(deps, { ...options, signal: ending }, found, tally, (batch) =>
      attempt(() => revertBatch(deps, undoing, batch)),
    )
    return report(id, ending.aborted)
  })
}

async function findEndedRun(db: Database, id: number): Promise<runs.StoredRun> {
  const run = await runs.findRun(db, id)
  if (run === null)
    throw runProblem(`${id}, and there is no such run`, 'the number of a run', '`fillrate runs` lists them.')
  if (run.alive)
    throw runProblem(
      `${id}, which is still running`,
      'a run that has ended',
      'Interrupt it first, or wait: what it has not written yet, it would write after the undo.',
    )
  return run
}

const runProblem = (found: string, expected: string, todo: string): ConfigProblems =>
  new ConfigProblems('the command', [{ place: 'RUN', found, expected, todo }])

async function forEachBatch(
  { db, sources, rules }: Pick<MaintenanceDeps, 'db' | 'sources' | 'rules'>,
  { run, signal, onProgress }: UndoOptions,
  { total, undone }: changes.RunChanges,
  tally: UndoSummary,
  revert: (batch: RevertBatch) => Promise<RevertResult>,
): Promise<void> {
  const past = new RevertQueue({ revert, onOutcome: (outcome) => tally.add(outcome), rules })
  let below: number | null = null
  while (!signal.aborted) {
    const page: changes.UndoableChange[] = await changes.listUndoable(db, run, below, CHANGES_PER_BATCH)
    if (page.length === 0) break
    const { batches, unknown } = toRevertBatches(page, sources)
    for (const batch of batches) {
      await past.revert(batch)
      onProgress?.(tally.processed, total - undone)
    }
    tally.notConfigured += unknown.length
    below = page.at(-1)?.id ?? null
  }
  await past.retryLocked(signal)
  onProgress?.(tally.processed, total - undone)
}
