import { sql, type RawBuilder } from 'kysely'
import { cellJsonSql } from './cell.ts'
import { quoteName } from './db.ts'
import type { KeyColumn, Source } from './source-model.ts'

/** SQL for a key as text: one column's text, or a JSON array of several columns' texts. */
export const keyTextSql = (source: Pick<Source, 'keyColumns'>, alias = 't'): string => {
  const columns = source.keyColumns.map((column) => keyColumnTextSql(column, alias))
  return columns.length === 1 ? (columns[0] ?? '') : `array_to_json(array[${columns.join(', ')}])::text`
}

/** Times are written as JSON writes them: their text depends on the session, which would give one row two keys. */
function keyColumnTextSql({ name, columnType }: KeyColumn, alias: string): string {
  const { kind } = columnType.fit
  const text = `${alias}.${quoteName(name)}::text`
  // In the collation of Fillrate's tables: by a text in another collation their indexes find nothing.
  if (kind === 'text' || kind === 'other') return `(${text} collate "C")`
  if (!/^(?:date|timestamp|timestamptz)$/.test(kind)) return text
  return `(${cellJsonSql({ column: name, attribute: name, path: [], type: columnType }, alias)} #>> '{}')`
}

/** SQL for one column's value, from SQL text that holds a key. */
function keyPartSql(source: Pick<Source, 'keyColumns'>, column: KeyColumn, text: string): string {
  if (source.keyColumns.length === 1) return `(${text})::${column.columnType.cast}`
  return `((${text})::jsonb ->> ${source.keyColumns.indexOf(column)})::${column.columnType.cast}`
}

/** SQL for a relation of one row with the key's columns, from SQL text that holds a key; no row needs to have it. */
export const keyFromTextSql = (source: Pick<Source, 'keyColumns'>, text: string): string =>
  `(select ${source.keyColumns.map((column) => `${keyPartSql(source, column, text)} as ${quoteName(column.name)}`).join(', ')})`

/** SQL: whether a row has the key in an SQL text. */
export const keyMatchesSql = (source: Pick<Source, 'keyColumns'>, text: string, alias = 't'): string =>
  source.keyColumns
    .map((column) => keyEqualsSql(column, keyPartSql(source, column, text), alias))
    .join(' and ')

/** SQL: whether a key column equals a value of its type. */
export const keyEqualsSql = (column: KeyColumn, value: string, alias = 't'): string =>
  `${alias}.${quoteName(column.name)} ${column.operators.equal} ${value}`

/** SQL for the order of pages, which is that of an index of the table. */
export const keyOrderSql = (source: Pick<Source, 'keyOrder'>, alias = 't'): string =>
  source.keyOrder.map((column) => orderBySql(column, `${alias}.${quoteName(column.name)}`)).join(', ')

/** SQL for an ORDER BY item over a value of a key column. */
export const orderBySql = (column: KeyColumn, value: string): string =>
  `${value} using ${column.operators.less}`

/** SQL: rows after a key. */
export const afterKeySql = (source: Source, key: string): RawBuilder<boolean> =>
  compareKeySql(source, key, { strict: 'greater', orEqual: 'atLeast', isEqualIncluded: false })

/** SQL: rows up to a key, and the row with it. */
export const upToKeySql = (source: Source, key: string): RawBuilder<boolean> =>
  compareKeySql(source, key, { strict: 'less', orEqual: 'atMost', isEqualIncluded: true })

/**
 * As one row comparison, because only that form walks a composite index. It takes only one operator; if the columns'
 * operators differ, the index is walked by its first column.
 */
function compareKeySql(
  source: Source,
  key: string,
  by: {
    readonly strict: 'less' | 'greater'
    readonly orEqual: 'atMost' | 'atLeast'
    readonly isEqualIncluded: boolean
  },
): RawBuilder<boolean> {
  const texts = splitKey(source, key)
  const columns = source.keyOrder.map((column) => ({
    name: sql.raw(`t.${quoteName(column.name)}`),
    value: sql`${texts[source.keyColumns.indexOf(column)]}::text::${sql.raw(column.columnType.cast)}`,
    equal: sql.raw(column.operators.equal),
    orEqual: sql.raw(column.operators[by.orEqual]),
    strict: sql.raw(column.operators[by.strict]),
  }))
  const wholeRow = by.isEqualIncluded ? by.orEqual : by.strict
  const operators = new Set(source.keyOrder.map((column) => column.operators[wholeRow]))
  const [operator] = operators
  if (operators.size === 1 && operator !== undefined)
    return sql`(${sql.join(columns.map(({ name }) => name))}) ${sql.raw(operator)} (${sql.join(columns.map(({ value }) => value))})`
  const rest = columns.reduceRight<RawBuilder<boolean>>(
    (later, { name, value, equal, strict }) =>
      sql`(${name} ${strict} ${value} or (${name} ${equal} ${value} and ${later}))`,
    by.isEqualIncluded ? sql`true` : sql`false`,
  )
  const [first] = columns
  return first === undefined ? rest : sql`(${first.name} ${first.orEqual} ${first.value} and ${rest})`
}

/**
 * Splits a key's text into its columns' texts.
 * @throws RangeError if the text is not a key of this source
 */
function splitKey(source: Pick<Source, 'name' | 'keyColumns'>, key: string): string[] {
  if (source.keyColumns.length === 1) return [key]
  const names = source.keyColumns.map((column) => column.name).join(', ')
  const parts = parseJson(key)
  if (!Array.isArray(parts) || parts.length !== source.keyColumns.length)
    throw new RangeError(
      `a key of source ${source.name} is a JSON array of ${source.keyColumns.length} texts (${names})`,
    )
  return parts.map(String)
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return null
  }
}

/** SQL: whether the row has a key. One with NULL in a key column is never picked: nothing identifies it. */
export const hasKeySql = (
  { keyColumns }: { readonly keyColumns: readonly KeyColumn[] },
  alias = 't',
): string =>
  keyColumns
    .filter((column) => !column.notNull)
    .map((column) => `${alias}.${quoteName(column.name)} is not null`)
    .join(' and ') || 'true'
