import { POLICY_RULES } from '../../domain/mapping.ts'
import { isBlankValueSql, isReachableSql, valueJsonSql } from '../cell.ts'
import { toText } from '../coerce/scalars.ts'
import { renderExpression } from '../expression.ts'
import { blankValueSql, isTakenOverSql, readsEarlier } from '../earlier-values.ts'
import { belongsSql, joinsSql, mayRepeatKeys, rowInputsSql } from '../inputs.ts'
import type { Source } from '../source-model.ts'
import { quoteLiteral } from '../quote.ts'
import { listReadColumns } from '../triggers/columns.ts'
import { type BatchColumn, type BatchItem, IDENTITY_COLUMNS } from './batch.ts'
import {
  castColumn,
  castValueSql,
  fitValueSql,
  groupObstacleSql,
  hasNewValueSql,
  type IndexedOutput,
  isBlankedSql,
  isChangedSql,
  isConfirmedSql,
  isFittedByCast,
  isGroupIncompleteSql,
  isReadySql,
  isSentAsJson,
  isWritableSql,
  touchValueSql,
} from './cell-sql.ts'
import { composeJsonSql } from './json-cells.ts'
import { type CellUnit, namesWhereSql, type RowUpdate, whereAnySql } from './row-update.ts'
import { stepSql } from './statement.ts'

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
  /** Leaves the touched columns as they are; read only while bisecting. */
  readonly withoutTouches?: boolean
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
        of: ({ withoutTouches = false }) => (withoutTouches ? null : true),
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
    const { output, index } = cell
    const incomplete = isGroupIncompleteSql(cell, cells)
    const found =
      incomplete === null
        ? []
        : [
            skippedItemSql(cell, `"~new${index}"`, {
              when: incomplete,
              reason: `'group_incomplete'`,
              detail: groupObstacleSql(cell, cells),
            }),
          ]
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
