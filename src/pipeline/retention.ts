import * as budgets from '../store/budgets.ts'
import * as store from '../store/retention.ts'
import type { Deps } from './deps.ts'

/** How long data is kept, in milliseconds. Null: forever. */
export interface RetentionPolicy {
  readonly recordsMs: number | null
  readonly deliveriesMs: number
  readonly changesMs: number | null
}

/** Rows per statement. Small, to keep transactions short. */
const BATCH_SIZE = 500

/** A scheduled run may be resumed days later, with what is left of its budget. */
const SCHEDULED_RUNS_MS = 30 * 24 * 3_600_000

export interface DeletedCounts {
  readonly records: number
  readonly deliveries: number
  readonly jobs: number
  readonly changes: number
  readonly runs: number
  readonly scheduledRuns: number
  readonly budgets: number
}

/** Position of the sweep over the records, from which the next tick continues. */
export interface RetentionCursor {
  after: number
}

/**
 * Deletes one batch of each kind of expired data. Runs are deleted with the deliveries and changes that refer to
 * them, once nothing does.
 * @returns what was deleted, and whether there may be more
 */
export async function enforceRetention(
  { db }: Pick<Deps, 'db'>,
  keep: RetentionPolicy,
  sweep: RetentionCursor,
): Promise<{ readonly dropped: DeletedCounts; readonly more: boolean }> {
  const records =
    keep.recordsMs === null
      ? { dropped: 0, next: null }
      : await store.deleteRecords(db, keep.recordsMs, sweep.after, BATCH_SIZE)
  sweep.after = records.next ?? 0
  const runsMs = Math.max(keep.deliveriesMs, keep.changesMs ?? 0)
  const dropped: DeletedCounts = {
    records: records.dropped,
    deliveries: await store.deleteDeliveries(db, keep.deliveriesMs, BATCH_SIZE),
    jobs: await store.deleteJobs(db, keep.deliveriesMs, BATCH_SIZE),
    changes: keep.changesMs === null ? 0 : await store.deleteChanges(db, keep.changesMs, BATCH_SIZE),
    runs: await store.deleteRuns(db, runsMs, BATCH_SIZE),
    scheduledRuns: await store.deleteScheduledRuns(db, keep.deliveriesMs, BATCH_SIZE),
    budgets: await budgets.deleteBudgets(db, Math.max(keep.deliveriesMs, SCHEDULED_RUNS_MS), BATCH_SIZE),
  }
  const full = Object.values(dropped).some((count) => count === BATCH_SIZE)
  return { dropped, more: full || records.next !== null }
}
