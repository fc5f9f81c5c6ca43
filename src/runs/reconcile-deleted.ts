import { describeError } from '../util/error-text.ts'
import { describeHeldErase, isEraseHeld } from '../domain/deleted-row.ts'
import type { Deps, TableDeps } from '../pipeline/deps.ts'
import { eraseDeleted, isKept, markAllDeleted, restoreAllReturned } from '../pipeline/deleted-rows.ts'
import { mayHideRows } from '../sources/row-security.ts'
import { refillReloaded } from '../pipeline/emptied-rows.ts'
import type { Source } from '../sources/source-model.ts'
import {
  countDeletedRows,
  countSourceDeletions,
  type ErasedRows,
  updateDeletedRows,
} from '../store/deleted-rows.ts'
import { TableBusyError } from '../store/transaction.ts'
import { checkBreakage } from './source-health.ts'
import { reportSource } from './condition-log.ts'

type ReconcileDeps = TableDeps & Pick<Deps, 'log'>

/** What a full pass found out about the rows that Fillrate knows and the table no longer has. */
export interface DeletedRowsReport {
  readonly deleted: number
  readonly restored: number
  /** Why the data of the deleted rows is not erased; null: it is, in time, or it is kept. */
  readonly held: string | null
}

/** The rows of a source before a full pass. */
export interface RestoredRows {
  /** Those that Fillrate knows, without deleted ones. */
  readonly known: number
  /** Deleted rows that came back. */
  readonly restored: number
}

/** Before a full pass: restores the deleted rows of a source that are back in its table, and makes due what a reload has emptied. */
export async function restoreReturned(
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
 * After a full pass: marks those rows as deleted that Fillrate knows of a source and its table no longer has, and erases what was
 * deleted long enough ago. A locked table is left to the next full pass.
 * @param pass.met how many of the known rows were read. If that is all of them, none was deleted, and their keys are not compared
 *   with the table: that takes longer than reading it. A row that became known meanwhile may hide a deleted one until the next pass.
 */
export async function reconcileDeleted(
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
  const deleted = known.reduce((sum, one) => sum + one.rows, 0)
  const erased = dryRun ? null : await eraseAllDeleted(deps, source, true, signal)
  return { dry_run: dryRun, source: source.name, deleted, erased }
}
