import type { SourceMapping } from '../../domain/mapping.ts'
import { describeSkip } from '../../domain/skipped-cell.ts'
import { listNames, suggestion } from '../../util/text.ts'
import { findColumn, type Table, type Fit } from '../catalogue.ts'
import { coerceValue } from '../coerce/value.ts'
import { tokenizeCode, listReferences } from '../expression.ts'
import type { ProblemList } from '../problems.ts'
import { quoteLiteral } from '../db.ts'
import type { MappedCell, MappedOutput, MappedTouch, MappedFreshness, TimeType } from '../source-model.ts'
import { stampExpression } from '../freshness.ts'

/** Resolves the output columns in the table. Columns that cannot be written are reported and left out. */
export function resolveOutputs(
  table: Table,
  mapping: SourceMapping,
  keyNames: readonly string[],
  report: ProblemList,
): MappedOutput[] {
  const outputs: MappedOutput[] = []
  for (const output of mapping.outputs) {
    const place = `outputs.${output.column}`
    const cell = resolveCell(table, output.column, place, keyNames, report)
    if (!cell) continue
    const fit: Fit = cell.path.length > 0 ? { kind: 'jsonb' } : cell.type.fit
    const resolved: MappedOutput = { ...cell, mapping: output, fit }
    checkInputs(mapping, resolved, place, report)
    checkMap(resolved, place, report)
    outputs.push(resolved)
  }
  return outputs
}

/** The same for `touch`. */
export function resolveTouches(
  table: Table,
  mapping: SourceMapping,
  keyNames: readonly string[],
  report: ProblemList,
): MappedTouch[] {
  return Object.entries(mapping.touch).flatMap(([column, expression]) => {
    const cell = resolveCell(table, column, `touch.${column}`, keyNames, report)
    return cell === null ? [] : [{ ...cell, expression }]
  })
}

function resolveCell(
  table: Table,
  name: string,
  place: string,
  keyNames: readonly string[],
  report: ProblemList,
): MappedCell | null {
  const { column, path } = findNamedColumn(table, name, place, report)
  if (!column) return null
  const { kind } = column.type.fit
  if (path.length > 0 && kind !== 'jsonb') {
    report.add(
      place,
      `a key inside '${column.name}', which is ${column.type.name}`,
      'a jsonb column: writing a key into json would lose duplicate keys, their order and the notation of numbers',
      'Name the column alone, or one that is jsonb.',
    )
    return null
  }
  const unwritable =
    (keyNames.includes(column.name) && 'a column of the key') ||
    (column.isGenerated && 'a generated column') ||
    (column.isIdentity && 'an identity column') ||
    (CUTTING_TYPE.test(column.type.cast) &&
      `of the type ${column.type.name}, which cuts longer values silently`)
  if (unwritable === false) return { column: name, attribute: column.name, path, type: column.type }
  report.add(
    place,
    `'${column.name}', ${unwritable}`,
    'a column that can be written',
    'Take it out, or name another column.',
  )
  return null
}

/** Types of Postgres's own catalogue. */
const CUTTING_TYPE = /^(?:name|"char")(?:\[\])?$/

/** The column that a name means; one that the table does not have is reported. */
export function findNamedColumn(
  table: Table,
  name: string,
  place: string,
  report: ProblemList,
): ReturnType<typeof findColumn> {
  const found = findColumn(table, name)
  if (found.column === undefined) {
    const names = table.columns.map((column) => column.name)
    report.add(
      place,
      `'${name}', which is not a column of ${table.schema}.${table.name}`,
      'a column of the table',
      `Its columns are ${listNames(names)}.${suggestion(name, names)}`,
    )
  }
  return found
}

/**
 * A column that an input is read from may be filled where it is blank. Any other policy would overwrite what the user
 * identifies the row by.
 */
function checkInputs(mapping: SourceMapping, output: MappedOutput, place: string, report: ProblemList): void {
  const { policy } = output.mapping
  if (policy === 'blank') return
  const read = Object.entries(mapping.inputs).find(
    ([, text]) =>
      // A name in a sub-select may be another table's.
      !tokenizeCode(text).some((token) => token.text.toLowerCase() === 'select') &&
      listReferences(text).some(({ kind, name }) => kind === 'column' && name === output.attribute) &&
      output.path.every((key) => text.includes(quoteLiteral(key))),
  )
  if (read === undefined) return
  report.add(
    place,
    `policy '${policy}' for a column that the input '${read[0]}' is read from`,
    "policy 'blank': where an input column holds a value, it is the user's, and identifies the row",
    "Take `policy` out ('blank' is the default), or write the field to a column of its own.",
  )
}

/** The map's values must fit the column. With `sql`, only the database knows the result. */
function checkMap({ mapping, fit }: MappedOutput, place: string, report: ProblemList): void {
  if (mapping.map === null || mapping.sql !== null) return
  for (const [from, to] of Object.entries(mapping.map)) {
    const fitting = coerceValue(to, fit)
    if (fitting.ok) continue
    const labels = listLabels(fit)
    report.add(
      `${place}.map.${from}`,
      `'${String(to)}', which does not fit: ${describeSkip(fitting)}`,
      labels === null ? 'a value that the column can hold' : `one of ${listNames(labels)}`,
      'Correct the value.',
    )
  }
}

/** The labels of an enum, or of an array of one; null for other types. */
function listLabels(fit: Fit): readonly string[] | null {
  if (fit.kind === 'array') return listLabels(fit.element)
  return fit.kind === 'enum' ? fit.labels : null
}

const TIMES: readonly TimeType[] = ['timestamptz', 'timestamp', 'date']

/** Resolves the column of `freshness`, and adds it to the touched columns unless `touch` sets it already. */
export function resolveFreshness(
  table: Table,
  mapping: SourceMapping,
  touches: readonly MappedTouch[],
  keyNames: readonly string[],
  report: ProblemList,
): { readonly touches: readonly MappedTouch[]; readonly freshness: MappedFreshness | null } {
  if (mapping.freshness === null) return { touches, freshness: null }
  const { column, maxAgeMs } = mapping.freshness
  const place = 'freshness.column'
  const cell = resolveCell(table, column, place, keyNames, report)
  if (cell === null) return { touches, freshness: null }
  const kind = TIMES.find((name) => name === cell.type.fit.kind)
  if (kind === undefined) {
    report.add(
      place,
      `'${cell.attribute}', which is ${cell.type.name}`,
      'a column with a time: timestamptz, timestamp or date',
      `Name another column, or add one: alter table ${table.sql} add column enriched_at timestamptz`,
    )
    return { touches, freshness: null }
  }
  const touch = touches.find((other) => other.attribute === cell.attribute)
  return {
    touches: touch ? touches : [...touches, { ...cell, expression: stampExpression(kind) }],
    freshness: { cell: touch ?? cell, kind, maxAgeMs },
  }
}
