import { describeServerError, isRaised } from '../../util/error-text.ts'
import { toWholeSource } from '../earlier-values.ts'
import type { Transaction } from 'kysely'
import { rejectProtectedRows } from '../row-security.ts'
import type { Source, MappedCell } from '../source-model.ts'
import type { RejectedRow } from './bisect.ts'
import { executeUpdate, type ExecuteOptions, type UpdatedRows, type RejectedCells } from './execute.ts'
import { stepSql, composeJsonSql, listParents, type RefusedCell, type RowResult } from './statement.ts'
import { jsonColumns, namesWhereSql, type RowUpdate, type IndexedCell } from './row-update.ts'
import { writeUpdate, type WriteRow } from './write-update.ts'
import { describeSkip, type SkipReason } from '../../domain/skipped-cell.ts'
import { quoteList, quoteLiteral, quoteName, type Db } from '../db.ts'
import { IDENTITY_COLUMNS } from './batch.ts'
import { findColumn } from '../catalogue.ts'
import { holdsLastWrittenSql, isReachableSql, jsonColumnSql, restoredValueSql } from '../cell.ts'
import { joinsSql, rowInputsSql } from '../inputs.ts'
import { recordedCells } from '../own-writes.ts'
import { listReadColumns } from '../triggers/columns.ts'

/** What a write or an undo did with a row. */
export interface WriteResult {
  readonly key: string
  /**
   * `row_missing`: deleted, or no longer in the source. `inputs_changed`: not touched, because it has other inputs than the
   * write was made for. `locked`: not touched, because another transaction had locked it.
   */
  readonly outcome: 'written' | 'unchanged' | 'inputs_changed' | 'row_missing' | 'rejected' | 'locked'
  /** Why a row was rejected, without its values; null: its skipped cells have the reasons. */
  readonly reason: string | null
  /**
   * The earlier values of the written and touched columns. No entry: NULL, or no such key. Parents of a json key that
   * were empty or JSON null have entries too: `restoreBatch` needs them to know which parents the write created.
   */
  readonly before: Record<string, unknown> | null
  /** Their values now, after any trigger. */
  readonly after: Record<string, unknown> | null
  /** What the write left in columns that inputs read, and what the user had given. Null: nothing to record. */
  readonly ownWrites?: Record<string, unknown> | null
  /** Cells with a value that the policy protects; of an undo, cells that stay. */
  readonly protectedColumns: readonly string[]
  /** Cells that the database did not take, touched ones among them. */
  readonly skipped: readonly RefusedCell[]
  /** Cells that hold the value already, written for earlier inputs. Absent: the row is not the one that was written for them. */
  readonly confirmed?: readonly string[]
}

/**
 * Writes a batch in one statement, which checks hash and policies on the locked rows. It skips a row that another
 * transaction has locked, so that a user's edit wins. If the database rejects the batch, the cells to blame are
 * left out and all others written. One result per row, in the order of the batch.
 * @param tx the caller commits; the rows stay locked until then
 * @param options.preview locks and writes nothing. `after` is the state before any trigger. A cell whose expression
 *   fails is skipped; what only a write raises is not found
 * @param options.isUnguarded saves two statements; an error of the batch is thrown, and the transaction is lost
 * @throws what does not concern a row: a lost connection, a timeout, a deadlock, a missing privilege
 */
export async function writeBatch<Schema>(
  tx: Transaction<Schema>,
  source: Source,
  batch: readonly WriteRow[],
  options: ExecuteOptions = {},
): Promise<WriteResult[]> {
  if (batch.length === 0) return []
  const toUpdate = (bisecting: boolean): RowUpdate<WriteRow> => writeUpdate(toWholeSource(source), bisecting)
  const updated = await executeUpdate(tx, source, toUpdate, batch, options)
  return await rejectProtectedRows(tx, source, toWriteResults(source, batch, updated))
}

function toWriteResults(source: Source, batch: readonly WriteRow[], updated: UpdatedRows): WriteResult[] {
  return batch.map((row, index) => {
    const { key, values, misfits = [] } = row
    const result = toResult(key, updated.rows.get(index))
    // The record may have a value that does not fit.
    const protectedColumns = result.protectedColumns.filter(
      (column) => Object.hasOwn(values, column) || misfits.includes(column),
    )
    const rejected = updated.cells.get(index)
    if (rejected === undefined) return { ...result, protectedColumns }
    const refused = rejected
      .flatMap((cells) => toSkippedCells(source, cells))
      .filter(({ column }) => !protectedColumns.includes(column))
    const skipped = [...result.skipped, ...refused]
    const isRejected = result.outcome === 'unchanged' && refused.length > 0 && !wasWritten(row, skipped)
    return { ...result, outcome: isRejected ? 'rejected' : result.outcome, protectedColumns, skipped }
  })
}

const describeCopies = (copies: number): string =>
  `the joins give ${copies} rows for this key, and only one can be right`

