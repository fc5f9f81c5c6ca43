import { belongsSql } from '../inputs.ts'
import { keyFromTextSql, keyMatchesSql, keyOrderSql } from '../key.ts'
import { isWritingSql } from '../own-writes.ts'
import { quoteName } from '../quote.ts'
import type { Source } from '../source-model.ts'
import { listReadColumns } from '../triggers/columns.ts'
import { batchFromJsonSql, batchSql } from './batch.ts'
import { stateSql } from './result-sql.ts'
import { hasUniqueOutputs } from './unique-sql.ts'

/**
 * In parentheses. The rows are sorted before they are locked, and each is looked up by its key: sorted and joined in one
 * step, all their columns were copied twice more.
 */
export function lockedRowsSql(
  source: Source,
  { preview, apart }: { readonly preview: boolean; readonly apart: boolean },
): string {
  const columns = [
    ...listReadColumns(source).map((name, n) => `t.${quoteName(name)} as "~column${n}"`),
    ...(source.table.isInherited ? ['t.tableoid as "~table", t.ctid as "~place"'] : []),
  ]
  return `(
      select "~row" as "~i", "~batch".*, t.*
        from (select b.* from ${apart ? batchFromJsonSql(source) : batchSql(source)} cross join lateral ${keyFromTextSql(source, 'b."~key"')} as p
              ${preview ? '' : `where ${isWritingSql(source)}`} order by ${keyOrderSql(source, 'p')} offset 0) as "~batch"
       cross join lateral (
        select ${columns.join(', ')} from ${source.table.sql} as t where ${keyMatchesSql(source, '"~batch"."~key"')}
         ${preview ? '' : 'for no key update skip locked'}) as t)`
}

/** Whether a locked row may be missing in `~evaluated`, or is read twice: `~locked` is then kept, which costs two copies of it. */
export const mayLoseRows = (source: Source): boolean =>
  source.mapping.joins !== null || belongsSql(source) !== 'true' || hasUniqueOutputs(source)

/**
 * SQL for the state of a row that `~evaluated` lacks. Few rows do, each found by its key: without OFFSET 0 the planner may
 * read the whole table for it.
 */
export const missingStateSql = (source: Source): string => `
             case ${mayLoseRows(source) ? `when exists (select from "~locked" as l where l."~i" = "~batch"."~row") then ${stateSql('left')}` : ''}
                  when exists (select from ${source.table.sql} as t where ${keyMatchesSql(source, '"~batch"."~key"')} offset 0) then ${stateSql('locked')}
                  else ${stateSql('missing')} end`
