import type { LeftOutSource } from '../domain/report/run.ts'
import * as pauses from '../store/source-state.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { MAX_AWAITED_DELAY_MS } from '../domain/backoff.ts'
import { LOOKUP_KINDS } from '../domain/identifiers/kind.ts'
import type { Deps, TableDeps } from '../pipeline/deps.ts'
import {
  createPass,
  toRunService,
  type PickContext,
  type PickOptions,
  type PickPass,
} from '../pipeline/pick/pass.ts'
import { pickPage, type PickResult } from '../pipeline/pick/pick.ts'
import type { Source } from '../sources/source-model.ts'
import { readProspect, readBudgetUsage } from '../store/budgets.ts'
import { retryWhileUnavailable, TableBusyError } from '../store/transaction.ts'
import { cache } from '../util/cached.ts'
import { logWait } from './loop.ts'
import { isLeftOut, unlessBroken, checkBreakage, reportSource } from './source-health.ts'
import { describeError } from '../util/error-text.ts'
import { describeHeldErase, isEraseHeld } from '../domain/deleted-row.ts'
import { eraseDeleted, isKept, markAllDeleted, restoreAllReturned } from '../pipeline/deleted-rows.ts'
import { mayHideRows } from '../sources/row-security.ts'
import { refillReloaded } from '../pipeline/emptied-rows.ts'
import {
  countDeletedRows,
  countSourceDeletions,
  updateDeletedRows,
  type ErasedRows,
} from '../store/deleted-rows.ts'

type PickDeps = Pick<Deps, 'db' | 'log' | 'policy' | 'service' | 'random' | 'adapter'>

/** How a dry run picks in place of claiming rows. */
export interface SampleSteps {
  readonly open: (source: Source) => Promise<PickPass>
  readonly pickPage: (pass: PickPass) => Promise<PickResult>
}

interface PickSourcesOptions extends PickOptions {
  /** Absent: rows are claimed. */
  readonly sample?: SampleSteps | undefined
  readonly sources: readonly Source[]
  /** How long to wait for a locked table, or for answers that leave more of the budget, in milliseconds. */
  readonly waitMs: number
  /** Called when the budget pays no more rows: what was picked so far must be requested, however little it is. */
  readonly onAtBudget?: () => Promise<void>
  /** A user ends the run. If anything else does, such as a rejected key, its known rows are still compared with their tables. */
  readonly interrupted?: AbortSignal
}

/** What a run observes while it picks. */
interface PickObservations {
  readonly pausedSources: Set<string>
  readonly unreadSources: Set<string>
  readonly sampledSources: Set<string>
  /** Of the sources that were read as a whole, by name. */
  readonly deletedRows: Map<string, DeletedRowsReport>
  /** By name: sources that are broken, and why. */
  readonly leftOut: Map<string, LeftOutSource>
}

/** Poll interval for a locked table. */
const LOCKED_TABLE_POLL_MS = 1_000

/** A run's picking, and where it is reported. */
interface PickTask {
  readonly deps: PickDeps
  readonly run: PickContext
  readonly options: PickSourcesOptions
  /** Ends it. */
  readonly signal: AbortSignal
  readonly observations: PickObservations
  readonly onPicked: (rows: number, mayBeAnswered: boolean) => void
}

/**
 * Picks each source to its end, unless it is paused, or its table stays locked for longer than the run may wait. Several
 * sources share the budget: each first gets an even part, and then, in their order, what the others have left.
 */
export const pickSources = (task: PickTask): Promise<void> => new SourcesPick(task).run()

class SourcesPick {
  readonly #task: PickTask
  readonly #passes: PickPass[] = []
  /** The sources that are read as a whole. */
  readonly #fullPasses = new Map<PickPass, RestoredRows>()

  constructor(task: PickTask) {
    this.#task = task
  }

