import { shapeOfField } from '../../domain/record-fields.ts'
import type { FieldShape } from '../../domain/service/field-shape.ts'
import { castJsonSql } from '../cell.ts'
import { coerceField } from '../coerce/record.ts'
import type { Fit } from '../column-type.ts'
import { readTableConstraints, type TableConstraint } from '../constraints.ts'
import { type Db, query, tryRows } from '../db.ts'
import { renderExpression, tokenizeCode } from '../expression.ts'
import { eligibleSql, joinsSql } from '../inputs.ts'
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
    return shape === null ? [] : tryExpression(tx, source, output, shape, output.mapping.sql)
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
        frequency: 'never' as const,
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
  const last = rejections.findLastIndex((rejection) => rejection !== null)
  if (last === -1) return []
  // A constraint may list words that the service does send; no text of this kind has the form of a range or an address.
  const isCertain = (rejection: Rejection | null): boolean =>
    rejection !== null && (shape.form === 'fixed' || rejection.isMalformed)
  const never = rejections.length === shape.examples.length && rejections.every(isCertain)
  if (!never && shape.form === 'unknown') return []
  return [
    {
      place: `outputs.${output.column}`,
      frequency: never ? 'never' : 'seldom',
      found: `\`${output.mapping.field}\`, ${shape.description}, into ${output.type.name}; ${JSON.stringify(values[last])}: ${rejections[last]?.why ?? ''}`,
      expected: 'values that the column accepts',
      todo: 'Convert them with `map` or `sql`, or name another column.',
    },
  ]
}

/**
 * Why the database rejects each value of the column's type; null where it does not. One statement, unless the cast of a value
 * fails: each is then tried alone.
 */
async function tryValues(
  tx: Db,
  output: MappedOutput,
  values: readonly unknown[],
  constraints: readonly TableConstraint[],
): Promise<readonly (Rejection | null)[]> {
  const { attribute, column, fit, type } = output
  const own = constraints.filter((one) => one.condition !== null && isOnlyOn(output, one))
  if (values.length === 0 || (own.length === 0 && !type.isDomain && !isUnknown(fit)))
    return values.map(() => null)
  const violated = own.map(
    ({ name, condition }) => `case when (${condition}) is false then ${quoteLiteral(name)} end`,
  )
  const cast = `(${castJsonSql(`("~v"."~item" -> ${quoteLiteral(column)})`, type.cast, fit)})::${type.name}`
  const tried = await tryRows<{ violated: readonly string[] }>(
    tx,
    `select array_remove(array[${violated.join(', ')}]::text[], null) as violated, t.${quoteName(attribute)} is null
       from (select "~at", ${cast} as ${quoteName(attribute)}
               from jsonb_array_elements($1::jsonb) with ordinality as "~v"("~item", "~at") offset 0) as t
      order by "~at"`,
    [JSON.stringify(values.map((value) => ({ [column]: value })))],
  )
  if ('error' in tried) {
    const [first, ...others] = values
    if (others.length === 0) return [toRejection(tried.error)]
    const alone: (Rejection | null)[] = []
    for (const value of [first, ...others]) alone.push(...(await tryValues(tx, output, [value], constraints)))
    return alone
  }
  return tried.rows.map(({ violated: [name] }) => {
    const condition = own.find((check) => check.name === name)?.condition ?? null
    return condition === null
      ? null
      : { why: `violates the constraint ${name}, ${condition}`, isMalformed: false }
  })
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

/** Evaluates the expression with the usual values: alone if it needs no row, otherwise on the first row. */
async function tryExpression(
  tx: Db,
  source: Source,
  output: MappedOutput,
  shape: FieldShape,
  sql: string,
): Promise<Misfit[]> {
  const values = coerceAll(output, usualValues(output, shape))
  const isAlone = tokenizeCode(sql).every((token) => !/^(?:\.|select)$/i.test(token.text))
  let last: { readonly value: unknown; readonly why: string } | null = null
  for (const value of values) {
    const tried = await tryRows(tx, expressionQuery(source, output, sql, isAlone), [
      JSON.stringify({ [output.column]: value }),
    ])
    const rejection = 'error' in tried ? toRejection(tried.error) : null
    if (rejection === null) return []
    last = { value, why: rejection.why }
  }
  if (last === null) return []
  const isCertain = shape.form === 'fixed' || (shape.form === 'open' && listLabels(output.fit) === null)
  return [
    {
      place: `outputs.${output.column}.sql`,
      frequency: isAlone && isCertain ? 'never' : 'seldom',
      found: `${sql}\nfails for every usual value of \`${output.mapping.field}\`; ${JSON.stringify(last.value)}: ${last.why}`,
      expected: `an expression that gives ${output.type.name} for ${shape.description}`,
      todo: 'Correct the expression, or name another field.',
    },
  ]
}

function expressionQuery(source: Source, output: MappedOutput, sql: string, isAlone: boolean): string {
  const text = `("~v" ->> ${quoteLiteral(output.column)})`
  const rendered = renderExpression(sql, {
    value: output.valueType === 'number' ? `(${text}::numeric)` : text,
    json: `("~v" -> ${quoteLiteral(output.column)})`,
    confidence: '"~c"',
  })
  const isJson = output.fit.kind === 'json' || output.fit.kind === 'jsonb'
  const rows = `(select $1::jsonb as "~v", 0.9::double precision as "~c" offset 0) as "~b"`
  return (
    `select (${rendered.sql}\n)${isJson ? '' : `::${output.type.cast}`} ` +
    (isAlone
      ? `from ${rows}`
      : `from ${source.table.sql} as t ${joinsSql(source)} cross join lateral ${rows} where ${eligibleSql(source)} limit 1`)
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
