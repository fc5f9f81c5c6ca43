import * as rows from '../../store/rows.ts'
import * as runs from '../../store/runs.ts'
import * as writeBackQueue from '../../store/write-back-queue.ts'
import { explainPageFailure, pageTimeoutProblem } from '../../sources/page-failure.ts'
import { isRowError } from '../../sources/db.ts'
import type { Source } from '../../sources/source-model.ts'
import {
  inTableTransaction,
  inTransaction,
  TableBusyError,
  type OnTable,
  type Tx,
} from '../../store/transaction.ts'
import type { Deps } from '../deps.ts'
import type { ScannedPage } from './candidates.ts'
import { advancePass, advancePhase, type ClaimedPage, type PickResult } from './advance.ts'
import { claimCandidates, type ClaimBounds } from './claim.ts'
import {
  createEmptyPass,
  MAX_PICK_PAGE,
  PAGE_SIZE,
  type PickContext,
  type PickOptions,
  type PickPass,
} from './pass.ts'
import { listPhaseKeys, readPhase, scanOptions, type PhasePage, type PickTick } from './read-phase.ts'
import { isStretch, readStretch } from './stretch.ts'

const NOTHING = { picked: 0, repicked: 0, claimed: 0, scanned: 0 } as const

/** How a page is read and claimed within its transaction. */
export interface PageSteps {
  readonly read: typeof readPhase
  readonly claim: typeof claimCandidates
}

/**
 * Picks one page: reads it, claims its rows with their lookups in the same transaction, and advances the pass behind it. The next tick continues
 * where this one ended. A page that takes too long is read again in smaller ones.
 * @throws TableBusy if another transaction has locked the table
 */
export async function pickPage(
  deps: PickTick['deps'],
  run: PickContext,
  pass: PickPass,
  options: PickOptions,
  steps: PageSteps = { read: readPhase, claim: claimCandidates },
): Promise<PickResult> {
  const runningIds = await runs.listHolding(deps.db)
  const allowed = await rowsAllowed(deps, run, pass, options.limit)
  if (allowed <= 0) pass.phase = 'done'
  if (pass.phase === 'done') return { ...NOTHING, done: true }

  const tick: PickTick = { deps, run, pass, options, runningIds, allowed, size: pageRows(pass) }
  const { sourceTimeoutMs } = deps.policy
  const timeouts = { tableMs: sourceTimeoutMs, laterMs: sourceTimeoutMs }
  let page: ClaimedPage
  try {
    const stretch = await readAhead(tick)
    const claim = claimPage.bind(null, tick, steps, stretch)
    page = await inTableTransaction(deps.db, claim, timeouts)
  } catch (error) {
    run.budget.setRowsTaken(pass.source.name, null)
    await onFailure(tick, error)
    return { ...NOTHING, done: false }
  }
  return advancePass(deps, run, pass, options, page)
}

/** Reads a stretch of the table before the transaction, where next to nothing of it is to be picked; null: it does not. */
async function readAhead(tick: PickTick): Promise<ScannedPage | null> {
  const { deps, pass, options, size } = tick
  const isFree = pass.phase === 'scan' && pass.skippedInPhase === 0
  if (!isFree || !isStretch(size, { limit: options.limit, changedSince: pass.changedSince })) return null
  return readStretch(deps, pass.source, scanOptions(tick))
}

/** Reads the next page that has rows: Fillrate's own lists are empty in most runs, and each took a transaction. */
async function readPage(
  tick: PickTick,
  { read }: PageSteps,
  tx: Tx,
  stretch: ScannedPage | null,
): Promise<PhasePage> {
  const { deps, run, pass, options } = tick
  for (;;) {
    tick.size = pageRows(pass)
    const page = await read(tick, tx, stretch)
    const isList = pass.phase === 'abandoned' || pass.phase === 'due'
    if (!isList || page.scanned > 0 || options.onlyListed === true) return page
    await advancePhase(deps, run, pass, options)
  }
}

async function claimPage(
  tick: PickTick,
  steps: PageSteps,
  stretch: ScannedPage | null,
  tx: Tx,
  onTable: OnTable,
): Promise<ClaimedPage> {
  const { run, pass, options, allowed } = tick
  const page = await onTable(
    () => readPage(tick, steps, tx, stretch),
    ({ gone }) => gone.length === 0,
  )
  const { candidates, resumed, gone, known, next, scanned, densest } = page
  if (gone.length > 0) await writeBackQueue.finishRows(tx, pass.source.name, gone)
  // A run that began since the stretch was read keeps its rows.
  const live = stretch === null ? tick.runningIds : await runs.listHolding(tx)
  const startedAt = performance.now()
  const bounds = claimBounds(run, pass, allowed, options)
  const claim = await steps.claim(tx, pass.source, { ...run, live }, candidates, bounds)
  const isCut = claim.considered < candidates.length
  return {
    ...claim,
    next: isCut ? (candidates[claim.considered - 1]?.key ?? null) : next,
    isCut,
    known: isCut ? Number.NaN : known,
    scanned,
    densest,
    resumed,
    claimMs: performance.now() - startedAt,
    size: tick.size,
  }
}

/** A slow page is halved. @throws what has failed, with the row or the column to blame if it can be found */
async function onFailure(tick: PickTick, error: unknown): Promise<void> {
  const { deps, pass, options } = tick
  const { source, changedSince } = pass
  if (error instanceof TableBusyError && error.reason === 'slow') {
    if (tick.size === 1) throw pageTimeoutProblem(source, deps.policy.sourceTimeoutMs, error)
    pass.pageSize.halve(tick.size)
    return
  }
  if (!isRowError(error)) throw error
  const page =
    pass.phase === 'scan'
      ? { ...pass.scan.range, limit: tick.size, where: options.where, changedSince }
      : { keys: await inTransaction(deps.db, (tx) => listPhaseKeys(tick, tx)) }
  throw (await explainPageFailure(deps.db, source, page, error)) ?? error
}

const pageRows = ({ pageSize, phase, scan }: PickPass): number =>
  Math.min(pageSize.rows, phase === 'scan' ? scan.rows : PAGE_SIZE)

/**
 * A limit counts rows that the budget cannot pay too, so that both together bound what is read.
 */
function claimBounds(
  { budget }: PickContext,
  { phase, isSpent }: PickPass,
  max: number,
  { limit }: PickOptions,
): ClaimBounds {
  return {
    max,
    countsSkipped: limit !== null && (phase === 'due' || phase === 'scan'),
    endsAtBudget: phase !== 'requeued' && (budget.isShared || !isSpent),
  }
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
  // What waits for answers that leave more is looked at again later.
  const pass: PickPass = { ...createEmptyPass(source, 'requeued'), isSpent: true }
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
