import type { LeftOutSource } from '../../domain/report/run.ts'
import * as changes from '../../store/changes.ts'
import * as waiting from '../../store/run-progress.ts'
import * as runs from '../../store/runs.ts'
import { ConfigProblems } from '../../config/problems.ts'
import { runMaintenance, type SourceDeps } from '../../runs/run-part.ts'
import { listLeftOut } from '../../runs/source-health.ts'
import type { UndoableChange } from '../../store/changes.ts'
import type { Database } from '../../store/open.ts'
import {
  listSharingSources,
  previewRevert,
  revertBatch,
  toRevertBatches,
  identifyRow,
  type PreviewedCells,
  type ChangeBatch,
  type RevertResult,
  type RevertOutcome,
} from './revert-batch.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { describeTableBusy, MAX_SINGLE_ROW_TRIES, sharedBatchSize } from '../../pipeline/batch-size.ts'
import type { RunPolicy } from '../../pipeline/deps.ts'
import { TableBusyError } from '../../store/transaction.ts'
import { isTouchColumn } from '../../pipeline/row-results.ts'

export interface UndoOptions {
  /** The run to undo. */
  readonly run: number
  /** Reports what would be reverted, and writes nothing. */
  readonly dryRun: boolean
  readonly signal: AbortSignal
  readonly onProgress?: ((done: number, all: number) => void) | undefined
}

/**
 * Undoes a run: cell by cell, newest change first, and only cells that still hold what was written. The undo is
 * itself a run with changes, so it can be undone, and repeated after a kill: a reverted change is not found again.
 *
 * A row that another transaction locks is retried for a while, then left to the next undo. The rows are finished as
 * undone: no run writes them again before their inputs change or their record is due.
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
    const hasSteps = Object.keys(totals.bySource).some(
      (name) => (deps.sources.get(name)?.mapping.step.services.length ?? 0) > 1,
    )
    const previewed: PreviewedCells | null = hasShared || hasSteps ? new Map() : null
    await forEachBatch({ ...deps, leftOut }, options, totals, summary, (batch) =>
      previewRevert(deps, batch, previewed),
    )
    return report(null, signal.aborted)
  }
  const run = { sources: Object.keys(totals.bySource), options: { undoes, writes_again: writesAgain } }
  return runMaintenance(deps, run, signal, async ({ id, attempt, signal: stopping }) => {
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
  revert: (batch: ChangeBatch) => Promise<RevertResult>,
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

/** Changes of the largest batch: one statement on the source. */
const CHANGES_PER_BATCH = 500
/** Deferred changes in memory. The others are found when the undo is run again. */
const MAX_DEFERRED = 10_000
const RETRY_MS = 500

interface RevertQueueOptions {
  readonly db: Database
  readonly revert: (batch: ChangeBatch) => Promise<RevertResult>
  readonly onOutcome: (outcome: RevertOutcome) => void
  readonly policy: Pick<RunPolicy, 'sourceTimeoutMs' | 'lockedWaitMs'>
}

/**
 * Reverts batches despite locks: locked rows are deferred, the others are reverted at once, and deferred
 * ones are retried for a bounded time. Batches shrink if the table is slow.
 */
class RevertQueue {
  readonly #options: RevertQueueOptions
  /** Rows whose newest change was deferred: an older one must not be reverted before it. */
  #blockedRows = new Set<string>()
  #deferred: ChangeBatch[] = []

  constructor(options: RevertQueueOptions) {
    this.#options = options
  }

