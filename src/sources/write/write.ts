import { describeServerError } from '../../util/error-text.ts'
import type { Transaction } from 'kysely'
import { query } from '../db.ts'
import { rejectProtectedRows } from '../row-security.ts'
import type { Source } from '../source-model.ts'
import type { RejectedRow } from './bisect.ts'
import { batchParameters, type BatchRow } from './batch.ts'
import { listUnits } from './constraints.ts'
import { type BatchStatement, executeBatch, type RejectedCells, rereadAfterTriggers } from './execute.ts'
import { pickPlainValues, readRejectedValues, toSkippedCells } from './refused-cells.ts'
import { resultReader } from './result-columns.ts'
import type { RefusedCell, WriteResultRow } from './result-sql.ts'
import { writeStatement } from './statement.ts'
import { hasUniqueOutputs, lockUniqueSql } from './unique-sql.ts'

export interface WriteRow {
  readonly key: string
  /** Hash of the inputs that the record was looked up with. */
  readonly inputHash: string
  /** Output column to value, as `coerceRecord` gives them. */
  readonly values: Readonly<Record<string, unknown>>
  /** Outputs for which the record has a value that does not fit. */
  readonly misfits?: readonly string[]
  /** Output column to what Fillrate last wrote, as in an earlier `after`. */
  readonly lastWritten: Readonly<Record<string, unknown>> | null
  /** The same of what it wrote for earlier inputs of the row. */
  readonly earlier?: Readonly<Record<string, unknown>> | null
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
  /** Why a row was rejected, without its values; null: its skipped cells have the reasons. */
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
  /** Cells that the database did not take, touched ones among them. */
  readonly skipped: readonly RefusedCell[]
}

/**
 * Writes a batch in one statement. Checks hash and policies on the locked rows. Skips a row that another transaction has
 * locked, so that a user's edit wins. If the database rejects the batch, the cells that it rejects are found and left
 * out, and all others are written. One result per row, in the order of the batch.
 * @param tx the caller commits; the rows stay locked until then
 * @param options.isUnguarded saves two statements; if the database rejects the batch, its error is thrown and the
 *   transaction is lost
 * @throws what does not concern a row: a lost connection, a timeout, a deadlock, a missing privilege
 */
export async function writeBatch<Schema>(
  tx: Transaction<Schema>,
  source: Source,
  batch: readonly WriteRow[],
  { isUnguarded = false }: { readonly isUnguarded?: boolean } = {},
): Promise<WriteResult[]> {
  if (batch.length === 0) return []
  const rows = batch.map(toBatchRow)
  if (hasUniqueOutputs(source)) await query(tx, lockUniqueSql(source))
  const statement = toBatchStatement(source)
  const sent = await executeBatch(tx, source, statement, rows, untouchedRow, isUnguarded)
  const cells = [...source.outputs, ...source.touches]
  const results = await rereadAfterTriggers(tx, source, cells, rows, sent.rows)
  const made = await readRejectedValues(tx, source, rows, sent.cells)
  const written = rows.map((row, i) =>
    toWriteResult(source, row, results.get(i), sent.cells.get(i), made.get(i)),
  )
  return await rejectProtectedRows(tx, source, written)
}

/**
 * Previews `writeBatch` without a lock or a write. `after` is the state before any trigger. A cell whose expression fails
 * is skipped; what only a write raises is not found.
 * @param tx nothing is written in it
 */
export async function previewWrites<Schema>(
  tx: Transaction<Schema>,
  source: Source,
  batch: readonly WriteRow[],
): Promise<WriteResult[]> {
  if (batch.length === 0) return []
  const statement = toBatchStatement(source, { preview: true })
  const rows = batch.map(toBatchRow)
  const results = await executeBatch(tx, source, statement, rows, untouchedRow)
  return rows.map((row, i) => toWriteResult(source, row, results.rows.get(i), results.cells.get(i)))
}

const toBatchStatement = (
  source: Source,
  options: { readonly preview?: boolean } = {},
): BatchStatement<BatchRow, WriteResultRow> => ({
  sql: writeStatement(source, options),
  toParameters: (rows) => batchParameters(source, rows),
  readRow: resultReader(source),
  prepareApart: () => ({
    sql: writeStatement(source, { ...options, apart: true }),
    cells: [...source.outputs, ...source.touches],
    units: listUnits(source),
  }),
})

const toBatchRow = (
  { key, inputHash, values, misfits = [], lastWritten, earlier = null, confidence }: WriteRow,
  index: number,
): BatchRow => ({
  index,
  key,
  hash: inputHash,
  values:
    misfits.length === 0
      ? values
      : { ...values, ...Object.fromEntries(misfits.map((column) => [column, null])) },
  lastWritten: lastWritten ?? {},
  earlier,
  confidence,
})

const untouchedRow = (index: number, state: 'missing' | 'locked'): WriteResultRow => ({
  index,
  state,
  written: false,
  copies: null,
  before: null,
  after: null,
  ownWrites: null,
  given: null,
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

function toWriteResult(
  source: Source,
  row: BatchRow,
  result: WriteResultRow | RejectedRow | undefined,
  rejected: readonly RejectedCells[] = [],
  made: Readonly<Record<string, unknown>> = {},
): WriteResult {
  const { key } = row
  if (result === undefined) throw new Error(`the statement returned no result for row ${row.index}`)
  if ('error' in result)
    return { ...EMPTY_RESULT, key, outcome: 'rejected', reason: describeServerError(result.error) }
  switch (result.state) {
    case 'locked':
      return { ...EMPTY_RESULT, key, outcome: 'locked' }
    case 'missing':
      return { ...EMPTY_RESULT, key, outcome: 'row_missing' }
    case 'left': {
      const reason = 'it left the source before it was written'
      return { ...EMPTY_RESULT, key, outcome: 'row_missing', reason }
    }
    case 'repeated': {
      const reason = `the joins give ${result.copies} rows for this key, and only one can be right`
      return { ...EMPTY_RESULT, key, outcome: 'rejected', reason }
    }
    case 'changed':
      return { ...EMPTY_RESULT, key, outcome: 'inputs_changed' }
    default:
  }
  // The record may have a value that does not fit: the batch then has null.
  const protectedColumns = (result.protected ?? []).filter((column) => Object.hasOwn(row.values, column))
  const refused =
    rejected.length === 0
      ? []
      : rejected
          .flatMap((cells) => toSkippedCells(source, cells, { ...pickPlainValues(source, row), ...made }))
          .filter(({ column }) => !protectedColumns.includes(column))
  const common = {
    key,
    protectedCount: protectedColumns.length,
    protectedColumns,
    skipped: [...(result.skipped ?? []), ...refused],
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
  const nothing = { ...common, before: null, after: null }
  if (result.state === 'prevented')
    return { ...nothing, outcome: 'rejected', reason: 'a trigger prevented the update' }
  const isRejected = refused.length > 0 && !wasWritten(row, common.skipped)
  return { ...nothing, outcome: isRejected ? 'rejected' : 'unchanged', reason: null }
}

/** Whether an earlier write has filled another of the row's cells: it is enriched already, and has not failed. */
function wasWritten({ values, lastWritten }: BatchRow, skipped: readonly RefusedCell[]): boolean {
  const columns = new Set(skipped.map(({ column }) => column))
  return Object.keys(lastWritten).some((name) => (values[name] ?? null) !== null && !columns.has(name))
}
