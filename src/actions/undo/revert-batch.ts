import { afterUndo } from '../../domain/row.ts'
import { statementTimeoutMs } from '../../pipeline/batch-size.ts'
import type { Deps } from '../../pipeline/deps.ts'
import { isTouchColumn, sortByConfig } from '../../pipeline/row-results.ts'
import type { Source } from '../../sources/source.ts'
import { previewRestore, restoreBatch, type UndoResult } from '../../sources/write/restore.ts'
import * as changes from '../../store/changes.ts'
import { lockRows, revertRows, type RevertedRow, type UndoableChange } from '../../store/changes.ts'
import { inTransaction, withTableTimeouts } from '../../store/transaction.ts'

/** Changes of one source, each of a different row. */
export interface RevertBatch {
  readonly source: Source
  readonly changes: readonly changes.UndoableChange[]
}

/** Outcome of one change. */
export interface RevertOutcome {
  readonly source: Source
  readonly key: string
  /** `protected`: all of its cells were changed since. */
  readonly outcome: 'restored' | 'kept' | 'row_missing' | 'rejected'
  readonly reason: string | null
  readonly restored: readonly string[]
  readonly kept: readonly string[]
  /** The run that has written the protected cells since; null: not Fillrate. */
  readonly writtenBy: number | null
}

export interface RevertResult {
  readonly outcomes: readonly RevertOutcome[]
  /** Changes of rows that another transaction has locked: not touched. */
  readonly lockedChanges: readonly changes.UndoableChange[]
}

export interface UndoContext {
  readonly run: number
  readonly undoes: number
  readonly writesAgain: boolean
}

/**
 * Reverts a batch: the source's cells, the changes and the rows' states in one transaction, so that a crash leaves
 * all of it or nothing. Locks in the order of the write-back: first Fillrate's rows, then the source's. Rows locked
 * by another transaction are skipped.
 * @throws TableBusy if the table is locked or too slow for the batch
 */
export function revertBatch(
  deps: Pick<Deps, 'db' | 'policy'>,
  context: UndoContext,
  { source, changes: batch }: RevertBatch,
): Promise<RevertResult> {
  return inTransaction(
    deps.db,
    async (tx) => {
      const ids = batch.map((change) => change.id)
      const open = await changes.lockUndoable(tx, ids)
      const undoable = batch.filter((change) => open.has(change.id))
      if (undoable.length === 0) return { outcomes: [], lockedChanges: [] }
      const keys = undoable.map((change) => change.key)
      const lastWritten = await lockRows(tx, source.name, keys)
      const laterColumns = await changes.findColumnsWrittenLater(tx, source.name, undoable)
      const limitMs = statementTimeoutMs(undoable.length, deps.policy.sourceTimeoutMs)
      const results = await withTableTimeouts(tx, limitMs, () =>
        restoreBatch(tx, source, withLaterColumns(undoable, laterColumns)),
      )
      const revertingChanges: changes.RevertingChange[] = []
      const revertedRows: RevertedRow[] = []
      for (const [n, change] of undoable.entries()) {
        const { key, before, after, ownWrites = null } = results[n] ?? {}
        if (key !== change.key || !before || !after) continue
        const columns = Object.keys(after)
        const { id, lookup, writtenBefore } = change
        const previousClaim = pickColumns(columns, lastWritten.get(key) ?? {})
        revertingChanges.push({
          undoes: id,
          run: context.run,
          key,
          lookup,
          before,
          after,
          writtenBefore: previousClaim,
        })
        const cells = columns.filter((column) => !isTouchColumn(source, column)).length
        revertedRows.push({
          key,
          columns,
          written: pickColumns(columns, writtenBefore ?? {}) ?? {},
          ownWrites,
          cells,
        })
      }
      await changes.insertReverting(tx, source.name, revertingChanges)
      await revertRows(tx, source.name, context, afterUndo(context), revertedRows)
      return toRevertResult(tx, source, undoable, results)
    },
    deps.policy.sourceTimeoutMs,
  )
}

