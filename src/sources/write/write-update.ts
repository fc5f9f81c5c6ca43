import { POLICY_RULES } from '../../domain/mapping.ts'
import {
  isBlankValueSql,
  isReachableSql,
  castJsonSql,
  currentCellSql,
  differsSql,
  holdsLastWrittenSql,
  isBlankSql,
} from '../cell.ts'
import { toText } from '../coerce/value.ts'
import { renderExpression } from '../expression.ts'
import { blankValueSql, isTakenOverSql, readsEarlier, isEarlierSql } from '../earlier-values.ts'
import { belongsSql, joinsSql, mayRepeatKeys, rowInputsSql } from '../inputs.ts'
import type { Source, MappedOutput, MappedTouch } from '../source-model.ts'
import { quoteLiteral } from '../db.ts'
import { listReadColumns } from '../triggers/columns.ts'
import { IDENTITY_COLUMNS, type BatchColumn, type BatchItem } from './batch.ts'
import { composeJsonSql, stepSql } from './statement.ts'
import { namesWhereSql, whereAnySql, type CellUnit, type RowUpdate } from './row-update.ts'

/*
 * What is decided for one cell, each step an SQL expression over the columns of the steps before it: `~writable`,
 * whether the policy allows it → `~cast`, the value cast to the column's type → `~new`, fitted to its length →
 * `~changed`, whether it is written, and `~blanked`, whether with a blank. The batch has `~value`, `~last written`
 * and `~confidence`. Names begin with a tilde, so that a column that the configuration names without its table is
 * never ambiguous.
 */

/**
 * Whether the values of an output are sent as jsonb: where the database makes something else of them than a cast of their
 * text. An expression may use them as both.
 */
const isSentAsJson = ({ mapping, fit }: MappedOutput): boolean =>
  mapping.sql !== null || fit.kind === 'json' || fit.kind === 'jsonb' || fit.kind === 'array'

/** SQL: whether the batch has a value for the cell. */
const hasValueSql = ({ index }: IndexedOutput): string => `"~value${index}" is not null`

/** SQL: whether the batch has a value for the cell, and the policy allows it. */
const isReadySql = (cell: IndexedOutput): string => `(${hasValueSql(cell)} and "~writable${cell.index}")`

