import { explainPageFailure, pageTimeoutProblem } from '../../sources/page-failure.ts'
import { isRowError } from '../../sources/pg-errors.ts'
import type { Source } from '../../sources/source.ts'
import * as rows from '../../store/rows.ts'
import * as runs from '../../store/runs.ts'
import {
  inTableTransaction,
  inTransaction,
  type OnTable,
  TableBusyError,
  type Tx,
} from '../../store/transaction.ts'
import * as writeBackQueue from '../../store/write-back-queue.ts'
import type { Deps } from '../deps.ts'
import type { PickCandidate, ScannedPage } from './candidates.ts'
import { claimCandidates, type ClaimBounds } from './claim.ts'
import {
  createEmptyPass,
  MAX_PICK_PAGE,
  PAGE_SIZE,
  type PickContext,
  savePassCursor,
  type PickOptions,
  type PickPass,
} from './pass.ts'
import { listPhaseKeys, readPhase, scanOptions } from './read-phase.ts'
import { isStretch, readStretch } from './stretch.ts'

export interface PickResult {
  readonly picked: number
  /** The run's own rows that were picked again. */
  readonly repicked: number
  readonly claimed: number
  readonly scanned: number
  readonly done: boolean
  /** The budget cannot pay the next row, until credits come back. */
  readonly isAtBudget?: boolean
}

const NOTHING = { picked: 0, repicked: 0, claimed: 0, scanned: 0 } as const

/**
 * Picks one page. The next tick continues where this one ended; rows are committed with their lookups. A page that
 * takes too long is read again in smaller ones.
 * @throws TableBusy if another transaction has locked the table
 */
export async function pickPage(
  deps: Pick<Deps, 'db' | 'policy' | 'log' | 'adapter'>,
  run: PickContext,
  pass: PickPass,
  options: PickOptions,
): Promise<PickResult> {
  const runningIds = (await runs.listRunning(deps.db)).map((one) => one.id)
  const allowed = await rowsAllowed(deps, run, pass, options.limit)
  if (allowed <= 0) pass.phase = 'done'
  if (pass.phase === 'done') return { ...NOTHING, done: true }

  const { sourceTimeoutMs } = deps.policy
  let size = pageRows(pass)
  const { limit } = options
  const { changedSince } = pass
  const isFree = pass.phase === 'scan' && pass.skippedInPhase === 0
  const readAhead = async (): Promise<ScannedPage | null> =>
    isFree && isStretch(size, { limit, changedSince })
      ? readStretch(deps, pass.source, scanOptions(run, runningIds, pass, options, size))
      : null
  const claimPage = async (tx: Tx, onTable: OnTable, stretch: ScannedPage | null) => {
    const readPage = async (): ReturnType<typeof readPhase> => {
      for (;;) {
        size = pageRows(pass)
        const page = await readPhase(tx, run, runningIds, pass, options, { size, allowed, stretch })
        // Fillrate's own lists are empty in most runs: each took a transaction before the first page of the table.
        const isList = pass.phase === 'abandoned' || pass.phase === 'due'
        if (!isList || page.scanned > 0 || options.onlyListed === true) return page
        await advancePhase(deps, run, pass, options)
      }
    }
    const page = await onTable(readPage, ({ gone }) => gone.length === 0)
    const { candidates, gone: missing, known, newcomers, next, scanned, densest } = page
    if (missing.length > 0) await writeBackQueue.finishRows(tx, pass.source.name, missing)
    // A run that began since the stretch was read keeps its rows.
    const live = stretch === null ? runningIds : (await runs.listRunning(tx)).map((one) => one.id)
    const startedAt = performance.now()
    const bounds = claimBounds(run, pass, allowed, options)
    const areNew = stretch === null && newcomers === candidates.length
    const claim = await claimCandidates(tx, pass.source, { ...run, live }, candidates, { bounds, areNew })
    // The rest of a page that was not considered to its end is read again.
    const isCut = claim.considered < candidates.length
    return {
      ...claim,
      next: isCut ? (candidates[claim.considered - 1]?.key ?? null) : next,
      isCut,
      known: isCut || (newcomers > 0 && claim.picked < candidates.length) ? Number.NaN : known + newcomers,
      scanned,
      densest,
      claimMs: performance.now() - startedAt,
    }
  }
  const page = await readAhead()
    .then((stretch) =>
      inTableTransaction(deps.db, (tx, onTable) => claimPage(tx, onTable, stretch), {
        tableMs: sourceTimeoutMs,
        laterMs: sourceTimeoutMs,
      }),
    )
    .catch(async (error: unknown) => {
      run.budget.setRowsTaken(pass.source.name, null)
      if (error instanceof TableBusyError && error.reason === 'slow') {
        if (size === 1) throw pageTimeoutProblem(pass.source, sourceTimeoutMs, error)
        pass.pageSize.halve(size)
        return null
      }
      if (!isRowError(error)) throw error
      const page =
        pass.phase === 'scan'
          ? { ...pass.scan.range, limit: size, where: options.where, changedSince }
          : {
              keys: await inTransaction(deps.db, (tx) =>
                listPhaseKeys(tx, run, runningIds, pass, Math.min(allowed, size)),
              ),
            }
      throw (await explainPageFailure(deps.db, pass.source, page, error)) ?? error
    })
  if (page === null) return { ...NOTHING, done: false }
  const { claimedLookups, scanned, claimMs } = page
  // The lookups stay locked while their rows are claimed: answers to them wait.
  pass.pageSize.onBatch(size, claimMs)
  const isRepick = pass.phase === 'requeued'
  const picked = isRepick ? 0 : page.picked
  const takenBefore = run.budget.rowsTaken(pass.source.name)
  if (takenBefore !== null) run.budget.setRowsTaken(pass.source.name, takenBefore + picked)
  if (pass.phase === 'scan' && pass.skippedInPhase > 0) pass.readAhead.add(scanned, page.pickedWithLookup)
  pass.known += page.known
  countSkipped(run, pass, page.skipped)
  // Otherwise nothing of the page was considered, and the pass stays where it was.
  if (!page.isCut || page.considered > 0) await continueAfter(deps, run, pass, options, page)
  const isWaiting = page.isAtBudget && pass.awaitsCredits && !run.budget.isShared
  if (
    !isWaiting &&
    (page.isAtBudget || (pass.phase === 'scan' && pass.readAhead.isOver && run.budget.limit !== 0))
  )
    endAtBudget(run, pass)
  return {
    picked,
    repicked: isRepick ? page.picked : 0,
    claimed: claimedLookups,
    scanned,
    done: (pass.phase as PickPass['phase']) === 'done',
    isAtBudget: isWaiting,
  }
}

