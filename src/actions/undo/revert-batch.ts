import * as changes from '../../store/changes.ts'
import { isDeepStrictEqual } from 'node:util'
import { afterUndo, type UndoContext } from '../../domain/row.ts'
import { statementTimeoutMs } from '../../pipeline/batch-size.ts'
import type { TableDeps } from '../../pipeline/deps.ts'
import { isTouchColumn, sortByConfig } from '../../pipeline/row-results.ts'
import type { Source } from '../../sources/source-model.ts'
import { restoreBatch, type WriteResult } from '../../sources/write/write.ts'
import {
  passOnParents,
  passOnPreviousValues,
  type LaterWrites,
  type UndoableChange,
} from '../../store/changes.ts'
import { inTransaction, withTableTimeouts, type Tx } from '../../store/transaction.ts'

/** Changes of one source, each of a different row. */
export interface ChangeBatch {
  readonly source: Source
  readonly changes: readonly UndoableChange[]
}

/** Outcome of one change. */
export interface RevertOutcome {
  readonly source: Source
  readonly key: string
  /** `kept`: all of its cells were changed since, or the row has other inputs. */
  readonly outcome: 'restored' | 'kept' | 'row_missing' | 'rejected'
  readonly reason: string | null
  readonly restored: readonly string[]
  readonly kept: readonly string[]
  /** The run that has written the protected cells since; null: not Fillrate. */
  readonly writtenBy: number | null
  /** The row has other inputs than when it was written. */
  readonly isOther: boolean
}

export interface RevertResult {
  readonly outcomes: readonly RevertOutcome[]
  /** Changes of rows that another transaction has locked: not touched. */
  readonly lockedChanges: readonly UndoableChange[]
}

type RevertDeps = TableDeps & { readonly sources: ReadonlyMap<string, Source> }

/**
 * Reverts a batch: the source's cells, the changes and the rows' states in one transaction, so that a crash leaves
 * all of it or nothing. Locks in the order of the write-back: first Fillrate's rows, then the source's.
 * Rows locked by another transaction are skipped.
 * @throws TableBusy if the table is locked or too slow for the batch
 */
export function revertBatch(
  deps: RevertDeps,
  context: UndoContext,
  { source, changes: batch }: ChangeBatch,
): Promise<RevertResult> {
  return inTransaction(
    deps.db,
    async (tx) => {
      const ids = batch.map((change) => change.id)
      const open = await changes.lockUndoable(tx, context.undoes, ids)
      const undoable = batch.filter((change) => open.has(change.id))
      if (undoable.length === 0) return { outcomes: [], lockedChanges: [] }
      const keys = undoable.map((change) => change.key)
      const owned = await changes.lockRows(tx, source.name, keys)
      const sharing = listSharingSources(source, deps.sources)
      const later = await changes.findLaterWrites(tx, sharing, context.run, undoable)
      const results = await restoreCells(tx, deps, source, undoable, later)
      const restored = undoable.flatMap((change, n) => {
        const {
          before = null,
          after = null,
          ownWrites = null,
          protectedColumns: kept = [],
        } = results[n] ?? {}
        return before === null || after === null
          ? []
          : [{ change, before, after, ownWrites, kept, columns: Object.keys(after) }]
      })
      const reverting = restored.map(({ change: { id, key, lookup, inputHash }, before, after, columns }) => {
        const own = owned.get(key)
        const writtenBefore = pickColumns(columns, own?.written ?? {})
        const earlierBefore = pickColumns(columns, own?.earlier ?? {})
        const change = { before, after, writtenBefore, earlierBefore }
        return { undoes: id, run: context.run, key, lookup, inputHash, ...change }
      })
      await changes.insertReverting(tx, source.name, reverting)
      const parents = restored.flatMap(({ change: { id, key, before, after } }) => {
        const empty = Object.keys(before).filter((name) => !Object.hasOwn(after, name))
        return empty.length > 0 ? [{ id, key, parents: pickColumns(empty, before) ?? {} }] : []
      })
      await passOnParents(tx, sharing, parents)
      const passedOn = restored.flatMap(({ change, kept }) => {
        const columns = listPassedOn(source, change, kept, listWrittenLater(later, change))
        return columns.length > 0 ? [{ id: change.id, key: change.key, columns }] : []
      })
      await passOnPreviousValues(tx, sharing, passedOn)
      const rows = restored.map(({ change, ownWrites, columns }) => {
        const { key, inputHash, writtenBefore, earlierBefore } = change
        const written = pickColumns(columns, writtenBefore ?? {}) ?? {}
        const earlier = pickColumns(columns, earlierBefore ?? {}) ?? {}
        const cells = columns.filter((column) => !isTouchColumn(source, column)).length
        return { key, inputHash, columns, written, earlier, ownWrites, cells }
      })
      await changes.revertRows(tx, source.name, context, afterUndo(context), rows)
      return toRevertResult(source, later, undoable, results)
    },
    deps.policy.sourceTimeoutMs,
  )
}

