import { ConfigProblems } from '../../config/problems.ts'
import { runMaintenance, type MaintenanceDeps } from '../../runs/maintenance.ts'
import * as changes from '../../store/changes.ts'
import type { Database } from '../../store/open.ts'
import * as waiting from '../../store/run-progress.ts'
import * as runs from '../../store/runs.ts'
import { UndoSummary, type UndoReport } from './report.ts'
import {
  previewRevert,
  revertBatch,
  toRevertBatches,
  type RevertBatch,
  type RevertResult,
} from './revert-batch.ts'
import { CHANGES_PER_BATCH, RevertQueue } from './revert-queue.ts'

export interface UndoOptions {
  /** The run to undo. */
  readonly run: number
  /** Reports what would be reverted, and writes nothing. */
  readonly dryRun: boolean
  readonly signal: AbortSignal
  readonly onProgress?: ((done: number, all: number) => void) | undefined
}

/**
 * Undoes a run: cell by cell, newest change first, and only cells that still hold what was written. The undo is a run
 * itself whose writes are changes, so it can be undone in turn. If killed, run it again: what it has reverted is no
 * longer among the changes it looks for.
 *
 * Rows locked by other transactions are retried for a while, then left: running the undo again reverts them.
 *
 * The rows are finished with the reason that they were undone. No run writes them again before their inputs change or
 * their record is due.
 * @throws ConfigProblems if there is no such run, or if it is still running
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
    // Another undo of the same run may have run concurrently.
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
      'Interrupt it first, or wait: it would write the rest after the undo.',
    )
  return run
}

const runProblem = (found: string, expected: string, todo: string): ConfigProblems =>
  new ConfigProblems('the command', [{ place: 'RUN', found, expected, todo }])

async function forEachBatch(
  { db, sources, policy }: Pick<MaintenanceDeps, 'db' | 'sources' | 'policy'>,
  { run, signal, onProgress }: UndoOptions,
  { total, undone }: changes.RunChanges,
  tally: UndoSummary,
  revert: (batch: RevertBatch) => Promise<RevertResult>,
): Promise<void> {
  const past = new RevertQueue({ revert, onOutcome: (outcome) => tally.add(outcome), policy })
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
