/** How many more rows of a source may be written, and when that was so. Milliseconds. */
export interface WritePace {
  readonly allowance: number
  readonly at: number
}

export interface WriteGrant {
  /** What is allowed now, with fractions: what is written is taken from it. */
  readonly allowance: number
  /** Rows that may be written now. */
  readonly rows: number
  /** Until rows may be written, in milliseconds; 0: some may be now. */
  readonly waitMs: number
}

const HOUR_MS = 3_600_000
/** At once are written at most the rows of a minute; a batch waits until it has those of ten seconds. */
const BURSTS_PER_HOUR = 60
const BATCHES_PER_BURST = 6

/** The least that `perHour` may be: less would not fill a burst of one row. */
export const LEAST_WRITES_PER_HOUR = BURSTS_PER_HOUR

/**
 * What may be written now. In no hour is it more than `perHour`: what follows a burst within an hour is `perHour` less that burst.
 * Pure.
 * @param pace null: nothing was written yet
 */
export function grantWrites(perHour: number, pace: WritePace | null, now: number): WriteGrant {
  const burst = perHour / BURSTS_PER_HOUR
  const perMs = (perHour - burst) / HOUR_MS
  // A clock that was set back gives nothing, for an hour at most.
  const isUnknown = pace === null || pace.at > now + HOUR_MS
  const gained = isUnknown ? burst : pace.allowance + Math.max(0, now - pace.at) * perMs
  const allowance = Math.min(burst, gained)
  const least = Math.max(1, Math.ceil(burst / BATCHES_PER_BURST))
  const rows = Math.floor(allowance)
  return rows >= least
    ? { allowance, rows, waitMs: 0 }
    : { allowance, rows: 0, waitMs: (least - allowance) / perMs }
}
