/** The state of the database at the start of a pass, before anything is read. All times are Postgres's. */
export interface PassStart {
  readonly now: Date
  /** The start of the oldest open transaction in this database that this role can see. */
  readonly oldestTransactionAt: Date | null
  /** Whether there are transactions whose start this role cannot see: other users' sessions, prepared transactions. */
  readonly hasHidden: boolean
  /** The oldest running transaction id, and the next one to be assigned. */
  readonly snapshotXmin: bigint
  readonly snapshotXmax: bigint
}

/** How far a source has been read by `changedAt`. */
export interface SourceCursor {
  /** Every row with an older `changedAt` has been read. */
  readonly changedUntil: Date
  /** When the pass that set `changedUntil` started. */
  readonly startedAt: Date
  readonly snapshotXmax: bigint
  /** When the last pass over the whole table started. */
  readonly fullPassAt: Date
}

/**
 * A change carries a time from before its commit, usually the start of its transaction, so a pass may read past a row
 * that commits a moment later. The oldest open transaction bounds that gap; this margin covers what it does not bound,
 * times set by the application's own clock.
 */
const MARGIN_MS = 10 * 60_000

/**
 * A full pass finds what no bound covers: a change in a joined table, a row whose `changedAt` did not move or lies years
 * back, a transaction of a user whose sessions this role cannot see.
 */
const FULL_PASS_INTERVAL_MS = 7 * 24 * 3_600_000

/**
 * The time from which changes are read; null: read the whole table. A cursor in the future is ignored (a restored
 * backup, a wrong clock): a full pass costs time but loses no row.
 * @example readSince(null, new Date()) // null
 */
export function readSince(cursor: SourceCursor | null, now: Date): Date | null {
  if (cursor === null || cursor.changedUntil > now || cursor.fullPassAt > now) return null
  if (now.getTime() - cursor.fullPassAt.getTime() >= FULL_PASS_INTERVAL_MS) return null
  return new Date(cursor.changedUntil.getTime() - MARGIN_MS)
}

/**
 * How far a pass that began at `start` has read when it is complete. Null: unknown, and the next pass reads the whole
 * table.
 */
export function advanceCursor(start: PassStart, cursor: SourceCursor | null): Date | null {
  const visible = earliest(start.now, start.oldestTransactionAt)
  if (!start.hasHidden || start.snapshotXmin === start.snapshotXmax) return visible
  // A writing transaction is running whose start is not visible, but its id is: if every id assigned before the previous
  // pass has ended, it began to write after that pass started.
  if (cursor === null) return null
  if (cursor.snapshotXmax <= start.snapshotXmin) return earliest(visible, cursor.startedAt)
  return earliest(visible, cursor.changedUntil)
}

/** @example earliest(new Date(2), new Date(1)) // new Date(1) */
export const earliest = (a: Date, b: Date | null): Date => (b !== null && b < a ? b : a)