/** The columns that stay for a later write alone: of a group, all that the change has written. */
function listPassedOn(
  source: Source,
  { after }: UndoableChange,
  kept: readonly string[],
  writtenLater: readonly string[],
): string[] {
  const groupOf = (column: string): string | null =>
    source.outputs.find((output) => output.column === column)?.mapping.group ?? null
  const others = Object.keys(after).filter((column) => !writtenLater.includes(column))
  const isSplit = (column: string): boolean => {
    const group = groupOf(column)
    return group !== null && others.some((other) => groupOf(other) === group)
  }
  return kept.filter((column) => writtenLater.includes(column) && !isSplit(column))
}

/** What the cells of rows would hold after the undo of their newer changes, by row and column. */
export type PreviewedCells = Map<string, Map<string, unknown>>

/**
 * The same without writing or locking.
 * @param previewed the changes before this batch; null if no row has several
 */
export function previewRevert(
  deps: RevertDeps,
  { source, changes: batch }: ChangeBatch,
  previewed: PreviewedCells | null,
): Promise<RevertResult> {
  return inTransaction(
    deps.db,
    async (tx) => {
      const sharing = listSharingSources(source, deps.sources)
      const later = await changes.findLaterWrites(tx, sharing, null, batch)
      const results = await restoreCells(tx, deps, source, batch, later, { preview: true })
      const adjusted =
        previewed === null
          ? results
          : results.map((result, n) => afterNewerUndos(source, batch[n], result, previewed))
      return toRevertResult(source, later, batch, adjusted)
    },
    deps.policy.sourceTimeoutMs,
  )
}

/** A cell that was written twice gets the older value back first: the preview of the older change sees the newer one. */
function afterNewerUndos(
  source: Source,
  change: UndoableChange | undefined,
  result: WriteResult,
  previewed: PreviewedCells,
): WriteResult {
  if (change === undefined || (result.outcome !== 'written' && result.outcome !== 'unchanged')) return result
  const row = identifyRow(source, change.key)
  const cells = previewed.get(row) ?? new Map<string, unknown>()
  previewed.set(row, cells)
  const isBack = (column: string): boolean =>
    cells.has(column) && isDeepStrictEqual(cells.get(column), change.after[column])
  const protectedColumns = result.protectedColumns.filter((column) => !isBack(column))
  const restored = Object.keys(change.after).filter((column) => !protectedColumns.includes(column))
  for (const column of restored) cells.set(column, change.before[column] ?? null)
  return { ...result, protectedColumns, outcome: restored.length > 0 ? 'written' : result.outcome }
}

