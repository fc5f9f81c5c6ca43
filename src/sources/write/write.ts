import type { Transaction } from 'kysely'
import type { SkippedCell } from '../../domain/skipped-cell.ts'
import { query } from '../db.ts'
import { describeRowError } from '../pg-errors.ts'
import type { Source } from '../source-model.ts'
import type { RejectedRow } from './bisect.ts'
import { executeBatch, rereadAfterTriggers } from './execute.ts'
import type { WriteResultRow } from './result-sql.ts'
import { maskRowTexts } from './row-texts.ts'
import { type BatchRow, writeStatement } from './statement.ts'

export interface WriteRow {
  readonly key: string
  /** Hash of the inputs that the record was looked up with. */
  readonly inputHash: string
  /** Output column to value, as `coerceRecord` gives them. */
  readonly values: Readonly<Record<string, unknown>>
  /** Output column to what Fillrate last wrote, as in an earlier `after`. */
  readonly lastWritten: Readonly<Record<string, unknown>> | null
  /** 0..1. */
  readonly confidence: number | null
}

export interface WriteResult {
  readonly key: string
  /**
   * `row_missing`: deleted, or no longer in the source. `inputs_changed`: not touched, to be picked again. `locked`: not
   * touched, because another transaction had locked it.
   */
  readonly outcome: 'written' | 'unchanged' | 'inputs_changed' | 'row_missing' | 'rejected' | 'locked'
  /** Why a row was rejected, without its values. */
  readonly reason: string | null
  /**
   * The earlier values of the written and touched columns. No entry: NULL, or no such key. Parents of a json key that
   * were empty or JSON null have entries too: `restoreBatch` needs them to know which parents the write created.
   */
  readonly before: Record<string, unknown> | null
  /** Their values now, after any trigger. */
  readonly after: Record<string, unknown> | null
  /** What the write left in columns that inputs read, and what the user had given. Null: nothing to record. */
  readonly ownWrites?: Record<string, unknown> | null
  /** Cells with a value that the policy protects. */
  readonly protectedCount: number
  readonly protectedColumns: readonly string[]
  /** Cells that the database did not take: their `sql` gave no value (`no_value`), or a text that is `too_long`. */
  readonly skipped: readonly Omit<SkippedCell, 'value'>[]
}

/**
 * Writes a batch in one statement. Checks hash and policies on the locked rows. Skips a row that another transaction has
 * locked, so that a user's edit wins. If the database rejects the batch, its bad rows are isolated and the others
 * written. One result per row, in the order of the batch.
 * @param tx the caller commits; the rows stay locked until then
 * @throws what does not concern a row: a lost connection, a timeout, a deadlock, a missing privilege
 */
export async function writeBatch<Schema>(
  tx: Transaction<Schema>,
  source: Source,
  batch: readonly WriteRow[],
): Promise<WriteResult[]> {
  if (batch.length === 0) return []
  const rows = batch.map(toBatchRow)
  if (source.table.hasDeferred) await query(tx, 'set constraints all immediate')
  const sent = await executeBatch(tx, source, writeStatement(source), rows, missingRow)
  const results = await rereadAfterTriggers(tx, source, [...source.outputs, ...source.touches], rows, sent)
  return await maskRowTexts(
    tx,
    source,
    batch.map(({ key }, i) => toWriteResult(key, results.get(i))),
  )
}

/**
 * Previews `writeBatch` without a lock or a write. `after` is the state before any trigger. A row whose expression fails
 * is rejected; what only a write raises is not found.
 * @param tx nothing is written in it
 */
export async function previewWrites<Schema>(
  tx: Transaction<Schema>,
  source: Source,
  batch: readonly WriteRow[],
): Promise<WriteResult[]> {
  if (batch.length === 0) return []
  const statement = writeStatement(source, { preview: true })
  const results = await executeBatch(tx, source, statement, batch.map(toBatchRow), missingRow)
  return await maskRowTexts(
    tx,
    source,
    batch.map(({ key }, i) => toWriteResult(key, results.get(i))),
  )
}

const toBatchRow = (
  { key, inputHash, values, lastWritten, confidence }: WriteRow,
  index: number,
): BatchRow => ({
  index,
  key,
  hash: inputHash,
  values,
  lastWritten: lastWritten ?? {},
  confidence,
})

const missingRow = (index: number): WriteResultRow => ({
  index,
  found: false,
  locked: false,
  copies: null,
  same: null,
  changes: null,
  written: false,
  before: null,
  after: null,
  ownWrites: null,
  protected: null,
  skipped: null,
})

const EMPTY_RESULT = {
  reason: null,
  before: null,
  after: null,
  protectedCount: 0,
  protectedColumns: [],
  skipped: [],
} as const

function toWriteResult(key: string, result: WriteResultRow | RejectedRow | undefined): WriteResult {
  if (result === undefined) throw new Error(`the statement returned no result for row ${key}`)
  if ('error' in result)
    return { ...EMPTY_RESULT, key, outcome: 'rejected', reason: describeRowError(result.error) }
  if (result.locked) return { ...EMPTY_RESULT, key, outcome: 'locked' }
  if (!result.found) {
    const reason = result.left ? 'it left the source before it was written' : null
    return { ...EMPTY_RESULT, key, outcome: 'row_missing', reason }
  }
  if ((result.copies ?? 1) > 1) {
    const reason = `the joins give ${result.copies} rows for this key, and only one can be right`
    return { ...EMPTY_RESULT, key, outcome: 'rejected', reason }
  }
  if (!result.same) return { ...EMPTY_RESULT, key, outcome: 'inputs_changed' }
  const protectedColumns = result.protected ?? []
  const common = {
    key,
    protectedCount: protectedColumns.length,
    protectedColumns,
    skipped: result.skipped ?? [],
  }
  if (result.written)
    return {
      ...common,
      outcome: 'written',
      reason: null,
      before: result.before,
      after: result.after,
      ...(result.ownWrites && { ownWrites: result.ownWrites }),
    }
  if (!result.changes) return { ...common, outcome: 'unchanged', reason: null, before: null, after: null }
  return {
    ...common,
    outcome: 'rejected',
    reason: 'a trigger prevented the update',
    before: null,
    after: null,
  }
}
