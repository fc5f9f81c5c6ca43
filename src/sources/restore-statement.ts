import { isReachable } from './blank.ts'
import { cellJson, holdsKept, keptValue } from './cell.ts'
import { keyEquals, keyMatches, keyOrder } from './key.ts'
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
  /** Cells that a later write has written, so that they stay although they hold the same. */
  readonly l: readonly string[]
}

/** What the statement tells of one row. */
export interface Restored {
  readonly i: number
  readonly found: boolean
  /** It is there, and another transaction had locked it. */
  readonly locked: boolean
  readonly written: boolean
  readonly before: Record<string, unknown> | null
  readonly after: Record<string, unknown> | null
  /** Cells that stay: somebody has changed them, or another of their group, since. */
  readonly changed: readonly string[] | null
}

/**
 * The statement that takes writes back: each cell is given what it held before, if it still holds what was written,
 * and so do the other cells of its group: half a telephone number is worse than one that somebody has looked at.
 * Steps as in `writeStatement`: lock what no other transaction has locked, judge on the locked version, update.
 * @param rehearse leaves out the lock and the update: `written` then tells whether a row would be, `after` nothing
 */
export function restoreStatement(source: Source, cells: readonly Cell[], { rehearse = false } = {}): string {
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
      select * from jsonb_to_recordset($1::jsonb) as x(i int, key text, b jsonb, a jsonb, l jsonb)
    ), "~locked" as materialized (
      select "~b".i as "~i", ${columns.map((name) => `t.${quoteName(name)}`).join(', ')}
        from "~batch" as "~b" join ${source.table.sql} as t on ${keyMatches(source, '"~b".key')}
       order by ${keyOrder(source)} ${rehearse ? '' : 'for no key update of t skip locked'}
    ), "~judged" as materialized (
      select t.*, "~r".*, "~b".b as "~before", "~b".a as "~after kept", ${inJson.map((_, n) => `"~m${n}".x as "~m${n}", `).join('')}
             ${concatenated(cells.flatMap((cell) => heldEntries(cell, flag(cell))))} as "~held",
             to_jsonb(array_remove(array[${cells.map((cell) => keptCell(cell, flag(cell))).join(', ')}]::text[], null)) as "~changed"
        from "~locked" as t join "~batch" as "~b" on "~b".i = t."~i"
       cross join lateral (select ${cells.map((cell, n) => `${isRestored(cell, groupOf(source, cell, cells))} as "~r${n}"`).join(', ')} offset 0) as "~r"
       ${inJson.map((group, n) => restoredJson(group, n, flag)).join('\n')}
    ), "~written" as (${rehearse ? wouldRestore(cells) : update(source, cells, inJson, numbers)}
    )
    select coalesce(json_agg(json_build_object(
             'i', "~b".i, 'found', j."~i" is not null,
             'locked', j."~i" is null and exists (
               select from ${source.table.sql} as t where ${keyMatches(source, '"~b".key')} offset 0),
             'written', w."~i" is not null, 'before', j."~held",
             'after', w."~after", 'changed', j."~changed") order by "~b".i), '[]')::text as told
      from "~batch" as "~b" left join "~judged" as j on j."~i" = "~b".i left join "~written" as w on w."~i" = "~b".i`
}

function update(
  source: Source,
  cells: readonly Cell[],
  inJson: ReadonlyArray<readonly Cell[]>,
  numbers: ReadonlyMap<Cell, number>,
): string {
  const after = cells.map((cell, n) =>
    entry(`j."~r${n}"`, cell.column, `coalesce(${cellJson(cell)}, 'null')`),
  )
  return `
      update ${source.table.sql} as t set ${[
        ...cells.flatMap((cell, n) => (cell.path.length === 0 ? [restored(cell, `j."~r${n}"`)] : [])),
        ...inJson.map((group, n) => jsonAssignment(group, n, numbers)),
      ].join(', ')}
        from "~judged" as j
       where ${source.keyColumns.map((column) => keyEquals(column, `j.${quoteName(column.name)}`)).join(' and ')}
         and ${anyRestored(cells)}
      returning j."~i", ${concatenated(after)} as "~after"`
}

const wouldRestore = (cells: readonly Cell[]): string => `
      select j."~i", '{}'::jsonb as "~after" from "~judged" as j where ${anyRestored(cells)}`

const anyRestored = (cells: readonly Cell[]): string => `(${cells.map((_, n) => `j."~r${n}"`).join(' or ')})`

/** The other cells of its output's group. */
function groupOf(source: Source, cell: Cell, cells: readonly Cell[]): Cell[] {
  const group = source.outputs.find((output) => output.column === cell.column)?.mapping.group ?? null
  const names = new Set(
    source.outputs.filter((output) => output.mapping.group === group).map(({ column }) => column),
  )
  return group === null ? [] : cells.filter((other) => other !== cell && names.has(other.column))
}

const isRestored = (cell: Cell, group: readonly Cell[]): string =>
  [isOurs(cell), ...group.map((other) => `(not ${isIn(other)} or ${isOurs(other)})`)].join(' and ')

const isIn = (cell: Cell): string => `("~b".a ? ${quoteLiteral(cell.column)})`

/** Whether the cell holds what was written there. */
const isOurs = (cell: Cell): string =>
  `(${isIn(cell)} and not coalesce("~b".l ? ${quoteLiteral(cell.column)}, false) and ${isReachable(cell)}` +
  ` and ${holdsKept(cell, `("~b".a -> ${quoteLiteral(cell.column)})`)})`

const keptCell = (cell: Cell, flag: string): string =>
  `case when ${isIn(cell)} and not ${flag} then ${quoteLiteral(cell.column)} end`

function restored(cell: Cell, flag: string): string {
  const name = quoteLiteral(cell.column)
  const column = quoteName(cell.attribute)
  const after = `(j."~after kept" -> ${name})`
  const isOldJson = `coalesce(jsonb_typeof(${after}), 'null') not in ('string', 'null') or t.${column}::text = ${after}::text`
  const value = keptValue(cell, `(j."~before" -> ${name})`, isOldJson)
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