const pageRows = ({ pageSize, phase, scan }: PickPass): number =>
  Math.min(pageSize.rows, phase === 'scan' ? scan.rows : PAGE_SIZE)

/**
 * A limit counts rows that the budget cannot pay too, so that both together bound what is read. A dry run ends where
 * its budget does: rows after that which cost nothing, such as those without a usable input, would outweigh the others
 * in its shares. With a budget of 0, rows that cost nothing are all that is wanted.
 */
function claimBounds(
  { budget, isDryRun }: PickContext,
  { phase, awaitsCredits }: PickPass,
  max: number,
  { limit }: PickOptions,
): ClaimBounds {
  const isSample = isDryRun && phase !== 'abandoned' && budget.limit !== 0
  return {
    max,
    countsSkipped: limit !== null && (phase === 'due' || phase === 'scan'),
    endsAtBudget: phase !== 'requeued' && (budget.isShared || isSample || awaitsCredits),
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

/** How many rows a page may take. A requeued row was counted when it was first picked. */
async function rowsAllowed(
  { db }: Pick<Deps, 'db'>,
  run: PickContext,
  { phase, skippedWithinLimit, source: { name } }: PickPass,
  limit: number | null,
): Promise<number> {
  if (limit === null || phase === 'requeued') return MAX_PICK_PAGE
  const taken = run.budget.rowsTaken(name) ?? (await rows.countRunRows(db, name, run.id))
  run.budget.setRowsTaken(name, taken)
  return Math.min(MAX_PICK_PAGE, limit - taken - skippedWithinLimit)
}

/**
 * Picks the run's own requeued rows again, and on request also rows abandoned by dead runs since, as far as the run's
 * limit allows.
 */
export async function repick(
  deps: Pick<Deps, 'db' | 'policy' | 'log' | 'now' | 'adapter'>,
  run: PickContext,
  source: Source,
  options: {
    readonly includeAbandoned: boolean
    readonly limit?: number | null
    readonly signal: AbortSignal
  },
): Promise<Omit<PickResult, 'done'>> {
  const pass = createEmptyPass(source, 'requeued')
  const total = { ...NOTHING }
  while (pass.phase === 'requeued' || (options.includeAbandoned && pass.phase === 'abandoned')) {
    if (options.signal.aborted) break
    const result = await pickPage(deps, run, pass, {
      limit: options.limit ?? null,
      where: null,
      onlyListed: true,
    })
    for (const count of ['picked', 'repicked', 'claimed', 'scanned'] as const) total[count] += result[count]
  }
  return total
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

async function advancePhase(
  deps: Pick<Deps, 'db'>,
  { budget, isDryRun, service }: PickContext,
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
    pass.phase = pass.changedSince === null ? 'scan' : 'due'
  } else if (pass.phase === 'due') {
    pass.phase = 'scan'
  } else {
    pass.phase = 'done'
    const isComplete = options.limit === null && pass.skipped === 0 && !isDryRun
    if (isComplete) await savePassCursor({ db: deps.db, service }, pass)
  }
}
