import type { Fit } from './column-type.ts'
import { BLANKS } from './blanks.ts'
import { currentCell, isReadable, jsonColumn } from './cell.ts'
import { quoteLiteral, quoteList } from './quote.ts'
import type { Output } from './mapped.ts'

const blankText = (text: string): string => `btrim(${text}, ${quoteLiteral(BLANKS)}) = ''`

/**
 * SQL for whether an output's cell is blank: NULL, an empty text or one of white space, an empty array; inside
 * json also JSON null or a missing parent. `0`, `false`, `N/A` and `{}` are values. Never NULL itself.
 */
export function isBlank(output: Output, alias = 't'): string {
  const cell = currentCell(output, alias)
  return blankValue(cell, output.fit, output.mapping.as === 'json')
}

/** SQL for whether a value of this fit, typed as its column or as what it was cast to, shows nothing. */
export function blankValue(value: string, fit: Fit, holdsJson = false): string {
  switch (fit.kind) {
    case 'text': {
      const isBlankText = `(${value} is null or ${blankText(`${value}::text`)})`
      if (!holdsJson) return isBlankText
      return `(${isBlankText} or btrim(${value}::text, ${quoteLiteral(BLANKS)}) in ('[]', 'null'))`
    }
    case 'enum':
    case 'bits':
    case 'other':
      return `(${value} is null or ${blankText(`${value}::text`)})`
    case 'array':
      return `(${value} is null or cardinality(${value}) = 0)`
    // As text where it can't be jsonb: Postgres makes neither jsonb nor text of a NUL in it.
    case 'json':
      return (
        `(${value} is null or case json_typeof(${value}) when 'null' then true ` +
        `when 'array' then json_array_length(${value}) = 0 ` +
        `when 'string' then ${isReadable(value)} and ${blankText(`(case when ${isReadable(value)} then ${value} end #>> '{}')`)} ` +
        `else false end)`
      )
    case 'jsonb':
      return (
        `(${value} is null or ${value}::jsonb in ('null', '[]') ` +
        `or (jsonb_typeof(${value}::jsonb) = 'string' and ${blankText(`(${value}::jsonb #>> '{}')`)}))`
      )
    default:
      return `(${value} is null)`
  }
}

/**
 * SQL for whether the cell can be reached: every parent that is there is an object or JSON null. Where one is a
 * text, a number or an array, to make room for the key would destroy it, whatever the policy.
 */
export function isReachable(cell: Pick<Output, 'attribute' | 'path' | 'type'>, alias = 't'): string {
  if (cell.path.length === 0) return 'true'
  const column = jsonColumn(cell, alias)
  const parents = cell.path.map((_, depth) => `${column} #> ${quoteList(cell.path.slice(0, depth))}`)
  return `(${parents.map((parent) => `coalesce(jsonb_typeof(${parent}), 'null') in ('object', 'null')`).join(' and ')})`
}
