import {
  castJsonSql,
  currentCellSql,
  differsSql,
  holdsLastWrittenSql,
  isBlankSql,
  isBlankValueSql,
  isReachableSql,
} from '../cell.ts'
import { wideCast } from '../column-type.ts'
import { renderExpression } from '../expression.ts'
import type { MappedOutput, MappedTouch } from '../source-model.ts'
import { quoteLiteral } from '../quote.ts'

/*
 * What is decided for one cell, step by step, each an SQL expression over the columns of the steps before it:
 * `~given` (the batch brings a value) and `~open` (the policy allows it) → `~ready` (both) → `~made`, the value
 * → `~new`, the value fitted → `~set`, whether it is written. The batch's own columns are `~v`, `~w`, `~c`. All names
 * begin with a tilde, so that a column that the configuration names without its table is never ambiguous.
 */

/** Whether the batch brings a value for the cell. */
export const hasValueSql = ({ output }: IndexedOutput): string =>
  `coalesce(jsonb_typeof("~v" -> ${quoteLiteral(output.column)}), 'null') <> 'null'`

/** Whether the policy opens the cell as it stands now. */
export function isWritableSql({ output }: IndexedOutput): string {
  const parents = isReachableSql(output)
  switch (output.mapping.policy) {
    case 'always':
      return parents
    case 'blank':
      return `(${isBlankSql(output)} and ${parents})`
    case 'tracked': {
      const isOurs = holdsLastWrittenSql(output, `("~w" -> ${quoteLiteral(output.column)})`)
      return `((${isBlankSql(output)} or ${isOurs}) and ${parents})`
    }
  }
}

/** The new value. Made only where it may be used, because to make it may fail. */
export function castValueSql({ output, n }: IndexedOutput, all: readonly IndexedOutput[]): string {
  const group = outputsInGroup(output, all)
  // A protected member of a group must be made as well: if it is what the cell holds already, the group is whole.
  const when = group.length > 0 ? group.map((one) => `"~given${one.n}"`) : [`"~ready${n}"`]
  return `case when "~same" and ${when.join(' and ')} then ${typedValueSql(output)} end`
}

function typedValueSql(output: MappedOutput): string {
  const name = quoteLiteral(output.column)
  const { fit, mapping, type } = output
  const cast = output.path.length > 0 ? type.cast : wideCast(type)
  if (mapping.sql === null) return castJsonSql('"~v"', name, cast, fit)
  const text = `("~v" ->> ${name})`
  const { sql } = renderExpression(mapping.sql, {
    value: output.value === 'number' ? `(${text}::numeric)` : text,
    json: `("~v" -> ${name})`,
    confidence: '"~c"',
  })
  if (fit.kind === 'jsonb') return `to_jsonb((select (${sql}\n)))`
  if (fit.kind === 'json') return `to_json((select (${sql}\n)))`
  return `(${sql}\n)::${cast}`
}

/** What is too long for its column is left out or cut here, because an explicit cast would cut it without a word. */
export function fitValueSql({ output, n }: IndexedOutput): string {
  const value = `"~made${n}"`
  const { fit, mapping } = output
  const bound = lengthBound(output, value)
  const cast = bound?.cast ?? ''
  const filled =
    mapping.sql === null
      ? `${value}${cast}`
      : `case when not ${isBlankValueSql(value, fit)} then ${value}${cast} end`
  if (bound === null) return filled
  return `case when ${bound.isTooLong} then ${mapping.tooLong === 'truncate' ? bound.cut : 'null'} else ${filled} end`
}

interface LengthBound {
  readonly isTooLong: string
  /** What is left of a value that is too long. */
  readonly cut: string
  /** To the column's type, where the value was made as a wider one. */
  readonly cast: string
}

/** How long a value may be; null where there is no bound, or where the type's own cast refuses what is too long. */
function lengthBound({ fit, type }: MappedOutput, value: string): LengthBound | null {
  if (fit.kind === 'bits') {
    const cut = `${value}::${type.cast}`
    if (fit.length === null) return { isTooLong: 'false', cut, cast: `::${type.cast}` }
    // The cast of what is too short would fill it up with zeros.
    const whole = fit.exact ? `case when length(${value}) > ${fit.length} then ${cut} end` : cut
    return {
      isTooLong: `length(${value}) ${fit.exact ? '<>' : '>'} ${fit.length}`,
      cut: whole,
      cast: `::${type.cast}`,
    }
  }
  if (fit.kind !== 'text') return null
  if (fit.maxBytes !== undefined) {
    // `"char"` would keep the first byte of a letter that has several.
    const cut = fit.maxBytes > 1 ? value : `(case when ascii(${value}) < 128 then ${value} end)`
    const isTooLong = `octet_length(${value}) > ${fit.maxBytes}`
    return { isTooLong, cut: `${cut}::${type.cast}`, cast: `::${type.cast}` }
  }
  if (fit.maxLength === null) return null
  return {
    isTooLong: `char_length(${value}::text) > ${fit.maxLength}`,
    cut: `left(${value}::text, ${fit.maxLength})::${type.cast}`,
    cast: '',
  }
}

/** Whether the cell is written. Of a group, all members must be ready, or hold already what they would be given. */
export function isChangedSql({ output, n }: IndexedOutput, all: readonly IndexedOutput[]): string {
  const group = outputsInGroup(output, all)
    .filter((one) => one.n !== n)
    .map((one) => `${hasNewValueSql(one)} and ("~ready${one.n}" or not ${isDifferentSql(one)})`)
  const whole = [`"~ready${n}"`, hasNewValueSql({ output, n }), ...group, isDifferentSql({ output, n })]
  return `coalesce(${whole.join(' and ')}, false)`
}

/** Whether there is a new value. A row value `(a,)` of which one field is NULL is neither null nor not null. */
export const hasNewValueSql = ({ output, n }: IndexedOutput): string =>
  output.fit.kind === 'other' ? `"~new${n}"::text is not null` : `"~new${n}" is not null`

const isDifferentSql = ({ output, n }: IndexedOutput): string =>
  differsSql(`"~new${n}"`, currentCellSql(output), output.fit)

/** Whether a touched column is set: beside an output, and only where it can be reached. */
export const isTouchedSql = (touch: MappedTouch): string => `("~changes" and ${isReachableSql(touch)})`

/** A touched column's value, made only in rows that are written. */
export function touchValueSql(touch: MappedTouch): string {
  const { sql } = renderExpression(touch.expression, { confidence: '"~c"' })
  const value = touch.path.length > 0 ? `to_jsonb((select (${sql}\n)))` : `(${sql}\n)`
  return `case when "~changes" then ${value} end`
}

/** An output and its number in the statement, which names what is computed for it: `~given0`, `~new0`, `~set0`. */
export interface IndexedOutput {
  readonly output: MappedOutput
  readonly n: number
}

/** All outputs of an output's group, itself among them; none when it stands alone. */
export const outputsInGroup = (
  output: MappedOutput,
  all: readonly IndexedOutput[],
): readonly IndexedOutput[] =>
  output.mapping.group === null
    ? []
    : all.filter((other) => other.output.mapping.group === output.mapping.group)
