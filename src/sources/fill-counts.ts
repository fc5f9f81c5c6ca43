import { isBlankSql } from './cell.ts'
import { type Db, query, queryValue } from './db.ts'
import { belongsSql, joinsSql } from './inputs.ts'
import { hasKeySql } from './key.ts'
import type { Source } from './source-model.ts'

export interface FillCounts {
  /** Rows that belong to the source, and have a key. */
  readonly eligible: number
  /** For each output of any service, in the configured order, the number of rows with a value. */
  readonly columns: ReadonlyArray<{ readonly column: string; readonly filled: number }>
}

/** Counts the rows of a source, and per column those that are not blank. Reads the table once. */
export async function countFilled(db: Db, source: Source): Promise<FillCounts> {
  const { allOutputs: outputs = source.outputs } = source
  const counts = outputs.map(
    (output, i) => `count(*) filter (where not ${isBlankSql(output)})::float8 as c${i}`,
  )
  const [row] = await query<Readonly<Record<string, number>>>(
    db,
    `select ${['count(*)::float8 as eligible', ...counts].join(', ')}
       from ${source.table.sql} as t ${joinsSql(source)}
      where ${belongsSql(source, { outputs: true })} and ${hasKeySql(source)}`,
  )
  return {
    eligible: row?.['eligible'] ?? 0,
    columns: outputs.map((output, i) => ({ column: output.column, filled: row?.[`c${i}`] ?? 0 })),
  }
}

/**
 * Identifies the file of a source's table: a swap, TRUNCATE or rewrite changes it. That of a
 * partitioned table is the table.
 */
export async function readTableNode(db: Db, source: Source): Promise<string | null> {
  return queryValue(db, `select coalesce(pg_relation_filenode(r), r::oid)::text from to_regclass($1) as r`, [
    source.table.sql,
  ])
}
