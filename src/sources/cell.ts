import { parseExactJson } from '../domain/json.ts'
import type { Fit } from './catalogue.ts'
import { quoteList, quoteLiteral, quoteName } from './db.ts'
import type { MappedCell, MappedOutput } from './source-model.ts'

/** SQL for a json column as jsonb. */
export function jsonColumnSql(cell: Pick<MappedCell, 'attribute' | 'type'>, alias = 't'): string {
  const column = `${alias}.${quoteName(cell.attribute)}`
  return cell.type.fit.kind === 'jsonb' && !cell.type.isDomain ? column : `${column}::jsonb`
}

/** SQL for a cell's current value: the column, or the value at the path inside it. */
export function currentCellSql(cell: MappedCell, alias = 't'): string {
  if (cell.path.length > 0) return `(${jsonColumnSql(cell, alias)} #> ${quoteList(cell.path)})`
  const column = `${alias}.${quoteName(cell.attribute)}`
  return cell.type.isDomain ? `(${column}::${cell.type.cast})` : column
}

/**
 * SQL for a cell as jsonb; NULL if it holds nothing. The same in every session: a `timestamptz` in the session's own zone
 * would look changed to the next session.
 */
export const cellJsonSql = (cell: MappedCell, alias = 't'): string =>
  valueJsonSql(cell, currentCellSql(cell, alias))

/**
 * SQL for a value of a cell as jsonb. Scalars become JSON scalars; every other type but jsonb becomes text as Postgres
 * writes it, because JSON keeps neither the bounds of an array nor a row, a range or an hstore.
 */
function valueJsonSql(cell: MappedCell, value: string): string {
  if (cell.path.length > 0) return value
  const { fit } = cell.type
  switch (fit.kind) {
    case 'json':
    case 'array':
    case 'other':
      return `to_jsonb(${value}::text)`
    // The second expression is for all times, also BC and infinity, and slower.
    case 'timestamptz': {
      const text = `(to_jsonb(${value} at time zone 'UTC') #>> '{}')`
      return `(case when isfinite(${value}) and ${value} >= '0001-01-01 00:00:00+00' then to_jsonb(${text} || 'Z')
                    else to_jsonb(regexp_replace(${text}, '(\\d)( BC)?$', '\\1Z\\2')) end)`
    }
    // A long number becomes text, because JavaScript would round it to a double.
    case 'numeric':
      return `(case when length(${value}::text) > 15 then to_jsonb(${value}::text) else to_jsonb(${value}) end)`
    case 'integer':
      if (fit.bits < 64) return `to_jsonb(${value})`
      return `(case when length(${value}::text) > 15 then to_jsonb(${value}::text) else to_jsonb(${value}) end)`
    // JSON has no negative zero.
    case 'float':
      return `(case when ${value}::text = '-0' then to_jsonb('-0'::text) else to_jsonb(${value}) end)`
    default:
      return `to_jsonb(${value})`
  }
}

/** SQL for a cell in the form that `readCellText` reads, as its column's own type or as text: cheaper than JSON. */
export const cellTextSql = (cell: MappedCell, alias = 't'): string =>
  valueTextSql(cell, currentCellSql(cell, alias))

/** SQL for a value of a cell in that form. */
export function valueTextSql(cell: MappedCell, value: string): string {
  if (cell.path.length > 0) return `${value}::text`
  switch (cell.type.fit.kind) {
    // As its own type: a cast of `char(n)` to text takes its spaces away.
    case 'text':
      return value
    case 'date':
    case 'timestamp':
      return `to_json(${value})::text`
    case 'timestamptz':
      return `to_json(${value} at time zone 'UTC')::text`
    // Their texts are no JSON numbers: `1e+20`.
    case 'float':
      return `${valueJsonSql(cell, value)}::text`
    default:
      return `${value}::text`
  }
}

