import { cellJsonSql, holdsLastWrittenSql, isReachableSql, jsonColumnSql, restoredValueSql } from '../cell.ts'
import { keyEqualsSql, keyMatchesSql, keyOrderSql, placeColumnsSql, placeEqualsSql } from '../key.ts'
import { joinsSql, rowInputsSql } from '../inputs.ts'
import { givenCellsSql, isWritingSql, leftByWriteSql, recordedCells } from '../own-writes.ts'
import { quoteList, quoteLiteral, quoteName } from '../quote.ts'
import type { MappedCell, Source } from '../source-model.ts'
import { listReadColumns } from '../triggers/columns.ts'
import { composeJsonSql, listParents } from './json-cells.ts'
import { concatJson, jsonEntry, previousValueEntries, setRolePathSql } from './result-sql.ts'

/** One row of the statement's `$1`. */
export interface RestoreRow {
  readonly index: number
  readonly key: string
  /** The inputs that the write was made for. */
  readonly inputHash: string | null
  /** The cells before the write: no entry for those without a value. */
  readonly before: Readonly<Record<string, unknown>>
  /** The cells after it: those to restore. */
  readonly after: Readonly<Record<string, unknown>>
  /** Cells that a later write has written: they stay, even if they hold the same value. */
  readonly writtenLater: readonly string[]
}

/** What the statement returns for one row. */
export interface RestoreResultRow {
  readonly index: number
  readonly found: boolean
  /** It exists, and another transaction has locked it. */
  readonly locked: boolean
  readonly written: boolean
  /** Its inputs are not those of the write: it is another row, and keeps its cells. */
  readonly isOther: boolean
  /** Rows of the table, and of those that inherit from it, that have its key and the inputs of the write. */
  readonly copies: number | null
  readonly before: Record<string, unknown> | null
  readonly after: Record<string, unknown> | null
  /** As in `WriteResultRow`: the user's triggers may have left something else than the user gave. */
  readonly ownWrites?: Record<string, unknown> | null
  readonly given?: Record<string, unknown> | null
  /** Cells that stay: they, or another cell of their group, were changed since. */
  readonly changed: readonly string[] | null
}

/**
 * The statement that undoes writes: a cell gets its earlier value if the row has the inputs of the write, and if it and the other
 * cells of its group still hold what was written: half a telephone number is worse than one that a user has checked.
 * Steps as in `writeStatement`: lock what no other transaction has locked, evaluate the locked version, update.
 * @param preview leaves out the lock and the update: `written` is then whether a row would be written; `after` is empty
 */
export function restoreStatement(
  source: Source,
  cells: readonly MappedCell[],
  { preview = false } = {},
): string {
  const writers = source.ownWrites?.writers ?? []
  const recorded = recordedCells(writers)
  // Of a column that is no output any more, too.
  const columns = new Set([...listReadColumns(source), ...cells.map((cell) => cell.attribute)])
  const inJson = [
    ...Map.groupBy(
      cells.filter((cell) => cell.path.length > 0),
      (cell) => cell.attribute,
    ).values(),
  ]
  const numbers = new Map(cells.map((cell, n) => [cell, n]))
  const flag = (cell: MappedCell): string => `"~r"."~r${numbers.get(cell)}"`
  return `
    with "~batch" as (
      select * from jsonb_to_recordset($1::jsonb) as x(index int, key text, "inputHash" text, before jsonb, after jsonb, "writtenLater" jsonb)
       ${preview ? '' : `where ${isWritingSql(source)}`}
    ), "~locked" as materialized (
      select "~b".index as "~i", ${placeColumnsSql(source)}${[...columns].map((name) => `t.${quoteName(name)}`).join(', ')}
        from "~batch" as "~b" join ${source.table.sql} as t on ${keyMatchesSql(source, '"~b".key')}
       order by ${keyOrderSql(source)} ${preview ? '' : 'for no key update of t skip locked'}
    ), "~evaluated" as materialized (
      select t.*, "~r".*, "~same".*, ${source.table.isInherited ? 'count(*) filter (where "~same"."~same") over (partition by t."~i")' : '1'} as "~copies", "~b".before as "~before", "~b".after as "~after kept", ${inJson.map((_, n) => `"~m${n}".x as "~m${n}", `).join('')}
             ${concatJson(cells.flatMap((cell) => previousValueEntries(cell, flag(cell))))} as "~previous",
             to_jsonb(array_remove(array[${cells.map((cell) => keptCellSql(cell, flag(cell))).join(', ')}]::text[], null)) as "~changed",
             ${recorded.length > 0 ? '"~inputs"."~given"' : 'null::jsonb as "~given"'}
        from "~locked" as t join "~batch" as "~b" on "~b".index = t."~i"
       cross join lateral (select coalesce("~b"."inputHash" = (${inputHashSql(source)}), false) as "~same" offset 0) as "~same"
       cross join lateral (select ${cells.map((cell, n) => `${isRestoredSql(cell, cellsInGroup(source, cell, cells))} as "~r${n}"`).join(', ')} offset 0) as "~r"
       ${inJson.map((group, n) => restoredJsonSql(group, n, flag)).join('\n')}
       ${recorded.length > 0 ? givenCellsSql(source, writers) : ''}
    ), "~written" as (${preview ? previewSql(cells) : updateSql(source, cells, inJson, numbers)}
    )
    select coalesce(json_agg(json_build_object(
             'index', "~b".index, 'found', j."~i" is not null,
             'locked', j."~i" is null and exists (
               select from ${source.table.sql} as t where ${keyMatchesSql(source, '"~b".key')} offset 0),
             'written', w."~i" is not null, 'isOther', j."~same" is false, 'copies', j."~copies", 'before', j."~previous",
             'after', w."~after", 'ownWrites', w."~own writes", 'given', j."~given", 'changed', j."~changed") order by "~b".index), '[]')::text as results
      from "~batch" as "~b" left join ${source.table.isInherited ? '(select distinct on ("~i") * from "~evaluated" order by "~i", "~same" desc)' : '"~evaluated"'} as j on j."~i" = "~b".index left join "~written" as w on w."~i" = "~b".index
     where ${setRolePathSql(source)}`
}

