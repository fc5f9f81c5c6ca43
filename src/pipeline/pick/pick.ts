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
  withTableTimeouts,
  type OnTable,
  type Tx,
} from '../../store/transaction.ts'
import type { Deps } from '../deps.ts'
import {
  readCandidates,
  type ScannedPage,
  type PickCandidate,
  type Disposition,
  type ReadOptions,
} from './candidates.ts'
import { claimCandidates, type ClaimBounds, type ClaimResult } from './claim.ts'
import {
  createPass,
  MAX_PICK_PAGE,
  PAGE_SIZE,
  FEW_CANDIDATES,
  MAX_SCAN_PAGE,
  type PickContext,
  type PickOptions,
  type PickPass,
} from './pass.ts'
import { listPhaseKeys, readPhase, scanOptions, type PhasePage, type PickTick } from './read-phase.ts'
import { pageEndQuery } from '../../sources/page.ts'

const NOTHING = { picked: 0, repicked: 0, claimed: 0, scanned: 0 } as const

/** How a page is read and claimed within its transaction. */
export interface PageSteps {
  readonly read: typeof readPhase
  readonly claim: typeof claimCandidates
  /** How many rows of the source were picked. */
  readonly countPicked: typeof rows.countRunRows
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
  steps: PageSteps = { read: readPhase, claim: claimCandidates, countPicked: rows.countRunRows },
): Promise<PickResult> {
  const runningIds = await runs.listHolding(deps.db)
  const allowed = await rowsAllowed(deps, run, pass, options.limit, steps)
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
    await onFailure(tick, error)
    return { ...NOTHING, done: false }
  }
  return advancePass(run, pass, page)
}

/** Reads a stretch of the table before the transaction, where next to nothing of it is to be picked; null: it does not. */
async function readAhead(tick: PickTick): Promise<ScannedPage | null> {
  const { deps, pass, options, size } = tick
  const isFree = pass.phase === 'scan' && pass.skippedInPhase === 0
  if (!isFree || !isStretch(size, options.limit)) return null
  return readStretch(deps, pass.source, scanOptions(tick))
}

/** Reads the next page that has rows: Fillrate's own lists are empty in most runs, and each took a transaction. */
async function readPage(
  tick: PickTick,
  { read }: PageSteps,
  tx: Tx,
  stretch: ScannedPage | null,
): Promise<PhasePage> {
  const { run, pass, options } = tick
  for (;;) {
    tick.size = pageRows(pass)
    const page = await read(tick, tx, stretch)
    if (pass.phase !== 'abandoned' || page.scanned > 0 || options.onlyListed === true) return page
    advancePhase(run, pass)
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
  const { candidates, gone, known, next, scanned, densest } = page
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
    claimMs: performance.now() - startedAt,
    size: tick.size,
  }
}

/** A slow page is halved. @throws what has failed, with the row or the column to blame if it can be found */
async function onFailure(tick: PickTick, error: unknown): Promise<void> {
  const { deps, pass, options } = tick
  const { source } = pass
  if (error instanceof TableBusyError && error.reason === 'slow') {
    if (tick.size === 1) throw pageTimeoutProblem(source, deps.policy.sourceTimeoutMs, error)
    pass.pageSize.halve(tick.size)
    return
  }
  if (!isRowError(error)) throw error
  const page =
    pass.phase === 'scan'
      ? { ...pass.scan.range, limit: tick.size, where: options.where }
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
    countsSkipped: limit !== null && phase === 'scan',
    endsAtBudget: phase !== 'requeued' && (budget.isShared || !isSpent),
  }
}

