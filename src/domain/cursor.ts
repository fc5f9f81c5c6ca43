/** What the database says at the start of a pass, before anything is read. All times are Postgres's. */
export interface PassStart {
  readonly now: Date
  /** When the oldest transaction began that is still open in this database, as far as this role can see. */
  readonly oldestTransactionAt: Date | null
  /** Whether there are transactions whose start this role can't see: other users' sessions, prepared transactions. */
  readonly hasHidden: boolean
  /** The oldest transaction id that is still running, and the next one to be assigned. */
  readonly snapshotXmin: bigint
  readonly snapshotXmax: bigint
}

/** How far a source was read by `changedAt`. */
export interface SourceCursor {
  /** Every row whose `changedAt` is older was seen. */
  readonly changedUntil: Date
  /** When the pass that read so far began. */
  readonly startedAt: Date
  readonly snapshotXmax: bigint
  /** When the last pass began that read the whole table. */
  readonly fullPassAt: Date
}

/**
 * A change carries a time from before its commit, usually the start of its transaction, so that a pass may read past a
 * row that is committed a moment later. The oldest open transaction bounds how far that reaches; this margin is for
 * what it does not bound: a time that the application's own clock sets.
 */
const MARGIN_MS = 10 * 60_000

/**
 * A whole pass now and then finds what no bound can: a change in a joined table, a row whose `changedAt` did not move
 * or lies years back, a transaction of a user whose sessions this role may not see.
 */
const FULL_PASS_INTERVAL_MS = 7 * 24 * 3_600_000

/**
 * From when on changes are read; null: the whole table is. A cursor in the future says nothing (a restored backup, a
 * machine that had a wrong clock), and a whole pass costs time but loses no row.
 * @example readSince(null, new Date()) // null
 */
export function readSince(cursor: SourceCursor | null, now: Date): Date | null {
  if (cursor === null || cursor.changedUntil > now || cursor.fullPassAt > now) return null
  if (now.getTime() - cursor.fullPassAt.getTime() >= FULL_PASS_INTERVAL_MS) return null
  return new Date(cursor.changedUntil.getTime() - MARGIN_MS)
}

/**
 * How far a pass that began at `start` has read once it is through. Null: nothing can be said, and the next pass reads
 * the whole table.
 */
export function advanceCursor(start: PassStart, cursor: SourceCursor | null): Date | null {
  const visible = earliest(start.now, start.oldestTransactionAt)
  if (!start.hasHidden || start.snapshotXmin === start.snapshotXmax) return visible
  // A transaction that writes is running, and its start is not visible. Its id is: where ids that were assigned when
  // the pass before began are all over, it began to write after that.
  if (cursor === null) return null
  if (cursor.snapshotXmax <= start.snapshotXmin) return earliest(visible, cursor.startedAt)
  return earliest(visible, cursor.changedUntil)
}

/** @example earliest(new Date(2), new Date(1)) // new Date(1) */
export const earliest = (a: Date, b: Date | null): Date => (b !== null && b < a ? b : a)
