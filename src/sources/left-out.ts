import { describeError } from '../util/error-text.ts'
import { QUERY_CANCELED, sqlStateOf } from '../util/sqlstates.ts'
import { type Db, query } from './db.ts'
import { renderExpression } from './expression.ts'
import { belongsSql, joinsSql } from './inputs.ts'
import { hasKeySql, keyTextSql } from './key.ts'
import { isRowError } from './pg-errors.ts'
import type { Source } from './source-model.ts'

/** What one condition of `where` leaves out of its source. */
export interface ConditionCount {
  /** As configured. */
  readonly condition: string
  /** Rows that it leaves out, whatever other conditions do. NULL leaves a row out as false does. */
  readonly rows: number
  /** Of these, the rows that meet every other condition: without this one they would be in the source. */
  readonly alone: number
  /** Some of these rows by their keys, those that it alone leaves out first. Only where they were requested. */
  readonly keys?: readonly string[]
}

/** SQL for each condition of the source: whether it leaves the row out. */
export const listUnmetSql = ({ mapping }: Pick<Source, 'mapping'>): string[] =>
  mapping.where.map((condition) => `(${renderExpression(condition).sql}\n) is not true`)

/** SQL: the rows outside a source with, for each condition, whether it leaves them out: `c0`, `c1`, and how many do. */
const outsideSql = (source: Source): string => {
  const unmet = listUnmetSql(source)
  return `
    select ${unmet.map((sql, n) => `${sql} as c${n}`).join(', ')}, ${unmet.map((sql) => `(${sql})::int`).join(' + ')} as unmet,
           case when ${hasKeySql(source)} then ${keyTextSql(source)} end as key
      from ${source.table.sql} as t ${joinsSql(source)} where (${belongsSql(source)}) is not true`
}

/** Counts what each condition of a source that has some leaves out. Reads the whole table once. */
export async function countLeftOut(db: Db, source: Source): Promise<ConditionCount[]> {
  const { where } = source.mapping
  const counts = where.map(
    (_, n) =>
      `count(*) filter (where c${n})::float8 as rows${n}, count(*) filter (where c${n} and unmet = 1)::float8 as alone${n}`,
  )
  const [row] = await query<Readonly<Record<string, number>>>(
    db,
    `select ${counts.join(', ')} from (${outsideSql(source)}) as outside`,
  )
  return where.map((condition, n) => ({
    condition,
    rows: row?.[`rows${n}`] ?? 0,
    alone: row?.[`alone${n}`] ?? 0,
  }))
}

/** Adds some keys of the rows that each condition leaves out. Reads the table once for each condition that leaves any out. */
export async function addLeftOutKeys(
  db: Db,
  source: Source,
  counts: readonly ConditionCount[],
  limit: number,
): Promise<ConditionCount[]> {
  const withKeys: ConditionCount[] = []
  for (const [n, count] of counts.entries()) {
    const rows =
      count.rows === 0
        ? []
        : await query<{ key: string }>(
            db,
            `select key from (${outsideSql(source)}) as outside where c${n} and key is not null
              order by unmet <> 1, key limit ${limit}`,
          )
    withKeys.push({ ...count, keys: rows.map(({ key }) => key) })
  }
  return withKeys
}

/**
 * Why the conditions cannot be counted: each is evaluated on rows that another may leave out of a run, where it may fail or be slow.
 * @throws any other error
 */
export function describeUncounted(error: unknown): string {
  if (isRowError(error) || sqlStateOf(error) === QUERY_CANCELED) return describeError(error)
  throw error
}
