import * as budgets from '../store/budgets.ts'
import * as store from '../store/keep.ts'
import type { Deps } from './deps.ts'

/** How long things are kept, in milliseconds. Null: for ever. */
export interface Keep {
  readonly recordsMs: number | null
  readonly deliveriesMs: number
  readonly changesMs: number | null
}

/** Rows of one statement. Small, so that nobody waits for it. */
const BATCH = 500

/** A tick may be begun again days later, when nothing was there to run it, and then goes on with its budget. */
const TICKS_MS = 30 * 24 * 3_600_000

export interface Dropped {
  readonly records: number
  readonly deliveries: number
  readonly jobs: number
  readonly changes: number
  readonly runs: number
  readonly ticks: number
  readonly budgets: number
}

/** Where a sweep over the records is: it carries on there at the next tick. */
export interface Sweep {
  after: number
}

/**
 * Deletes a batch of each kind of what has been kept long enough. Runs go with the deliveries that they may explain and
 * the changes that they made, as long as nothing remembers them.
 * @returns what was deleted, and whether there may be more
 */
export async function tick(
  { db }: Pick<Deps, 'db'>,
  keep: Keep,
  sweep: Sweep,
): Promise<{ readonly dropped: Dropped; readonly more: boolean }> {
  const records =
    keep.recordsMs === null
      ? { dropped: 0, next: null }
      : await store.dropRecords(db, keep.recordsMs, sweep.after, BATCH)
  sweep.after = records.next ?? 0
  const runsMs = Math.max(keep.deliveriesMs, keep.changesMs ?? 0)
  const dropped: Dropped = {
    records: records.dropped,
    deliveries: await store.dropDeliveries(db, keep.deliveriesMs, BATCH),
    jobs: await store.dropJobs(db, keep.deliveriesMs, BATCH),
    changes: keep.changesMs === null ? 0 : await store.dropChanges(db, keep.changesMs, BATCH),
    runs: await store.dropRuns(db, runsMs, BATCH),
    ticks: await store.dropTicks(db, keep.deliveriesMs, BATCH),
    budgets: await budgets.drop(db, Math.max(keep.deliveriesMs, TICKS_MS), BATCH),
  }
  const full = Object.values(dropped).some((count) => count === BATCH)
  return { dropped, more: full || records.next !== null }
}
