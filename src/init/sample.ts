import type { Table } from '../sources/catalogue.ts'
import { type Db, query } from '../sources/db.ts'
import { quoteName } from '../sources/quote.ts'
import { MAX_LABELS, MAX_LABEL_CHARACTERS, type SampledRow, repeatedLabels } from './fields.ts'

/** A table to read some rows of, with the estimated number of its rows. */
interface Sampled {
  readonly table: Pick<Table, 'sql' | 'columns'>
  readonly rows: number | null
}

/** Above this, only some pages of a table are read. */
const LARGE_TABLE_ROWS = 20_000
/** A table of more bytes is not sorted. */
const MAX_SORTED_BYTES = 50_000_000

/**
 * SQL that samples a large table: some pages, four times as many as should hold the rows wanted, because pages may be
 * half empty. Empty if the table is smaller or its size is unknown. Repeatable, so that a proposal does not change between
 * runs.
 */
const pagesSql = (rows: number | null, wanted: number): string =>
  rows === null || rows <= LARGE_TABLE_ROWS
    ? ''
    : `tablesample system (${Math.min(100, (400 * wanted) / rows).toFixed(6)}) repeatable (1)`

interface Selection {
  readonly select: readonly string[]
  /** Joins and conditions. */
  readonly rest?: string
  /** What is computed of what was selected, of the rows read alone and not of all that are sorted; with the joins for it. */
  readonly values?: readonly string[]
  readonly joins?: string
}

/** Reads some rows of a table, spread over all of it: the first are its oldest, and those of one page are of one kind. */
export async function readSample<Row>(
  db: Db,
  { table, rows }: Sampled,
  wanted: number,
  { select, rest = '', values = ['*'], joins = '' }: Selection,
): Promise<readonly Row[]> {
  const read = (pages: string, order: string): Promise<readonly Row[]> =>
    query(
      db,
      `select ${values.join(', ')} from
        (select ${select.join(', ')} from ${table.sql} as t ${pages} ${rest} ${order} limit ${wanted}) as t ${joins}`,
    )
  // Who may read some columns may not read where a row lies.
  const readable = table.columns.filter(({ canSelect }) => canSelect)
  const place = readable.length === table.columns.length ? 'ctid' : quoteName(readable[0]?.name ?? '')
  const spread = `order by md5(t.${place}::text)`
  const pages = pagesSql(rows, wanted)
  const some = pages === '' ? [] : await read(pages, spread)
  if (some.length >= wanted / 2) return some
  const [size] = await query<{ isSmall: boolean }>(
    db,
    `select coalesce((select sum(pg_relation_size(relid)) from pg_partition_tree($1::regclass)),
                     pg_relation_size($1::regclass)) <= ${MAX_SORTED_BYTES} as "isSmall"`,
    [table.sql],
  )
  return read('', size?.isSmall === true ? spread : '')
}

/** Rows sampled from one table. */
const SAMPLE_ROWS = 200
/** Enough to recognise an email address or a URL. */
const MAX_VALUE_CHARACTERS = 300
/** Longer documents are not parsed. */
const MAX_JSON_BYTES = 20_000

/** Samples at most 200 rows: the beginning of long values, the first element of arrays. */
export async function sampleTableRows(db: Db, sampled: Sampled): Promise<readonly SampledRow[]> {
  const columns = sampled.table.columns.filter(({ canSelect }) => canSelect)
  const select = columns.map(({ name }) => `t.${quoteName(name)}`)
  const values = columns.map(({ type: { fit } }, n) => {
    const own = select[n] ?? ''
    const value =
      fit.kind === 'json' || fit.kind === 'jsonb'
        ? `case when pg_column_size(${own}) < ${MAX_JSON_BYTES} then ${own}::jsonb end`
        : `left(${fit.kind === 'array' ? `${own}[1]` : own}::text, ${MAX_VALUE_CHARACTERS})`
    return `${value} as ${own.slice(2)}`
  })
  return select.length === 0 ? [] : readSample(db, sampled, SAMPLE_ROWS, { select, values })
}

/** Rows from which the labels of a table's columns are taken; a rare label would be missing in the sample. */
const LABEL_ROWS = 2_000

/** The labels of the columns that repeat few texts, by column; of an array, its elements. A column that repeats none is not there. */
export async function readLabels(
  db: Db,
  sampled: Sampled,
  sample: readonly SampledRow[],
): Promise<Readonly<Record<string, readonly string[] | undefined>>> {
  const select = sampled.table.columns.flatMap(({ name, type: { fit }, canSelect }) => {
    const own = quoteName(name)
    const isList = fit.kind === 'array' && /^(?:text|enum|integer|uuid)$/.test(fit.element.kind)
    // Names and addresses, most of what a table holds, need not be read.
    const isVaried = new Set(sample.map((row) => String(row[name] ?? '').trim())).size > MAX_LABELS + 1
    if (!canSelect || isVaried || !(isList || /^(?:text|enum)$/.test(fit.kind))) return []
    return [`${isList ? `t.${own}::text[]` : `left(t.${own}::text, ${MAX_LABEL_CHARACTERS + 1})`} as ${own}`]
  })
  const rows = select.length === 0 ? [] : await readSample<SampledRow>(db, sampled, LABEL_ROWS, { select })
  const names = Object.keys(rows[0] ?? {})
  return Object.fromEntries(names.map((name) => [name, repeatedLabels(rows.map((row) => row[name]))]))
}
