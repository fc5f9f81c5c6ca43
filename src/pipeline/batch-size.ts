import { addFunctionSources, type Db } from '../sources/db.ts'
import type { Source } from '../sources/source-model.ts'
import type { TableBusyError } from '../store/transaction.ts'
import { describeRaised, type DatabaseError } from '../util/error-text.ts'

/** A slower batch holds its row locks longer than an interactive user should wait. */
const SLOW_BATCH_MS = 1_000
/** A faster batch may be followed by one twice as large. */
const FAST_BATCH_MS = SLOW_BATCH_MS / 4
/** Parsed, records take several times the memory of their text. */
const LARGE_BATCH_BYTES = 8 * 2 ** 20
/** A timed-out batch of several rows is repeated in smaller ones, so it gets less time than a single row. */
const MULTI_ROW_TIMEOUT_MS = 5_000

/**
 * Adapts how many rows of a source go into one statement: fewer while the table is slow, more when it is fast again.
 */
export class BatchSize {
  readonly #max: number
  #rows: number

  /**
   * @param max rows of the largest batch
   * @param first rows of the first one
   */
  constructor(max: number, first = max) {
    this.#max = max
    this.#rows = Math.min(first, max)
  }

  /** Rows of the next batch. */
  get rows(): number {
    return this.#rows
  }

  /**
   * Records the duration of a batch.
   * @param bytes of the records that its rows hold in memory
   */
  onBatch(rows: number, ms: number, bytes = 0): void {
    const excess = Math.max(ms / SLOW_BATCH_MS, bytes / LARGE_BATCH_BYTES)
    if (excess > 1) this.#rows = Math.max(1, Math.min(this.#rows, Math.floor(rows / excess)))
    else if (ms < FAST_BATCH_MS && bytes < LARGE_BATCH_BYTES / 2 && rows >= this.#rows)
      this.#rows = Math.min(this.#max, this.#rows * 2)
  }

  /** Records that a batch was cancelled: it took too long or met another transaction. */
  halve(rows: number): void {
    this.#rows = Math.max(1, Math.min(this.#rows, Math.floor(rows / 2)))
  }
}

/** Statement timeout on the source, in milliseconds. Pure. */
export const statementTimeoutMs = (rows: number, sourceTimeoutMs: number): number =>
  rows > 1 ? Math.min(MULTI_ROW_TIMEOUT_MS, sourceTimeoutMs) : sourceTimeoutMs

/**
 * Rows of the first UPDATE of a source, and of the largest. What a batch costs besides its rows (twelve statements, a
 * commit) is 3% of one of 4,000 rows on a fast table; a slow one never gets there.
 */
const FIRST_WRITE_BATCH = 1_000
const MAX_WRITE_BATCH = 4_000

const batchSizes = new WeakMap<Source, BatchSize>()

/**
 * The batch size of a source in this process, shared by everything that writes to it: it is the table that is slow.
 */
export function sharedBatchSize(source: Source): BatchSize {
  const existing = batchSizes.get(source)
  if (existing !== undefined) return existing
  const batchSize = new BatchSize(MAX_WRITE_BATCH, FIRST_WRITE_BATCH)
  batchSizes.set(source, batchSize)
  return batchSize
}

/** Attempts at a single row before an error that its trigger raises each time counts as final. */
export const MAX_SINGLE_ROW_TRIES = 5

/** Describes why a batch was given up, or its only row rejected. */
export async function describeTableBusy(
  db: Db,
  { reason, isRaised, isTableLock, cause }: TableBusyError,
  limitMs: number,
): Promise<string> {
  if (isRaised) {
    const [raised] = await addFunctionSources(db, [cause as DatabaseError & Error])
    return describeRaised(raised ?? (cause as DatabaseError & Error))
  }
  if (reason === 'slow')
    return `writing this row alone took longer than ${limitMs / 1_000} s: check the triggers of its table, then run \`fillrate retry\``
  if (isTableLock) return 'another transaction has locked the table: retried when it ends'
  const { code = '' } = cause as { code?: string }
  if (reason === 'exhausted') return `Postgres lacks resources (${code}): retried`
  return `conflict with another transaction (${code}): retried`
}
