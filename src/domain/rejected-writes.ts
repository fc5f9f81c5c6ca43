/** Rows of a run that the database has rejected, and that the run has written. */
export interface RunRejections {
  readonly rejected: number
  /** Counted as far as it can matter. */
  readonly written: number
  /** When the first of them was rejected. */
  readonly since: Date
}

/** The rows of a source that the database rejects at the moment. */
export interface RejectedWrites {
  readonly source: string
  /** Rows in this state, whichever run they are of: `fillrate failures` lists them. */
  readonly rows: number
  /** The most frequent reason of the latest of them. */
  readonly reason: string | null
  /** The latest runs that they are of, the latest first. */
  readonly runs: readonly RunRejections[]
}

/** Fewer rejected rows may be odd ones. */
export const MIN_REJECTED_ROWS = 5
/** This many rows are worth a look, whatever their share. */
export const MANY_REJECTED_ROWS = 1_000
/** One in this many rows is a notable share. */
export const NOTABLE_ONE_IN = 20

const isNotable = ({ rejected, written }: { readonly rejected: number; readonly written: number }): boolean =>
  rejected >= MANY_REJECTED_ROWS ||
  (rejected >= MIN_REJECTED_ROWS && rejected * NOTABLE_ONE_IN >= rejected + written)

/**
 * Since when a notable share of rows has been rejected; null: none is. A run counts by itself, and the latest runs
 * together, because runs of live sync have few rows each.
 * @param runs the runs with rejected rows, the latest first
 */
export function findNotableRejections(runs: readonly RunRejections[]): Date | null {
  const notable: Date[] = []
  let latest = { rejected: 0, written: 0 }
  for (const run of runs) {
    latest = { rejected: latest.rejected + run.rejected, written: latest.written + run.written }
    if (isNotable(run) || isNotable(latest)) notable.push(run.since)
  }
  return notable.length === 0 ? null : new Date(Math.min(...notable.map((at) => at.getTime())))
}
