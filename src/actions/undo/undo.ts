import { ConfigProblems } from '../../config/problems.ts'
import { runMaintenance, type SourceDeps } from '../../runs/maintenance.ts'
import { type LeftOutSource, listLeftOut } from '../../runs/source-health.ts'
import * as changes from '../../store/changes.ts'
import type { Database } from '../../store/open.ts'
import * as waiting from '../../store/run-progress.ts'
import * as runs from '../../store/runs.ts'
import { UndoSummary, type UndoReport } from './report.ts'
import {
  listSharingSources,
  type PreviewedCells,
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
  /** Called with the number of the undo's own run, once there is one. */
  readonly onStarted?: ((run: number) => void) | undefined
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
export async function undoRun(deps: SourceDeps, options: UndoOptions): Promise<UndoReport> {
  const startedAt = performance.now()
  const { db } = deps
  const { run: undoes, dryRun, signal } = options
  const undoneRun = await findEndedRun(db, undoes)
  const writesAgain = undoneRun.options.undoes !== undefined && undoneRun.options.writes_again !== true
  const totals = await changes.summarizeUndoable(db, undoes)
  const leftOut = listLeftOut(deps, Object.keys(totals.bySource))
  const summary = new UndoSummary()

  const report = async (run: number | null, interrupted: boolean): Promise<UndoReport> => {
    // Another undo of the same run may have run concurrently.
    const currentTotals = run === null ? totals : await changes.summarizeUndoable(db, undoes)
    const ownChanges = run === null ? 0 : (await changes.summarizeUndoable(db, run)).total
    return summary.report({
      run,
      undoes,
      writes_again: writesAgain,
      dry_run: dryRun,
      status: interrupted ? 'interrupted' : 'completed',
      left_out: leftOut,
      undone_by: currentTotals.undoneBy.filter((by) => by !== run),
      waiting: await waiting.countWaitingRows(db, undoes),
      total: currentTotals.total,
      undoneBefore: currentTotals.undone - ownChanges,
      durationMs: performance.now() - startedAt,
    })
  }
  if (totals.total === totals.undone) return report(null, false)
  if (dryRun) {
    const hasShared = [...deps.sources.values()].some(
      (source) =>
        listSharingSources(source, deps.sources).filter((name) => name in totals.bySource).length > 1,
    )
    const isTurn = Object.keys(totals.bySource).some(
      (name) => (deps.sources.get(name)?.mapping.turn.services.length ?? 0) > 1,
    )
    const previewed: PreviewedCells | null = hasShared || isTurn ? new Map() : null
    await forEachBatch({ ...deps, leftOut }, options, totals, summary, (batch) =>
      previewRevert(deps, batch, previewed),
    )
    return report(null, signal.aborted)
  }
  const run = { sources: Object.keys(totals.bySource), options: { undoes, writes_again: writesAgain } }
  return runMaintenance(deps, run, signal, async ({ id, attempt, signal: stopping }) => {
    options.onStarted?.(id)
    const undoing = { run: id, undoes, writesAgain }
    await forEachBatch({ ...deps, leftOut }, { ...options, signal: stopping }, totals, summary, (batch) =>
      attempt(() => revertBatch(deps, undoing, batch)),
    )
    return report(id, stopping.aborted)
  })
}

/**
 * A run to be undone.
 * @throws ConfigProblems if there is no such run, or it has not ended
 */
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
  {
    db,
    sources,
    policy,
    leftOut,
  }: Pick<SourceDeps, 'db' | 'sources' | 'policy'> & { readonly leftOut: readonly LeftOutSource[] },
  { run, signal, onProgress }: UndoOptions,
  { total, undone }: changes.UndoableSummary,
  summary: UndoSummary,
  revert: (batch: RevertBatch) => Promise<RevertResult>,
): Promise<void> {
  const broken = new Set(leftOut.map(({ source }) => source))
  const fit = new Map([...sources].filter(([name]) => !broken.has(name)))
  const queue = new RevertQueue({ db, revert, onOutcome: (outcome) => summary.add(outcome), policy })
  let belowId: number | null = null
  while (!signal.aborted) {
    const page: changes.UndoableChange[] = await changes.listUndoable(db, run, belowId, CHANGES_PER_BATCH)
    if (page.length === 0) break
    const { batches, unknown: unconfigured } = toRevertBatches(page, fit)
    for (const batch of batches) {
      await queue.revert(batch)
      onProgress?.(summary.processed, total - undone)
    }
    summary.notConfigured += unconfigured.filter(({ source }) => !broken.has(source)).length
    belowId = page.at(-1)?.id ?? null
  }
  await queue.retryLocked(signal)
  onProgress?.(summary.processed, total - undone)
}
