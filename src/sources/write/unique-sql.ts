import { currentCellSql } from '../cell.ts'
import { keyEqualsSql, keyOrderSql } from '../key.ts'
import { quoteLiteral, quoteName } from '../quote.ts'
import type { MappedOutput, Source } from '../source-model.ts'
import { type IndexedOutput, outputsInGroup } from './cell-sql.ts'

/*
 * `unique` of an output: its value occurs once among the rows that agree in the listed columns; in the whole table if none
 * is listed. As in Postgres, a row with NULL in one of them is compared with none. Two rules for the rows of a batch:
 * a value that another row of the table holds is not written, and of two rows that would get the same value the first in
 * key order gets it. `lockUniqueSql` makes writers wait for one another. What a user's open transaction is about to
 * commit cannot be seen: only a unique index excludes that too.
 */

export const hasUniqueOutputs = (source: Source): boolean =>
  source.outputs.some(({ mapping }) => mapping.unique !== null)

/** Taken before the write, in a statement of its own: a snapshot that is older than the lock would miss the last batch. */
export const lockUniqueSql = (source: Source): string =>
  `select pg_advisory_xact_lock(hashtextextended(${quoteLiteral(`fillrate unique ${source.table.sql}`)}, 0))`

/**
 * SQL for the CTEs that find the duplicates of each unique output, `"~duplicate<n>"("~i")`; empty without such an output.
 * @param from FROM up to the columns `~different<n>` and `~new<n>`
 * @param where which of its rows belong to the batch
 */
export function duplicatesSql(
  source: Source,
  cells: readonly IndexedOutput[],
  from: string,
  where: string,
): string {
  const uniques = cells.filter(({ output }) => output.mapping.unique !== null)
  if (uniques.length === 0) return ''
  const columns = [
    ...source.keyColumns.map(({ name }) => `t.${quoteName(name)} as ${quoteName(name)}`),
    ...uniques.flatMap(({ output, index }) => [
      `"~different${index}", ${comparableSql(output, `"~new${index}"`)} as "~value${index}"`,
      ...uniqueColumns(output).map((name, n) => `${valueAfterSql(name, cells)} as "~within${index}_${n}"`),
    ]),
  ]
  return `"~candidates" as materialized (
      select "~i", ${columns.join(', ')}
        ${from}
       where ${where}
    ), ${uniques.map((cell) => duplicatesOfSql(source, cell)).join(' ')}`
}

/** SQL for a column's value after the write: it may be filled together with the value that is unique within it. */
function valueAfterSql(name: string, cells: readonly IndexedOutput[]): string {
  const filled = cells.find(({ output }) => output.attribute === name && output.path.length === 0)
  const now = `t.${quoteName(name)}`
  return filled === undefined
    ? now
    : `case when "~different${filled.index}" then "~new${filled.index}" else ${now} end`
}

function duplicatesOfSql(source: Source, { output, index }: IndexedOutput): string {
  const within = uniqueColumns(output).map((name, n) => ({ name, value: `c."~within${index}_${n}"` }))
  const isComparable = within.map(({ value }) => ` and ${value} is not null`).join('')
  const isSame = isSameSql({ output, index })
  const isItself = source.keyColumns.map((column) => keyEqualsSql(column, `c.${quoteName(column.name)}`, 'u'))
  return `"~duplicate${index}" as materialized (
      select "~i" from (
        select c."~i", row_number() over (partition by ${[...within.map(({ value }) => value), `c."~value${index}"`].join(', ')} order by ${keyOrderSql(source, 'c')}) as n
          from "~candidates" as c where c."~different${index}"${isComparable}) as r
       where n > 1
       union
      select c."~i" from "~candidates" as c join ${source.table.sql} as u on ${isSame}
       where c."~different${index}" and not (${isItself.join(' and ')})
    ),`
}

/** SQL: whether a row `u` of the table has the value of a candidate `c`, and agrees in the columns. */
const isSameSql = ({ output, index }: IndexedOutput): string =>
  [
    ...uniqueColumns(output).map((name, n) => `u.${quoteName(name)} = c."~within${index}_${n}"`),
    `${comparableSql(output, currentCellSql(output, 'u'))} = c."~value${index}"`,
  ].join(' and ')

/** SQL that reads the rows with one value of an output: its plan shows whether an index serves `unique`. */
export function sameValuesSql({ table }: Source, output: MappedOutput): string {
  const types = new Map(table.columns.map(({ name, type }) => [name, type.name]))
  const candidate = [
    ...uniqueColumns(output).map((name, n) => `null::${types.get(name)} as "~within0_${n}"`),
    `${comparableSql(output, `null::${output.path.length > 0 ? 'jsonb' : output.type.cast}`)} as "~value0"`,
  ]
  // Fenced: the planner would see that nothing equals NULL.
  return `select from (select ${candidate.join(', ')} offset 0) as c join ${table.sql} as u on ${isSameSql({ output, index: 0 })}`
}

/** SQL: whether a cell with a new value is written: neither it nor another cell of its group is a duplicate. */
export function isUniqueChangeSql(cell: IndexedOutput, cells: readonly IndexedOutput[]): string {
  const group = outputsInGroup(cell.output, cells)
  const uniques = (group.length > 0 ? group : [cell]).filter(({ output }) => output.mapping.unique !== null)
  return [`"~different${cell.index}"`, ...uniques.map((one) => `not ${isDuplicateSql(one)}`)].join(' and ')
}

/** SQL: why `unique` leaves a cell as it is, as its reason and detail; null for a cell that it does not concern. */
export function duplicateReasonSql(
  cell: IndexedOutput,
  cells: readonly IndexedOutput[],
): { readonly when: string; readonly reason: string; readonly detail: string } | null {
  const { unique } = cell.output.mapping
  const others = outputsInGroup(cell.output, cells).filter(
    (one) => one.index !== cell.index && one.output.mapping.unique !== null,
  )
  if (unique === null && others.length === 0) return null
  const isOwn = unique === null ? 'false' : isDuplicateSql(cell)
  const detail = unique !== null && unique.length > 0 ? `within ${unique.join(', ')}` : 'in the whole table'
  return {
    when: `"~different${cell.index}" and (${[isOwn, ...others.map(isDuplicateSql)].join(' or ')})`,
    reason: `case when ${isOwn} then 'duplicate' else 'group_incomplete' end`,
    detail: `case when ${isOwn} then ${quoteLiteral(detail)} end`,
  }
}

const isDuplicateSql = ({ index }: IndexedOutput): string =>
  `"~i" in (select d."~i" from "~duplicate${index}" as d)`

const uniqueColumns = ({ mapping }: MappedOutput): readonly string[] => mapping.unique ?? []

/** SQL for a value that `=` can compare: json and unknown types have no such operator, or one in another schema. */
const comparableSql = ({ fit }: MappedOutput, value: string): string =>
  fit.kind === 'json' || fit.kind === 'other' ? `${value}::text` : value
