import { isReachable } from './blank.ts'
import { castJson, cellJson } from './cell.ts'
import { keyMatches, keyOrder } from './key.ts'
import type { Cell, Source } from './mapped.ts'
import { quoteLiteral, quoteName } from './quote.ts'
import { restoredJson } from './restore-json.ts'
import { concatenated, entry, heldEntries } from './told.ts'

/** One row of the statement's `$1`. */
export interface RestoreRow {
  readonly i: number
  readonly key: string
  /** What the cells held before the write: no entry for those that held nothing. */
  readonly b: Readonly<Record<string, unknown>>
  /** What they held after it: the cells that are to be restored. */
  readonly a: Readonly<Record<string, unknown>>
}

/** What the statement tells of one row. */
export interface Restored {
  readonly i: number
  readonly found: boolean
  readonly written: boolean
  readonly before: Record<string, unknown> | null
  readonly after: Record<string, unknown> | null
  /** Cells that somebody has changed since. */
  readonly changed: readonly string[] | null
}

/**
 * The statement that takes writes back: each cell is given what it held before, if it still holds what was written.
 * Steps as in `writeStatement`: lock, judge on the locked version, update.
 */
export function restoreStatement(source: Source, cells: readonly Cell[]): string {
  const columns = [
    ...new Set([...source.keyColumns.map((key) => key.name), ...cells.map((cell) => cell.attribute)]),
  ]
  const inJson = [
    ...Map.groupBy(
      cells.filter((cell) => cell.path.length > 0),
      (cell) => cell.attribute,
    ).values(),
  ]
  const numbers = new Map(cells.map((cell, n) => [cell, n]))
  const flag = (cell: Cell): string => `"~r"."~r${numbers.get(cell)}"`
  return `
    with "~batch" as (
      select * from jsonb_to_recordset($1::jsonb) as x(i int, key text, b jsonb, a jsonb)
    ), "~locked" as materialized (
      select "~b".i as "~i", ${columns.map((name) => `t.${quoteName(name)}`).join(', ')}
        from "~batch" as "~b" join ${source.table.sql} as t on ${keyMatches(source, '"~b".key')}
       order by ${keyOrder(source)} for no key update of t
    ), "~judged" as materialized (
      select t.*, "~r".*, "~b".b as "~before", ${inJson.map((_, n) => `"~m${n}".x as "~m${n}", `).join('')}
             ${concatenated(cells.flatMap((cell) => heldEntries(cell, flag(cell))))} as "~held",
             to_jsonb(array_remove(array[${cells.map(changedSince).join(', ')}]::text[], null)) as "~changed"
        from "~locked" as t join "~batch" as "~b" on "~b".i = t."~i"
       cross join lateral (select ${cells.map((cell, n) => `${isOurs(cell)} as "~r${n}"`).join(', ')} offset 0) as "~r"
       ${inJson.map((group, n) => restoredJson(group, n, flag)).join('\n')}
    ), "~written" as (
      update ${source.table.sql} as t set ${[
        ...cells.flatMap((cell, n) => (cell.path.length === 0 ? [restored(cell, `j."~r${n}"`)] : [])),
        ...inJson.map((group, n) => jsonAssignment(group, n, numbers)),
      ].join(', ')}
        from "~judged" as j
       where ${source.keyColumns.map(({ name }) => `t.${quoteName(name)} = j.${quoteName(name)}`).join(' and ')}
         and (${cells.map((_, n) => `j."~r${n}"`).join(' or ')})
      returning j."~i", ${concatenated(cells.map((cell, n) => entry(`j."~r${n}"`, cell.column, `coalesce(${cellJson(cell)}, 'null')`)))} as "~after"
    )
    select coalesce(json_agg(json_build_object(
             'i', "~b".i, 'found', j."~i" is not null, 'written', w."~i" is not null, 'before', j."~held",
             'after', w."~after", 'changed', j."~changed") order by "~b".i), '[]') as told
      from "~batch" as "~b" left join "~judged" as j on j."~i" = "~b".i left join "~written" as w on w."~i" = "~b".i`
}

const isIn = (cell: Cell): string => `("~b".a ? ${quoteLiteral(cell.column)})`

/** Whether the cell holds what was written there. */
const isOurs = (cell: Cell): string =>
  `(${isIn(cell)} and ${isReachable(cell)} and coalesce(${cellJson(cell)}, 'null') = ("~b".a -> ${quoteLiteral(cell.column)}))`

const changedSince = (cell: Cell): string =>
  `case when ${isIn(cell)} and not ${isOurs(cell)} then ${quoteLiteral(cell.column)} end`

function restored(cell: Cell, flag: string): string {
  const name = quoteLiteral(cell.column)
  const column = quoteName(cell.attribute)
  const value = castJson('j."~before"', name, cell.type.cast, cell.type.fit)
  const typed = cell.type.isDomain ? `(${value})::${cell.type.name}` : value
  return `${column} = case when not ${flag} then t.${column} when j."~before" ? ${name} then ${typed} end`
}

function jsonAssignment(group: readonly Cell[], n: number, numbers: ReadonlyMap<Cell, number>): string {
  const [first] = group
  const column = quoteName(first?.attribute ?? '')
  const value = first?.type.fit.kind === 'json' ? `j."~m${n}"::text::json` : `j."~m${n}"`
  const any = group.map((cell) => `j."~r${numbers.get(cell)}"`).join(' or ')
  return `${column} = case when ${any} then ${value} else t.${column} end`
}
