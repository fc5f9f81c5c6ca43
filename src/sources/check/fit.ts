import { shapeOfField } from '../../domain/record-fields.ts'
import type { FieldShape } from '../../domain/service/field-shape.ts'
import type { SkipReason } from '../../domain/skipped-cell.ts'
import { listNames } from '../../util/text.ts'
import { coerceField } from '../coerce/record.ts'
import { isNumeric } from '../coerce/scalars.ts'
import type { Fit } from '../column-type.ts'
import type { TableConstraint } from '../constraints.ts'
import { quoteName } from '../quote.ts'
import type { MappedOutput, Source } from '../source-model.ts'

/** An output of which no value can be written: what is paid for it is lost. */
export interface Misfit {
  /** In the source: `outputs.title`. */
  readonly place: string
  readonly found: string
  readonly expected: string
  readonly todo: string
}

/**
 * Finds an output whose values cannot fit its column, by fitting the usual values of its field as a write does. Pure: what
 * only the database knows is checked in `values.ts`. A field that the service does not list is not checked.
 */
export function findMisfit(
  { mapping: { shapes }, table }: Pick<Source, 'mapping' | 'table'>,
  output: MappedOutput,
  constraints: readonly TableConstraint[],
): Misfit | null {
  const shape = shapeOfField(output.mapping.field, shapes)
  if (shape === null || output.mapping.sql !== null) return null
  const key = constraints.find(
    ({ columns, target }) =>
      target !== null && output.path.length === 0 && columns.includes(output.attribute),
  )
  if (key?.target && output.mapping.map === null)
    return describeForeignKey(
      output,
      shape,
      key.target.table,
      key.target.columns[key.columns.indexOf(output.attribute)] ?? 'id',
    )
  return checkMapKeys(output, shape) ?? checkValues(output, shape, table.sql)
}

const LABEL_REMEDY = {
  expected: 'a map to the labels, or values that are labels already',
  todo: 'Give a `map` from the service’s values to the labels.',
}

/** The values of a field that are tried; with a map its keys, because other values are not written. */
export function usualValues({ mapping }: MappedOutput, shape: FieldShape): readonly unknown[] {
  if (mapping.map === null) return shape.examples
  const keys = Object.keys(mapping.map)
  return shape.type === 'list' ? keys.map((key) => [key]) : keys
}

/** A foreign key holds a key of the other table, which only a text may be: of a table of countries or domains. */
function describeForeignKey(
  { column, mapping, type }: MappedOutput,
  shape: FieldShape,
  table: string,
  referenced: string,
): Misfit | null {
  if (type.fit.kind === 'text' && shape.type === 'text') return null
  return {
    place: `outputs.${column}`,
    found: `\`${mapping.field}\`, ${shape.description}, into a foreign key to ${table}`,
    expected: `the ${referenced} of a row of ${table}`,
    todo: `Look the row up: sql: '(select ${referenced} from ${table} where … = $value)'.`,
  }
}

function checkMapKeys({ column, mapping }: MappedOutput, shape: FieldShape): Misfit | null {
  if (mapping.map === null || shape.type !== 'number') return null
  const keys = Object.keys(mapping.map)
  if (keys.some(isNumeric)) return null
  return {
    place: `outputs.${column}.map`,
    found: `${listNames(keys)}, for \`${mapping.field}\`, ${shape.description}`,
    expected: 'numbers: the map is searched for the value itself',
    todo: 'Map a field of ranges instead, or compute the value with `sql`.',
  }
}

function checkValues(output: MappedOutput, shape: FieldShape, table: string): Misfit | null {
  const values = usualValues(output, shape)
  const reasons = values.flatMap((value) => {
    const coercion = coerceField(output, value)
    return coercion.ok ? [] : [coercion.reason]
  })
  const [reason] = reasons
  if (reason === undefined || reasons.length < values.length) return null
  if (shape.form !== 'fixed' && /^no_(?:such_label|match)$/.test(reason)) return null
  // A map's wrong values are found one by one in `cells.ts`.
  if (output.mapping.map !== null && shape.type !== 'list') return null
  return {
    place: `outputs.${output.column}`,
    found: `\`${output.mapping.field}\`, ${shape.description}, into ${describeColumn(output)}`,
    ...describeRemedy(output, shape, reason, table),
  }
}

function describeColumn({ fit, path, type }: MappedOutput): string {
  const labels = listLabels(fit)
  if (path.length > 0) return 'a key of jsonb'
  return labels === null ? type.name : `${type.name} (${listNames(labels)})`
}

/** The labels of an enum, or of an array of one; null for other types. */
export function listLabels(fit: Fit): readonly string[] | null {
  if (fit.kind === 'array') return listLabels(fit.element)
  return fit.kind === 'enum' ? fit.labels : null
}

const JOIN_SQL = `"array_to_string(array(select jsonb_array_elements_text($json)), ', ')"`

function describeRemedy(
  { attribute, fit, mapping }: MappedOutput,
  shape: FieldShape,
  reason: SkipReason,
  table: string,
): Pick<Misfit, 'expected' | 'todo'> {
  if (shape.type === 'list' && reason === 'not_a_text' && fit.kind !== 'array')
    return {
      expected: 'a text[] or jsonb column, or one text',
      todo: `Write it as JSON with sql: '$json::text', or as one text with sql: ${JOIN_SQL}.`,
    }
  if (shape.type === 'object')
    return {
      expected: 'one of its fields',
      todo: `Name it in \`field\`: ${Object.keys(shape.examples[0] as object)
        .map((name) => `${mapping.field}.${name}`)
        .join(', ')}.`,
    }
  switch (reason) {
    case 'no_such_label':
      return LABEL_REMEDY
    case 'no_match':
      return { expected: 'a `matches` that usual values match', todo: 'Correct `matches`, or take it out.' }
    case 'too_long':
    case 'out_of_range': {
      const text = fit.kind === 'array' ? 'text[]' : 'text'
      const type = reason === 'too_long' ? text : 'bigint'
      return {
        expected: `a column that holds ${JSON.stringify(shape.examples.flat().at(-1))}`,
        todo: `Convert it with \`sql\`, or widen it: alter table ${table} alter column ${quoteName(attribute)} type ${type}`,
      }
    }
    default:
      return {
        expected: `a value of type ${reason.replace(/^not_an?_/, '')}`,
        todo: 'Convert it with `sql` or `map`, or name another field or column.',
      }
  }
}
