import { describeServerError } from '../../util/error-text.ts'
import type { SkipReason } from '../../domain/skipped-cell.ts'
import { type Db, query, tryQuery } from '../db.ts'
import type { Source } from '../source-model.ts'
import { parseExactJson } from '../../domain/json.ts'
import type { BatchRow } from './batch.ts'
import type { RejectedCells } from './execute.ts'
import { resultReader } from './result-columns.ts'
import type { RefusedCell } from './result-sql.ts'
import { writeStatement } from './statement.ts'

/**
 * The cells of a rejected unit. Of a group, the cells in the constraint's columns are at fault, and the others are left
 * out with them.
 * @param made the values of its cells, as far as they are known
 */
export function toSkippedCells(
  source: Source,
  { columns, isTouch, error, constraint }: RejectedCells,
  made: Readonly<Record<string, unknown>>,
): RefusedCell[] {
  const outputs = new Map(source.outputs.map((output) => [output.column, output]))
  const broken = new Set([...(constraint?.columns ?? []), error.column])
  const inConstraint = columns.filter((column) => broken.has(outputs.get(column)?.attribute ?? column))
  return columns.map((column): RefusedCell => {
    const value = Object.hasOwn(made, column) ? { value: made[column] } : {}
    if (inConstraint.length > 0 && !inConstraint.includes(column))
      return { column, reason: 'group_incomplete', detail: null, ...value }
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
  const reason = CONSTRAINT_REASONS[error.code]
  if (reason === 'foreign_key' && constraint?.target)
    return { reason, detail: `${constraint.target}, ${constraint.name}` }
  if (reason !== undefined) {
    const domain = error.type ? `domain ${error.type}` : null
    return { reason, detail: [error.constraint, domain].filter(Boolean).join(', ') || null }
  }
  const isOwn = isExpression && EXPRESSION_CLASSES.has(error.code.slice(0, 2))
  return { reason: isOwn ? 'sql_failed' : 'rejected', detail: describeServerError(error) }
}

/** The values of a row's outputs without an expression, as they were to be written. */
export const pickPlainValues = (source: Source, { values }: BatchRow): Record<string, unknown> =>
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
  rows: readonly BatchRow[],
  rejected: ReadonlyMap<number, readonly RejectedCells[]>,
): Promise<ReadonlyMap<number, Readonly<Record<string, unknown>>>> {
  const bySql = new Set(
    source.outputs.filter(({ mapping }) => mapping.sql !== null).map(({ column }) => column),
  )
  const batch = rows.flatMap((row) => {
    const columns = (rejected.get(row.index) ?? [])
      .filter(({ error }) => error.code.startsWith('23'))
      .flatMap((cells) => cells.columns)
    if (!columns.some((column) => bySql.has(column))) return []
    const values = Object.entries(row.values).filter(([column]) => columns.includes(column))
    return [
      { ...row, values: Object.fromEntries(values), without: source.touches.map(({ column }) => column) },
    ]
  })
  if (batch.length === 0) return new Map()
  const parameters = [JSON.stringify(batch)]
  const statement = writeStatement(source, { preview: true, apart: true })
  if ((await tryQuery(tx, statement, parameters)) !== null) return new Map()
  const [row] = await query<{ results: string }>(tx, statement, parameters)
  const results = row === undefined ? [] : (parseExactJson(row.results) as object[]).map(resultReader(source))
  return new Map(results.map(({ index, after }) => [index, after ?? {}]))
}
