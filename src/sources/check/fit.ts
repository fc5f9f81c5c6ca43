import { shapeOfField } from '../../domain/record-fields.ts'
import type { FieldShape } from '../../domain/service/field-shape.ts'
import type { SkipReason } from '../../domain/skipped-cell.ts'
import { listNames } from '../../util/text.ts'
import { coerceField } from '../coerce/record.ts'
import { isNumeric } from '../coerce/scalars.ts'
import type { Fit } from '../column-type.ts'
import type { TableConstraint } from '../constraints.ts'
import { tokenizeCode } from '../expression.ts'
import { quoteName } from '../quote.ts'
import type { MappedOutput, Source } from '../source-model.ts'

/**
 * A mapping that does not fit its column.
 * - `never`: no value of the field can be written
 * - `seldom`: some usual values cannot, or it depends on words that the service does not document
 */
export interface Misfit {
  /** In the source: `outputs.title`. */
  readonly place: string
  readonly frequency: 'never' | 'seldom'
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
  if (shape === null) return describeUnlisted(output)
  if (output.mapping.sql !== null) return checkExpressionInput(output, shape, output.mapping.sql)
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

/** Nothing is known about the values of an unlisted field, but labels have to be met exactly. */
function describeUnlisted({ column, fit, mapping, path }: MappedOutput): Misfit | null {
  const labels = path.length > 0 ? null : listLabels(fit)
  if (labels === null || mapping.map !== null || mapping.sql !== null) return null
  return {
    place: `outputs.${column}`,
    frequency: 'seldom',
    found: `no map; a value that is not one of ${listNames(labels)} will be skipped`,
    ...LABEL_REMEDY,
  }
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

/** A foreign key holds a key of the other table, which hardly any field of a record is. */
function describeForeignKey(
  { column, mapping, type }: MappedOutput,
  shape: FieldShape,
  table: string,
  referenced: string,
): Misfit {
  // A table of countries or domains may be keyed by their names.
  const isPossible = type.fit.kind === 'text' && shape.type === 'text'
  return {
    place: `outputs.${column}`,
    frequency: isPossible ? 'seldom' : 'never',
    found: `\`${mapping.field}\`, ${shape.description}, into a foreign key to ${table}`,
    expected: isPossible
      ? `values that ${table} has in ${referenced}: any other is skipped`
      : `the ${referenced} of a row of ${table}`,
    todo: `Look the row up: sql: '(select ${referenced} from ${table} where … = $value)'.`,
  }
}

function checkMapKeys({ column, mapping }: MappedOutput, shape: FieldShape): Misfit | null {
  if (mapping.map === null || shape.type !== 'number') return null
  const keys = Object.keys(mapping.map)
  if (keys.some(isNumeric)) return null
  return {
    place: `outputs.${column}.map`,
    frequency: 'never',
    found: `${listNames(keys)}, for \`${mapping.field}\`, ${shape.description}`,
    expected: 'numbers: the map is searched for the value itself',
    todo: /_(?:count|revenue)$|^revenue$/.test(mapping.field)
      ? `Map \`${mapping.field.replace('_count', '')}_range\` instead, or compute the value with \`sql\`.`
      : 'Compute the value with `sql`.',
  }
}

function checkValues(output: MappedOutput, shape: FieldShape, table: string): Misfit | null {
  const values = usualValues(output, shape)
  const failures = values.flatMap((value) => {
    const coercion = coerceField(output, value)
    return coercion.ok ? [] : [{ value, reason: coercion.reason }]
  })
  const [failure] = failures
  if (failure === undefined) return null
  const isCertain = shape.form === 'fixed' || !/^no_(?:such_label|match)$/.test(failure.reason)
  const never = isCertain && failures.length === values.length
  // A map's wrong values are found one by one in `cells.ts`.
  if (output.mapping.map !== null && !(never && shape.type === 'list')) return null
  if (!never && shape.form === 'unknown') return null
  const example = never ? '' : `: ${JSON.stringify(failures.at(-1)?.value)} does not fit`
  return {
    place: `outputs.${output.column}`,
    frequency: never ? 'never' : 'seldom',
    found: `\`${output.mapping.field}\`, ${shape.description}, into ${describeColumn(output)}${example}`,
    ...describeRemedy(output, shape, failure.reason, table),
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

/** From this length on, the beginning of a text is worth having. */
const MIN_CUT_LENGTH = 20

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
    case 'too_long': {
      const length = Math.max(...shape.examples.flat().map((value) => String(value).length))
      const widen = `alter table ${table} alter column ${quoteName(attribute)} type ${fit.kind === 'array' ? 'text[]' : 'text'}`
      // Two letters of a country or of a URL are another value.
      const isCut = !shape.isAtomic && fit.kind === 'text' && (fit.maxLength ?? 0) >= MIN_CUT_LENGTH
      return {
        expected: `a column of ${length} characters or more`,
        todo: `${isCut ? `Cut it with sql: 'left($value, ${String(fit.maxLength)})'` : shape.isAtomic ? 'Name another column' : 'Convert it with `map`'}, or widen it: ${widen}`,
      }
    }
    case 'out_of_range': {
      const largest = shape.examples.at(-1)
      return {
        expected: `a column that holds ${String(largest)}`,
        todo: `Widen it: alter table ${table} alter column ${quoteName(attribute)} type bigint, or convert the unit: sql: '$value / 1000000'.`,
      }
    }
    default:
      return {
        expected: `a value of type ${reason.replace(/^not_an?_/, '')}`,
        todo: describeConversion(mapping.field),
      }
  }
}

function describeConversion(field: string): string {
  const count = /^(?:employee|revenue)_range$/.test(field)
    ? `Use \`${field === 'revenue_range' ? 'revenue' : 'employee_count'}\`, a number, or convert the range with \`map\` or \`sql\`.`
    : null
  if (field === 'confidence') return "Convert it: sql: 'round($value * 100)'."
  return count ?? 'Convert it with `sql` or `map`, or name another column.'
}

/** What an expression takes its value for: `$value` a number, or `$json` the whole record. */
function checkExpressionInput(output: MappedOutput, shape: FieldShape, sql: string): Misfit | null {
  const { column, mapping, valueType } = output
  const place = `outputs.${column}.sql`
  const key = readKeyOfJson(sql, shape)
  if (key !== null)
    return {
      place,
      frequency: 'never',
      found: `${sql}\n$json is the field \`${mapping.field}\` alone, ${shape.description}: it has no key '${key}'`,
      expected: 'an expression over the value of the field: $value as text, $json as jsonb',
      todo:
        shape.type === 'text'
          ? 'Use $value; for another field of the record, name it in `field`.'
          : 'Name the field of the record in `field`.',
    }
  if (valueType === 'text' || usualValues(output, shape).some((value) => isNumeric(value))) return null
  return {
    place,
    frequency: 'never',
    found: `${sql}\nit calculates with $value, and \`${mapping.field}\` is ${shape.description}`,
    expected: 'a field that is a number',
    todo: describeConversion(mapping.field).replace(
      'Convert it with `sql` or `map`, or name another column.',
      'Name another field, or convert the text to a number first.',
    ),
  }
}

/** The key that an expression reads from `$json` and that the field's value cannot have; null if there is none. */
function readKeyOfJson(sql: string, shape: FieldShape): string | null {
  const tokens = tokenizeCode(sql).filter((token) => token.text !== ')')
  for (const [at, token] of tokens.entries()) {
    if (token.text !== '$json') continue
    const after = tokens.slice(at + 1, at + 5).map((one) => one.text)
    const operator = /^(?:->>?|#>>?|\[)/.exec(after.join('').replace(/'.*/s, ''))?.[0]
    if (operator === undefined) continue
    const operand = tokens[at + 1 + operator.length]
    if (operand?.kind !== 'string') continue
    const key = operand.text.slice(1, -1)
    if (operator.startsWith('#') && key === '{}') continue
    if (
      shape.type === 'object' &&
      Object.hasOwn(shape.examples[0] as object, key.replace(/^\{(\w+).*$/, '$1'))
    )
      continue
    if (shape.type === 'list' && /^\{?-?\d/.test(key)) continue
    return key
  }
  return null
}
