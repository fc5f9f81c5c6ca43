import type { Deps } from '../deps.ts'
import type { PickCandidate } from './candidates.ts'
import type { ClaimResult } from './claim.ts'
import { type PickContext, type PickOptions, type PickPass, savePassCursor, seeksDue } from './pass.ts'
import type { PhasePage } from './read-phase.ts'

export interface PickResult {
  readonly picked: number
  /** The run's own rows that were picked again. */
  readonly repicked: number
  readonly claimed: number
  readonly scanned: number
  readonly done: boolean
  /** The budget cannot pay the next row, until answers leave more of it. */
  readonly isAtBudget?: boolean
}

/** A page as it was read and claimed. */
export interface ClaimedPage
  extends ClaimResult, Pick<PhasePage, 'next' | 'known' | 'scanned' | 'densest' | 'resumed'> {
  /** It was not considered to its end, and the rest is read again. */
  readonly isCut: boolean
  readonly claimMs: number
  /** How many rows it was to have at most. */
  readonly size: number
}

/** Moves the pass behind a claimed page. */
export async function advancePass(
  deps: Pick<Deps, 'db'>,
  run: PickContext,
  pass: PickPass,
  options: PickOptions,
  page: ClaimedPage,
): Promise<PickResult> {
  const { budget } = run
  const { name } = pass.source
  // The lookups stay locked while their rows are claimed: answers to them wait.
  pass.pageSize.onBatch(page.size, page.claimMs)
  const isRepick = pass.phase === 'requeued'
  const picked = isRepick ? 0 : page.picked
  const takenBefore = budget.rowsTaken(name)
  if (takenBefore !== null) budget.setRowsTaken(name, takenBefore + picked + page.resumed)
  pass.known += page.known
  countSkipped(run, pass, page.skipped)
  if (pass.phase === 'scan' && pass.skippedInPhase > 0)
    pass.readAhead.add(page.scanned, page.pickedWithLookup)
  // Otherwise nothing of the page was considered, and the pass stays where it was.
  if (!page.isCut || page.considered > 0) await continueAfter(deps, run, pass, options, page)
  const isWaiting = page.isAtBudget && !pass.isSpent && !budget.isShared
  const isReadEnough = pass.phase === 'scan' && pass.readAhead.isOver && budget.limit !== 0
  if (!isWaiting && (page.isAtBudget || isReadEnough)) endAtBudget(run, pass)
  return {
    picked,
    repicked: isRepick ? page.picked : 0,
    claimed: page.claimedLookups,
    scanned: page.scanned,
    done: (pass.phase as PickPass['phase']) === 'done',
    isAtBudget: isWaiting,
  }
}

function countSkipped({ budget }: PickContext, pass: PickPass, skipped: readonly PickCandidate[]): void {
  pass.skipped += skipped.length
  pass.skippedInPhase += skipped.length
  if (pass.phase === 'due' || pass.phase === 'scan') pass.skippedWithinLimit += skipped.length
  // Abandoned rows were counted in their own phase.
  if (pass.phase === 'scan') budget.skip(skipped.filter((one) => one.disposition === 'eligible').length)
  if (pass.phase === 'due') budget.skip(skipped.length)
}

/** The pass ends, or waits for what other sources leave of the budget. */
function endAtBudget({ budget }: PickContext, pass: PickPass): void {
  if (budget.isShared) {
    pass.isShareUsedUp = true
    return
  }
  pass.phase = 'done'
  budget.markUnread(pass.source.name)
}

/** @param page.next the last key considered; null: nothing of the phase, or of the scan's key range, is left */
async function continueAfter(
  deps: Pick<Deps, 'db'>,
  run: PickContext,
  pass: PickPass,
  options: PickOptions,
  { next: last, densest }: { readonly next: string | null; readonly densest: number },
): Promise<void> {
  if (pass.phase === 'scan') {
    pass.scan.advance(last, densest)
    if (pass.scan.isDone) await advancePhase(deps, run, pass, options)
    return
  }
  pass.after = last
  if (last === null) await advancePhase(deps, run, pass, options)
}

/** Moves a pass to its next phase. */
export async function advancePhase(
  deps: Pick<Deps, 'db'>,
  { budget, service }: PickContext,
  pass: PickPass,
  options: PickOptions,
): Promise<void> {
  const skipped = pass.skippedInPhase
  pass.after = null
  pass.skippedInPhase = 0
  if (pass.phase === 'requeued') {
    budget.setPendingSkips(pass.source.name, skipped)
    pass.phase = 'abandoned'
  } else if (pass.phase === 'abandoned') {
    budget.setAbandonedSkips(pass.source.name, skipped)
    pass.phase = seeksDue(pass) ? 'due' : 'scan'
  } else if (pass.phase === 'due') {
    pass.phase = 'scan'
  } else {
    pass.phase = 'done'
    const isComplete = options.limit === null && pass.skipped === 0
    if (isComplete) await savePassCursor({ db: deps.db, service }, pass)
  }
}
