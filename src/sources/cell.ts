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

/**
 * The same for a value that is not in the cell yet. Of scalars it is a JSON scalar; of every other type but jsonb the
 * text as Postgres writes it, because JSON keeps neither the bounds of an array nor a row, a range or an hstore.
 */
export function valueJson(cell: Cell, value: string): string {
  if (cell.path.length > 0) return value
  const { fit } = cell.type
  switch (fit.kind) {
    case 'json':
    case 'array':
    case 'bits':
    case 'other':
      return `to_jsonb(${value}::text)`
    case 'timestamptz':
      return `to_jsonb(regexp_replace(to_jsonb(${value} at time zone 'UTC') #>> '{}', '(\\d)( BC)?$', '\\1Z\\2'))`
    // A long number goes as text, because on its way through JavaScript it would be rounded to a double.
    case 'numeric':
      return `(case when length(${value}::text) > 15 then to_jsonb(${value}::text) else to_jsonb(${value}) end)`
    case 'integer':
      if (fit.bits < 64) return `to_jsonb(${value})`
      return `(case when length(${value}::text) > 15 then to_jsonb(${value}::text) else to_jsonb(${value}) end)`
    // JSON numbers know no negative zero.
    case 'float':
      return `(case when ${value}::text = '-0' then to_jsonb('-0'::text) else to_jsonb(${value}) end)`
    default:
      return `to_jsonb(${value})`
  }
}

/** What looks like a time with its zone, and is written in another way where the session's zone is another. */
const ZONED = String.raw`\d[+-]\d\d`

/**
 * SQL for whether a cell holds what was kept of it, in jsonb as `cellJson` gave it. Never NULL.
 * The column's type may have become another since (numeric to text, jsonb to json): then the texts are held against
 * each other.
 * @param current SQL for what the cell holds
 */
export function holdsKept(cell: Cell, kept: string, current = currentCell(cell)): string {
  const isSame = `coalesce(${valueJson(cell, current)}, 'null') = ${kept}`
  if (cell.path.length > 0) return `coalesce(${isSame}, false)`
  const text = `(${kept} #>> '{}')`
  const forms = [isSame, `${current}::text = ${text}`]
  const { cast, fit } = cell.type
  if (fit.kind === 'json') forms.push(`${current}::text = ${kept}::text`)
  if (fit.kind === 'array' || fit.kind === 'other')
    forms.push(`case when ${text} ~ '${ZONED}' then ${current}::text = ${text}::${cast}::text end`)
  // Arrays were kept as JSON once.
  if (fit.kind === 'array')
    forms.push(`case when jsonb_typeof(${kept}) = 'array' then to_jsonb(${current}) = ${kept} end`)
  return `coalesce(${forms.join(' or ')}, false)`
}

/**
 * SQL for the value that was kept of a cell, as the column's base type.
 * @param kept SQL for what was kept, jsonb
 * @param isOldJson SQL for whether a json column was jsonb then, so that a JSON text stands for itself
 */
export function keptValue(cell: Cell, kept: string, isOldJson: string): string {
  const { cast, fit } = cell.type
  switch (fit.kind) {
    case 'jsonb':
      return kept
    case 'json':
      return `(case when ${isOldJson} then ${kept}::text else ${kept} #>> '{}' end)::json`
    case 'array': {
      const elements = castJson(`jsonb_build_object('e', ${kept})`, `'e'`, cast, fit)
      return `case when jsonb_typeof(${kept}) = 'array' then ${elements} else (${kept} #>> '{}')::${cast} end`
    }
    default:
      return `(${kept} #>> '{}')::${cast}`
  }
}

/** SQL for a value out of the batch's jsonb, cast to what the column holds. */
export function castJson(values: string, key: string, cast: string, fit: Fit): string {
  switch (fit.kind) {
    case 'jsonb':
      return `(${values} -> ${key})`
    case 'json':
      return `(${values} -> ${key})::text::json`
    case 'array': {
      const holdsJson = fit.element.kind === 'json' || fit.element.kind === 'jsonb'
      const [elements, element] = holdsJson
        ? ['jsonb_array_elements', `e::text::${fit.element.kind}`]
        : ['jsonb_array_elements_text', 'e']
      return (
        `array(select ${element} from ${elements}(${values} -> ${key}) with ordinality as a(e, o) order by o)` +
        `::${cast}`
      )
    }
    default:
      return `(${values} ->> ${key})::${cast}`
  }
}

/** Postgres has no `jsonb` of a json text in which this escape stands, nor a text. */
const NUL = String.raw`'\u0000'`

/** SQL for whether a json text can be read as jsonb. */
export const isReadable = (json: string): string => `strpos(${json}::text, ${NUL}) = 0`

/** SQL for whether two values of a cell differ. Types without an equality of their own are compared as text. */
export function differs(value: string, current: string, fit: Fit): string {
  const asText = `${value}::text is distinct from ${current}::text`
  switch (fit.kind) {
    case 'jsonb':
      return `${value}::jsonb is distinct from ${current}::jsonb`
    case 'json':
      return (
        `case when ${value} is null or ${current} is null or not (${isReadable(value)} and ${isReadable(current)}) ` +
        `then ${asText} else ${value}::jsonb is distinct from ${current}::jsonb end`
      )
    case 'text':
    case 'bits':
    case 'other':
      return asText
    case 'array':
      return /^(?:text|bits|other|json|jsonb)$/.test(fit.element.kind)
        ? asText
        : `${value} is distinct from ${current}`
    default:
      return `${value} is distinct from ${current}`
  }
}