/** The same without writing or locking. */
export function previewRevert(
  deps: Pick<Deps, 'db' | 'policy'>,
  { source, changes: batch }: RevertBatch,
): Promise<RevertResult> {
  return inTransaction(
    deps.db,
    async (tx) => {
      const laterColumns = await changes.findColumnsWrittenLater(tx, source.name, batch)
      const limitMs = statementTimeoutMs(batch.length, deps.policy.sourceTimeoutMs)
      const preview = () => previewRestore(tx, source, withLaterColumns(batch, laterColumns))
      return toRevertResult(tx, source, batch, await withTableTimeouts(tx, limitMs, preview))
    },
    deps.policy.sourceTimeoutMs,
  )
}

const withLaterColumns = (
  batch: readonly changes.UndoableChange[],
  laterColumns: ReadonlyMap<number, readonly string[]>,
): (changes.UndoableChange & { readonly writtenLater: readonly string[] })[] =>
  batch.map((change) => ({ ...change, writtenLater: laterColumns.get(change.id) ?? [] }))

async function toRevertResult(
  tx: Parameters<typeof changes.findLaterWriters>[0],
  source: Source,
  batch: readonly changes.UndoableChange[],
  results: readonly UndoResult[],
): Promise<RevertResult> {
  const protectedCells = results.flatMap(({ key, keptColumns: columns }, n) =>
    columns.length > 0 ? [{ change: batch[n]?.id ?? 0, key, columns }] : [],
  )
  const laterWriters = await changes.findLaterWriters(tx, source.name, protectedCells)
  const lockedChanges = batch.filter((_, n) => results[n]?.outcome === 'locked')
  const outcomes = results.flatMap((result, n): RevertOutcome[] => {
    const { key, outcome, reason, keptColumns } = result
    if (outcome === 'locked') return []
    const allColumns = sortByConfig(source, Object.keys(batch[n]?.after ?? {}))
    const base = {
      source,
      key,
      reason,
      kept: sortByConfig(source, keptColumns),
      writtenBy: laterWriters.get(key) ?? null,
    }
    if (outcome === 'restored')
      return [{ ...base, outcome, restored: allColumns.filter((column) => !keptColumns.includes(column)) }]
    if (outcome !== 'unchanged') return [{ ...base, outcome, restored: [] }]
    if (keptColumns.length > 0) return [{ ...base, outcome: 'kept', restored: [] }]
    return [{ ...base, outcome: 'rejected', reason: 'a trigger prevented the update', restored: [] }]
  })
  return { outcomes, lockedChanges }
}

/** The entries of these columns; null: none. */
function pickColumns(
  columns: readonly string[],
  values: Readonly<Record<string, unknown>>,
): Record<string, unknown> | null {
  const entries = columns
    .filter((column) => Object.hasOwn(values, column))
    .map((c) => [c, values[c]] as const)
  return entries.length > 0 ? Object.fromEntries(entries) : null
}

/**
 * Splits a page of changes, newest first, into batches. Each batch is of one source and holds a row once; the newest
 * change of a row comes first, also across two sources on one table. Pure.
 * @returns `unknown`: changes of sources that are no longer configured
 */
export function toRevertBatches(
  page: readonly UndoableChange[],
  sources: ReadonlyMap<string, Source>,
): { readonly batches: readonly RevertBatch[]; readonly unknown: readonly UndoableChange[] } {
  const changesPerRow = new Map<string, number>()
  const rounds: Map<string, { readonly source: Source; readonly changes: UndoableChange[] }>[] = []
  const unknown: UndoableChange[] = []
  for (const change of page) {
    const source = sources.get(change.source)
    if (source === undefined) {
      unknown.push(change)
      continue
    }
    const row = rowIdentity(source, change.key)
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
export const rowIdentity = (source: Source, key: string): string =>
  JSON.stringify([source.table.sql, source.keyColumns.map((column) => column.name), key])
