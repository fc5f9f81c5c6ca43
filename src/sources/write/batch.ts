import { postgresArray, type ArrayType } from '../../util/postgres-array.ts'
import { quoteName } from '../db.ts'

/** A row of a batch, and its index in it. */
export interface BatchItem {
  readonly index: number
  readonly key: string
}

/** A column of a batch. */
export interface BatchColumn<Item> {
  readonly name: string
  readonly type: Extract<ArrayType, 'boolean' | 'double precision' | 'integer' | 'jsonb' | 'text'>
  /** Its value in a row; null or undefined: none. */
  readonly of: (row: Item) => unknown
}

/** The columns that every batch begins with. */
export const IDENTITY_COLUMNS: readonly BatchColumn<BatchItem>[] = [
  { name: '~row', type: 'integer', of: ({ index }) => index },
  { name: '~key', type: 'text', of: ({ key }) => key },
]

/*
 * A batch is sent as an array for each column: nothing is escaped and parsed, and no object is searched for each value. While
 * one is bisected, it is a JSON array of rows, `$1`, which PL/pgSQL can take apart; a column that a row lacks is NULL.
 */

/**
 * SQL for a batch in FROM. Sub-selects hide the arrays' length from the planner, which would read a whole table for a batch
 * that is long beside it.
 */
export function batchSql<Item>(
  columns: readonly BatchColumn<Item>[],
  bisecting: boolean,
  alias: string,
): string {
  if (bisecting)
    return `jsonb_to_recordset($1::jsonb) as ${alias}(${columns.map(({ name, type }) => `${quoteName(name)} ${type}`).join(', ')})`
  const arrays = columns.map(
    ({ name, type }, n) => `unnest((select $${n + 1}::${type}[])) as ${quoteName(name)}`,
  )
  return `(select ${arrays.join(', ')}) as ${alias}`
}

/** SQL for the number of its rows. */
export const batchLengthSql = (bisecting: boolean): string =>
  bisecting ? 'jsonb_array_length($1::jsonb)' : 'cardinality($1::integer[])'

export const batchParameters = <Item>(
  columns: readonly BatchColumn<Item>[],
  rows: readonly Item[],
): Buffer[] => columns.map(({ type, of }) => postgresArray(type, rows.map(of)))

export const batchJson = <Item>(columns: readonly BatchColumn<Item>[], rows: readonly Item[]): string =>
  JSON.stringify(
    rows.map((row) => Object.fromEntries(columns.map(({ name, of }) => [name, of(row) ?? undefined]))),
  )