function restoreCells(
  tx: Tx,
  { policy }: RevertDeps,
  source: Source,
  batch: readonly UndoableChange[],
  later: LaterWrites,
  options: { readonly preview?: boolean } = {},
): Promise<WriteResult[]> {
  const rows = batch.map((change) => ({ ...change, writtenLater: listWrittenLater(later, change) }))
  const limitMs = statementTimeoutMs(batch.length, policy.sourceTimeoutMs)
  return withTableTimeouts(tx, limitMs, () => restoreBatch(tx, source, rows, options))
}

const listWrittenLater = (later: LaterWrites, { id }: UndoableChange): string[] => [
  ...(later.get(id)?.keys() ?? []),
]

function toRevertResult(
  source: Source,
  later: LaterWrites,
  batch: readonly UndoableChange[],
  results: readonly WriteResult[],
): RevertResult {
  const lockedChanges = batch.filter((_, n) => results[n]?.outcome === 'locked')
  const outcomes = results.flatMap((result, n): RevertOutcome[] => {
    const { key, outcome, reason, protectedColumns: kept } = result
    if (outcome === 'locked') return []
    const all = Object.keys(batch[n]?.after ?? {})
    const writers = kept.flatMap((column) => later.get(batch[n]?.id ?? 0)?.get(column) ?? [])
    const restored = outcome === 'written' ? all.filter((column) => !kept.includes(column)) : []
    return [
      {
        source,
        key,
        outcome: OUTCOMES[outcome],
        reason,
        restored: sortByConfig(source, restored),
        kept: sortByConfig(source, kept),
        writtenBy: writers.length > 0 ? Math.max(...writers) : null,
        isOther: outcome === 'inputs_changed',
      },
    ]
  })
  return { outcomes, lockedChanges }
}

const OUTCOMES = {
  written: 'restored',
  unchanged: 'kept',
  inputs_changed: 'kept',
  row_missing: 'row_missing',
  rejected: 'rejected',
} as const

/** The entries of these columns; null: none. */
function pickColumns<Value>(
  columns: readonly string[],
  values: Readonly<Record<string, Value>>,
): Record<string, Value> | null {
  const entries = columns
    .filter((column) => Object.hasOwn(values, column))
    .map((c) => [c, values[c] as Value] as const)
  return entries.length > 0 ? Object.fromEntries(entries) : null
}

/**
 * Splits a page of changes, newest first, into batches. Each batch is of one source and holds a row once;
 * the newest change of a row comes first, also across two sources on one table. Pure.
 * @returns `unknown`: changes of sources that are no longer configured
 */
export function toRevertBatches(
  page: readonly UndoableChange[],
  sources: ReadonlyMap<string, Source>,
): { readonly batches: readonly ChangeBatch[]; readonly unknown: readonly UndoableChange[] } {
  const changesPerRow = new Map<string, number>()
  const rounds: Map<string, { readonly source: Source; readonly changes: UndoableChange[] }>[] = []
  const unknown: UndoableChange[] = []
  for (const change of page) {
    const source = sources.get(change.source)
    if (source === undefined) {
      unknown.push(change)
      continue
    }
    const row = identifyRow(source, change.key)
    const newerChanges = changesPerRow.get(row) ?? 0
    changesPerRow.set(row, newerChanges + 1)
    const roundBySource = (rounds[newerChanges] ??= new Map())
    const batch = roundBySource.get(source.name) ?? { source, changes: [] }
    batch.changes.push(change)
    roundBySource.set(source.name, batch)
  }
  return { batches: rounds.flatMap((roundBySource) => [...roundBySource.values()]), unknown }
}

/** Identifies a row: the same for two sources that share table and key. */
export const identifyRow = (source: Source, key: string): string =>
  JSON.stringify([source.table.sql, source.keyColumns.map((column) => column.name), key])

/** The names of the sources that share table and key with a source, its own included. */
export const listSharingSources = (source: Source, sources: ReadonlyMap<string, Source>): string[] =>
  [...new Map([...sources, [source.name, source]]).values()]
    .filter((other) => identifyRow(other, '') === identifyRow(source, ''))
    .map(({ name }) => name)