  async revert({ source, changes }: ChangeBatch): Promise<void> {
    const isBlocked = ({ key }: UndoableChange): boolean => this.#blockedRows.has(identifyRow(source, key))
    this.#defer({ source, changes: changes.filter(isBlocked) })
    let remaining = changes.filter((change) => !isBlocked(change))
    const batchSize = sharedBatchSize(source)
    for (let attempt = 1; remaining.length > 0;) {
      const batch = { source, changes: remaining.slice(0, batchSize.rows) }
      const startedAt = performance.now()
      try {
        const { outcomes, lockedChanges } = await this.#options.revert(batch)
        batchSize.onBatch(batch.changes.length, performance.now() - startedAt)
        for (const outcome of outcomes) this.#options.onOutcome(outcome)
        this.#defer({ source, changes: lockedChanges })
      } catch (error) {
        if (!(error instanceof TableBusyError)) throw error
        if (error.isTableLock) return this.#defer({ source, changes: remaining })
        if (batch.changes.length > 1) {
          batchSize.halve(batch.changes.length)
          continue
        }
        if (error.isRaised && attempt++ < MAX_SINGLE_ROW_TRIES) {
          await sleep(20 * attempt * attempt)
          continue
        }
        await this.#giveUpRow(batch, error)
      }
      attempt = 1
      remaining = remaining.slice(batch.changes.length)
    }
  }

  /** Retries what was deferred, until nothing has progressed for a while. */
  async retryLocked(signal: AbortSignal): Promise<void> {
    const { lockedWaitMs } = this.#options.policy
    let count = this.#deferredCount
    for (
      let lastProgressAt = performance.now();
      count > 0 && performance.now() - lastProgressAt < lockedWaitMs;
    ) {
      await sleep(RETRY_MS, undefined, { signal }).catch(() => {})
      if (signal.aborted) return
      const batches = this.#deferred
      this.#deferred = []
      this.#blockedRows = new Set()
      for (const batch of batches) await this.revert(batch)
      if (this.#deferredCount < count) lastProgressAt = performance.now()
      count = this.#deferredCount
    }
  }

  get #deferredCount(): number {
    return this.#deferred.reduce((sum, batch) => sum + batch.changes.length, 0)
  }

  #defer(batch: ChangeBatch): void {
    if (batch.changes.length === 0) return
    for (const { key } of batch.changes) this.#blockedRows.add(identifyRow(batch.source, key))
    if (this.#deferredCount < MAX_DEFERRED) this.#deferred.push(batch)
  }

  /**
   * Handles the single change of a row that cannot be written, or that conflicts with another transaction each time.
   */
  async #giveUpRow(batch: ChangeBatch, tableBusy: TableBusyError): Promise<void> {
    if (!tableBusy.isRaised && tableBusy.reason !== 'slow') return this.#defer(batch)
    const reason = await describeTableBusy(this.#options.db, tableBusy, this.#options.policy.sourceTimeoutMs)
    for (const { key } of batch.changes)
      this.#options.onOutcome({
        source: batch.source,
        key,
        outcome: 'rejected',
        reason,
        restored: [],
        kept: [],
        writtenBy: null,
        isOther: false,
      })
  }
}

/**
 * What an undo did, or would do. The counts in `changes` add up to `total`.
 * @example
 * const { changes } = await fillrate.undo(7, { dryRun: true })
 */
export interface UndoReport {
  /** The undo's own run; undoing that writes the values again. Null: nothing was written. */
  readonly run: number | null
  /** The run that was undone. */
  readonly undoes: number
  /** The undone run was an undo itself, so its values were written again. */
  readonly writes_again: boolean
  readonly dry_run: boolean
  readonly status: 'completed' | 'interrupted'
  /** Changes of the run; one is one write to one row. */
  readonly changes: {
    readonly total: number
    readonly restored: number
    /** All of their cells were changed since. */
    readonly kept: number
    /** Their row no longer exists. */
    readonly row_missing: number
    /** The database rejected the old values. */
    readonly rejected: number
    readonly undone_before: number
    /** Their source is no longer configured. */
    readonly not_configured: number
    /** Not reverted yet: the undo was interrupted, their source is broken, or other transactions had locked their rows. */
    readonly remaining: number
  }
  readonly cells: {
    readonly restored: number
    /** Restored `touch` columns. */
    readonly touched: number
    /** Changed since, so they stay. */
    readonly kept: number
  }
  readonly columns: ReadonlyArray<{
    readonly source: string
    readonly column: string
    readonly restored: number
    readonly kept: number
  }>
  /** Rows with values that stay, up to a limit. */
  readonly kept: readonly ProtectedRow[]
  /** Rows that could not be restored. */
  readonly failed: readonly UnrestoredRow[]
  /** Sources of the run that do not fit their tables: nothing of them was reverted. */
  readonly left_out: readonly LeftOutSource[]
  /** Rows picked by the run that still wait: what they get will be written after this undo. */
  readonly waiting: number
  readonly duration_ms: number
}

