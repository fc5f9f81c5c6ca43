import type { Table } from '../sources/catalogue.ts'
import { type Db, query } from '../sources/db.ts'
import { quoteIfNeeded } from '../sources/quote.ts'
import type { Database } from '../store/open.ts'
import { inTransaction } from '../store/transaction.ts'
import { QUERY_CANCELED, sqlStateOf } from '../util/sqlstates.ts'
import { type Cell, type SampledRow, toCellSql } from './cells.ts'
import type { Labels } from './conditions.ts'

/** Of each statement that reads rows. */
const ROWS_TIMEOUT_MS = 5_000

/** Reads rows; null where that takes too long, or where the role lacks a right that a policy or a function of the table needs. */
async function readRows<Row>(db: Database, text: string): Promise<readonly Row[] | null> {
  try {
    return await inTransaction(db, (tx: Db) => query<Row>(tx, text), ROWS_TIMEOUT_MS)
  } catch (error) {
    const state = sqlStateOf(error)
    if (state === QUERY_CANCELED || state === '42501' || state.startsWith('22')) return null
    throw error
  }
}

/** Rows by which the columns of a table are recognized. */
const SAMPLE_ROWS = 500
/** Enough for an address or a URL. */
const MAX_CHARACTERS = 300
/** Longer documents are not read. */
const MAX_JSON_BYTES = 20_000
/** A larger table is sampled by its pages. */
const SMALL_TABLE_ROWS = 20_000

/** SQL that reads about this many rows of a large table, spread over it, and the same ones every time. */
const spreadSql = (rows: number, wanted: number): string =>
  rows <= SMALL_TABLE_ROWS
    ? ''
    : `tablesample system (${Math.min(100, (150 * wanted) / rows).toFixed(6)}) repeatable (1)`

/**
 * Samples at most 500 rows of a table, their long texts cut. Null where that takes too long.
 * @param rows an estimate; null: unknown
 */
export async function sampleRows(
  db: Database,
  { sql, columns }: Table,
  rows: number | null,
): Promise<readonly SampledRow[] | null> {
  const values = columns.flatMap(({ name, canSelect, type: { fit } }) => {
    const own = `t.${quoteIfNeeded(name)}`
    if (!canSelect || fit.kind === 'other' || fit.kind === 'bits') return []
    const isJson = fit.kind === 'json' || fit.kind === 'jsonb'
    const value = isJson
      ? `case when pg_column_size(${own}) < ${MAX_JSON_BYTES} then ${own}::jsonb end`
      : fit.kind === 'array'
        ? `to_jsonb(${own}[1:20])`
        : `left(${own}::text, ${MAX_CHARACTERS})`
    return [`${value} as ${own.slice(2)}`]
  })
  if (values.length === 0) return []
  const read = (spread: string): Promise<readonly SampledRow[] | null> =>
    readRows(db, `select ${values.join(', ')} from ${sql} as t ${spread} limit ${SAMPLE_ROWS}`)
  const spread = spreadSql(rows ?? 0, SAMPLE_ROWS)
  const found = await read(spread)
  // Pages may be half empty, and the estimate of the rows may be old.
  return spread !== '' && (found?.length ?? 0) < SAMPLE_ROWS / 5 ? read('') : found
}

/** SQL, what the rows of a cell are counted by: `true`, `past`, the text of the value, each element of a list. */
export function toLabelSql(cell: Cell, alias = 't'): string {
  const own = toCellSql(cell, alias)
  if (cell.kind === 'time')
    return `case when ${own} <= now() then 'past' when ${own} > now() then 'future' end`
  if (cell.kind !== 'list') return `left(btrim((${own})::text), ${MAX_CHARACTERS})`
  if (cell.column.type.fit.kind === 'array') return `distinct unnest(${own})::text`
  return `distinct jsonb_array_elements_text(case jsonb_typeof((${own})::jsonb) when 'array' then (${own})::jsonb end)`
}

interface Counts {
  readonly rows: number
  readonly of: 'table' | 'sample'
  /** In the order in which the labels were given. */
  readonly labels: readonly Labels[]
}

/** Of a cell with more labels, which is no short list, the rest is not counted. */
const COUNTED_LABELS = 30
/** The rows that are counted of a table that is too large to be counted whole. */
const COUNTED_ROWS = 20_000

/**
 * Counts the rows with each label in one statement, before any condition; where that takes too long, of some rows. Null where even
 * that does.
 * @param from the table with the alias of its cells
 * @param count SQL that counts: the rows, or what they refer to
 */
export async function countLabels(
  db: Database,
  from: string,
  rows: number | null,
  labels: readonly string[],
  count = 'count(*)',
): Promise<Counts | null> {
  const labelled = labels.map((sql, n) => ` union all (select ${sql}, ${n})`).join('')
  const read = (spread: string): Promise<ReadonlyArray<{ n: number; label: string; rows: number }> | null> =>
    readRows(
      db,
      `select n, label, rows from (
         select v.n, v.label, ${count}::float8 as rows,
                row_number() over (partition by v.n order by ${count} desc, v.label) as place
           from ${from} ${spread}
           cross join lateral (select null::text, -1${labelled}) as v(label, n)
          where v.n = -1 or v.label <> ''
          group by v.n, v.label) as c
        where place <= ${COUNTED_LABELS} order by n, place`,
    )
  const whole = await read('')
  const found = whole ?? (await read(spreadSql(rows ?? COUNTED_ROWS, COUNTED_ROWS)))
  if (found === null) return null
  const byCell = Map.groupBy(found, ({ n }) => n)
  return {
    rows: byCell.get(-1)?.[0]?.rows ?? 0,
    of: whole === null ? 'sample' : 'table',
    labels: labels.map((_, n) => new Map((byCell.get(n) ?? []).map((one) => [one.label, one.rows]))),
  }
}
