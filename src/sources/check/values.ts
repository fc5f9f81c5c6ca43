import { type FieldShape, shapeOfField } from '../../domain/record-fields.ts'
import { castJsonSql } from '../cell.ts'
import { coerceField } from '../coerce/record.ts'
import type { Fit } from '../column-type.ts'
import { type Db, query, tryRows } from '../db.ts'
import { isFiller, renderExpression, tokenize } from '../expression.ts'
import { eligibleSql, joinsSql } from '../inputs.ts'
import { quoteLiteral, quoteName } from '../quote.ts'
import type { MappedOutput, Source } from '../source-model.ts'
import { type ColumnCheck, type SourceForeignKey, readConstraints } from './constraints.ts'
import { findMisfit, listLabels, type Misfit, usualValues } from './fit.ts'

interface Constraints {
  readonly foreignKeys: readonly SourceForeignKey[]
  readonly checks: readonly ColumnCheck[]
}

/**
 * Finds the outputs of a source whose values cannot fit their columns. Makes the transaction read-only: functions in the
 * user's expressions are called, and must not write.
 */
export async function findMisfits(tx: Db, source: Source): Promise<Misfit[]> {
  await query(tx, 'set transaction read only')
  const constraints = await readConstraints(tx, source.table)
  const misfits: Misfit[] = []
  for (const output of source.outputs) {
    const misfit = findMisfit(source, output, constraints.foreignKeys)
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
  constraints: Constraints,
): Promise<Misfit[]> {
  const shape = shapeOfField(source.mapping.kind, output.mapping.field)
  if (output.mapping.sql !== null)
    return shape === null ? [] : tryExpression(tx, source, output, shape, output.mapping.sql)
  if (output.path.length > 0) return []
  if (output.mapping.map !== null) return tryMap(tx, output, output.mapping.map, constraints)
  return shape === null ? [] : tryExamples(tx, output, shape, constraints)
}

/** Every value of a map is meant to be written. */
async function tryMap(
  tx: Db,
  output: MappedOutput,
  map: Readonly<Record<string, string | number | boolean>>,
  { foreignKeys, checks }: Constraints,
): Promise<Misfit[]> {
  const misfits: Misfit[] = []
  const key = foreignKeys.find(({ columns }) => columns.length === 1 && columns[0] === output.attribute)
  for (const [from, to] of Object.entries(map)) {
    const coercion = coerceField(output, from)
    if (!coercion.ok) continue
    const rejection =
      (await tryValue(tx, output, coercion.value, checks)) ?? (await tryKey(tx, output, coercion.value, key))
    if (rejection !== null)
      misfits.push({
        place: `outputs.${output.column}.map.${from}`,
        frequency: 'never',
        found: `'${String(to)}': ${rejection}`,
        expected: 'a value that the column accepts',
        todo: 'Correct the value.',
      })
  }
  return misfits
}

async function tryExamples(
  tx: Db,
  output: MappedOutput,
  shape: FieldShape,
  { checks }: Constraints,
): Promise<Misfit[]> {
  const rejections: { readonly value: unknown; readonly why: string }[] = []
  for (const value of shape.examples) {
    const coercion = coerceField(output, value)
    const why = coercion.ok ? await tryValue(tx, output, coercion.value, checks) : null
    if (why !== null) rejections.push({ value, why })
  }
  const last = rejections.at(-1)
  if (last === undefined) return []
  const never = shape.form === 'fixed' && rejections.length === shape.examples.length
  if (!never && shape.form === 'unknown') return []
  return [
    {
      place: `outputs.${output.column}`,
      frequency: never ? 'never' : 'seldom',
      found: `\`${output.mapping.field}\`, ${shape.description}, into ${output.type.name}; ${JSON.stringify(last.value)}: ${last.why}`,
      expected: 'values that the column accepts',
      todo: 'Convert them with `map` or `sql`, or name another column.',
    },
  ]
}

/** Why the database rejects a value of the column's type; null if it does not. */
async function tryValue(
  tx: Db,
  { attribute, column, fit, type }: MappedOutput,
  value: unknown,
  checks: readonly ColumnCheck[],
): Promise<string | null> {
  const own = checks.filter((check) => check.column === attribute)
  if (own.length === 0 && !type.isDomain && !isUnknown(fit)) return null
  const violated = own.map(
    ({ name, condition }) => `case when (${condition}) is false then ${quoteLiteral(name)} end`,
  )
  const cast = `(${castJsonSql('$1::jsonb', quoteLiteral(column), type.cast, fit)})::${type.name}`
  const tried = await tryRows<{ violated: readonly string[] }>(
    tx,
    `select array_remove(array[${violated.join(', ')}]::text[], null) as violated, t.${quoteName(attribute)} is null
       from (select ${cast} as ${quoteName(attribute)} offset 0) as t`,
    [JSON.stringify({ [column]: value })],
  )
  if ('error' in tried) return describeValueError(tried.error)
  const [name] = tried.rows[0]?.violated ?? []
  const condition = own.find((check) => check.name === name)?.condition
  return condition === undefined ? null : `violates the constraint ${name}, ${condition}`
}

const isUnknown = (fit: Fit): boolean =>
  fit.kind === 'other' || (fit.kind === 'array' && fit.element.kind === 'other')

async function tryKey(
  tx: Db,
  { type }: MappedOutput,
  value: unknown,
  key: SourceForeignKey | undefined,
): Promise<string | null> {
  const referenced = key?.referenced[0]
  if (key === undefined || referenced === undefined) return null
  const tried = await tryRows<{ exists: boolean }>(
    tx,
    `select exists (select from ${key.table} where ${quoteName(referenced)} = $1::text::${type.cast}) as exists`,
    [String(value)],
  )
  return 'rows' in tried && tried.rows[0]?.exists === false
    ? `no row of ${key.table} has this ${referenced}`
    : null
}

/** Evaluates the expression with the usual values: alone if it needs no row, otherwise on the first row. */
async function tryExpression(
  tx: Db,
  source: Source,
  output: MappedOutput,
  shape: FieldShape,
  sql: string,
): Promise<Misfit[]> {
  const values = usualValues(output, shape).flatMap((value) => {
    const coercion = coerceField(output, value)
    return coercion.ok ? [coercion.value] : []
  })
  const isAlone = tokenize(sql).tokens.every(
    (token) => isFiller(token) || !/^(?:\.|select)$/i.test(token.text),
  )
  let last: { readonly value: unknown; readonly why: string } | null = null
  for (const value of values) {
    const tried = await tryRows(tx, expressionQuery(source, output, sql, isAlone), [
      JSON.stringify({ [output.column]: value }),
    ])
    const why = 'error' in tried ? describeValueError(tried.error) : null
    if (why === null) return []
    last = { value, why }
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

/** The message of an error that a value raised; null for other errors. @throws errors of the connection and the timeout */
function describeValueError(error: unknown): string | null {
  const { code = '', message } = error as { code?: string; message: string }
  if (/^(?:08|53|57|58|XX)/.test(code) || code === '') throw error
  return /^(?:22|23|21)/.test(code) ? message : null
}
