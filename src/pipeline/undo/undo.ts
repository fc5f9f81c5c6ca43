import { ConfigProblems } from '../../config/problems.ts'
import * as changes from '../../store/changes.ts'
import type { Database } from '../../store/open.ts'
import * as runs from '../../store/runs.ts'
import * as waiting from '../../store/waiting.ts'
import { runWithoutAsking, type WithoutAskingDeps } from '../run/without-asking.ts'
import { judgeBatch, takeBackBatch, type Batch, type Undone } from './batch.ts'
import { batchesOf } from './batches.ts'
import { AT_ONCE, PastLocks } from './past-locks.ts'
import { UndoTally, type UndoReport } from './report.ts'

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
export async function undo(deps: WithoutAskingDeps, options: UndoOptions): Promise<UndoReport> {
  const began = performance.now()
  const { db } = deps
  const { run: undoes, dryRun, signal } = options
  const undone = await findEnded(db, undoes)
  const writesAgain = undone.options.undoes !== undefined && undone.options.writesAgain !== true
  const found = await changes.ofRun(db, undoes)
  const tally = new UndoTally()

  const report = async (run: number | null, interrupted: boolean): Promise<UndoReport> => {
    // Another undo of the same run may have been at work meanwhile.
    const now = run === null ? found : await changes.ofRun(db, undoes)
    const mine = run === null ? 0 : (await changes.ofRun(db, run)).total
    return tally.report({
      run,
      undoes,
      writes_again: writesAgain,
      dry_run: dryRun,
      status: interrupted ? 'interrupted' : 'completed',
      undone_by: now.undoneBy.filter((by) => by !== run),
      waiting: await waiting.countWaiting(db, undoes),
      total: now.total,
      undoneBefore: now.undone - mine,
      durationMs: performance.now() - began,
    })
  }
  if (found.total === found.undone) return report(null, false)
  if (dryRun) {
    await eachBatch(deps, options, found, tally, (batch) => judgeBatch(deps, batch))
    return report(null, signal.aborted)
  }
  const run = { sources: Object.keys(found.bySource), options: { undoes, writesAgain } }
  return runWithoutAsking(deps, run, signal, async ({ id, step, signal: ending }) => {
    const undoing = { run: id, undoes, writesAgain }
    await eachBatch(deps, { ...options, signal: ending }, found, tally, (batch) =>
      step(() => takeBackBatch(deps, undoing, batch)),
    )
    return report(id, ending.aborted)
  })
}

async function findEnded(db: Database, id: number): Promise<runs.StoredRun> {
  const run = await runs.find(db, id)
  if (run === null)
    throw problem(`${id}, and there is no such run`, 'the number of a run', '`fillrate runs` lists them.')
  if (run.alive)
    throw problem(
      `${id}, which is still running`,
      'a run that has ended',
      'Interrupt it first, or wait: what it has not written yet, it would write after the undo.',
    )
  return run
}

const problem = (found: string, expected: string, todo: string): ConfigProblems =>
  new ConfigProblems('the command', [{ place: 'RUN', found, expected, todo }])

async function eachBatch(
  { db, sources, rules }: Pick<WithoutAskingDeps, 'db' | 'sources' | 'rules'>,
  { run, signal, onProgress }: UndoOptions,
  { total, undone }: changes.ChangesOfRun,
  tally: UndoTally,
  act: (batch: Batch) => Promise<Undone>,
): Promise<void> {
  const past = new PastLocks({ act, onOutcome: (outcome) => tally.add(outcome), rules })
  let below: number | null = null
  while (!signal.aborted) {
    const page: changes.OpenChange[] = await changes.openOf(db, run, below, AT_ONCE)
    if (page.length === 0) break
    const { batches, unknown } = batchesOf(page, sources)
    for (const batch of batches) {
      await past.take(batch)
      onProgress?.(tally.done, total - undone)
    }
    tally.notConfigured += unknown.length
    below = page.at(-1)?.id ?? null
  }
  await past.retry(signal)
  onProgress?.(tally.done, total - undone)
}
