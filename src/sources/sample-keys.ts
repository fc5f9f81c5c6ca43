import { sql } from 'kysely'
import { hasKeySql, keyOrderSql, keyTextSql } from './key.ts'
import { quoteName, type Db } from './db.ts'
import type { Source } from './source-model.ts'

/** Rows among which the keys are chosen: a few hundred blocks of the table. */
const SAMPLED_ROWS = 10_000

/**
 * Keys at random places of a source's table, in key order, whether or not they belong to the source. Reads some blocks
 * of the table, however large it is.
 * @param random 0..1; the same number gives the same keys of an unchanged table
 */
export async function sampleKeys(
  db: Db,
  source: Source,
  count: number,
  random: () => number,
): Promise<readonly string[]> {
  const rows = await estimateRows(db, source)
  const seed = Math.floor(random() * 2 ** 31)
  const percent = Math.min(100, (100 * SAMPLED_ROWS) / Math.max(1, rows))
  const sampled = sql.raw(percent === 100 ? '' : `tablesample system (${percent}) repeatable (${seed})`)
  const key = sql.raw(keyTextSql(source))
  const columns = sql.raw(source.keyColumns.map(({ name }) => `t.${quoteName(name)}`).join(', '))
  const result = await sql<{ key: string }>`
    select ${key} as key
      from (select ${columns} from ${sql.raw(source.table.sql)} as t ${sampled}
             where ${sql.raw(hasKeySql(source))} order by md5(${key} || ${seed}::text) limit ${count}) as t
     group by ${columns} order by ${sql.raw(keyOrderSql(source))}`.execute(db)
  return result.rows.map((row) => row.key)
}

/** The planner's estimate of a table's rows, from its present size: good enough also before the first ANALYZE. */
export async function estimateRows(db: Db, source: Source): Promise<number> {
  const { rows } = await sql<{
    'QUERY PLAN': ReadonlyArray<{ readonly Plan: { readonly 'Plan Rows': number } }>
  }>`
    explain (format json) select from ${sql.raw(source.table.sql)}`.execute(db)
  return rows[0]?.['QUERY PLAN'][0]?.Plan['Plan Rows'] ?? 0
}
