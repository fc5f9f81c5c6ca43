import * as store from '../store/retention.ts'
import { endRowsOfLeftSources } from '../store/retire-source.ts'
import { inTransaction } from '../store/transaction.ts'
import type { Deps } from './deps.ts'

/** How long data is kept, in milliseconds. Null: forever. */
interface RetentionPolicy {
  readonly recordsMs: number | null
  readonly deliveriesMs: number
  readonly changesMs: number | null
}

/** Rows per statement. Small, to keep transactions short. */
const BATCH_SIZE = 500

/** How long the audit list is kept: until after the next yearly audit. */
const AUDIT_MS = 2 * 365 * 24 * 3_600_000

/** Position of the sweep over the records, from which the next tick continues. */
interface RetentionCursor {
  after: number
}

/**
 * Deletes one batch of each kind of expired data, and ends waiting rows of sources that left the configuration. Runs are deleted with the deliveries and changes that refer to
 * them, once nothing does.
 * @returns what was deleted, and whether there may be more
 */
export async function enforceRetention(
  { db }: Pick<Deps, 'db'>,
  policy: RetentionPolicy,
  cursor: RetentionCursor,
) {
  const { recordsMs, deliveriesMs, changesMs } = policy
  const records =
    recordsMs === null
      ? { dropped: 0, next: null }
      : await store.deleteRecords(db, { recordsMs, changesMs }, cursor.after, BATCH_SIZE)
  cursor.after = records.next ?? 0
  const deleteOld = (table: Parameters<typeof store.deleteExpired>[1], keepMs: number): Promise<number> =>
    store.deleteExpired(db, table, keepMs, BATCH_SIZE)
  const deleted = {
    records: records.dropped,
    deliveries: await deleteOld('deliveries', deliveriesMs),
    jobs: await deleteOld('jobs', deliveriesMs),
    changes: changesMs === null ? 0 : await store.deleteChanges(db, changesMs, BATCH_SIZE),
    runs: await deleteOld('runs', Math.max(deliveriesMs, changesMs ?? 0)),
    scheduledRuns: await deleteOld('scheduled_runs', deliveriesMs),
    conditions: await deleteOld('conditions', deliveriesMs),
    auditEvents: await deleteOld('audit_events', AUDIT_MS),
    leftRows: await inTransaction(db, (tx) => endRowsOfLeftSources(tx, BATCH_SIZE)),
  }
  const isFull = Object.values(deleted).some((count) => count === BATCH_SIZE)
  return { deleted, more: isFull || records.next !== null }
}
