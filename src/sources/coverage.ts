import { isBlank } from './blank.ts'
import { query, type Db } from './db.ts'
import { eligible, joins } from './inputs.ts'
import type { Source } from './mapped.ts'

export interface Coverage {
  /** Rows that belong to the source. */
  readonly eligible: number
  /** For each output, in the configured order, how many of them hold a value. */
  readonly columns: ReadonlyArray<{ readonly column: string; readonly filled: number }>
}

/** Counts the rows of a source and, column by column, those that are not blank. Reads the table once. */
export async function coverage(db: Db, source: Source): Promise<Coverage> {
  const counts = source.outputs.map(
    (output, i) => `count(*) filter (where not ${isBlank(output)})::float8 as c${i}`,
  )
  const [row] = await query<Readonly<Record<string, number>>>(
    db,
    `select ${['count(*)::float8 as eligible', ...counts].join(', ')}
       from ${source.table.sql} as t ${joins(source)}
      where ${eligible(source)}`,
  )
  return {
    eligible: row?.['eligible'] ?? 0,
    columns: source.outputs.map((output, i) => ({ column: output.column, filled: row?.[`c${i}`] ?? 0 })),
  }
}
