import { createHash } from 'node:crypto'
import { explainPageFailure, pageTimeoutProblem } from '../../sources/page-failure.ts'
import { isRowError } from '../../sources/pg-errors.ts'
import type { Source } from '../../sources/source.ts'
import * as rows from '../../store/rows.ts'
import * as runs from '../../store/runs.ts'
import * as passes from '../../store/source-cursors.ts'
import { inTransaction, TableBusyError, withTableTimeouts, type Tx } from '../../store/transaction.ts'
import * as writeBackQueue from '../../store/write-back-queue.ts'
import { BatchSize } from '../batch-size.ts'
import type { Deps } from '../deps.ts'
import { toMissingRow } from '../row-results.ts'
import { readCandidates, readCandidatesByKey } from './candidates.ts'
import { claimCandidates, type RunBudget } from './claim.ts'

/** Rows read, and taken at most, per tick. */
const PAGE_SIZE = 1_000

export interface PickOptions {
  /** Maximum rows that a run takes of the source, including abandoned ones. */
  readonly limit: number | null
  /** SQL, in addition to the source's own. */
  readonly where: string | null
}

/** The picking run. */
export interface PickContext {
  readonly id: number
  readonly budget: RunBudget
  /** It only previews what would be written. */
  readonly isDryRun: boolean
  /** The configured service. */
  readonly service: number
}

/**
 * One pass over one source: first abandoned rows, then (with `changedAt`) due rows, then the table. `requeued`
 * handles the run's own rows that are to be picked again; it comes first, and counts no row twice.
 */
export interface PickPass {
  readonly source: Source
  phase: 'requeued' | 'abandoned' | 'due' | 'scan' | 'done'
  /** Rows per page: fewer if reading them takes too long. */
  readonly pageSize: BatchSize
  after: string | null
  scanned: number
  /** Rows that the budget could not pay: they must be found again although they do not change. */
  skipped: number
  skippedInPhase: number
  /** Read only what has changed since then. Null: read the whole table. */
  readonly changedSince: Date | null
  /** Set with `changedAt` and without a condition of the run's own. */
  readonly cursorPass: passes.CursorPass | null
}

/** Creates a pass. A partial one (`limit`, `where`) does not count as having read the table. */
export async function createPass(
  deps: Pick<Deps, 'db' | 'service'>,
  source: Source,
  options: PickOptions,
): Promise<PickPass> {
  const pass = emptyPass(source, 'abandoned')
  if (source.mapping.changedAt === null || options.where !== null) return pass
  const cursorPass = await passes.openCursor(deps.db, source.name, mappingHash(source, deps.service))
  return { ...pass, cursorPass, changedSince: cursorPass.since }
}

const emptyPass = (source: Source, phase: PickPass['phase']): PickPass => ({
  source,
  phase,
  pageSize: new BatchSize(PAGE_SIZE),
  after: null,
  scanned: 0,
  skipped: 0,
  skippedInPhase: 0,
  changedSince: null,
  cursorPass: null,
})

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
  const size = pass.pageSize.rows
  const page = await inTransaction(
    deps.db,
    async (tx) => {
      const {
        candidates,
        gone: missing,
        next,
        scanned,
      } = await withTableTimeouts(tx, sourceTimeoutMs, () =>
        readPhase(tx, run, runningIds, pass, options, Math.min(allowed, size)),
      )
      if (missing.length > 0) await writeBackQueue.finishRows(tx, pass.source.name, missing)
      if (candidates.length === 0) return { picked: 0, claimedLookups: 0, skipped: [], next, scanned }
      // With a limit, a page may hold more candidates than rows are allowed: the rest of the page is read again.
      const selected = candidates.slice(0, allowed)
      const claimed = await claimCandidates(tx, pass.source, { ...run, live: runningIds }, selected)
      const isCut = selected.length < candidates.length
      return { ...claimed, next: isCut ? (selected.at(-1)?.key ?? null) : next, scanned }
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
    const { after, changedSince } = pass
    const page =
      pass.phase === 'scan'
        ? { after, limit: size, where: options.where, changedSince }
        : {
            keys: await inTransaction(deps.db, (tx) =>
              listPhaseKeys(tx, run, runningIds, pass, Math.min(allowed, size)),
            ),
          }
    throw (await explainPageFailure(deps.db, pass.source, page, error)) ?? error
  })
  if (page === null) return { ...NOTHING, done: false }
  pass.pageSize.onBatch(size, 0)
  const { claimedLookups, scanned, skipped } = page
  const isRepick = pass.phase === 'requeued'
  const picked = isRepick ? 0 : page.picked
  // Abandoned rows were counted in their own phase.
  if (pass.phase === 'scan') run.budget.skip(skipped.filter((one) => one.disposition === 'eligible').length)
  if (pass.phase === 'due') run.budget.skip(skipped.length)
  const takenBefore = run.budget.rowsTaken(pass.source.name)
  if (takenBefore !== null) run.budget.setRowsTaken(pass.source.name, takenBefore + picked)
  pass.scanned += scanned
  pass.after = page.next
  pass.skipped += skipped.length
  pass.skippedInPhase += skipped.length
  if (page.next === null) await advancePhase(deps, run, pass, options)
  return {
    picked,
    repicked: isRepick ? page.picked : 0,
    claimed: claimedLookups,
    scanned,
    done: (pass.phase as PickPass['phase']) === 'done',
  }
}

/** How many rows a page may take. A requeued row was counted when it was first picked. */
async function rowsAllowed(
  { db }: Pick<Deps, 'db'>,
  run: PickContext,
  { phase, source: { name } }: PickPass,
  limit: number | null,
): Promise<number> {
  if (limit === null || phase === 'requeued') return PAGE_SIZE
  const taken = run.budget.rowsTaken(name) ?? (await rows.countRunRows(db, name, run.id))
  run.budget.setRowsTaken(name, taken)
  return Math.min(PAGE_SIZE, limit - taken)
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
  const pass = emptyPass(source, 'requeued')
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
  allowed: number,
): Promise<{
  candidates: Awaited<ReturnType<typeof readCandidatesByKey>>
  gone: writeBackQueue.FinishedRow[]
  next: string | null
  scanned: number
}> {
  if (pass.phase === 'scan') {
    const { where } = options
    const page = await readCandidates(tx, pass.source, {
      after: pass.after,
      size: pass.pageSize.rows,
      where,
      changedSince: pass.changedSince,
      live: runningIds,
      dry: run.isDryRun,
      service: run.service,
    })
    return { ...page, gone: [] }
  }
  const keys = await listPhaseKeys(tx, run, runningIds, pass, allowed)
  const candidates = await readCandidatesByKey(tx, pass.source, keys, run.service)
  const present = new Set(candidates.map((candidate) => candidate.key))
  const isWaiting = pass.phase !== 'due'
  return {
    candidates: isWaiting ? candidates : candidates.filter((candidate) => candidate.lacks),
    gone: isWaiting ? keys.filter((key) => !present.has(key)).map(toMissingRow) : [],
    next: keys.length === allowed ? (keys.at(-1) ?? null) : null,
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
    if (pass.cursorPass !== null && isComplete)
      await passes.saveCursor(deps.db, pass.source.name, mappingHash(pass.source, service), pass.cursorPass)
  }
}

/** Progress made for one service says nothing about another. */
const mappingHash = (source: Source, service: number): string =>
  createHash('sha256')
    .update(JSON.stringify(source.mapping) + (service === 0 ? '' : ` ${service}`))
    .digest('hex')
    .slice(0, 16)
