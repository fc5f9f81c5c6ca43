/** A transaction that is open when a pass starts: its changes become visible later, with an earlier time. */
export interface RunningTransaction {
  /** As Postgres names it: no other transaction has this name until the server restarts. */
  readonly id: string
  /** When it began; null: this role may not see it, because another user began it, or it is a prepared one. */
  readonly startedAt: Date | null
  /** It had another name before it was prepared. */
  readonly isPrepared: boolean
}

/** The state of the database at the start of a pass, before anything is read. All times are Postgres's. */
export interface PassStart {
  readonly now: Date
  readonly running: readonly RunningTransaction[]
}

/** How far a source has been read by `changedAt`. */
export interface SourceCursor {
  /** Every row with an older `changedAt` has been read. */
  readonly changedUntil: Date
  /** When the pass that set `changedUntil` started. */
  readonly startedAt: Date
  /** The transactions that were open then, each with a time before which it did not begin. */
  readonly running: ReadonlyMap<string, Date>
  /** When the last pass over the whole table started. */
  readonly fullPassAt: Date
}

/**
 * A change carries a time from before its commit, usually the start of its transaction, so a pass may read past a row
 * that commits a moment later. The open transactions bound that gap; this margin covers times
 * that the application's own clock set.
 */
const MARGIN_MS = 10 * 60_000

/**
 * A full pass finds what no bound covers: a change in a joined table, a row whose `changedAt` did not
 * move or lies years back.
 */
const FULL_PASS_INTERVAL_MS = 7 * 24 * 3_600_000

/** Nothing is known of when a transaction began. */
const EVER = new Date(0)

/**
 * The time from which changes are read; null: read the whole table. A cursor in the future is ignored (a
 * restored backup, a wrong clock): a full pass costs time but loses no row.
 * @example readSince(null, new Date()) // null
 */
export function readSince(cursor: SourceCursor | null, now: Date): Date | null {
  if (cursor === null || cursor.changedUntil > now || cursor.fullPassAt > now) return null
  if (cursor.changedUntil <= EVER) return null
  if (now.getTime() - cursor.fullPassAt.getTime() >= FULL_PASS_INTERVAL_MS) return null
  return new Date(cursor.changedUntil.getTime() - MARGIN_MS)
}

/** How far a pass that began at `start` has read when it is complete, and the transactions that keep it from its start. */
export function advanceCursor(
  start: PassStart,
  cursor: SourceCursor | null,
): Pick<SourceCursor, 'changedUntil' | 'running'> {
  // As in `readSince`.
  const known = cursor !== null && cursor.startedAt <= start.now ? cursor : null
  const running = new Map(start.running.map((tx) => [tx.id, earliestStart(tx, known)]))
  return { changedUntil: [...running.values()].reduce(earliest, start.now), running }
}

/** A time before which a transaction did not begin. */
function earliestStart({ id, startedAt, isPrepared }: RunningTransaction, cursor: SourceCursor | null): Date {
  if (startedAt !== null) return startedAt
  if (cursor === null) return EVER
  // One that was not open when the previous pass started began after that. A prepared one may have been, under another name.
  return cursor.running.get(id) ?? (isPrepared ? cursor.changedUntil : cursor.startedAt)
}

/** @example earliest(new Date(2), new Date(1)) // new Date(1) */
const earliest = (a: Date, b: Date | null): Date => (b !== null && b < a ? b : a)