function toResult(key: string, result: RowResult | RejectedRow | undefined): WriteResult {
  if (result === undefined) throw new Error('the statement returned no result for a row')
  if ('error' in result)
    return { ...NO_RESULT, key, outcome: 'rejected', reason: describeServerError(result.error) }
  const { before, after, ownWrites } = result
  const cells = {
    ...NO_RESULT,
    key,
    protectedColumns: result.protected ?? [],
    skipped: result.skipped ?? [],
    ...(result.confirmed && { confirmed: result.confirmed }),
  }
  switch (result.state) {
    case 'written':
      return { ...cells, outcome: 'written', before, after, ...(ownWrites && { ownWrites }) }
    case 'unchanged':
      return { ...cells, outcome: 'unchanged' }
    case 'prevented':
      return { ...cells, outcome: 'rejected', reason: 'a trigger prevented the update' }
    case 'changed':
      return { ...NO_RESULT, key, outcome: 'inputs_changed', protectedColumns: cells.protectedColumns }
    case 'locked':
      return { ...NO_RESULT, key, outcome: 'locked' }
    case 'missing':
      return { ...NO_RESULT, key, outcome: 'row_missing' }
    case 'left':
      return { ...NO_RESULT, key, outcome: 'row_missing', reason: 'it left the source before it was written' }
    case 'repeated':
      return { ...NO_RESULT, key, outcome: 'rejected', reason: describeCopies(result.copies ?? 0) }
  }
}

export const NO_RESULT = {
  reason: null,
  before: null,
  after: null,
  protectedColumns: [],
  skipped: [],
} as const

/** Whether an earlier write has filled another of the row's cells: it is enriched already, and has not failed. */
function wasWritten({ values, lastWritten }: WriteRow, skipped: readonly RefusedCell[]): boolean {
  const columns = new Set(skipped.map(({ column }) => column))
  return Object.keys(lastWritten ?? {}).some((name) => (values[name] ?? null) !== null && !columns.has(name))
}

/**
 * The cells of a rejected unit. Of a group, the cells in the constraint's columns are at fault, and the others are left
 * out with them.
 */
function toSkippedCells(source: Source, { columns, error, constraint }: RejectedCells): RefusedCell[] {
  const outputs = new Map(source.outputs.map((output) => [output.column, output]))
  const broken = new Set([...(constraint?.columns ?? []), error.column])
  const inConstraint = columns.filter((column) => broken.has(outputs.get(column)?.attribute ?? column))
  return columns.map((column): RefusedCell => {
    if (inConstraint.length > 0 && !inConstraint.includes(column)) {
      const detail = `${inConstraint.join(', ')}: ${describeSkip(toSkipReason({ error, constraint }, false))}`
      return { column, reason: 'group_incomplete', detail }
    }
    const isTouch = !outputs.has(column)
    const isExpression = isTouch || outputs.get(column)?.mapping.sql !== null
    const { reason, detail } = toSkipReason({ error, constraint }, isExpression)
    return { column, reason: isTouch && reason === 'sql_failed' ? 'touch_failed' : reason, detail }
  })
}

/** Errors of an expression's own evaluation: data, cardinality, syntax inside a function that it calls. */
const EXPRESSION_CLASSES = new Set(['21', '22', '42'])

const CONSTRAINT_REASONS: Readonly<Record<string, SkipReason>> = {
  '23502': 'not_null',
  '23503': 'foreign_key',
  '23505': 'unique',
  '23514': 'check',
  '23P01': 'exclusion',
}

function toSkipReason(
  { error, constraint }: Pick<RejectedCells, 'error' | 'constraint'>,
  isExpression: boolean,
): { readonly reason: SkipReason; readonly detail: string | null } {
  // A trigger may raise the code of a constraint, and says more with its text.
  const reason = isRaised(error) && !error.constraint ? undefined : CONSTRAINT_REASONS[error.code]
  if (reason === 'foreign_key' && constraint?.target) {
    const { table, columns } = constraint.target
    return { reason, detail: `${table} (${columns.join(', ')}), ${constraint.name}` }
  }
  if (reason !== undefined) {
    const domain = error.type ? `domain ${error.type}` : null
    return { reason, detail: [error.constraint, domain].filter(Boolean).join(', ') || null }
  }
  const isOwn = isExpression && EXPRESSION_CLASSES.has(error.code.slice(0, 2))
  return { reason: isOwn ? 'sql_failed' : 'rejected', detail: describeServerError(error) }
}

/**
 * Undoes writes, cell by cell, in one statement. A cell stays as it is if it no longer holds what was written, or
 * if its row has other inputs or is gone. Uses the table's columns, not the mapping's outputs, which may have
 * changed since. `before` and `after` of a result have the form of a write, for the undo of the undo.
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
    const result = toResult(row.key, updated.rows.get(index))
    const dropped = Object.keys(row.after).filter((column) => !known.has(column))
    return { ...result, protectedColumns: [...result.protectedColumns, ...dropped] }
  })
  return await rejectProtectedRows(tx, source, results)
}

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
    copies: null,
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
