import type { Table } from '../catalogue.ts'
import { query, type Db } from '../db.ts'
import { quoteName } from '../quote.ts'
import type { SampleRow } from './field.ts'

/** Rows looked at of one table. */
export const SAMPLE_ROWS = 200

/** Above this only some pages of a table are read. */
const BIG = 20_000

/** Enough to tell an address or a URL by. */
const MOST_CHARACTERS = 300

/** A document longer than this is not looked into. */
const MOST_JSON_BYTES = 20_000

/**
 * Some rows of a table: at most 200, of long values only their beginning, of arrays the first element. Not its first rows,
 * because those are its oldest.
 */
export async function readSample(db: Db, table: Table, rows: number | null): Promise<readonly SampleRow[]> {
  const columns = table.columns.filter((column) => column.canSelect)
  if (columns.length === 0) return []
  const list = columns.map(({ name, type }, n) => {
    const column = `t.${quoteName(name)}`
    switch (type.fit.kind) {
      case 'json':
      case 'jsonb':
        return `case when pg_column_size(${column}) < ${MOST_JSON_BYTES} then ${column}::jsonb end as c${n}`
      case 'array':
        return `left(${column}[1]::text, ${MOST_CHARACTERS}) as c${n}`
      default:
        return `left(${column}::text, ${MOST_CHARACTERS}) as c${n}`
    }
  })
  const read = (from: string): Promise<readonly Record<string, unknown>[]> =>
    query(db, `select ${list.join(', ')} from ${table.sql} as t ${from} limit ${SAMPLE_ROWS}`)
  const spread = tableSample(rows)
  const some = spread === null ? [] : await read(spread)
  const found = some.length >= SAMPLE_ROWS / 2 ? some : await read('')
  return found.map((row) => Object.fromEntries(columns.map(({ name }, n) => [name, row[`c${n}`]])))
}

/**
 * SQL for rows from all over a table: of a big one some pages, four times as many as are likely to hold the rows wanted,
 * because pages may be half empty; of a smaller one some of all its rows. Null for one that is read whole, or of which
 * Postgres does not know how large it is. The same rows each time, so that what is proposed does not change by itself.
 */
export function tableSample(rows: number | null): string | null {
  if (rows === null || rows <= SAMPLE_ROWS) return null
  const [method, times] = rows > BIG ? (['system', 4] as const) : (['bernoulli', 1] as const)
  return `tablesample ${method} (${Math.min(100, (100 * times * SAMPLE_ROWS) / rows).toFixed(6)}) repeatable (1)`
}
