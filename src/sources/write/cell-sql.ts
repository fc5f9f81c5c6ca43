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
import { blankValueSql, isEarlierSql } from '../earlier-values.ts'
import { renderExpression } from '../expression.ts'
import { quoteLiteral } from '../quote.ts'
import type { MappedOutput, MappedTouch, Source } from '../source-model.ts'

/*
 * What is decided for one cell, step by step, each an SQL expression over the columns of the steps before it:
 * `~writable`, whether the policy allows it → `~cast`, the value cast to the column's type → `~new`, the value fitted to
 * its length → `~changed`, whether it is written, and `~blanked`, whether with a blank. The batch's own columns are `~value`, `~last written` and `~confidence`. All
 * names begin with a tilde, so that a column that the configuration names without its table is never ambiguous.
 */

/**
 * Whether the values of an output are sent as jsonb: where the database makes something else of them than a cast of their
 * text. An expression may use them as both.
 */
export const isSentAsJson = ({ mapping, fit }: MappedOutput): boolean =>
  mapping.sql !== null || fit.kind === 'json' || fit.kind === 'jsonb' || fit.kind === 'array'

/** SQL: whether the batch has a value for the cell. */
const hasValueSql = ({ index }: IndexedOutput): string => `"~value${index}" is not null`

/** SQL: whether the batch has a value for the cell, and the policy allows it. */
export const isReadySql = (cell: IndexedOutput): string =>
  `(${hasValueSql(cell)} and "~writable${cell.index}")`

/** SQL: whether the policy allows writing the cell as it is now. */
export function isWritableSql({ output }: IndexedOutput): string {
  const parents = isReachableSql(output)
  switch (output.mapping.policy) {
    case 'always':
      return parents
    case 'blank':
      return `((${isBlankSql(output)} or ${isEarlierSql(output)}) and ${parents})`
    case 'tracked': {
      const isOurs = holdsLastWrittenSql(output, `("~last written" -> ${quoteLiteral(output.column)})`)
      return `((${isBlankSql(output)} or ${isOurs} or ${isEarlierSql(output)}) and ${parents})`
    }
  }
}

/** SQL for the new value. Evaluated only where it may be used, because it may fail. */
export function castValueSql({ output, index }: IndexedOutput): string {
  // A protected member of a group is evaluated too: if the cell holds that value already, it does not keep the group.
  const isInGroup = output.mapping.group !== null
  const when = isInGroup ? hasValueSql({ output, index }) : isReadySql({ output, index })
  return `case when "~same" and ${when} then ${typedValueSql(output, `"~value${index}"`)} end`
}

function typedValueSql(output: MappedOutput, sent: string): string {
  const { fit, mapping, type } = output
  const cast = output.path.length > 0 ? type.cast : wideCast(type)
  if (!isSentAsJson(output)) return `${sent}::${cast}`
  if (mapping.sql === null) return castJsonSql(sent, cast, fit)
  const text = `(${sent} #>> '{}')`
  const { sql } = renderExpression(mapping.sql, {
    value: output.valueType === 'number' ? `(${text}::numeric)` : text,
    json: sent,
    confidence: '"~confidence"',
  })
  if (fit.kind === 'jsonb') return `to_jsonb((select (${sql}\n)))`
  if (fit.kind === 'json') return `to_json((select (${sql}\n)))`
  return `(${sql}\n)::${cast}`
}

/** Whether a cast value is fitted as it is: most are, and then it has the name of a fitted one at once. */
export const isFittedByCast = ({ output }: IndexedOutput): boolean =>
  output.mapping.sql === null && lengthBound(output, '') === null

/** The column with a value that is cast, and not yet fitted. */
export const castColumn = (cell: IndexedOutput): string =>
  `"~${isFittedByCast(cell) ? 'new' : 'cast'}${cell.index}"`

/** SQL for a value fitted to its column's length: what is too long is dropped here, because a cast truncates silently. */
export function fitValueSql({ output, index }: IndexedOutput): string {
  const value = `"~cast${index}"`
  const { fit, mapping } = output
  const bound = lengthBound(output, value)
  const cast = bound?.cast ?? ''
  const filled =
    mapping.sql === null
      ? `${value}${cast}`
      : `case when not ${isBlankValueSql(value, fit)} then ${value}${cast} end`
  if (bound === null) return filled
  return `case when ${bound.isTooLong} then null else ${filled} end`
}

interface LengthBound {
  readonly isTooLong: string
  /** Casts to the column's type, where the value was made as a wider one. */
  readonly cast: string
}

/** The bound of a value's length; null if there is none, or if the type's own cast rejects what is too long. */
function lengthBound({ fit, type }: MappedOutput, value: string): LengthBound | null {
  if (fit.kind === 'bits') {
    // The cast of a value that is too short would pad it with zeros.
    const isTooLong =
      fit.length === null ? 'false' : `length(${value}) ${fit.exact ? '<>' : '>'} ${fit.length}`
    return { isTooLong, cast: `::${type.cast}` }
  }
  if (fit.kind !== 'text') return null
  if (fit.maxBytes !== undefined)
    return { isTooLong: `octet_length(${value}) > ${fit.maxBytes}`, cast: `::${type.cast}` }
  if (fit.maxLength === null) return null
  return { isTooLong: `char_length(${value}::text) > ${fit.maxLength}`, cast: '' }
}

