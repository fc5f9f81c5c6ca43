import { describeServerError } from '../../util/error-text.ts'
import { toWholeSource } from '../earlier-values.ts'
import type { Transaction } from 'kysely'
import { rejectProtectedRows } from '../row-security.ts'
import type { Source } from '../source-model.ts'
import type { RejectedRow } from './bisect.ts'
import { type ExecuteOptions, executeUpdate, type UpdatedRows, type RejectedCells } from './execute.ts'
import { type RefusedCell, type RowResult, readJson, resultReader } from './result-columns.ts'
import type { RowUpdate } from './row-update.ts'
import { type WriteRow, writeUpdate } from './write-update.ts'
import { isRaised } from '../../util/sqlstates.ts'
import { describeSkip, type SkipReason } from '../../domain/skipped-cell.ts'
import { type Db, tryRows } from '../db.ts'
import { batchJson } from './batch.ts'
import { rowUpdateStatement } from './statement.ts'

/** What a write or an undo did with a row. */
export interface WriteResult {
  readonly key: string
  /**
   * `row_missing`: deleted, or no longer in the source. `inputs_changed`: not touched, because it has other inputs than the
   * write was made for. `locked`: not touched, because another transaction had locked it.
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
  /** Cells with a value that the policy protects; of an undo, those that stay. */
  readonly protectedColumns: readonly string[]
  /** Cells that the database did not take, touched ones among them. */
  readonly skipped: readonly RefusedCell[]
  /** Cells that hold the value already, written for earlier inputs. Absent: the row is not the one that was written for them. */
  readonly confirmed?: readonly string[]
}

/**
 * Writes a batch in one statement. Checks hash and policies on the locked rows. Skips a row that another transaction has
 * locked, so that a user's edit wins. If the database rejects the batch, the cells that it rejects are found and left
 * out, and all others are written. One result per row, in the order of the batch.
 * @param tx the caller commits; the rows stay locked until then
 * @param options.preview locks and writes nothing. `after` is the state before any trigger. A cell whose expression fails is
 *   skipped; what only a write raises is not found
 * @param options.isUnguarded saves two statements; if the database rejects the batch, its error is thrown and the
 *   transaction is lost
 * @throws what does not concern a row: a lost connection, a timeout, a deadlock, a missing privilege
 */
export async function writeBatch<Schema>(
  tx: Transaction<Schema>,
  source: Source,
  batch: readonly WriteRow[],
  options: ExecuteOptions = {},
): Promise<WriteResult[]> {
  if (batch.length === 0) return []
  const { preview = false } = options
  const toUpdate = (bisecting: boolean): RowUpdate<WriteRow> => writeUpdate(toWholeSource(source), bisecting)
  const updated = await executeUpdate(tx, source, toUpdate, batch, options)
  const made = preview ? new Map() : await readRejectedValues(tx, source, batch, updated.cells)
  return await rejectProtectedRows(tx, source, toWriteResults(source, batch, updated, made))
}

function toWriteResults(
  source: Source,
  batch: readonly WriteRow[],
  updated: UpdatedRows,
  made: ReadonlyMap<number, Readonly<Record<string, unknown>>>,
): WriteResult[] {
  return batch.map((row, index) => {
    const { key, values, misfits = [] } = row
    const result = toResult(key, updated.rows.get(index), describeCopies)
    // The record may have a value that does not fit.
    const protectedColumns = result.protectedColumns.filter(
      (column) => Object.hasOwn(values, column) || misfits.includes(column),
    )
    const rejected = updated.cells.get(index)
    if (rejected === undefined) return { ...result, protectedColumns }
    const known = { ...pickPlainValues(source, row), ...made.get(index) }
    const refused = rejected
      .flatMap((cells) => toSkippedCells(source, cells, known))
      .filter(({ column }) => !protectedColumns.includes(column))
    const skipped = [...result.skipped, ...refused]
    const isRejected = result.outcome === 'unchanged' && refused.length > 0 && !wasWritten(row, skipped)
    return { ...result, outcome: isRejected ? 'rejected' : result.outcome, protectedColumns, skipped }
  })
}

const describeCopies = (copies: number): string =>
  `the joins give ${copies} rows for this key, and only one can be right`

export function toResult(
  key: string,
  result: RowResult | RejectedRow | undefined,
  describeCopies: (copies: number) => string,
): WriteResult {
  if (result === undefined) throw new Error('the statement returned no result for a row')
  if ('error' in result)
    return { ...NO_RESULT, key, outcome: 'rejected', reason: describeServerError(result.error) }
  const { before, after, ownWrites } = result
  const cells = {
    ...NO_RESULT,
    key,
    protectedColumns: result.protected ?? [],
    skipped: result.skipped ?? [],
    ...(result.confirmed && { confirmed: result.confirmed }),
  }
  switch (result.state) {
    case 'written':
      return { ...cells, outcome: 'written', before, after, ...(ownWrites && { ownWrites }) }
    case 'unchanged':
      return { ...cells, outcome: 'unchanged' }
    case 'prevented':
      return { ...cells, outcome: 'rejected', reason: 'a trigger prevented the update' }
    case 'changed':
      return { ...NO_RESULT, key, outcome: 'inputs_changed', protectedColumns: cells.protectedColumns }
    case 'locked':
      return { ...NO_RESULT, key, outcome: 'locked' }
    case 'missing':
      return { ...NO_RESULT, key, outcome: 'row_missing' }
    case 'left':
      return { ...NO_RESULT, key, outcome: 'row_missing', reason: 'it left the source before it was written' }
    case 'repeated':
      return { ...NO_RESULT, key, outcome: 'rejected', reason: describeCopies(result.copies ?? 0) }
  }
}

