import { shapeOfField } from '../../domain/record-fields.ts'
import type { FieldShape } from '../../domain/service/field-shape.ts'
import { castJsonSql } from '../cell.ts'
import { coerceField } from '../coerce/record.ts'
import { isNumeric } from '../coerce/scalars.ts'
import type { Fit } from '../column-type.ts'
import { readTableConstraints, type TableConstraint } from '../constraints.ts'
import { type Db, query, tryRows } from '../db.ts'
import { renderExpression, tokenizeCode } from '../expression.ts'
import { quoteLiteral, quoteName } from '../quote.ts'
import type { MappedOutput, Source } from '../source-model.ts'
import { findMisfit, listLabels, type Misfit, usualValues } from './fit.ts'

/**
 * Finds the outputs of a source whose values cannot fit their columns. Makes the transaction read-only: functions in the
 * user's expressions are called, and must not write.
 */
export async function findMisfits(tx: Db, source: Source): Promise<Misfit[]> {
  await query(tx, 'set transaction read only')
  const constraints = (await readTableConstraints(tx, source))
    .filter(({ isOwn }) => isOwn)
    .toSorted((a, b) => a.columns.length - b.columns.length || (a.name < b.name ? -1 : 1))
  const misfits: Misfit[] = []
  for (const output of source.outputs) {
    const misfit = findMisfit(source, output, constraints)
    misfits.push(...(misfit === null ? await findRejectedValues(tx, source, output, constraints) : [misfit]))
  }
  return misfits
}

/**
 * What only the database can judge: domains, unknown types, CHECK constraints of one column, the rows that a foreign key
 * leads to, and the output's own `sql`.
 */
async function findRejectedValues(
  tx: Db,
  source: Source,
  output: MappedOutput,
  constraints: readonly TableConstraint[],
): Promise<Misfit[]> {
  const shape = shapeOfField(output.mapping.field, source.mapping.shapes)
  if (output.mapping.sql !== null)
    return shape === null ? [] : tryExpression(tx, output, shape, output.mapping.sql)
  if (output.path.length > 0) return []
  if (output.mapping.map !== null) return tryMap(tx, output, output.mapping.map, constraints)
  return shape === null ? [] : tryExamples(tx, output, shape, constraints)
}

const coerceAll = (output: MappedOutput, values: readonly unknown[]): unknown[] =>
  values.flatMap((value) => {
    const coercion = coerceField(output, value)
    return coercion.ok ? [coercion.value] : []
  })

/** Every value of a map is meant to be written. */
async function tryMap(
  tx: Db,
  output: MappedOutput,
  map: Readonly<Record<string, string | number | boolean>>,
  constraints: readonly TableConstraint[],
): Promise<Misfit[]> {
  const entries = Object.entries(map).flatMap(([from, to]) => {
    const coercion = coerceField(output, from)
    return coercion.ok ? [{ from, to, value: coercion.value }] : []
  })
  const values = entries.map(({ value }) => value)
  const rejections = await tryValues(tx, output, values, constraints)
  const key = constraints.find((one) => one.target !== null && isOnlyOn(output, one))
  const missing = key?.target ? await findMissingKeys(tx, output, values, key.target) : []
  return entries.flatMap(({ from, to }, index) => {
    const why = rejections[index]?.why ?? missing[index] ?? null
    if (why === null) return []
    return [
      {
        place: `outputs.${output.column}.map.${from}`,
        found: `'${String(to)}': ${why}`,
        expected: 'a value that the column accepts',
        todo: 'Correct the value.',
      },
    ]
  })
}

async function tryExamples(
  tx: Db,
  output: MappedOutput,
  shape: FieldShape,
  constraints: readonly TableConstraint[],
): Promise<Misfit[]> {
  const values = coerceAll(output, shape.examples)
  const rejections = await tryValues(tx, output, values, constraints)
  // A constraint may list words that the service does send; no text of this kind has the form of a range or an address.
  const certain = rejections.flatMap((one) =>
    one !== null && (shape.form === 'fixed' || one.isMalformed) ? [one.why] : [],
  )
  if (certain.length === 0 || certain.length < shape.examples.length) return []
  return [
    {
      place: `outputs.${output.column}`,
      found: `\`${output.mapping.field}\`, ${shape.description}, into ${output.type.name}; ${JSON.stringify(values.at(-1))}: ${certain.at(-1)}`,
      expected: 'values that the column accepts',
      todo: 'Convert them with `map` or `sql`, or name another column.',
    },
  ]
}

