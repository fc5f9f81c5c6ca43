import { deleteAuditEvents } from '../store/audit.ts'
import * as budgets from '../store/budgets.ts'
import { deleteNotifications } from '../store/notifications.ts'
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

/** How long the audit list is kept: until after the next yearly audit. */
const AUDIT_MS = 2 * 365 * 24 * 3_600_000

/** A scheduled run may be resumed days later, with what is left of its budget. */
const SCHEDULED_RUNS_MS = 30 * 24 * 3_600_000

export interface DeletedCounts {
  readonly records: number
  readonly deliveries: number
  readonly jobs: number
  readonly changes: number
  readonly runs: number
  readonly scheduledRuns: number
  readonly notifications: number
  readonly budgets: number
  readonly auditEvents: number
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
  policy: RetentionPolicy,
  cursor: RetentionCursor,
): Promise<{ readonly deleted: DeletedCounts; readonly more: boolean }> {
  const records =
    policy.recordsMs === null
      ? { dropped: 0, next: null }
      : await store.deleteRecords(db, policy.recordsMs, cursor.after, BATCH_SIZE)
  cursor.after = records.next ?? 0
  const runsMs = Math.max(policy.deliveriesMs, policy.changesMs ?? 0)
  const deleted: DeletedCounts = {
    records: records.dropped,
    deliveries: await store.deleteDeliveries(db, policy.deliveriesMs, BATCH_SIZE),
    jobs: await store.deleteJobs(db, policy.deliveriesMs, BATCH_SIZE),
    changes: policy.changesMs === null ? 0 : await store.deleteChanges(db, policy.changesMs, BATCH_SIZE),
    runs: await store.deleteRuns(db, runsMs, BATCH_SIZE),
    scheduledRuns: await store.deleteScheduledRuns(db, policy.deliveriesMs, BATCH_SIZE),
    notifications: await deleteNotifications(db, policy.deliveriesMs, BATCH_SIZE),
    budgets: await budgets.deleteBudgets(db, Math.max(policy.deliveriesMs, SCHEDULED_RUNS_MS), BATCH_SIZE),
    auditEvents: await deleteAuditEvents(db, AUDIT_MS, BATCH_SIZE),
  }
  const isFull = Object.values(deleted).some((count) => count === BATCH_SIZE)
  return { deleted, more: isFull || records.next !== null }
}