export const NO_RESULT = {
  reason: null,
  before: null,
  after: null,
  protectedColumns: [],
  skipped: [],
} as const

/** Whether an earlier write has filled another of the row's cells: it is enriched already, and has not failed. */
function wasWritten({ values, lastWritten }: WriteRow, skipped: readonly RefusedCell[]): boolean {
  const columns = new Set(skipped.map(({ column }) => column))
  return Object.keys(lastWritten ?? {}).some((name) => (values[name] ?? null) !== null && !columns.has(name))
}

/**
 * The cells of a rejected unit. Of a group, the cells in the constraint's columns are at fault, and the others are left
 * out with them.
 * @param made the values of its cells, as far as they are known
 */
function toSkippedCells(
  source: Source,
  { columns, error, constraint }: RejectedCells,
  made: Readonly<Record<string, unknown>>,
): RefusedCell[] {
  const outputs = new Map(source.outputs.map((output) => [output.column, output]))
  const broken = new Set([...(constraint?.columns ?? []), error.column])
  const inConstraint = columns.filter((column) => broken.has(outputs.get(column)?.attribute ?? column))
  return columns.map((column): RefusedCell => {
    const value = Object.hasOwn(made, column) ? { value: made[column] } : {}
    if (inConstraint.length > 0 && !inConstraint.includes(column)) {
      const detail = `${inConstraint.join(', ')}: ${describeSkip(toSkipReason({ error, constraint }, false))}`
      return { column, reason: 'group_incomplete', detail, ...value }
    }
    const isTouch = !outputs.has(column)
    const isExpression = isTouch || outputs.get(column)?.mapping.sql !== null
    const { reason, detail } = toSkipReason({ error, constraint }, isExpression)
    return { column, reason: isTouch && reason === 'sql_failed' ? 'touch_failed' : reason, detail, ...value }
  })
}

/** Errors of an expression's own evaluation: data, cardinality, syntax inside a function that it calls. */
const EXPRESSION_CLASSES = new Set(['21', '22', '42'])

const CONSTRAINT_REASONS: Readonly<Record<string, SkipReason>> = {
  '23502': 'not_null',
  '23503': 'foreign_key',
  '23505': 'unique',
  '23514': 'check',
  '23P01': 'exclusion',
}

function toSkipReason(
  { error, constraint }: Pick<RejectedCells, 'error' | 'constraint'>,
  isExpression: boolean,
): { readonly reason: SkipReason; readonly detail: string | null } {
  // A trigger may raise the code of a constraint, and says more with its text.
  const reason = isRaised(error) && !error.constraint ? undefined : CONSTRAINT_REASONS[error.code]
  if (reason === 'foreign_key' && constraint?.target) {
    const { table, columns } = constraint.target
    return { reason, detail: `${table} (${columns.join(', ')}), ${constraint.name}` }
  }
  if (reason !== undefined) {
    const domain = error.type ? `domain ${error.type}` : null
    return { reason, detail: [error.constraint, domain].filter(Boolean).join(', ') || null }
  }
  const isOwn = isExpression && EXPRESSION_CLASSES.has(error.code.slice(0, 2))
  return { reason: isOwn ? 'sql_failed' : 'rejected', detail: describeServerError(error) }
}

/** The values of a row's outputs without an expression, as they were to be written. */
const pickPlainValues = (source: Source, { values }: WriteRow): Record<string, unknown> =>
  Object.fromEntries(
    source.outputs
      .filter(({ column, mapping }) => mapping.sql === null && Object.hasOwn(values, column))
      .map(({ column }) => [column, values[column]]),
  )

/**
 * Reads what the expressions of rejected cells give, because the record's value is not what was to be written. Errors of a
 * constraint only: an expression that fails gives nothing.
 * @returns by the index of each row, the values by column
 */
async function readRejectedValues(
  tx: Db,
  source: Source,
  rows: readonly WriteRow[],
  rejected: ReadonlyMap<number, readonly RejectedCells[]>,
): Promise<ReadonlyMap<number, Readonly<Record<string, unknown>>>> {
  const bySql = new Set(
    source.outputs.filter(({ mapping }) => mapping.sql !== null).map(({ column }) => column),
  )
  const batch = rows.flatMap((row, index) => {
    const columns = (rejected.get(index) ?? [])
      .filter(({ error }) => error.code.startsWith('23'))
      .flatMap((cells) => cells.columns)
    if (!columns.some((column) => bySql.has(column))) return []
    const values = Object.entries(row.values).filter(([column]) => columns.includes(column))
    return [{ ...row, index, values: Object.fromEntries(values), withoutTouches: true }]
  })
  if (batch.length === 0) return new Map()
  const update = writeUpdate(source, true)
  const attempt = await tryRows<{ results: string }>(
    tx,
    rowUpdateStatement(source, update, { preview: true }),
    [batchJson(update.batch, batch)],
  )
  const results = 'rows' in attempt ? attempt.rows.flatMap((row) => readJson(row.results) as object[]) : []
  return new Map(results.map(resultReader(update)).map(({ index, after }) => [index, after ?? {}]))
}
