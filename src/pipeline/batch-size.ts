import type { Source } from '../sources/source.ts'
import type { TableBusyError } from '../store/transaction.ts'

/** A batch that takes longer holds the locks on its rows for longer than a person should wait for them. */
export const SLOW_BATCH_MS = 1_000
/** A batch that takes less may be twice as large the next time. */
const FAST_BATCH_MS = SLOW_BATCH_MS / 4
/** Of several rows, none may be at fault: they get less time, because what is cut is done again in smaller batches. */
const MULTI_ROW_TIMEOUT_MS = 5_000

/** How many rows of a source are written in one statement: fewer where the table is slow, more when it is fast again. */
export class BatchSize {
  readonly #max: number
  #rows: number

  /** @param most rows of the largest batch */
  constructor(most: number) {
    this.#max = most
    this.#rows = most
  }

  /** Rows of the next batch. */
  get rows(): number {
    return this.#rows
  }

  /** A batch of so many rows was written in so long. */
  onBatch(rows: number, ms: number): void {
    if (ms > SLOW_BATCH_MS)
      this.#rows = Math.max(1, Math.min(this.#rows, Math.floor((rows * SLOW_BATCH_MS) / ms)))
    else if (ms < FAST_BATCH_MS && rows >= this.#rows) this.#rows = Math.min(this.#max, this.#rows * 2)
  }

  /** A batch of so many rows was cut off, because it took too long or met another transaction. */
  halve(rows: number): void {
    this.#rows = Math.max(1, Math.min(this.#rows, Math.floor(rows / 2)))
  }
}

/** How long the statement on the source may take, in milliseconds. Pure. */
export const statementTimeoutMs = (rows: number, sourceTimeoutMs: number): number =>
  rows > 1 ? Math.min(MULTI_ROW_TIMEOUT_MS, sourceTimeoutMs) : sourceTimeoutMs

const batchSizes = new WeakMap<Source, BatchSize>()

/** The pace of a source in this process: of all that write to it, because it is the table that is slow. */
export function sharedBatchSize(source: Source, most: number): BatchSize {
  const known = batchSizes.get(source)
  if (known !== undefined) return known
  const pace = new BatchSize(most)
  batchSizes.set(source, pace)
  return pace
}

/** How often one row is written before what a trigger raises at it each time counts as its answer. */
export const MAX_SINGLE_ROW_TRIES = 5

/** Why a batch was given up, or its only row refused. */
export function describeTableBusy(
  { reason, raisedMessage, isTableLock, cause }: TableBusyError,
  limitMs: number,
): string {
  if (raisedMessage !== null) return `raised by a trigger or function: ${raisedMessage}`
  if (reason === 'slow')
    return `writing this row alone took longer than ${limitMs / 1_000} s: look at the triggers of its table, then \`fillrate retry\``
  if (isTableLock) return 'another transaction has locked the table: tried again when that has ended'
  const { code = '' } = cause as { code?: string }
  return `another transaction was met (${code}): tried again`
}
