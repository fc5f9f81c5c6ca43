import { type Db, query } from './db.ts'
import { keyMatchesSql } from './key.ts'
import { filterCastableKeys } from './page.ts'
import type { Source } from './source-model.ts'

/**
 * Those keys that no row of the source's table has, whatever `where` and `joins` say: a row that has left the source is
 * still there. A key that cannot be one of the table, because the type has changed, is no row's.
 *
 * One index probe for each key: `offset 0` keeps the planner from reading the whole table for a page of keys.
 * @param tx a transaction; it is not aborted
 */
export async function findDeletedKeys(tx: Db, source: Source, keys: readonly string[]): Promise<string[]> {
  if (keys.length === 0) return []
  const castable = await filterCastableKeys(tx, source, keys)
  const present = new Set(
    (
      await query<{ key: string }>(
        tx,
        `select "~given"."~key" as key from unnest($1::text[]) as "~given"("~key")
          where exists (select from ${source.table.sql} as t
                         where ${keyMatchesSql(source, '"~given"."~key"')} offset 0)`,
        [castable],
      )
    ).map((row) => row.key),
  )
  return keys.filter((key) => !present.has(key))
}
