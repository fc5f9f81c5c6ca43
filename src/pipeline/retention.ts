import * as budgets from '../store/budgets.ts'
import * as store from '../store/retention.ts'
import type { Deps } from './deps.ts'

/** How long things are kept, in milliseconds. Null: for ever. */
export interface RetentionPolicy {
  readonly recordsMs: number | null
  readonly deliveriesMs: number
  readonly changesMs: number | null
}

/** Rows of one statement. Small, so that nobody waits for it. */
const BATCH_SIZE = 500

/** A tick may be begun again days later, when nothing was there to run it, and then goes on with its budget. */
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

/** Where a sweep over the records is: it carries on there at the next tick. */
export interface RetentionCursor {
  after: number
}

/**
 * Deletes a batch of each kind of what has been kept long enough. Runs go with the deliveries that they may explain and
 * the changes that they made, as long as nothing remembers them.
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