interface ProtectedRow {
  readonly source: string
  readonly key: string
  readonly columns: readonly string[]
  /** The run that has written them since; null: not Fillrate. */
  readonly written_by: number | null
  /** The row has other inputs than when it was written: it is about another person or company, and its values are not Fillrate's. */
  readonly inputs_changed: boolean
}

interface UnrestoredRow {
  readonly source: string
  readonly key: string
  readonly outcome: 'row_missing' | 'rejected'
  readonly reason: string | null
}

/** Maximum rows listed by name, to bound the memory of a report. */
const MAX_LISTED = 10_000

/** Sums up what becomes of a run's changes. */
class UndoSummary {
  readonly #changes = { restored: 0, kept: 0, row_missing: 0, rejected: 0 }
  readonly #columns = new Map<string, { source: string; column: string; restored: number; kept: number }>()
  readonly #cells = { restored: 0, touched: 0, kept: 0 }
  readonly #kept: ProtectedRow[] = []
  readonly #failed: UnrestoredRow[] = []
  notConfigured = 0

  /** Changes processed. */
  get processed(): number {
    return Object.values(this.#changes).reduce((sum, n) => sum + n, this.notConfigured)
  }

  add({ source, key, outcome, reason, restored, kept, writtenBy, isOther }: RevertOutcome): void {
    this.#changes[outcome]++
    for (const column of restored) {
      if (isTouchColumn(source, column)) this.#cells.touched++
      else {
        this.#cells.restored++
        this.#column(source.name, column).restored++
      }
    }
    // Every edit moves `updated_at`: if only `touch` columns stay, no one's work is protected.
    const columns = kept.filter((column) => !isTouchColumn(source, column))
    for (const column of columns) this.#column(source.name, column).kept++
    this.#cells.kept += columns.length
    if (columns.length > 0 && this.#kept.length < MAX_LISTED)
      this.#kept.push({ source: source.name, key, columns, written_by: writtenBy, inputs_changed: isOther })
    if ((outcome === 'row_missing' || outcome === 'rejected') && this.#failed.length < MAX_LISTED)
      this.#failed.push({ source: source.name, key, outcome, reason })
  }

  report(
    end: Pick<
      UndoReport,
      'run' | 'undoes' | 'writes_again' | 'dry_run' | 'status' | 'left_out' | 'waiting'
    > & {
      readonly total: number
      readonly undoneBefore: number
      readonly durationMs: number
    },
  ): UndoReport {
    const { total, undoneBefore, durationMs, ...rest } = end
    const counts = { ...this.#changes, undone_before: undoneBefore, not_configured: this.notConfigured }
    const remaining = total - Object.values(counts).reduce((sum, n) => sum + n, 0)
    return {
      ...rest,
      changes: { total, ...counts, remaining },
      cells: { ...this.#cells },
      columns: [...this.#columns.values()],
      kept: this.#kept,
      failed: this.#failed,
      duration_ms: Math.round(durationMs),
    }
  }

  #column(source: string, column: string): { restored: number; kept: number } {
    const name = JSON.stringify([source, column])
    const counts = this.#columns.get(name) ?? { source, column, restored: 0, kept: 0 }
    this.#columns.set(name, counts)
    return counts
  }
}

/** 0 completed; 3 some values could not be restored although unchanged since; 130 interrupted. Pure. */
export function undoExitCode({ status, changes }: Pick<UndoReport, 'status' | 'changes'>): 0 | 3 | 130 {
  if (status === 'interrupted') return 130
  return changes.rejected + changes.not_configured + changes.remaining > 0 ? 3 : 0
}
