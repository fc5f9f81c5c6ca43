import { maskValues } from '../util/text.ts'
import type { Source } from '../sources/source.ts'
import type { TableBusyError } from '../store/transaction.ts'

/** A slower batch holds its row locks longer than an interactive user should wait. */
export const SLOW_BATCH_MS = 1_000
/** A faster batch may be followed by one twice as large. */
const FAST_BATCH_MS = SLOW_BATCH_MS / 4
/** A timed-out batch of several rows is repeated in smaller ones, so it gets less time than a single row. */
const MULTI_ROW_TIMEOUT_MS = 5_000

/**
 * Adapts how many rows of a source go into one statement: fewer while the table is slow, more when it is fast again.
 */
export class BatchSize {
  readonly #max: number
  #rows: number

  /** @param max rows of the largest batch */
  constructor(max: number) {
    this.#max = max
    this.#rows = max
  }

  /** Rows of the next batch. */
  get rows(): number {
    return this.#rows
  }

  /** Records the duration of a batch. */
  onBatch(rows: number, ms: number): void {
    if (ms > SLOW_BATCH_MS)
      this.#rows = Math.max(1, Math.min(this.#rows, Math.floor((rows * SLOW_BATCH_MS) / ms)))
    else if (ms < FAST_BATCH_MS && rows >= this.#rows) this.#rows = Math.min(this.#max, this.#rows * 2)
  }

  /** Records that a batch was cancelled: it took too long or met another transaction. */
  halve(rows: number): void {
    this.#rows = Math.max(1, Math.min(this.#rows, Math.floor(rows / 2)))
  }
}

/** Statement timeout on the source, in milliseconds. Pure. */
export const statementTimeoutMs = (rows: number, sourceTimeoutMs: number): number =>
  rows > 1 ? Math.min(MULTI_ROW_TIMEOUT_MS, sourceTimeoutMs) : sourceTimeoutMs

const batchSizes = new WeakMap<Source, BatchSize>()

/**
 * The batch size of a source in this process, shared by everything that writes to it: it is the table that is slow.
 */
export function sharedBatchSize(source: Source, max: number): BatchSize {
  const existing = batchSizes.get(source)
  if (existing !== undefined) return existing
  const batchSize = new BatchSize(max)
  batchSizes.set(source, batchSize)
  return batchSize
}

/** Attempts at a single row before an error that its trigger raises each time counts as final. */
export const MAX_SINGLE_ROW_TRIES = 5

/** Describes why a batch was given up, or its only row rejected. */
export function describeTableBusy(
  { reason, raisedMessage, isTableLock, cause }: TableBusyError,
  limitMs: number,
): string {
  if (raisedMessage !== null) return `raised by a trigger or function: ${maskValues(raisedMessage)}`
  if (reason === 'slow')
    return `writing this row alone took longer than ${limitMs / 1_000} s: check the triggers of its table, then run \`fillrate retry\``
  if (isTableLock) return 'another transaction has locked the table: retried when it ends'
  const { code = '' } = cause as { code?: string }
  return `conflict with another transaction (${code}): retried`
}