/** SQL: whether the cell is written, with a value of the record or with a blank. */
export const isChangedSql = (
  cell: IndexedOutput,
  all: readonly IndexedOutput[],
  blank: BlankOptions,
): string => `(${isFilledSql(cell, all)} or ${losesEarlierSql(cell, blank)})`

/** SQL: whether it is written with a blank: it holds what was written for earlier inputs, and gets no value of the record. */
export const isBlankedSql = (
  cell: IndexedOutput,
  all: readonly IndexedOutput[],
  blank: BlankOptions,
): string => `(${losesEarlierSql(cell, blank)} and not ${isFilledSql(cell, all)})`

interface BlankOptions {
  readonly source: Source
  /** The batch says of which cells. */
  readonly bisecting: boolean
}

const losesEarlierSql = (cell: IndexedOutput, { source, bisecting }: BlankOptions): string => {
  if (blankValueSql(source, cell.output) === null) return 'false'
  const isEarlier = `(${isEarlierSql(cell.output)} and not ${isConfirmedSql(cell)})`
  return bisecting ? `("~blanking${cell.index}" is not null and ${isEarlier})` : isEarlier
}

/**
 * SQL: whether a value of the record is written. Of its group, a member with a value must be ready or hold it already, and one that the record
 * lacks must not hold what the policy protects.
 */
function isFilledSql({ output, index }: IndexedOutput, all: readonly IndexedOutput[]): string {
  return `coalesce(${[...alone({ output, index }), ...groupConditions({ output, index }, all)].join(' and ')}, false)`
}

/** SQL: whether only another cell of its group keeps the cell from being written. Null without such a cell. */
export function isGroupIncompleteSql(cell: IndexedOutput, all: readonly IndexedOutput[]): string | null {
  const group = groupConditions(cell, all)
  if (group.length === 0) return null
  return `coalesce(${alone(cell).join(' and ')}, false) and not coalesce(${group.join(' and ')}, false)`
}

/** SQL for the cell that keeps another one of its group from being written, and why. */
export const groupObstacleSql = (cell: IndexedOutput, all: readonly IndexedOutput[]): string =>
  `case ${otherMembers(cell, all)
    .map((other) => {
      const { column } = other.output
      const isMisfit = `${hasValueSql(other)} and not ${hasNewValueSql(other)}`
      const cause = `case when ${isMisfit} then ${quoteLiteral(`${column} gets no value that fits`)} else ${quoteLiteral(`${column} holds another value`)} end`
      return `when not coalesce(${memberConditionSql(other)}, false) then ${cause}`
    })
    .join(' ')} end`

/** SQL: what must hold for the cell itself. */
const alone = (cell: IndexedOutput): readonly string[] => [
  isReadySql(cell),
  hasNewValueSql(cell),
  isDifferentSql(cell),
]

/** SQL: what must hold for the other cells of its group. */
const groupConditions = (cell: IndexedOutput, all: readonly IndexedOutput[]): readonly string[] =>
  otherMembers(cell, all).map(memberConditionSql)

const memberConditionSql = (member: IndexedOutput): string =>
  `(case when ${hasValueSql(member)} then ${hasNewValueSql(member)} and (${isReadySql(member)} or not ${isDifferentSql(member)}) else "~writable${member.index}" end)`

/** SQL: whether there is a new value. A composite `(a,)` with one NULL field is neither null nor not null. */
export const hasNewValueSql = ({ output, index }: IndexedOutput): string =>
  output.fit.kind === 'other' ? `"~new${index}"::text is not null` : `"~new${index}" is not null`

const isDifferentSql = ({ output, index }: IndexedOutput): string =>
  differsSql(`"~new${index}"`, currentCellSql(output), output.fit)

/** SQL: whether what was written for earlier inputs is also the value of the new record: it is not written, and is one for the present inputs. */
export const isConfirmedSql = (cell: IndexedOutput): string =>
  `(${hasValueSql(cell)} and ${hasNewValueSql(cell)} and ${isEarlierSql(cell.output)} and not ${isDifferentSql(cell)})`

/** SQL for a touched column's value, evaluated only where it is set: together with an output. */
export function touchValueSql(touch: MappedTouch, index: number): string {
  const { sql } = renderExpression(touch.expression, { confidence: '"~confidence"' })
  const value = touch.path.length > 0 ? `to_jsonb((select (${sql}\n)))` : `(${sql}\n)`
  return `case when "~changed${index}" then ${value} end`
}

/** An output and its index, which names its columns in the statement: `~value0`, `~new0`, `~changed0`. */
export interface IndexedOutput {
  readonly output: MappedOutput
  readonly index: number
}

/** The other outputs of an output's group. */
const otherMembers = (
  { output, index }: IndexedOutput,
  all: readonly IndexedOutput[],
): readonly IndexedOutput[] =>
  output.mapping.group === null
    ? []
    : all.filter((other) => other.index !== index && other.output.mapping.group === output.mapping.group)
