import type { Fit } from './column-type.ts'
import { quoteList, quoteName } from './quote.ts'
import type { Cell } from './mapped.ts'

/** SQL for a json column as jsonb. */
export function jsonColumn(cell: Pick<Cell, 'attribute' | 'type'>, alias = 't'): string {
  const column = `${alias}.${quoteName(cell.attribute)}`
  return cell.type.fit.kind === 'jsonb' && !cell.type.isDomain ? column : `${column}::jsonb`
}

/** SQL for what a cell holds: the column, or the value at the path inside it. */
export function currentCell(cell: Cell, alias = 't'): string {
  if (cell.path.length > 0) return `(${jsonColumn(cell, alias)} #> ${quoteList(cell.path)})`
  const column = `${alias}.${quoteName(cell.attribute)}`
  return cell.type.isDomain ? `(${column}::${cell.type.cast})` : column
}

/**
 * SQL for a cell as jsonb, NULL where there is nothing. Written so that it is the same in every session: a
 * `timestamptz` in the session's own zone would look changed to the next one.
 */
export const cellJson = (cell: Cell, alias = 't'): string => valueJson(cell, currentCell(cell, alias))

/** The same for a value that is not in the cell yet. */
export function valueJson(cell: Cell, value: string): string {
  if (cell.path.length > 0) return value
  // A `json` column keeps its text: its blanks, its order, a key that stands in it twice.
  if (cell.type.fit.kind === 'json') return `to_jsonb(${value}::text)`
  if (cell.type.fit.kind === 'timestamptz')
    return `to_jsonb((to_jsonb(${value} at time zone 'UTC') #>> '{}') || case when isfinite(${value}) then 'Z' else '' end)`
  // A long number goes as text, because on its way through JavaScript it would be rounded to a double.
  if (cell.type.fit.kind === 'numeric' || (cell.type.fit.kind === 'integer' && cell.type.fit.bits === 64))
    return `(case when length(${value}::text) > 15 then to_jsonb(${value}::text) else to_jsonb(${value}) end)`
  return `to_jsonb(${value})`
}

/** SQL for a value out of the batch's jsonb, cast to what the column holds. */
export function castJson(values: string, key: string, cast: string, fit: Fit): string {
  switch (fit.kind) {
    case 'jsonb':
      return `(${values} -> ${key})`
    case 'json':
      return `(${values} -> ${key})::text::json`
    case 'array':
      return (
        `array(select e from jsonb_array_elements_text(${values} -> ${key}) with ordinality as a(e, o) order by o)` +
        `::${cast}`
      )
    default:
      return `(${values} ->> ${key})::${cast}`
  }
}

/** SQL for whether two values of a cell differ. Types without an equality of their own are compared as text. */
export function differs(value: string, current: string, fit: Fit): string {
  if (fit.kind === 'json' || fit.kind === 'jsonb') return `${value}::jsonb is distinct from ${current}::jsonb`
  if (fit.kind === 'text' || fit.kind === 'other') return `${value}::text is distinct from ${current}::text`
  return `${value} is distinct from ${current}`
}