/** How many rows a page may take. A requeued row was counted when it was first picked. */
async function rowsAllowed(
  { db }: Pick<Deps, 'db'>,
  run: PickContext,
  { phase, skippedWithinLimit, source: { name } }: PickPass,
  limit: number | null,
  { countPicked }: PageSteps,
): Promise<number> {
  if (limit === null || phase === 'requeued') return MAX_PICK_PAGE
  return Math.min(MAX_PICK_PAGE, limit - (await countPicked(db, name, run.id)) - skippedWithinLimit)
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
  const pass: PickPass = { ...createPass(source, 'requeued'), isSpent: true }
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
interface ClaimedPage extends ClaimResult, Pick<PhasePage, 'next' | 'known' | 'scanned' | 'densest'> {
  /** It was not considered to its end, and the rest is read again. */
  readonly isCut: boolean
  readonly claimMs: number
  /** How many rows it was to have at most. */
  readonly size: number
}

/** Moves the pass behind a claimed page. */
function advancePass(run: PickContext, pass: PickPass, page: ClaimedPage): PickResult {
  const { budget } = run
  // The lookups stay locked while their rows are claimed: answers to them wait.
  pass.pageSize.onBatch(page.size, page.claimMs)
  const isRepick = pass.phase === 'requeued'
  pass.known += page.known
  countSkipped(run, pass, page.skipped)
  if (pass.phase === 'scan' && pass.skippedInPhase > 0)
    pass.readAhead.add(page.scanned, page.pickedWithLookup)
  // Otherwise nothing of the page was considered, and the pass stays where it was.
  if (!page.isCut || page.considered > 0) continueAfter(run, pass, page)
  const isWaiting = page.isAtBudget && !pass.isSpent && !budget.isShared
  const isReadEnough = pass.phase === 'scan' && pass.readAhead.isOver && budget.limit !== 0
  if (!isWaiting && (page.isAtBudget || isReadEnough)) endAtBudget(run, pass)
  return {
    picked: isRepick ? 0 : page.picked,
    repicked: isRepick ? page.picked : 0,
    claimed: page.claimedLookups,
    scanned: page.scanned,
    done: (pass.phase as PickPass['phase']) === 'done',
    isAtBudget: isWaiting,
  }
}

function countSkipped({ budget }: PickContext, pass: PickPass, skipped: readonly PickCandidate[]): void {
  pass.skippedInPhase += skipped.length
  if (pass.phase === 'scan') pass.skippedWithinLimit += skipped.length
  // Abandoned rows were counted in their own phase.
  if (pass.phase === 'scan')
    budget.skip(skipped.filter(({ disposition }) => disposition === 'eligible').length)
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
function continueAfter(
  run: PickContext,
  pass: PickPass,
  { next: last, densest }: { readonly next: string | null; readonly densest: number },
): void {
  if (pass.phase === 'scan') {
    pass.scan.advance(last, densest)
    if (pass.scan.isDone) advancePhase(run, pass)
    return
  }
  pass.after = last
  if (last === null) advancePhase(run, pass)
}

/** Moves a pass to its next phase. */
function advancePhase({ budget }: PickContext, pass: PickPass): void {
  const skipped = pass.skippedInPhase
  pass.after = null
  pass.skippedInPhase = 0
  if (pass.phase === 'requeued') {
    budget.setPendingSkips(pass.source.name, skipped)
    pass.phase = 'abandoned'
  } else if (pass.phase === 'abandoned') {
    budget.setAbandonedSkips(pass.source.name, skipped)
    pass.phase = 'scan'
  } else pass.phase = 'done'
}

/** Pages that are read at once: the second connection keeps Postgres busy between two statements of the first. */
const PAGES_AT_ONCE = 2
/** No further page is begun after this time, in milliseconds: candidates wait for the end of the stretch. */
const STRETCH_MS = 500
/** Nor once as many candidates are found. */
const ENOUGH_CANDIDATES = 2 * FEW_CANDIDATES

/** Whether pages of this size are read as a stretch: nothing bounds what is read, and next to nothing is to be picked. */
export const isStretch = (size: number, limit: number | null): boolean =>
  size === MAX_SCAN_PAGE && limit === null

/**
 * Reads the next pages of a source of which next to nothing is to be picked, each in a short transaction. The key
 * that ends a page is searched first, so that the next page can be read at the same time. The rows are claimed
 * afterwards, in few transactions: claiming and writing back find out what changed or was taken meanwhile.
 * @throws what the first page fails with; a later page that fails ends the pages before it
 */
export async function readStretch(
  { db, policy: { sourceTimeoutMs } }: Pick<Deps, 'db' | 'policy'>,
  source: Source,
  options: ReadOptions,
): Promise<ScannedPage> {
  const until = performance.now() + STRETCH_MS
  const pages: ScannedPage[] = []
  const underWay: ReturnType<typeof startPage>[] = []
  let after = options.after
  let isStarted = false
  let isCut = false

  /** `end` is the key that ends the page, known before its rows; null: the page is the last one. */
  const startPage = (from: string | null) => {
    const end = Promise.withResolvers<string | null>()
    let found: string | null | undefined
    const page = inTransaction(
      db,
      (tx) =>
        withTableTimeouts(tx, sourceTimeoutMs, async () => {
          const bounds = { ...options, after: from, limit: options.size }
          found ??= (await pageEndQuery(source, bounds).execute(tx)).rows[0]?.key ?? null
          end.resolve(found)
          return readCandidates(tx, source, { ...bounds, until: found ?? options.until ?? null })
        }),
      sourceTimeoutMs,
    )
    page.catch(end.reject)
    return { end: end.promise, page }
  }
  const isEnough = (): boolean =>
    performance.now() > until ||
    pages.reduce((sum, { candidates }) => sum + candidates.length, 0) >= ENOUGH_CANDIDATES ||
    densest(pages) > FEW_CANDIDATES

  try {
    for (;;) {
      while (!isStarted && underWay.length < PAGES_AT_ONCE && (pages.length === 0 || !isEnough())) {
        const started = startPage(after)
        underWay.push(started)
        // If it cannot be found, the page fails in its turn.
        after = await started.end.catch(() => null)
        isStarted = after === null
      }
      const [first] = underWay
      if (first === undefined || isCut) break
      const [end, page] = await Promise.all([first.end, first.page])
      underWay.shift()
      // More rows than when its end was searched: the rest of them comes next.
      isCut = page.next !== null && page.next !== end
      pages.push(isCut ? page : { ...page, next: end })
    }
  } catch (error) {
    if (pages.length === 0) throw error
  } finally {
    await Promise.allSettled(underWay.map(({ page }) => page))
  }
  return joinPages(pages)
}

const densest = (pages: readonly ScannedPage[]): number =>
  Math.max(0, ...pages.map(({ candidates }) => candidates.length))

function joinPages(pages: readonly ScannedPage[]): ScannedPage {
  const dispositions: Partial<Record<Disposition, number>> = {}
  for (const page of pages)
    for (const [disposition, rows] of Object.entries(page.dispositions) as [Disposition, number][])
      dispositions[disposition] = (dispositions[disposition] ?? 0) + rows
  const lastPage = pages.at(-1)
  const sum = (count: 'scanned' | 'known'): number => pages.reduce((total, page) => total + page[count], 0)
  return {
    candidates: pages.flatMap(({ candidates }) => candidates),
    dispositions,
    last: lastPage?.last ?? null,
    next: lastPage?.next ?? null,
    scanned: sum('scanned'),
    known: sum('known'),
    densest: densest(pages),
  }
}