function updateSql(
  source: Source,
  cells: readonly MappedCell[],
  inJson: ReadonlyArray<readonly MappedCell[]>,
  numbers: ReadonlyMap<MappedCell, number>,
): string {
  const after = cells.map((cell, n) =>
    jsonEntry(`j."~r${n}"`, cell.column, `coalesce(${cellJsonSql(cell)}, 'null')`),
  )
  return `
      update ${source.table.sql} as t set ${[
        ...cells.flatMap((cell, n) => (cell.path.length === 0 ? [restoredSql(cell, `j."~r${n}"`)] : [])),
        ...inJson.map((group, n) => jsonAssignmentSql(group, n, numbers)),
      ].join(', ')}
        from "~evaluated" as j
       where ${source.keyColumns.map((column) => keyEqualsSql(column, `j.${quoteName(column.name)}`)).join(' and ')}
         and ${placeEqualsSql(source)} and ${anyRestoredSql(cells)}
      returning j."~i", ${concatJson(after)} as "~after", ${leftByWriteSql(source)} as "~own writes"`
}

const previewSql = (cells: readonly MappedCell[]): string => `
      select j."~i", '{}'::jsonb as "~after", null::jsonb as "~own writes" from "~evaluated" as j where ${anyRestoredSql(cells)}`

/**
 * SQL for the hash of the inputs of the locked row `t`; NULL where the joins do not give one row, so that the row is not known to
 * be the one that was written.
 */
function inputHashSql(source: Source): string {
  const { from, hash } = rowInputsSql(source)
  const rows = `select ${hash}::text as "~hash" from (select) as "~one" ${joinsSql(source)} ${from}`
  return `select min("~hash") from (${rows}) as "~rows" having count(*) = 1`
}

const anyRestoredSql = (cells: readonly MappedCell[]): string =>
  `j."~copies" = 1 and (${cells.map((_, n) => `j."~r${n}"`).join(' or ')})`

/** The other cells of its output's group. */
function cellsInGroup(source: Source, cell: MappedCell, cells: readonly MappedCell[]): MappedCell[] {
  const group = source.outputs.find((output) => output.column === cell.column)?.mapping.group ?? null
  const names = new Set(
    source.outputs.filter((output) => output.mapping.group === group).map(({ column }) => column),
  )
  return group === null ? [] : cells.filter((other) => other !== cell && names.has(other.column))
}

const isRestoredSql = (cell: MappedCell, group: readonly MappedCell[]): string =>
  [
    '"~same"."~same"',
    isUnchangedSql(cell),
    ...group.map((other) => `(not ${isInBatchSql(other)} or ${isUnchangedSql(other)})`),
  ].join(' and ')

const isInBatchSql = (cell: MappedCell): string => `("~b".after ? ${quoteLiteral(cell.column)})`

/** SQL: whether the cell holds what was written. */
const isUnchangedSql = (cell: MappedCell): string =>
  `(${isInBatchSql(cell)} and not coalesce("~b"."writtenLater" ? ${quoteLiteral(cell.column)}, false) and ${isReachableSql(cell)}` +
  ` and ${holdsLastWrittenSql(cell, `("~b".after -> ${quoteLiteral(cell.column)})`)})`

const keptCellSql = (cell: MappedCell, flag: string): string =>
  `case when ${isInBatchSql(cell)} and not ${flag} then ${quoteLiteral(cell.column)} end`

