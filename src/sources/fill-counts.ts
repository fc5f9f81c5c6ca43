import { isBlankSql } from './cell.ts'
import { type Db, query } from './db.ts'
import { belongsSql, joinsSql } from './inputs.ts'
import { quoteName } from './quote.ts'
import type { Source } from './source-model.ts'

export interface FillCounts {
  /** Rows that belong to the source. */
  readonly eligible: number
  /** For each output, in the configured order, the number of rows with a value. */
  readonly columns: ReadonlyArray<{ readonly column: string; readonly filled: number }>
}

/** Counts the rows of a source, and per column those that are not blank. Reads the table once. */
export async function countFilled(db: Db, source: Source): Promise<FillCounts> {
  const counts = source.outputs.map(
    (output, i) => `count(*) filter (where not ${isBlankSql(output)})::float8 as c${i}`,
  )
  const [row] = await query<Readonly<Record<string, number>>>(
    db,
    `select ${['count(*)::float8 as eligible', ...counts].join(', ')}
       from ${source.table.sql} as t ${joinsSql(source)}
      where ${belongsSql(source, { outputs: true })}`,
  )
  return {
    eligible: row?.['eligible'] ?? 0,
    columns: source.outputs.map((output, i) => ({ column: output.column, filled: row?.[`c${i}`] ?? 0 })),
  }
}

/** The number of rows in a source's table. Reads the whole table. */
export async function countTableRows(db: Db, source: Source): Promise<number> {
  const [row] = await query<{ count: number }>(
    db,
    `select count(*)::float8 as count from ${source.table.sql}`,
  )
  return row?.count ?? 0
}

/** The number of rows that belong to the source: by its filter and joins, and with a key. Reads the whole table. */
export async function countEligibleRows(db: Db, source: Source): Promise<number> {
  const keyed = source.keyColumns
    .filter((column) => !column.notNull)
    .map((column) => `t.${quoteName(column.name)} is not null`)
  const [row] = await query<{ count: number }>(
    db,
    `select count(*)::float8 as count from ${source.table.sql} as t ${joinsSql(source)}
      where ${[belongsSql(source), ...keyed].join(' and ')}`,
  )
  return row?.count ?? 0
}