/** SQL: whether the policy allows writing the cell as it is now. */
function isWritableSql({ output }: IndexedOutput): string {
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
function castValueSql({ output, index }: IndexedOutput): string {
  // A protected member of a group is evaluated too: if the cell holds that value already, it does not keep the group.
  const isInGroup = output.mapping.group !== null
  const when = isInGroup ? hasValueSql({ output, index }) : isReadySql({ output, index })
  return `case when "~same" and ${when} then ${typedValueSql(output, `"~value${index}"`)} end`
}

function typedValueSql(output: MappedOutput, sent: string): string {
  const { fit, mapping, type } = output
  const { cast } = type
  if (!isSentAsJson(output)) return `${sent}::${cast}`
  if (mapping.sql === null) return castJsonSql(sent, cast, fit)
  const text = `(${sent} #>> '{}')`
  const { sql } = renderExpression(mapping.sql, {
    value: text,
    json: sent,
    confidence: '"~confidence"',
  })
  if (fit.kind === 'jsonb') return `to_jsonb((select (${sql}\n)))`
  if (fit.kind === 'json') return `to_json((select (${sql}\n)))`
  return `(${sql}\n)::${cast}`
}

/** Whether a cast value is fitted as it is: most are, and then it has the name of a fitted one at once. */
const isFittedByCast = ({ output }: IndexedOutput): boolean =>
  output.mapping.sql === null && isTooLongSql(output, '') === null

/** The column with a value that is cast, and not yet fitted. */
const castColumn = (cell: IndexedOutput): string => `"~${isFittedByCast(cell) ? 'new' : 'cast'}${cell.index}"`

/** SQL for a value fitted to its column's length: what is too long is dropped here, because a cast truncates silently. */
function fitValueSql({ output, index }: IndexedOutput): string {
  const value = `"~cast${index}"`
  const { fit, mapping } = output
  const isTooLong = isTooLongSql(output, value)
  const filled =
    mapping.sql === null ? value : `case when not ${isBlankValueSql(value, fit)} then ${value} end`
  return isTooLong === null ? filled : `case when ${isTooLong} then null else ${filled} end`
}

/** SQL: whether a value is longer than its column; null if the type has no length, or rejects itself what is too long. */
const isTooLongSql = ({ fit }: MappedOutput, value: string): string | null =>
  fit.kind === 'text' && fit.maxLength !== null ? `char_length(${value}::text) > ${fit.maxLength}` : null

/** SQL: whether the cell is written, with a value of the record or with a blank. */
const isChangedSql = (cell: IndexedOutput, all: readonly IndexedOutput[], blank: BlankOptions): string =>
  `(${isFilledSql(cell, all)} or ${losesEarlierSql(cell, blank)})`

/** SQL: whether it is written with a blank: it holds what was written for earlier inputs, and gets no value of the record. */
const isBlankedSql = (cell: IndexedOutput, all: readonly IndexedOutput[], blank: BlankOptions): string =>
  `(${losesEarlierSql(cell, blank)} and not ${isFilledSql(cell, all)})`

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
function isGroupIncompleteSql(cell: IndexedOutput, all: readonly IndexedOutput[]): string | null {
  const group = groupConditions(cell, all)
  if (group.length === 0) return null
  return `coalesce(${alone(cell).join(' and ')}, false) and not coalesce(${group.join(' and ')}, false)`
}

/** SQL for the cell that keeps another one of its group from being written, and why. */
const groupObstacleSql = (cell: IndexedOutput, all: readonly IndexedOutput[]): string =>
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
const hasNewValueSql = ({ output, index }: IndexedOutput): string =>
  output.fit.kind === 'other' ? `"~new${index}"::text is not null` : `"~new${index}" is not null`

const isDifferentSql = ({ output, index }: IndexedOutput): string =>
  differsSql(`"~new${index}"`, currentCellSql(output), output.fit)

/** SQL: whether what was written for earlier inputs is also the value of the new record: it is not written, and is one for the present inputs. */
const isConfirmedSql = (cell: IndexedOutput): string =>
  `(${hasValueSql(cell)} and ${hasNewValueSql(cell)} and ${isEarlierSql(cell.output)} and not ${isDifferentSql(cell)})`

/** SQL for a touched column's value, evaluated only where it is set: together with an output. */
function touchValueSql(touch: MappedTouch, index: number): string {
  const { sql } = renderExpression(touch.expression, { confidence: '"~confidence"' })
  const value = touch.path.length > 0 ? `to_jsonb((select (${sql}\n)))` : `(${sql}\n)`
  return `case when "~changed${index}" then ${value} end`
}

/** An output and its index, which names its columns in the statement: `~value0`, `~new0`, `~changed0`. */
interface IndexedOutput {
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

export interface WriteRow {
  readonly key: string
  /** Hash of the inputs that the record was looked up with. */
  readonly inputHash: string
  /** Output column to value, as `coerceRecord` gives them. */
  readonly values: Readonly<Record<string, unknown>>
  /** Outputs for which the record has a value that does not fit. */
  readonly misfits?: readonly string[]
  /** Output column to what Fillrate last wrote, as in an earlier `after`. */
  readonly lastWritten: Readonly<Record<string, unknown>> | null
  /** The same of what it wrote for earlier inputs of the row. */
  readonly earlier?: Readonly<Record<string, unknown>> | null
  /** 0..1. */
  readonly confidence: number | null
  /** A service before this one has found the row: only its blank cells are filled. */
  readonly onlyBlanks?: boolean
}

/** Writes what a record has for a row, where the policies allow it: a value for each output, and with any of them the touched columns. */
export function writeUpdate(source: Source, bisecting = false): RowUpdate<WriteRow> {
  const { outputs, touches, mapping } = source
  const cells = outputs.map((output, index) => ({ output, index }))
  const newValues = listNewValues(source, cells)
  return {
    newValues,
    batch: batchColumns(source, bisecting),
    cells: [...outputs, ...touches],
    reads: listReadColumns(source),
    steps: `${outputSteps(source, cells, bisecting)}
       ${touchSteps(source, bisecting)}`,
    where: `"~i" is not null and ${belongsSql(source)}`,
    jsonValueSql: (keys) =>
      composeJsonSql(
        keys.map(({ cell, index }) => ({
          cell,
          written: `"~changed${index}"`,
          value:
            index < outputs.length
              ? (newValues.get(index) ?? `"~new${index}"`)
              : `coalesce("~new${index}", 'null')`,
        })),
      ),
    given: '"~inputs"."~given"',
    protected: namesWhereSql(cells.map(({ output, index }) => [output, `not "~writable${index}"`])),
    skipped: skippedCellsSql(cells),
    ...(readsEarlier(source) && {
      confirmed: `case when "~same" and "~taken over" then coalesce(${namesWhereSql(cells.map((cell) => [cell.output, isConfirmedSql(cell)]))}, '[]') end`,
    }),
    // To count them is a sort of wide rows.
    copies: mayRepeatKeys(source) ? 'count(*) over (partition by "~i")' : null,
    keepsLocked: mapping.joins !== null || belongsSql(source) !== 'true',
    bisecting,
    units: listUnits(source),
  }
}

/** Up to the outputs that have a new value. */
function outputSteps(source: Source, cells: readonly IndexedOutput[], bisecting: boolean): string {
  const inputs = rowInputsSql(source, { recorded: true })
  const fitted = cells.filter((cell) => !isFittedByCast(cell))
  return [
    joinsSql(source),
    inputs.from,
    readsEarlier(source) ? stepSql('earlier', [`${isTakenOverSql(source)} as "~taken over"`]) : '',
    stepSql('writable', [
      `"~hash" = ${inputs.hash}::text as "~same"`,
      ...indexedColumns(cells, isWritableSql, 'writable'),
    ]),
    stepSql(
      'cast',
      cells.map((cell) => `${castValueSql(cell)} as ${castColumn(cell)}`),
    ),
    stepSql('fitted', indexedColumns(fitted, fitValueSql, 'new')),
    stepSql('changed', [
      ...indexedColumns(cells, (cell) => isChangedSql(cell, cells, { source, bisecting }), 'changed'),
      ...indexedColumns(
        listBlankable(source, cells),
        (cell) => isBlankedSql(cell, cells, { source, bisecting }),
        'blanked',
      ),
    ]),
  ].join('\n       ')
}

function touchSteps({ outputs, touches }: Source, bisecting: boolean): string {
  const anyChanged = ['false', ...outputs.map((_, n) => `"~changed${n}"`)].join(' or ')
  const indexes = touches.map((touch, n) => ({ touch, n, index: outputs.length + n }))
  return `${stepSql(
    'any',
    indexes.map(
      ({ touch, n, index }) =>
        `(${anyChanged}) and ${isReachableSql(touch)}${bisecting ? ` and "~touching${n}" is not null` : ''} as "~changed${index}"`,
    ),
  )}
       ${stepSql(
         'touch',
         indexes.map(({ touch, index }) => `${touchValueSql(touch, index)} as "~new${index}"`),
       )}`
}

const indexedColumns = (
  cells: readonly IndexedOutput[],
  value: (cell: IndexedOutput) => string,
  name: string,
): string[] => cells.map((cell) => `${value(cell)} as "~${name}${cell.index}"`)

/** The outputs that may lose what was written for earlier inputs. */
const listBlankable = (source: Source, cells: readonly IndexedOutput[]): IndexedOutput[] =>
  cells.filter(({ output }) => blankValueSql(source, output) !== null)

/** SQL for the new value of each output that may be blanked, by its index. */
const listNewValues = (source: Source, cells: readonly IndexedOutput[]): ReadonlyMap<number, string> =>
  new Map(
    listBlankable(source, cells).map(({ output, index }) => [
      index,
      `case when "~blanked${index}" then ${blankValueSql(source, output)} else "~new${index}" end`,
    ]),
  )

/** Whether a cell is compared with what was last written. */
const readsLastWritten = (source: Source): boolean =>
  source.outputs.some(({ mapping }) => POLICY_RULES[mapping.policy].readsLastWritten)

const readsConfidence = (source: Source): boolean =>
  [...source.outputs.map(({ mapping }) => mapping.sql), ...source.touches.map(({ expression }) => expression)]
    .filter((expression) => expression !== null)
    .some((expression) => renderExpression(expression, { confidence: '' }).sql !== expression)

function batchColumns(source: Source, bisecting: boolean): BatchColumn<WriteRow & BatchItem>[] {
  const columns: BatchColumn<WriteRow & BatchItem>[] = [
    ...IDENTITY_COLUMNS,
    { name: '~hash', type: 'text', of: ({ inputHash }) => inputHash },
  ]
  for (const [n, output] of source.outputs.entries()) {
    const valueOf = ({ values }: WriteRow): unknown => values[output.column]
    columns.push(
      isSentAsJson(output)
        ? { name: `~value${n}`, type: 'jsonb', of: valueOf }
        : { name: `~value${n}`, type: 'text', of: (row) => textOf(valueOf(row)) },
    )
  }
  if (readsLastWritten(source))
    columns.push({
      name: '~last written',
      type: 'jsonb',
      of: ({ lastWritten }) => (Object.keys(lastWritten ?? {}).length > 0 ? lastWritten : null),
    })
  if (readsEarlier(source)) columns.push({ name: '~earlier', type: 'jsonb', of: ({ earlier }) => earlier })
  if (readsConfidence(source))
    columns.push({ name: '~confidence', type: 'double precision', of: ({ confidence }) => confidence })
  if (bisecting) {
    for (const [n, { column }] of source.outputs.entries())
      columns.push({
        name: `~blanking${n}`,
        type: 'boolean',
        of: ({ earlier }) => (earlier && Object.hasOwn(earlier, column) ? true : null),
      })
    for (const n of source.touches.keys())
      columns.push({
        name: `~touching${n}`,
        type: 'boolean',
        of: () => true,
      })
  }
  return columns
}

const textOf = (value: unknown): string | null =>
  value === null || value === undefined ? null : (toText(value) ?? JSON.stringify(value))

function listUnits({ outputs, touches }: Source): CellUnit[] {
  const groups = Map.groupBy(outputs.entries(), ([n, { mapping }]) => mapping.group ?? n)
  return [
    ...[...groups.values()].map((cells) => ({
      columns: cells.map(([, { column }]) => column),
      inputs: cells.map(([n]) => `~value${n}`),
    })),
    ...outputs.map(({ column }, n) => ({ columns: [column], inputs: [`~blanking${n}`] })),
    ...touches.map(({ column }, n) => ({ columns: [column], inputs: [`~touching${n}`] })),
  ]
}

/** SQL for the cells whose own expression gave no value or a text that is too long, and for those left out with another of their group. */
function skippedCellsSql(cells: readonly IndexedOutput[]): string {
  const parts = cells.flatMap((cell) => {
    const { output } = cell
    const incomplete = isGroupIncompleteSql(cell, cells)
    const found =
      incomplete === null
        ? []
        : [skippedItemSql(output, incomplete, `'group_incomplete'`, groupObstacleSql(cell, cells))]
    if (output.mapping.sql === null && output.fit.kind !== 'text') return found
    const cast = castColumn(cell)
    const isNothing = `${cast} is null or ${isBlankValueSql(cast, output.fit)}`
    const reason = `case when ${isNothing} then 'no_value' else 'too_long' end`
    const when = `"~same" and ${isReadySql(cell)} and not (${hasNewValueSql(cell)})`
    return [...found, skippedItemSql(output, when, reason, 'null')]
  })
  return whereAnySql(
    parts.map(({ when }) => when),
    parts.map(({ array }) => array).join(' || '),
  )
}

/** SQL for an array with a skipped cell, or an empty one, and when. */
function skippedItemSql(
  { column }: MappedOutput,
  when: string,
  reason: string,
  detail: string,
): { readonly when: string; readonly array: string } {
  const item = `jsonb_build_object('column', ${quoteLiteral(column)}, 'reason', ${reason}, 'detail', ${detail})`
  return { when: `(${when})`, array: `case when ${when} then jsonb_build_array(${item}) else '[]' end` }
}
