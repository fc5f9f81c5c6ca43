import { explainPageFailure, pageTimeoutProblem } from '../../sources/page-failure.ts'
import { isRowError } from '../../sources/pg-errors.ts'
import type { Source } from '../../sources/source.ts'
import * as rows from '../../store/rows.ts'
import * as runs from '../../store/runs.ts'
import { inTransaction, TableBusyError, withTableTimeouts, type Tx } from '../../store/transaction.ts'
import * as writeBackQueue from '../../store/write-back-queue.ts'
import type { Deps } from '../deps.ts'
import { toMissingRow } from '../row-results.ts'
import { readCandidates, readCandidatesByKey, type PickCandidate } from './candidates.ts'
import type { RunBudget } from './budget.ts'
import { claimCandidates, type ClaimBounds } from './claim.ts'
import { createEmptyPass, PAGE_SIZE, savePassCursor, type PickOptions, type PickPass } from './pass.ts'
import { settleStamped } from './stamped.ts'

/** The picking run. */
export interface PickContext {
  readonly id: number
  readonly budget: RunBudget
  /** It only previews what would be written. */
  readonly isDryRun: boolean
  /** The configured service. */
  readonly service: number
}

export interface PickResult {
  readonly picked: number
  /** The run's own rows that were picked again. */
  readonly repicked: number
  readonly claimed: number
  readonly scanned: number
  readonly done: boolean
}

const NOTHING = { picked: 0, repicked: 0, claimed: 0, scanned: 0 } as const

/**
 * Picks one page. The next tick continues where this one ended; rows are committed with their lookups. A page that
 * takes too long is read again in smaller ones.
 * @throws TableBusy if another transaction has locked the table
 */
