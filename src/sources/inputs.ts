import { type InputName, NAME_DETAILS } from '../domain/mapping.ts'
import { renderExpression, toWhereText } from './expression.ts'
import { givenRowSql, recordedCells, recordedJsonSql } from './own-writes.ts'
import type { Source, Writer } from './source-model.ts'
import { findNamedColumns, listReadColumns } from './triggers/columns.ts'

/** In this order for ever: the place of an input is part of the hash of the inputs. */
export const MAPPING_INPUTS = [
  'email',
  'linkedin_url',
  'name',
  'company',
  'domain',
  ...NAME_DETAILS,
] as const satisfies InputName[]

/** SQL for an input as text, as the row stands; NULL if it is not configured. */
export const inputSql = ({ mapping }: Pick<Source, 'mapping'>, name: InputName): string =>
  expressionSql(mapping.inputs[name])

const expressionSql = (expression: string | undefined): string =>
  expression === undefined ? 'null::text' : `(${renderExpression(expression).sql}\n)::text`

/** SQL for the inputs of a row without what Fillrate wrote itself. */
interface RowInputsSql {
  /** What follows the joins in FROM. */
  readonly from: string
  readonly values: Readonly<Record<InputName, string>>
  /** The hash of the raw inputs, a bigint: any change of an input changes it, even a blank. */
  readonly hash: string
  /** The inputs that hold what Fillrate wrote, by name, as jsonb; NULL: none. */
  readonly filled: string
}

/** @param recorded also gives the recorded cells, as `"~inputs"."~given"` */
export function rowInputsSql(source: Source, { recorded = false } = {}): RowInputsSql {
  const { ownWrites } = source
  const stands = toRecord((name) => inputSql(source, name))
  if (ownWrites === undefined || (!recorded && !ownWrites.isInput))
    return { from: '', values: stands, hash: hashSql(source, stands), filled: 'null::jsonb' }
  const values = toRecord((name) => `"~inputs".${name}`)
  const filled = MAPPING_INPUTS.filter((name) => source.mapping.inputs[name] !== undefined).map(
    (name) =>
      `case when ${stands[name]} is distinct from ${values[name]} then jsonb_build_object('${name}', ${stands[name]}) else '{}' end`,
  )
  return {
    from: givenInputsSql(source, ownWrites, recorded ? ownWrites.writers : ownWrites.readFrom, recorded),
    values,
    hash: hashSql(source, values),
    filled: `nullif(${filled.join(' || ')}, '{}')`,
  }
}

/**
 * LATERAL: the inputs on the row as the user gave it. Inside, `t` is that row, and hides the one outside. Fenced by
 * OFFSET 0, or an expression would run once for each reference to it.
 */
function givenInputsSql(
  source: Source,
  { inputs, joins, joinsAgain }: NonNullable<Source['ownWrites']>,
  writers: readonly Writer[],
  recorded: boolean,
): string {
  // Joins that do not give one row give no input.
  const once = (value: string): string => (joinsAgain ? `(array_agg(${value}))[1]` : value)
  const values = MAPPING_INPUTS.map((name) => `${once(expressionSql(inputs[name]))} as ${name}`)
  const names = listReadColumns(source)
  const readColumns = source.table.columns.filter(({ name }) => names.includes(name))
  const given = recorded ? [`${once(recordedJsonSql(recordedCells(writers)))} as "~given"`] : []
  return `
      left join lateral (
        select ${[...values, ...given].join(', ')}
          from (select) as "~one" ${givenRowSql(readColumns, writers)}
         ${joinsAgain && joins !== null ? renderExpression(joins).sql : ''}
         ${joinsAgain ? 'having count(*) = 1' : ''} offset 0
      ) as "~inputs" on true`
}

const toRecord = (value: (name: InputName) => string): Readonly<Record<InputName, string>> =>
  Object.fromEntries(MAPPING_INPUTS.map((name) => [name, value(name)])) as Record<InputName, string>

/**
 * SQL for 64 bits of each input that is not NULL, combined. Each input has its own seed, so that a value that moves
 * to another input counts as a change.
 *
 * By bytes (`C`), because a nondeterministic collation gives the same hash to texts that differ. Postgres keeps
 * these functions over its versions, for hash partitions, but not over byte orders and encodings: after a dump and
 * restore to another one every row looks changed, and the next run writes all from the stored records.
 */
const hashSql = ({ mapping }: Pick<Source, 'mapping'>, values: RowInputsSql['values']): string => {
  const hashes = MAPPING_INPUTS.flatMap((name, n) =>
    mapping.inputs[name] === undefined
      ? []
      : [`coalesce(hashtextextended(${values[name]} collate "C", ${n + 1}), 0)`],
  )
  return `(${hashes.join(' # ') || '0::bigint'})`
}

/** SQL for the FROM clause after the table. */
export const joinsSql = (source: Pick<Source, 'mapping'>): string =>
  source.mapping.joins === null ? '' : renderExpression(source.mapping.joins).sql

/** Only joins can give more than one row for a key. */
export const mayRepeatKeys = ({ mapping }: Pick<Source, 'mapping'>): boolean => mapping.joins !== null

/**
 * SQL: whether a row belongs to the source, or did until Fillrate touched it: a stamp that Fillrate set counts as what the
 * column held before, as long as it is there. What a user or another program has changed since counts as it stands.
 * @param outputs also of the columns that it filled: only to count, because such a condition may exclude their values
 */
export function belongsSql(
  source: Pick<Source, 'mapping' | 'table' | 'ownWrites'>,
  { outputs = false } = {},
): string {
  const eligible = eligibleSql(source)
  const writer = source.ownWrites?.where
  const cells = (writer?.cells ?? []).filter((cell) => outputs || !cell.isOutput)
  if (writer === undefined || cells.length === 0) return eligible
  const given = givenRowSql(findNamedColumns(toWhereText(source.mapping), source.table), [
    { ...writer, cells },
  ])
  return `(${eligible} or exists (select from (select) as "~one" ${given} where ${eligible}))`
}

/** SQL: whether a row meets the conditions of the source. */
export const eligibleSql = ({ mapping }: Pick<Source, 'mapping'>): string =>
  mapping.where.length === 0 ? 'true' : `(${renderExpression(toWhereText(mapping)).sql})`

/** A statement that evaluates the inputs of no row: it fails if they cannot be evaluated. */
export const inputsProbeSql = (source: Source): string => {
  const { values, from } = rowInputsSql(source, { recorded: true })
  return `select ${Object.values(values).join(', ')} from ${source.table.sql} as t ${joinsSql(source)} ${from} limit 0`
}
