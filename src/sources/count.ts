import { query, type Db } from './db.ts'
import { eligible, joins } from './inputs.ts'
import type { Source } from './mapped.ts'
import { quoteName } from './quote.ts'

/** How many rows a source's table holds. Reads all of it. */
export async function countTable(db: Db, source: Source): Promise<number> {
  const [row] = await query<{ count: number }>(
    db,
    `select count(*)::float8 as count from ${source.table.sql}`,
  )
  return row?.count ?? 0
}

/** How many of them belong to the source: by its filter and joins, and with a key. Reads all of it. */
export async function countEligible(db: Db, source: Source): Promise<number> {
  const keyed = source.keyColumns
    .filter((column) => !column.notNull)
    .map((column) => `t.${quoteName(column.name)} is not null`)
  const [row] = await query<{ count: number }>(
    db,
    `select count(*)::float8 as count from ${source.table.sql} as t ${joins(source)}
      where ${[eligible(source), ...keyed].join(' and ')}`,
  )
  return row?.count ?? 0
}