function restoredSql(cell: MappedCell, flag: string): string {
  const name = quoteLiteral(cell.column)
  const column = quoteName(cell.attribute)
  const after = `(j."~after kept" -> ${name})`
  const isOldJson = `coalesce(jsonb_typeof(${after}), 'null') not in ('string', 'null') or t.${column}::text = ${after}::text`
  const value = restoredValueSql(cell, `(j."~before" -> ${name})`, isOldJson)
  const typed = cell.type.isDomain ? `(${value})::${cell.type.name}` : value
  return `${column} = case when not ${flag} then t.${column} when j."~before" ? ${name} then ${typed} end`
}

function jsonAssignmentSql(
  group: readonly MappedCell[],
  n: number,
  numbers: ReadonlyMap<MappedCell, number>,
): string {
  const [first] = group
  const column = quoteName(first?.attribute ?? '')
  const value = first?.type.fit.kind === 'json' ? `j."~m${n}"::text::json` : `j."~m${n}"`
  const any = group.map((cell) => `j."~r${numbers.get(cell)}"`).join(' or ')
  return `${column} = case when ${any} then ${value} else t.${column} end`
}

/**
 * LATERAL steps for a json column's value before a write, as `"~m<n>".x`: sets the keys that had a value, removes the
 * others, and then the parents that the write had created, innermost first.
 * @param group the cells inside one column
 * @param flag SQL: whether a cell is restored
 */
export function restoredJsonSql(
  group: readonly MappedCell[],
  n: number,
  flag: (cell: MappedCell) => string,
): string {
  const [first] = group
  if (!first) return ''
  let from = `"~m${n}_keys"`
  const steps = [stepSql(withoutKeysSql(first, group, flag), from)]
  for (const parent of listParentsOf(group)) {
    const isRoot = parent.path.length === 0
    const alias = isRoot ? `"~m${n}"` : `"~m${n}_${steps.length}"`
    steps.push(stepSql(withoutParentSql(parent, `${from}.x`, flag), alias))
    from = alias
  }
  return steps.join('\n')
}

const stepSql = (value: string, alias: string): string =>
  `cross join lateral (select ${value} as x offset 0) as ${alias}`

const previousValueSql = (name: string): string => `("~b".before -> ${quoteLiteral(name)})`
const existedSql = (name: string): string => `("~b".before ? ${quoteLiteral(name)})`

/** SQL: whether the write had created the cell. */
const isRemovedSql = (cell: MappedCell, flag: (cell: MappedCell) => string): string =>
  `(${flag(cell)} and not ${existedSql(cell.column)})`

function withoutKeysSql(
  first: MappedCell,
  group: readonly MappedCell[],
  flag: (cell: MappedCell) => string,
): string {
  const set = composeJsonSql(
    group.map((cell) => ({
      cell,
      written: `(${flag(cell)} and ${existedSql(cell.column)})`,
      value: previousValueSql(cell.column),
    })),
    't',
    'jsonb',
  )
  // With an empty path, `#-` removes nothing.
  const out = group.map(
    (cell) => `#- case when ${isRemovedSql(cell, flag)} then ${quoteList(cell.path)} else '{}' end`,
  )
  return `case when ${group.map(flag).join(' or ')} then ${set} ${out.join(' ')} else ${jsonColumnSql(first)} end`
}

interface Parent {
  readonly name: string
  readonly path: readonly string[]
  /** The cells inside it. */
  readonly cells: readonly MappedCell[]
}

/** Each parent once, innermost first. */
function listParentsOf(group: readonly MappedCell[]): Parent[] {
  const parents = new Map<string, Parent>()
  for (const cell of group)
    for (const [depth, { name }] of listParents(cell).entries()) {
      const path = cell.path.slice(0, depth)
      const isInside = (other: MappedCell): boolean => path.every((key, at) => other.path[at] === key)
      parents.set(name, { name, path, cells: group.filter(isInside) })
    }
  return [...parents.values()].toSorted((a, b) => b.path.length - a.path.length)
}

/** SQL that removes a parent that is empty without its keys, unless it has an entry and so existed before the write. */
function withoutParentSql(
  { name, path, cells }: Parent,
  from: string,
  flag: (cell: MappedCell) => string,
): string {
  const at = quoteList(path)
  const isEmptied = `(${cells.map((cell) => isRemovedSql(cell, flag)).join(' or ')}) and ${from} #> ${at} = '{}'`
  const before =
    path.length === 0
      ? previousValueSql(name)
      : `case when ${existedSql(name)} then jsonb_set(${from}, ${at}, ${previousValueSql(name)}) else ${from} #- ${at} end`
  return `case when ${isEmptied} then ${before} else ${from} end`
}