export async function pickPage(
  deps: Pick<Deps, 'db' | 'policy' | 'log'>,
  run: PickContext,
  pass: PickPass,
  options: PickOptions,
): Promise<PickResult> {
  const runningIds = (await runs.listRunning(deps.db)).map((one) => one.id)
  const allowed = await rowsAllowed(deps, run, pass, options.limit)
  if (allowed <= 0) pass.phase = 'done'
  if (pass.phase === 'done') return { ...NOTHING, done: true }

  const { sourceTimeoutMs } = deps.policy
  const size = Math.min(pass.pageSize.rows, pass.phase === 'scan' ? pass.scan.rows : PAGE_SIZE)
  const bounds = claimBounds(run, pass, allowed, options)
  const page = await inTransaction(
    deps.db,
    async (tx) => {
      const {
        candidates,
        gone: missing,
        next,
        scanned,
      } = await withTableTimeouts(tx, sourceTimeoutMs, () =>
        readPhase(tx, run, runningIds, pass, options, { size, allowed }),
      )
      if (missing.length > 0) await writeBackQueue.finishRows(tx, pass.source.name, missing)
      const claim = await claimCandidates(tx, pass.source, { ...run, live: runningIds }, candidates, bounds)
      // The rest of a page that was not considered to its end is read again.
      const isCut = claim.considered < candidates.length
      return {
        ...claim,
        candidates: candidates.length,
        next: isCut ? (candidates[claim.considered - 1]?.key ?? null) : next,
        isCut,
        scanned,
      }
    },
    sourceTimeoutMs,
  ).catch(async (error: unknown) => {
    run.budget.setRowsTaken(pass.source.name, null)
    if (error instanceof TableBusyError && error.reason === 'slow') {
      if (size === 1) throw pageTimeoutProblem(pass.source, sourceTimeoutMs, error)
      pass.pageSize.halve(size)
      return null
    }
    if (!isRowError(error)) throw error
    const { changedSince } = pass
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
  pass.pageSize.onBatch(size, 0)
  const { claimedLookups, scanned } = page
  const isRepick = pass.phase === 'requeued'
  const picked = isRepick ? 0 : page.picked
  const takenBefore = run.budget.rowsTaken(pass.source.name)
  if (takenBefore !== null) run.budget.setRowsTaken(pass.source.name, takenBefore + picked)
  if (pass.phase === 'scan' && pass.skippedInPhase > 0) pass.readAhead.add(scanned, page.pickedWithLookup)
  countSkipped(run, pass, page.skipped)
  // Otherwise nothing of the page was considered, and the pass stays where it was.
  if (!page.isCut || page.considered > 0) await continueAfter(deps, run, pass, options, page)
  if (page.isAtBudget || (pass.phase === 'scan' && pass.readAhead.isOver && run.budget.limit !== 0))
    endAtBudget(run, pass)
  return {
    picked,
    repicked: isRepick ? page.picked : 0,
    claimed: claimedLookups,
    scanned,
    done: (pass.phase as PickPass['phase']) === 'done',
  }
}

/**
 * A limit counts rows that the budget cannot pay too, so that both together bound what is read. A dry run ends where
 * its budget does: rows after that which cost nothing, such as those without a usable input, would outweigh the others
 * in its shares. With a budget of 0, rows that cost nothing are all that is wanted.
 */
function claimBounds(
  { budget, isDryRun }: PickContext,
  { phase }: PickPass,
  max: number,
  { limit }: PickOptions,
): ClaimBounds {
  const isSample = isDryRun && phase !== 'abandoned' && budget.limit !== 0
  return {
    max,
    countsSkipped: limit !== null && (phase === 'due' || phase === 'scan'),
    endsAtBudget: phase !== 'requeued' && (budget.isShared || isSample),
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
  if (limit === null || phase === 'requeued') return PAGE_SIZE
  const taken = run.budget.rowsTaken(name) ?? (await rows.countRunRows(db, name, run.id))
  run.budget.setRowsTaken(name, taken)
  return Math.min(PAGE_SIZE, limit - taken - skippedWithinLimit)
}

/**
 * Picks the run's own requeued rows again, and on request also rows abandoned by dead runs since, as far as the run's
 * limit allows.
 */
export async function repick(
  deps: Pick<Deps, 'db' | 'policy' | 'log' | 'now'>,
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
    const result = await pickPage(deps, run, pass, { limit: options.limit ?? null, where: null })
    for (const count of ['picked', 'repicked', 'claimed', 'scanned'] as const) total[count] += result[count]
  }
  return total
}

async function readPhase(
  tx: Tx,
  run: PickContext,
  runningIds: readonly number[],
  pass: PickPass,
  options: PickOptions,
  { size, allowed }: { readonly size: number; readonly allowed: number },
): Promise<{
  candidates: Awaited<ReturnType<typeof readCandidatesByKey>>
  gone: writeBackQueue.FinishedRow[]
  next: string | null
  scanned: number
}> {
  if (pass.phase === 'scan') {
    const { where } = options
    const page = await readCandidates(tx, pass.source, {
      ...pass.scan.range,
      size,
      where,
      changedSince: pass.changedSince,
      staleSince: pass.changedSince,
      live: runningIds,
      dry: run.isDryRun,
      service: run.service,
    })
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
    next: keys.length === listed ? (keys.at(-1) ?? null) : null,
    scanned: keys.length,
  }
}

function listPhaseKeys(
  tx: Tx,
  run: PickContext,
  runningIds: readonly number[],
  pass: PickPass,
  allowed: number,
): Promise<string[]> {
  const { source, after } = pass
  switch (pass.phase) {
    case 'requeued':
      return rows.listRequeuedRows(tx, source.name, run.id, after ?? '', allowed)
    case 'abandoned':
      return rows.listAbandonedRows(tx, source.name, runningIds, after ?? '', allowed, run.isDryRun)
    default:
      return rows.listDueRows(tx, source.name, after ?? '', allowed)
  }
}

/** @param page.next the last key considered; null: nothing of the phase, or of the scan's key range, is left */
async function continueAfter(
  deps: Pick<Deps, 'db'>,
  run: PickContext,
  pass: PickPass,
  options: PickOptions,
  { next: last, candidates }: { readonly next: string | null; readonly candidates: number },
): Promise<void> {
  if (pass.phase === 'scan') {
    pass.scan.advance(last, candidates)
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
