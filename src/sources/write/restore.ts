import { findColumn } from '../catalogue.ts'
import type { Db } from '../db.ts'
import { rejectProtectedRows } from '../row-security.ts'
import type { MappedCell, Source } from '../source-model.ts'
import { executeUpdate } from './execute.ts'
import { NO_RESULT, toResult, type WriteResult } from './write.ts'
import { holdsLastWrittenSql, isReachableSql, jsonColumnSql, restoredValueSql } from '../cell.ts'
import { joinsSql, rowInputsSql } from '../inputs.ts'
import { recordedCells } from '../own-writes.ts'
import { quoteList, quoteLiteral, quoteName } from '../quote.ts'
import { listReadColumns } from '../triggers/columns.ts'
import { IDENTITY_COLUMNS } from './batch.ts'
import { composeJsonSql, listParents } from './json-cells.ts'
import { type IndexedCell, jsonColumns, namesWhereSql, type RowUpdate } from './row-update.ts'
import { stepSql } from './statement.ts'

/**
 * Undoes writes, cell by cell, in one statement: a cell that no longer holds what was written stays as it is, as do those of a row
 * with other inputs, and those that the table no longer has. Uses the table's columns, not the mapping's outputs, which may
 * have changed since the write. In a result, `before` and `after` have the form of a write: undoing the undo uses them.
 * @param batch at most one write of each row; of several writes the newest must be undone first
 * @param preview locks and writes nothing. Does not find what only a write raises, such as a new constraint
 */
export async function restoreBatch(
  tx: Db,
  source: Source,
  batch: readonly UndoRow[],
  { preview = false } = {},
): Promise<WriteResult[]> {
  const columns = [...new Set(batch.flatMap((row) => Object.keys(row.after)))]
  const cells = columns.map((column) => findCell(source, column)).filter((cell) => cell !== null)
  if (cells.length === 0)
    return batch.map(({ key, after }) => ({
      ...NO_RESULT,
      key,
      outcome: 'unchanged',
      protectedColumns: Object.keys(after),
    }))
  const known = new Set(cells.map(({ column }) => column))
  const updated = await executeUpdate(
    tx,
    source,
    (bisecting) => restoreUpdate(source, cells, bisecting),
    batch,
    { preview },
  )
  const results = batch.map((row, index) => {
    const result = toResult(row.key, updated.rows.get(index), describeCopies)
    const dropped = Object.keys(row.after).filter((column) => !known.has(column))
    return { ...result, protectedColumns: [...result.protectedColumns, ...dropped] }
  })
  return await rejectProtectedRows(tx, source, results)
}

const describeCopies = (copies: number): string =>
  `its table and those that inherit from it have ${copies} rows with this key and these inputs`

function findCell({ table }: Source, name: string): MappedCell | null {
  const { column, path } = findColumn(table, name)
  if (!column?.canUpdate || !column.canSelect) return null
  return { column: name, attribute: column.name, path, type: column.type }
}

/** One write to undo, as `writeBatch` returned it. */
export interface UndoRow {
  readonly key: string
  /** The inputs that it was made for: a row with others is not the one that was written. */
  readonly inputHash: string | null
  /** The cells before the write: no entry for those without a value. */
  readonly before: Readonly<Record<string, unknown>>
  /** The cells after it: those to restore. */
  readonly after: Readonly<Record<string, unknown>>
  /** Columns of a later write that is not undone: they stay, even if they hold the same value. */
  readonly writtenLater?: readonly string[]
}

/**
 * Undoes writes: a cell gets its earlier value if the row has the inputs of the write, and if it and the other cells of its group
 * still hold what was written: half a telephone number is worse than one that a user has checked.
 */
function restoreUpdate(source: Source, cells: readonly MappedCell[], bisecting = false): RowUpdate<UndoRow> {
  const isRecorded = recordedCells(source.ownWrites?.writers ?? []).length > 0
  return {
    batch: [
      ...IDENTITY_COLUMNS,
      { name: '~hash', type: 'text', of: ({ inputHash }) => inputHash },
      { name: '~before', type: 'jsonb', of: ({ before }) => before },
      { name: '~after', type: 'jsonb', of: ({ after }) => after },
      { name: '~later', type: 'jsonb', of: ({ writtenLater }) => writtenLater },
    ],
    cells,
    // Of a column that is no output any more, too.
    reads: [...new Set([...listReadColumns(source), ...cells.map((cell) => cell.attribute)])],
    steps: [
      inputsSql(source, isRecorded),
      stepSql(
        'changed',
        cells.map((cell, n) => `${isRestoredSql(cell, cellsInGroup(source, cell, cells))} as "~changed${n}"`),
      ),
      stepSql(
        'new',
        cells.map((cell, n) => `${earlierValueSql(cell, n)} as "~new${n}"`),
      ),
      ...jsonColumns({ cells }).map(([, keys], n) => restoredJsonSql(keys, n)),
    ].join('\n       '),
    where: 'true',
    jsonValueSql: ([first], n) =>
      first?.cell.type.fit.kind === 'json' ? `"~m${n}".x::text::json` : `"~m${n}".x`,
    given: '"~current"."~given"',
    protected: namesWhereSql(cells.map((cell, n) => [cell, `${isInBatchSql(cell)} and not "~changed${n}"`])),
    skipped: 'null::jsonb',
    copies: source.table.isInherited ? 'count(*) filter (where "~same") over (partition by "~i")' : null,
    keepsLocked: false,
    bisecting,
    // A row that the database rejects stays to be done, as a whole.
    units: [],
  }
}

