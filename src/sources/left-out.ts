import type { ConditionCount } from '../domain/report/plan.ts'
import type { FillCounts } from '../domain/report/status.ts'
import { describeError, QUERY_CANCELED, sqlStateOf } from '../util/error-text.ts'
import { query, isRowError, type Db } from './db.ts'
import { renderExpression } from './expression.ts'
import { belongsSql, joinsSql } from './inputs.ts'
import { hasKeySql, keyTextSql } from './key.ts'
import type { Source } from './source-model.ts'
import { isBlankSql } from './cell.ts'

/** SQL for each condition of the source: whether it leaves the row out. */
export const listUnmetSql = ({ mapping }: Pick<Source, 'mapping'>): string[] =>
  mapping.where.map((condition) => `(${renderExpression(condition).sql}\n) is not true`)

/** SQL: the rows of a table: whether each is in the source, and for each condition whether it leaves the row out: `c0`, `c1`. */
const rowsSql = (source: Source, unmet: readonly string[]): string => {
  const leftOut = unmet.map((sql, n) => `case when "~inside" then false else ${sql} end as c${n}`)
  const hasKey = hasKeySql(source)
  const columns = ['"~inside" as inside', `${hasKey} as has_key`, ...leftOut]
  return `
    select ${columns.join(', ')}, case when ${hasKey} then ${keyTextSql(source)} end as key
      from ${source.table.sql} as t ${joinsSql(source)}
     cross join lateral (select (${belongsSql(source)}) is true as "~inside" offset 0) as "~source"`
}

const toUnmetSql = (unmet: readonly string[]): string => unmet.map((_, n) => `c${n}::int`).join(' + ')

/** The rows of a source's table. */
export interface RowCounts {
  readonly table: number
  /** Rows that belong to the source and have a key. */
  readonly eligible: number
  /** Rows that its filter and joins let in, with NULL in a column of the key: they are never picked. */
  readonly withoutKey: number
  /** Null: not counted. */
  readonly conditions: readonly ConditionCount[] | null
}

/** Counts the rows of a source's table, and what each condition of the source leaves out. Reads the whole table. */
export async function countTableRows(
  db: Db,
  source: Source,
  { conditions: areCounted }: { readonly conditions: boolean },
): Promise<RowCounts> {
  const unmet = areCounted ? listUnmetSql(source) : []
  const table = source.mapping.joins === null ? 'count(*)' : `(select count(*) from ${source.table.sql})`
  const counts = [
    `${table}::float8 as "table"`,
    'count(*) filter (where inside and has_key)::float8 as eligible',
    'count(*) filter (where inside and not has_key)::float8 as "withoutKey"',
    ...unmet.flatMap((_, n) => [
      `count(*) filter (where c${n})::float8 as rows${n}`,
      `count(*) filter (where c${n} and ${toUnmetSql(unmet)} = 1)::float8 as alone${n}`,
    ]),
  ]
  const [row = {}] = await query<Readonly<Record<string, number>>>(
    db,
    `select ${counts.join(', ')} from (${rowsSql(source, unmet)}) as x`,
  )
  const count = (name: string): number => row[name] ?? 0
  return {
    table: count('table'),
    eligible: count('eligible'),
    withoutKey: count('withoutKey'),
    conditions: areCounted
      ? source.mapping.where.map((condition, n) => ({
          condition,
          rows: count(`rows${n}`),
          alone: count(`alone${n}`),
        }))
      : null,
  }
}

/** Adds some keys of the rows that each condition leaves out. Reads the table once for each condition that leaves any out. */
export async function addLeftOutKeys(
  db: Db,
  source: Source,
  counts: readonly ConditionCount[],
  limit: number,
): Promise<ConditionCount[]> {
  const unmet = listUnmetSql(source)
  const withKeys: ConditionCount[] = []
  for (const [n, count] of counts.entries()) {
    const rows =
      count.rows === 0
        ? []
        : await query<{ key: string }>(
            db,
            `select key from (${rowsSql(source, unmet)}) as x where c${n} and key is not null
              order by ${toUnmetSql(unmet)} <> 1, key limit ${limit}`,
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

/** Counts the rows of a source, and per column the rows with a value. Reads the table once. */
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