  async run(): Promise<void> {
    const [picked] = await Promise.allSettled([this.#pickAll()])
    // Also where a pass has failed: the data of deleted rows must not stay until the cause is repaired.
    const [reconciled] = await Promise.allSettled([this.#reconcileAll()])
    for (const result of [picked, reconciled]) if (result.status === 'rejected') throw result.reason
  }

  async #pickAll(): Promise<void> {
    const { run, options, observations } = this.#task
    const { budget } = run
    for (const [n, source] of options.sources.entries())
      await this.#leaveOutBroken(source, () => this.#openSharedPass(source, n))
    budget.endShares()
    for (const pass of this.#passes)
      await this.#leaveOutBroken(pass.source, async () => {
        await this.#pickSource(pass)
        if (options.sample && !pass.scan.isDone) observations.sampledSources.add(pass.source.name)
      })
  }

  /** A source that is broken, or breaks meanwhile, is left out, and the others are picked. */
  async #leaveOutBroken(source: Source, act: () => Promise<void>): Promise<void> {
    const { leftOut } = this.#task.observations
    if (isLeftOut(source, leftOut)) return
    if ((await unlessBroken(this.#task.deps, source, act)) === null) isLeftOut(source, leftOut)
  }

  #retry<T>(act: () => Promise<T>, signal = this.#task.signal): Promise<T> {
    return retryWhileUnavailable(act, { signal, onWait: logWait(this.#task.deps.log, { step: 'pick' }) })
  }

  async #openSharedPass(source: Source, n: number): Promise<void> {
    const { deps, run, options, signal, observations } = this.#task
    const { sources } = options
    const { budget } = run
    const pass = await this.#retry(() => options.sample?.open(source) ?? Promise.resolve(createPass(source)))
    this.#passes.push(pass)
    const isPaused = observations.pausedSources.has(source.name)
    if (isFullPass(options) && !isPaused) {
      const known = await this.#retry(() => restoreReturned(deps, source, signal))
      this.#fullPasses.set(pass, known)
    }
    if (sources.length === 1 || budget.limit === null || budget.limit === 0) return
    const { spent } = await this.#retry(() => readBudgetUsage(deps.db, toRunService(run)))
    budget.startShare(spent, sources.length - n)
    await this.#pickSource(pass)
  }

  async #reconcileAll(): Promise<void> {
    const { deps, options, signal, observations } = this.#task
    const interrupted = options.interrupted ?? signal
    for (const [pass, known] of this.#fullPasses) {
      if (interrupted.aborted) break
      const reconcile = (): Promise<DeletedRowsReport> =>
        reconcileDeleted(deps, pass.source, { ...known, met: pass.known }, interrupted)
      await this.#leaveOutBroken(pass.source, async () => {
        observations.deletedRows.set(pass.source.name, await this.#retry(reconcile, interrupted))
      })
    }
  }

  #isLeft(source: Source): boolean {
    const { pausedSources, unreadSources, leftOut } = this.#task.observations
    const { name } = source
    return pausedSources.has(name) || unreadSources.has(name) || isLeftOut(source, leftOut)
  }

  async #pickSource(pass: PickPass): Promise<void> {
    const { deps, options, signal, observations } = this.#task
    const { pausedSources, unreadSources } = observations
    const { name } = pass.source
    const checkPaused = cache(() => isPaused(deps, pass.source))
    let readAt = performance.now()
    pass.isShareUsedUp = false
    while (pass.phase !== 'done' && !pass.isShareUsedUp && !this.#isLeft(pass.source) && !signal.aborted) {
      if (await this.#retry(checkPaused)) {
        pausedSources.add(name)
        break
      }
      const page = await this.#retry(() => this.#pickPage(pass))
      if (page !== null) {
        readAt = performance.now()
        await this.#onPage(pass, page)
      } else if (performance.now() - readAt > options.waitMs) unreadSources.add(name)
      else await sleep(LOCKED_TABLE_POLL_MS, undefined, { signal: signal }).catch(() => {})
    }
  }

  /** @returns null if another transaction has locked the table */
  async #pickPage(pass: PickPass): Promise<PickResult | null> {
    try {
      const { deps, run, options } = this.#task
      return await (options.sample?.pickPage(pass) ?? pickPage(deps, run, pass, options))
    } catch (error) {
      if (!(error instanceof TableBusyError)) throw error
      // To be waited for, as for a Postgres that is away.
      if (error.reason === 'exhausted') throw error.cause
      return null
    }
  }