/** Reads what `cellTextSql` gives, as the value that `cellJsonSql` has in JSON. */
export function readCellText({ path, type }: Pick<MappedCell, 'path' | 'type'>, text: string): unknown {
  if (path.length > 0) return parseExactJson(text)
  switch (type.fit.kind) {
    case 'integer':
    case 'numeric':
      return text.length > 15 || /^-?[IN]/.test(text) ? text : parseExactJson(text)
    case 'timestamptz':
      return (JSON.parse(text) as string).replace(/(\d)( BC)?$/, '$1Z$2')
    case 'boolean':
    case 'date':
    case 'float':
    case 'jsonb':
    case 'timestamp':
      return parseExactJson(text)
    default:
      return text
  }
}

/** Matches a time with its zone, which is written differently in a session with another time zone. */
const ZONED_TIME = String.raw`\d[+-]\d\d`

/**
 * SQL: whether a cell still holds what Fillrate last wrote, stored as `cellJsonSql` gave it. Never NULL.
 * If the column's type has changed since (numeric to text, jsonb to json), compares the texts.
 * @param stored SQL for the stored value, jsonb
 * @param current SQL for what the cell holds
 */
export function holdsLastWrittenSql(
  cell: MappedCell,
  stored: string,
  current = currentCellSql(cell),
): string {
  const isSame = `coalesce(${valueJsonSql(cell, current)}, 'null') = ${stored}`
  if (cell.path.length > 0) return `coalesce(${isSame}, false)`
  const text = `(${stored} #>> '{}')`
  const forms = [isSame, `${current}::text = ${text}`]
  const { cast, fit } = cell.type
  if (fit.kind === 'json') forms.push(`${current}::text = ${stored}::text`)
  if (fit.kind === 'array' || fit.kind === 'other')
    forms.push(`case when ${text} ~ '${ZONED_TIME}' then ${current}::text = ${text}::${cast}::text end`)
  return `coalesce(${forms.join(' or ')}, false)`
}

/**
 * SQL for a cell's stored value, as the column's base type.
 * @param stored SQL for the stored value, jsonb
 * @param isOldJson SQL: whether a json column was jsonb then, so that a JSON text is the value itself
 */
export function restoredValueSql(cell: MappedCell, stored: string, isOldJson: string): string {
  const { cast, fit } = cell.type
  switch (fit.kind) {
    case 'jsonb':
      return stored
    case 'json':
      return `(case when ${isOldJson} then ${stored}::text else ${stored} #>> '{}' end)::json`
    default:
      return `(${stored} #>> '{}')::${cast}`
  }
}

/** SQL for a jsonb value, cast to the column's type. */
export function castJsonSql(value: string, cast: string, fit: Fit): string {
  switch (fit.kind) {
    case 'jsonb':
      return value
    case 'json':
      return `${value}::text::json`
    case 'array': {
      const holdsJson = fit.element.kind === 'json' || fit.element.kind === 'jsonb'
      const [elements, element] = holdsJson
        ? ['jsonb_array_elements', `e::text::${fit.element.kind}`]
        : ['jsonb_array_elements_text', 'e']
      return (
        `array(select ${element} from ${elements}(${value}) with ordinality as a(e, o) order by o)` +
        `::${cast}`
      )
    }
    default:
      return `(${value} #>> '{}')::${cast}`
  }
}

/** A json text with such an escape, of NUL or of half a character, cannot be converted to jsonb or text. */
const UNREADABLE_ESCAPE = String.raw`'\\u(0000|[dD][89a-fA-F])'`

/** SQL: whether a json text can be converted to jsonb. */
const isReadableJsonSql = (json: string): string => `${json}::text !~ ${UNREADABLE_ESCAPE}`

/**
 * `is distinct from` with the operator of Postgres itself. An `=` that another role has created for just this enum, domain or
 * array would be preferred to the one for all of them, and would run with the rights of Fillrate's role.
 */
const differsByOwnOperatorSql = (value: string, current: string): string =>
  `not coalesce((${value}) operator(pg_catalog.=) (${current}), ${value} is null and ${current} is null)`