/**
 * LATERAL: whether the locked row `t` has the inputs of the write, and its recorded cells. Where the joins do not give one row, it
 * is not known to be the one that was written.
 */
function inputsSql(source: Source, isRecorded: boolean): string {
  const { from, hash } = rowInputsSql(source, { recorded: isRecorded })
  return `cross join lateral (
         select coalesce(count(*) = 1 and min("~rows"."~now") = "~hash", false) as "~same", (array_agg("~rows"."~given"))[1] as "~given"
           from (select ${hash}::text as "~now", ${isRecorded ? '"~inputs"."~given"' : 'null::jsonb as "~given"'}
                   from (select) as "~one" ${joinsSql(source)} ${from}) as "~rows" offset 0) as "~current"`
}

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
    '"~same"',
    isUnchangedSql(cell),
    ...group.map((other) => `(not ${isInBatchSql(other)} or ${isUnchangedSql(other)})`),
  ].join(' and ')

const isInBatchSql = (cell: MappedCell): string => `("~after" ? ${quoteLiteral(cell.column)})`

/** SQL: whether the cell holds what was written. */
const isUnchangedSql = (cell: MappedCell): string =>
  `(${isInBatchSql(cell)} and not coalesce("~later" ? ${quoteLiteral(cell.column)}, false) and ${isReachableSql(cell)}` +
  ` and ${holdsLastWrittenSql(cell, `("~after" -> ${quoteLiteral(cell.column)})`)})`

const previousValueSql = (name: string): string => `("~before" -> ${quoteLiteral(name)})`
const existedSql = (name: string): string => `("~before" ? ${quoteLiteral(name)})`

function earlierValueSql(cell: MappedCell, n: number): string {
  const stored = previousValueSql(cell.column)
  if (cell.path.length > 0) return stored
  const after = `("~after" -> ${quoteLiteral(cell.column)})`
  const isOldJson = `coalesce(jsonb_typeof(${after}), 'null') not in ('string', 'null') or t.${quoteName(cell.attribute)}::text = ${after}::text`
  return `case when "~changed${n}" and ${existedSql(cell.column)} then ${restoredValueSql(cell, stored, isOldJson)} end`
}

/**
 * LATERAL steps for a json column's value before a write, as `"~m<n>".x`: sets the keys that had a value, removes the
 * others, and then the parents that the write had created, innermost first.
 * @param keys the cells inside one column
 */
function restoredJsonSql(keys: readonly IndexedCell[], n: number): string {
  let from = `"~m${n}_keys"`
  const steps = [jsonStepSql(withoutKeysSql(keys), from)]
  for (const parent of listParentsOf(keys)) {
    const alias = parent.path.length === 0 ? `"~m${n}"` : `"~m${n}_${steps.length}"`
    steps.push(jsonStepSql(withoutParentSql(parent, `${from}.x`), alias))
    from = alias
  }
  return steps.join('\n')
}

const jsonStepSql = (value: string, alias: string): string =>
  `cross join lateral (select ${value} as x offset 0) as ${alias}`

/** SQL: whether the write had created the cell. */
const isRemovedSql = ({ cell, index }: IndexedCell): string =>
  `("~changed${index}" and not ${existedSql(cell.column)})`

function withoutKeysSql(keys: readonly IndexedCell[]): string {
  const set = composeJsonSql(
    keys.map(({ cell, index }) => ({
      cell,
      written: `("~changed${index}" and ${existedSql(cell.column)})`,
      value: `"~new${index}"`,
    })),
    'jsonb',
  )
  // With an empty path, `#-` removes nothing.
  const out = keys.map(
    (key) => `#- case when ${isRemovedSql(key)} then ${quoteList(key.cell.path)} else '{}' end`,
  )
  const [first] = keys
  const now = first === undefined ? 'null' : jsonColumnSql(first.cell)
  return `case when ${keys.map(({ index }) => `"~changed${index}"`).join(' or ')} then ${set} ${out.join(' ')} else ${now} end`
}

interface Parent {
  readonly name: string
  readonly path: readonly string[]
  /** The cells inside it. */
  readonly keys: readonly IndexedCell[]
}

/** Each parent once, innermost first. */
function listParentsOf(keys: readonly IndexedCell[]): Parent[] {
  const parents = new Map<string, Parent>()
  for (const { cell } of keys)
    for (const [depth, { name }] of listParents(cell).entries()) {
      const path = cell.path.slice(0, depth)
      const isInside = ({ cell }: IndexedCell): boolean => path.every((key, at) => cell.path[at] === key)
      parents.set(name, { name, path, keys: keys.filter(isInside) })
    }
  return [...parents.values()].toSorted((a, b) => b.path.length - a.path.length)
}

/** SQL that removes a parent that is empty without its keys, unless it has an entry and so existed before the write. */
function withoutParentSql({ name, path, keys }: Parent, from: string): string {
  const at = quoteList(path)
  const isEmptied = `(${keys.map(isRemovedSql).join(' or ')}) and ${from} #> ${at} = '{}'`
  const before =
    path.length === 0
      ? previousValueSql(name)
      : `case when ${existedSql(name)} then jsonb_set(${from}, ${at}, ${previousValueSql(name)}) else ${from} #- ${at} end`
  return `case when ${isEmptied} then ${before} else ${from} end`
}