  async #onPage(pass: PickPass, { picked, claimed, isAtBudget }: PickResult): Promise<void> {
    const { deps, run, options, signal, onPicked } = this.#task
    // With a new lookup for each row, none has an answer yet.
    onPicked(picked, picked > claimed)
    if (isAtBudget === true) pass.isSpent = !(await waitForAnswers(deps, run, pass, options, signal))
  }
}

/** How often a run looks whether its answers leave more of its budget: more seldom where that counts much that waits. */
const ANSWERS_POLL_MS = 100
const MAX_SHARE_OF_POLLS = 0.05

/**
 * Waits until lookups have cost less than they could, so that a part of the budget worth a page is left again.
 * @returns false if answers leave nothing more, or not in time
 */
async function waitForAnswers(
  deps: PickDeps,
  run: PickContext,
  { source }: PickPass,
  { waitMs, onAtBudget }: PickSourcesOptions,
  signal: AbortSignal,
): Promise<boolean> {
  const { budget } = run
  const of = toRunService(run)
  // Calls end by themselves; for the results of jobs a run waits as long as `--wait` says.
  const longest = { calls: Math.max(waitMs, MAX_AWAITED_DELAY_MS), jobs: waitMs, nothing: 0 }
  const retryOptions = { signal, onWait: logWait(deps.log, { step: 'pick' }) }
  const charge = Math.max(...LOOKUP_KINDS[source.mapping.kind].map((kind) => budget.charge({ kind })))
  const enough = Math.max(charge, (budget.limit ?? 0) / 20)
  await onAtBudget?.()
  let left = -1
  let changedAt = performance.now()
  while (!signal.aborted) {
    const startedAt = performance.now()
    // In this order: what was answered between the two is in the second.
    const prospect = await retryWhileUnavailable(() => readProspect(deps.db, of), retryOptions)
    const usage = await retryWhileUnavailable(() => readBudgetUsage(deps.db, of), retryOptions)
    const nowLeft = budget.remaining(usage)
    if (nowLeft >= enough) return true
    if (nowLeft !== left) changedAt = performance.now()
    left = nowLeft
    if (prospect === 'nothing' || performance.now() - changedAt > longest[prospect]) return left >= charge
    const pauseMs = Math.max(ANSWERS_POLL_MS, (performance.now() - startedAt) / MAX_SHARE_OF_POLLS)
    await sleep(pauseMs, undefined, { signal }).catch(() => {})
  }
  return false
}

/** It reads the whole source: only then is it worth comparing all known rows with the table. */
const isFullPass = ({ limit, where, sample }: PickSourcesOptions): boolean =>
  !sample && limit === null && where === null

const isPaused = async ({ db }: PickDeps, source: Source): Promise<boolean> =>
  (await pauses.filterPaused(db, [source.name])).length > 0

type ReconcileDeps = TableDeps & Pick<Deps, 'log'>

/** What a full pass found out about the rows that Fillrate knows and the table no longer has. */
export interface DeletedRowsReport {
  readonly deleted: number
  readonly restored: number
  /** Why the data of the deleted rows is not erased; null: it is, in time, or it is kept. */
  readonly held: string | null
}

/** The rows of a source before a full pass. */
interface RestoredRows {
  /** Those that Fillrate knows, without deleted ones. */
  readonly known: number
  /** Deleted rows that came back. */
  readonly restored: number
}

/** Before a full pass: restores the deleted rows of a source that are back in its table, and makes due what a reload has emptied. */
async function restoreReturned(
  deps: ReconcileDeps,
  source: Source,
  signal: AbortSignal,
): Promise<RestoredRows> {
  let restored = 0
  await unlessBusy(deps, source, async () => {
    restored = await restoreAllReturned(deps, source, signal)
    await refillReloaded(deps, source, signal)
  })
  return { known: (await countSourceDeletions(deps.db, source.name)).known, restored }
}