/** SQL: whether two values of a cell differ. Types without an equality operator are compared as text. */
export function differsSql(value: string, current: string, fit: Fit): string {
  const asText = `${value}::text is distinct from ${current}::text`
  switch (fit.kind) {
    case 'jsonb':
      return `${value}::jsonb is distinct from ${current}::jsonb`
    case 'json':
      return (
        `case when ${value} is null or ${current} is null or not (${isReadableJsonSql(value)} and ${isReadableJsonSql(current)}) ` +
        `then ${asText} else ${value}::jsonb is distinct from ${current}::jsonb end`
      )
    case 'text':
    case 'other':
      return asText
    case 'array':
      return /^(?:text|other|json|jsonb)$/.test(fit.element.kind)
        ? asText
        : differsByOwnOperatorSql(value, current)
    default:
      return differsByOwnOperatorSql(value, current)
  }
}

/** A text that begins with another ASCII character is not blank: a comparison of bytes saves the trim. */
const isMaybeBlankSql = (text: string): string =>
  `(${text} collate "C" < '!' or ${text} collate "C" >= '\u007f')`

const isBlankTextSql = (text: string): string => `btrim(${text}, ${quoteLiteral(BLANK_CHARACTERS)}) = ''`

/**
 * SQL: whether an output's cell is blank: NULL, empty or white-space text, an empty array; inside json also JSON null or
 * a missing parent. `0`, `false`, `N/A` and `{}` are values. Never NULL itself.
 */
export function isBlankSql(output: MappedOutput, alias = 't'): string {
  const cell = currentCellSql(output, alias)
  return isBlankValueSql(cell, output.fit)
}

/** SQL: whether a value of this fit is blank, typed as its column or as its cast. */
export function isBlankValueSql(value: string, fit: Fit): string {
  switch (fit.kind) {
    case 'text': {
      const text = `${value}::text`
      return `(${value} is null or (${isMaybeBlankSql(text)} and ${isBlankTextSql(text)}))`
    }
    case 'enum':
    case 'other':
      return `(${value} is null or ${isBlankTextSql(`${value}::text`)})`
    case 'array':
      return `(${value} is null or cardinality(${value}) = 0)`
    // Compared as json where it cannot be jsonb: Postgres converts a NUL escape neither to jsonb nor to text.
    case 'json':
      return (
        `(${value} is null or case json_typeof(${value}) when 'null' then true ` +
        `when 'array' then json_array_length(${value}) = 0 ` +
        `when 'string' then ${isReadableJsonSql(value)} and ${isBlankTextSql(`(case when ${isReadableJsonSql(value)} then ${value} end #>> '{}')`)} ` +
        `else false end)`
      )
    case 'jsonb':
      return (
        `(${value} is null or ${value}::jsonb in ('null', '[]') ` +
        `or (jsonb_typeof(${value}::jsonb) = 'string' and ${isBlankTextSql(`(${value}::jsonb #>> '{}')`)}))`
      )
    default:
      return `(${value} is null)`
  }
}

/**
 * SQL: whether the cell can be reached: every existing parent is an object or JSON null. To make room for the key in a
 * text, a number or an array would destroy it, whatever the policy.
 */
export function isReachableSql(cell: Pick<MappedOutput, 'attribute' | 'path' | 'type'>, alias = 't'): string {
  if (cell.path.length === 0) return 'true'
  const column = jsonColumnSql(cell, alias)
  const parents = cell.path.map((_, depth) => `${column} #> ${quoteList(cell.path.slice(0, depth))}`)
  return `(${parents.map((parent) => `coalesce(jsonb_typeof(${parent}), 'null') in ('object', 'null')`).join(' and ')})`
}

/**
 * Characters that show nothing: Unicode's White_Space, and those without width (zero-width space, joiners, word joiner,
 * byte order mark, Mongolian vowel separator). Postgres's own `\s` includes them in some locales only.
 */
export const BLANK_CHARACTERS =
  '\t\n\u000b\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a' +
  '\u2028\u2029\u202f\u205f\u3000\u180e\u200b\u200c\u200d\u2060\ufeff'
