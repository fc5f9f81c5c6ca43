import { describeServerError } from '../../util/error-text.ts'
import { isRaised } from '../../util/sqlstates.ts'
import { describeSkip, type SkipReason } from '../../domain/skipped-cell.ts'
import { type Db, tryRows } from '../db.ts'
import type { Source } from '../source-model.ts'
import { batchJson } from './batch.ts'
import type { RejectedCells } from './execute.ts'
import { readJson, type RefusedCell, resultReader } from './result-columns.ts'
import { rowUpdateStatement } from './statement.ts'
import { type WriteRow, writeUpdate } from './write-update.ts'

/**
 * The cells of a rejected unit. Of a group, the cells in the constraint's columns are at fault, and the others are left
 * out with them.
 * @param made the values of its cells, as far as they are known
 */
export function toSkippedCells(
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
export const pickPlainValues = (source: Source, { values }: WriteRow): Record<string, unknown> =>
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
export async function readRejectedValues(
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