/**
 * After a full pass: marks the rows as deleted that Fillrate knows and the table no longer has, and erases what was
 * deleted long enough ago. A locked table is left to the next full pass.
 * @param pass.met how many of the known rows were read. If all were, none was deleted, and their keys are not
 *   compared with the table, which takes longer than reading it. A row that became known meanwhile may hide a
 *   deleted one until the next pass.
 */
async function reconcileDeleted(
  deps: ReconcileDeps,
  source: Source,
  { known, met, restored }: RestoredRows & { readonly met: number },
  signal: AbortSignal,
): Promise<DeletedRowsReport> {
  const { name } = source
  let deleted = 0
  await unlessBusy(deps, source, async () => {
    const isMissing = met !== known
    // Row-level security that hides all rows looks like a table without them.
    if (isMissing && (await checkBreakage(deps, source))) return
    if (isMissing) deleted = await markAllDeleted(deps, source, signal)
    await eraseAllDeleted(deps, source, false, signal)
  })
  if (deleted + restored > 0)
    deps.log.info(
      { event: 'rows_deleted', source: name, deleted, restored },
      'rows were deleted, or came back',
    )
  const counts = await countSourceDeletions(deps.db, name)
  return { deleted, restored, held: isEraseHeld(counts) ? describeHeldErase(name, counts) : null }
}

async function unlessBusy(
  { log }: Pick<Deps, 'log'>,
  { name }: Source,
  act: () => Promise<void>,
): Promise<void> {
  try {
    await act()
  } catch (error) {
    if (!(error instanceof TableBusyError)) throw error
    log.info(
      { event: 'rows_not_compared', source: name, reason: describeError(error) },
      'deleted rows are left to the next full pass',
    )
  }
}

/**
 * Erases deleted rows of a source, batch by batch, until none is left that may be erased now. Whether that waits for a
 * confirmation is a condition.
 * @param isConfirmed a user has confirmed it: neither the share of the source nor the age of the deletion matters
 */
export async function eraseAllDeleted(
  deps: ReconcileDeps,
  source: Source,
  isConfirmed: boolean,
  signal: AbortSignal,
): Promise<ErasedRows> {
  const { db } = deps
  const { name } = source
  const total = { rows: 0, lookups: 0, records: 0, changes: 0, results: 0 }
  await updateDeletedRows(db, name, isKept(source), await mayHideRows(db, source))
  for (let isDone = false; !isDone && !signal.aborted;) {
    const { erased, restored } = await eraseDeleted(deps, source, isConfirmed)
    for (const count of Object.keys(total) as (keyof ErasedRows)[]) total[count] += erased[count]
    isDone = erased.rows + restored === 0
  }
  const counts = await countSourceDeletions(db, name)
  await reportSource(deps, 'held', name, isEraseHeld(counts) ? { waiting: counts.deleted } : null)
  return total
}

/** What was erased of the rows that a source's table no longer has. It holds no personal data. */
export interface ForgetDeletedReport {
  readonly dry_run: boolean
  readonly source: string
  /** Deleted rows that were known. */
  readonly deleted: number
  /** Null: a dry run. Fewer rows than `deleted`: some were restored, or wait for an answer that is on its way. */
  readonly erased: ErasedRows | null
}

/**
 * Erases what is stored of a source's deleted rows, whatever `onDelete`, their age, and their share of the source: the
 * confirmation that a held erasure waits for. A row that is in its table again is restored. Suppresses nothing.
 */
export async function forgetDeleted(
  deps: ReconcileDeps,
  source: Source,
  { dryRun, signal }: { readonly dryRun: boolean; readonly signal: AbortSignal },
): Promise<ForgetDeletedReport> {
  const known = await countDeletedRows(deps.db, [source.name])
  const deleted = known.reduce((sum, { rows }) => sum + rows, 0)
  const erased = dryRun ? null : await eraseAllDeleted(deps, source, true, signal)
  return { dry_run: dryRun, source: source.name, deleted, erased }
}