/** Why the database rejects each value of the column's type; null where it does not. */
async function tryValues(
  tx: Db,
  output: MappedOutput,
  values: readonly unknown[],
  constraints: readonly TableConstraint[],
): Promise<readonly (Rejection | null)[]> {
  const { attribute, column, fit, type } = output
  const own = constraints.filter((one) => one.condition !== null && isOnlyOn(output, one))
  if (own.length === 0 && !type.isDomain && !isUnknown(fit)) return values.map(() => null)
  const violated = own.map(
    ({ name, condition }) => `case when (${condition}) is false then ${quoteLiteral(name)} end`,
  )
  const cast = `(${castJsonSql(`($1::jsonb -> ${quoteLiteral(column)})`, type.cast, fit)})::${type.name}`
  const statement = `
    select coalesce(${[...violated, 'null'].join(', ')})::text as violated, t.${quoteName(attribute)} is null
      from (select ${cast} as ${quoteName(attribute)} offset 0) as t`
  const rejections: (Rejection | null)[] = []
  for (const value of values) {
    const tried = await tryRows<{ violated: string | null }>(tx, statement, [
      JSON.stringify({ [column]: value }),
    ])
    if ('error' in tried) {
      rejections.push(toRejection(tried.error))
      continue
    }
    const check = own.find(({ name }) => name === tried.rows[0]?.violated)
    rejections.push(
      check === undefined
        ? null
        : { why: `violates the constraint ${check.name}, ${check.condition ?? ''}`, isMalformed: false },
    )
  }
  return rejections
}

const isOnlyOn = ({ attribute }: MappedOutput, { columns }: TableConstraint): boolean =>
  columns.length === 1 && columns[0] === attribute

const isUnknown = (fit: Fit): boolean =>
  fit.kind === 'other' || (fit.kind === 'array' && fit.element.kind === 'other')

/** Which values of a foreign key no row of the other table has. Null also where this role may not look. */
async function findMissingKeys(
  tx: Db,
  { type }: MappedOutput,
  values: readonly unknown[],
  { columns: [name = ''], table }: NonNullable<TableConstraint['target']>,
): Promise<readonly (string | null)[]> {
  const tried = await tryRows<{ exists: boolean }>(
    tx,
    `select exists (select from ${table} as t where t.${quoteName(name)} = "~v"::${type.cast}) as exists
       from unnest($1::text[]) with ordinality as v("~v", "~at") order by "~at"`,
    [values.map(String)],
  )
  if ('error' in tried) return []
  return tried.rows.map(({ exists }) => (exists ? null : `no row of ${table} has this ${name}`))
}

/** Evaluates an expression with the usual values, unless it needs a row. */
async function tryExpression(
  tx: Db,
  output: MappedOutput,
  shape: FieldShape,
  sql: string,
): Promise<Misfit[]> {
  const toMisfit = (found: string): Misfit => ({
    place: `outputs.${output.column}.sql`,
    found: `${sql}\n${found}`,
    expected: `an expression that gives ${output.type.name} for ${shape.description}`,
    todo: 'Correct the expression ($value is the value of the field as text, $json as jsonb), or name another field.',
  })
  const usual = usualValues(output, shape)
  if (output.valueType === 'number' && !usual.some((value) => isNumeric(value)))
    return [toMisfit(`it calculates with $value, and \`${output.mapping.field}\` is no number`)]
  const isAlone = tokenizeCode(sql).every((token) => !/^(?:\.|select)$/i.test(token.text))
  const isCertain = shape.form === 'fixed' || (shape.form === 'open' && listLabels(output.fit) === null)
  if (!isAlone || !isCertain) return []
  const failures: string[] = []
  const results: unknown[] = []
  for (const value of coerceAll(output, usual)) {
    const tried = await tryRows<{ result: unknown }>(tx, expressionQuery(output, sql), [
      JSON.stringify({ [output.column]: value }),
    ])
    if ('rows' in tried) {
      results.push(tried.rows[0]?.result)
      continue
    }
    const rejection = toRejection(tried.error)
    if (rejection === null) return []
    failures.push(`${JSON.stringify(value)}: ${rejection.why}`)
  }
  const failure = failures.at(-1)
  if (results.length === 0 && failure !== undefined)
    return [toMisfit(`fails for every usual value of \`${output.mapping.field}\`; ${failure}`)]
  // A path that leads nowhere. An expression without a path may be NULL for the usual values, and for others not.
  const hasPath = /\$json\s*\)?\s*(?:->|#>)/.test(sql)
  if (!hasPath || failures.length > 0 || results.some((result) => result !== null)) return []
  return [toMisfit(`gives NULL for every usual value of \`${output.mapping.field}\``)]
}

function expressionQuery(output: MappedOutput, sql: string): string {
  const text = `("~v" ->> ${quoteLiteral(output.column)})`
  const rendered = renderExpression(sql, {
    value: output.valueType === 'number' ? `(${text}::numeric)` : text,
    json: `("~v" -> ${quoteLiteral(output.column)})`,
    confidence: '"~c"',
  })
  const isJson = output.fit.kind === 'json' || output.fit.kind === 'jsonb'
  return (
    `select (${rendered.sql}\n)${isJson ? '' : `::${output.type.cast}`} as result ` +
    `from (select $1::jsonb as "~v", 0.9::double precision as "~c" offset 0) as "~b"`
  )
}

/** Why the database rejects a value. */
interface Rejection {
  readonly why: string
  /** It is no value of the type at all, whatever its words. */
  readonly isMalformed: boolean
}

/** An error that a value raised; null for other errors. @throws errors of the connection and the timeout */
function toRejection(error: unknown): Rejection | null {
  const { code = '', message } = error as { code?: string; message: string }
  if (/^(?:08|53|57|58|XX)/.test(code) || code === '') throw error
  return /^(?:22|23|21)/.test(code) ? { why: message, isMalformed: code.startsWith('22') } : null
}
