import { isBlankValueSql, valueJsonSql } from '../cell.ts'
import { quoteLiteral } from '../quote.ts'
import {
  castColumn,
  hasNewValueSql,
  type IndexedOutput,
  isGroupIncompleteSql,
  isReadySql,
} from './cell-sql.ts'
import { whereAnySql } from './row-update.ts'
import { duplicateReasonSql } from './unique-sql.ts'

/**
 * SQL for the cells whose own expression gave no value, a text that is too long, or a duplicate where `unique` is set, and
 * for those left out with another cell of their group.
 */
export function skippedCellsSql(cells: readonly IndexedOutput[]): string {
  const parts = cells.flatMap((cell) => {
    const { output, index } = cell
    const duplicate = duplicateReasonSql(cell, cells)
    const incomplete = isGroupIncompleteSql(cell, cells)
    const found = [
      duplicate,
      incomplete === null ? null : { when: incomplete, reason: `'group_incomplete'`, detail: 'null' },
    ].flatMap((one) => (one === null ? [] : [skippedItemSql(cell, `"~new${index}"`, one)]))
    if (output.mapping.sql === null && output.fit.kind !== 'text' && output.fit.kind !== 'bits') return found
    const cast = castColumn(cell)
    const isNothing = `${cast} is null or ${isBlankValueSql(cast, output.fit)}`
    const isShort =
      output.fit.kind === 'bits' && output.fit.exact ? `length(${cast}) < ${output.fit.length}` : 'false'
    const reason = `case when ${isNothing} then 'no_value' when ${isShort} then 'not_a_bit_string' else 'too_long' end`
    const when = `"~same" and ${isReadySql(cell)} and not (${hasNewValueSql(cell)})`
    const value = `case when not (${isNothing}) then ${cast} end`
    return [...found, skippedItemSql(cell, value, { when, reason, detail: 'null' })]
  })
  return whereAnySql(
    parts.map(({ when }) => when),
    parts.map(({ array }) => array).join(' || '),
  )
}

/** SQL for an array with a skipped cell, or an empty one, and when. The value of an expression is what only the database knows. */
function skippedItemSql(
  { output }: IndexedOutput,
  value: string,
  { when, reason, detail }: { readonly when: string; readonly reason: string; readonly detail: string },
): { readonly when: string; readonly array: string } {
  const made = output.mapping.sql === null ? '' : `, 'value', ${valueJsonSql(output, `(${value})`)}`
  const item = `jsonb_build_object('column', ${quoteLiteral(output.column)}, 'reason', ${reason}, 'detail', ${detail}${made})`
  return { when: `(${when})`, array: `case when ${when} then jsonb_build_array(${item}) else '[]' end` }
}
