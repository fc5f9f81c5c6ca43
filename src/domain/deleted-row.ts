/** What happens to what Fillrate knows of a row that its table no longer has. */
export const ON_DELETE = ['forget', 'keep'] as const
export type OnDelete = (typeof ON_DELETE)[number]

/**
 * How long a deleted row is kept before it is erased. A table that is emptied and loaded again, or a row that is
 * deleted and inserted again, then costs nothing. Short, so that a nightly pass erases what the pass before it noticed.
 */
export const ERASE_AFTER_MS = 60 * 60_000

/** Erasing needs a confirmation if more than this share of a source, and more than this many rows, are to be erased. */
const HELD_SHARE = 0.1
const HELD_ROWS = 10

/** The rows of one source. */
export interface DeletedRowCounts {
  /** Rows that Fillrate knows and the table has. */
  readonly known: number
  /** Deleted rows that are to be erased. */
  readonly deleted: number
  /** Those of them that row-level security may only hide. */
  readonly hidden: number
}

/**
 * Whether erasing deleted rows needs a confirmation: a table that was truncated, reloaded, or read through another search
 * path looks like one whose rows were all deleted, and a row that a policy of row-level security hides like a deleted one. Pure.
 */
export const isEraseHeld = ({ known, deleted, hidden }: DeletedRowCounts): boolean =>
  deleted > 0 &&
  (hidden > 0 || known === 0 || (deleted > HELD_ROWS && deleted > HELD_SHARE * (known + deleted)))

/** Why nothing is erased, and what to do about it. `percent` of the source's rows is rounded down. */
export function describeHeldErase(source: string, { known, deleted, hidden }: DeletedRowCounts): string {
  const percent = Math.floor((100 * deleted) / (known + deleted))
  const why =
    hidden > 0
      ? 'row-level security may hide its rows, which then look deleted'
      : `${percent}% of its rows are gone`
  return (
    `${why}, so their data is not erased without a confirmation: ` +
    `\`fillrate forget --deleted ${source} --yes\` erases it; rows that come back are restored`
  )
}
