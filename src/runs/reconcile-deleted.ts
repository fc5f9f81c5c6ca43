import { hostname } from 'node:os'
import { describeHeldErase, isEraseHeld } from '../domain/deleted-row.ts'
import type { ObservedTrouble } from '../domain/trouble.ts'
import type { Deps } from '../pipeline/deps.ts'
import {
  countSourceDeletions,
  eraseDeleted,
  type EraseOptions,
  restoreAllReturned,
  setAllAside,
} from '../pipeline/deleted-rows.ts'
import type { Source } from '../sources/source.ts'
import { markDeletedRowsKept } from '../store/deleted-rows.ts'
import { TableBusyError } from '../store/transaction.ts'
import { reportTroubles } from '../store/troubles.ts'
import { logTroubleChanges } from './trouble-log.ts'

type ReconcileDeps = Pick<Deps, 'db' | 'policy' | 'log'>

/** What a full pass found out about the rows that Fillrate knows and the table no longer has. */
export interface DeletedRowsReport {
  readonly deleted: number
  readonly restored: number
  /** Why the data of the deleted rows is not erased; null: it is, in time, or it is kept. */
  readonly held: string | null
}

/**
 * Compares all rows that Fillrate knows of a source with its table: sets aside those that were deleted, restores those
 * that are back, and erases what was deleted long enough ago. A locked table is left to the next full pass.
 */
export async function reconcileDeleted(
  deps: ReconcileDeps,
  source: Source,
  signal: AbortSignal,
): Promise<DeletedRowsReport> {
  const { name } = source
  const done = { deleted: 0, restored: 0 }
  try {
    await markDeletedRowsKept(deps.db, name, source.mapping.onDelete === 'keep')
    done.deleted = await setAllAside(deps, source, signal)
    done.restored = await restoreAllReturned(deps, source, signal)
    await eraseAllDeleted(deps, source, { isConfirmed: false }, signal)
  } catch (error) {
    if (!(error instanceof TableBusyError)) throw error
    deps.log.info(
      { event: 'rows_not_compared', source: name, reason: error.message },
      'deleted rows are left to the next full pass',
    )
  }
  if (done.deleted + done.restored > 0)
    deps.log.info({ event: 'rows_deleted', source: name, ...done }, 'rows were deleted, or came back')
  const counts = await countSourceDeletions(deps.db, name)
  return { ...done, held: isEraseHeld(counts) ? describeHeldErase(name, counts) : null }
}

/** Records as a trouble that erasing waits for a confirmation, or that it does no longer. */
async function reportHeldErase({ db, log }: Pick<Deps, 'db' | 'log'>, source: string): Promise<void> {
  const counts = await countSourceDeletions(db, source)
  const held: ObservedTrouble = {
    code: 'erase_held',
    subject: source,
    since: new Date(),
    details: { waiting: counts.deleted },
  }
  const report = { reporter: `${hostname()}:${process.pid}`, codes: ['erase_held'], subject: source } as const
  logTroubleChanges(log, await reportTroubles(db, report, isEraseHeld(counts) ? [held] : []))
}

export interface ErasedTotal {
  rows: number
  lookups: number
  records: number
  changes: number
  results: number
}

/**
 * Erases deleted rows of a source, batch by batch, until none is left that may be erased now. Whether that waits for a
 * confirmation is a trouble.
 */
export async function eraseAllDeleted(
  deps: ReconcileDeps,
  source: Source,
  options: EraseOptions,
  signal: AbortSignal,
): Promise<ErasedTotal> {
  const total: ErasedTotal = { rows: 0, lookups: 0, records: 0, changes: 0, results: 0 }
  while (!signal.aborted) {
    const erased = await eraseDeleted(deps, source, options)
    for (const count of ['rows', 'lookups', 'records', 'changes', 'results'] as const)
      total[count] += erased[count]
    if (erased.rows + erased.restored === 0) break
  }
  await reportHeldErase(deps, source.name)
  return total
}
