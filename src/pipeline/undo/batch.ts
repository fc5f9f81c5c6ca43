import { afterUndo } from '../../domain/row.ts'
import { rehearseRestore, restoreBatch, type UndoResult } from '../../sources/restore.ts'
import type { Source } from '../../sources/source.ts'
import * as changes from '../../store/changes.ts'
import { onUsersTable } from '../../store/conflict.ts'
import { lockWritten, takeBack, type TakenBack } from '../../store/taken-back.ts'
import { inTransaction } from '../../store/transaction.ts'
import { inOrder, isTouch } from '../columns.ts'
import type { Deps } from '../deps.ts'
import { timeLimitOf } from '../pace.ts'

/** Changes of one source, each of another row. */
export interface Batch {
  readonly source: Source
  readonly changes: readonly changes.OpenChange[]
}

/** What became of one change. */
export interface Outcome {
  readonly source: Source
  readonly key: string
  /** `kept`: somebody has changed each of its cells since. */
  readonly outcome: 'restored' | 'kept' | 'row_missing' | 'rejected'
  readonly reason: string | null
  readonly restored: readonly string[]
  readonly kept: readonly string[]
  /** The run that has written the kept cells since; null when it was nobody of us. */
  readonly writtenBy: number | null
}

export interface Undone {
  readonly outcomes: readonly Outcome[]
  /** Changes whose rows another transaction has locked: not touched. */
  readonly locked: readonly changes.OpenChange[]
}

export interface Undoing {
  readonly run: number
  readonly undoes: number
  readonly writesAgain: boolean
}

/**
 * Takes back a batch: the source's cells, the changes that say so and the rows' states in one transaction, so that a
 * crash leaves all of it or nothing. Locks in the order of the write back: first Fillrate's rows, then the source's.
 * A row that another transaction has locked is left alone.
 * @throws TableBusy when the table is locked or too slow for the batch
 */
export function takeBackBatch(
  deps: Pick<Deps, 'db' | 'rules'>,
  undoing: Undoing,
  { source, changes: batch }: Batch,
): Promise<Undone> {
  return inTransaction(
    deps.db,
    async (tx) => {
      const ids = batch.map((change) => change.id)
      const open = await changes.lockOpen(tx, ids)
      const mine = batch.filter((change) => open.has(change.id))
      if (mine.length === 0) return { outcomes: [], locked: [] }
      const keys = mine.map((change) => change.key)
      const claims = await lockWritten(tx, source.name, keys)
      const later = await changes.columnsWrittenLater(tx, source.name, mine)
      const limitMs = timeLimitOf(mine.length, deps.rules.sourceTimeoutMs)
      const results = await onUsersTable(tx, limitMs, () => restoreBatch(tx, source, withLater(mine, later)))
      const undone: changes.UndoingChange[] = []
      const takenBack: TakenBack[] = []
      for (const [n, change] of mine.entries()) {
        const { key, before, after } = results[n] ?? {}
        if (key !== change.key || !before || !after) continue
        const columns = Object.keys(after)
        const { id, lookup, writtenBefore } = change
        const claimed = only(columns, claims.get(key) ?? {})
        undone.push({ undoes: id, run: undoing.run, key, lookup, before, after, writtenBefore: claimed })
        const cells = columns.filter((column) => !isTouch(source, column)).length
        takenBack.push({ key, columns, written: only(columns, writtenBefore ?? {}) ?? {}, cells })
      }
      await changes.insertUndoing(tx, source.name, undone)
      await takeBack(tx, source.name, undoing, afterUndo(undoing), takenBack)
      return toUndone(tx, source, mine, results)
    },
    deps.rules.sourceTimeoutMs,
  )
}

/** The same without a write and without a lock. */
export function judgeBatch(
  deps: Pick<Deps, 'db' | 'rules'>,
  { source, changes: batch }: Batch,
): Promise<Undone> {
  return inTransaction(
    deps.db,
    async (tx) => {
      const later = await changes.columnsWrittenLater(tx, source.name, batch)
      const limitMs = timeLimitOf(batch.length, deps.rules.sourceTimeoutMs)
      const rehearse = () => rehearseRestore(tx, source, withLater(batch, later))
      return toUndone(tx, source, batch, await onUsersTable(tx, limitMs, rehearse))
    },
    deps.rules.sourceTimeoutMs,
  )
}

const withLater = (
  batch: readonly changes.OpenChange[],
  later: ReadonlyMap<number, readonly string[]>,
): (changes.OpenChange & { readonly writtenLater: readonly string[] })[] =>
  batch.map((change) => ({ ...change, writtenLater: later.get(change.id) ?? [] }))

async function toUndone(
  tx: Parameters<typeof changes.writtenLater>[0],
  source: Source,
  batch: readonly changes.OpenChange[],
  results: readonly UndoResult[],
): Promise<Undone> {
  const kept = results.flatMap(({ key, keptColumns: columns }, n) =>
    columns.length > 0 ? [{ change: batch[n]?.id ?? 0, key, columns }] : [],
  )
  const later = await changes.writtenLater(tx, source.name, kept)
  const locked = batch.filter((_, n) => results[n]?.outcome === 'locked')
  const outcomes = results.flatMap((result, n): Outcome[] => {
    const { key, outcome, reason, keptColumns } = result
    if (outcome === 'locked') return []
    const all = inOrder(source, Object.keys(batch[n]?.after ?? {}))
    const one = { source, key, reason, kept: inOrder(source, keptColumns), writtenBy: later.get(key) ?? null }
    if (outcome === 'restored')
      return [{ ...one, outcome, restored: all.filter((column) => !keptColumns.includes(column)) }]
    if (outcome !== 'unchanged') return [{ ...one, outcome, restored: [] }]
    if (keptColumns.length > 0) return [{ ...one, outcome: 'kept', restored: [] }]
    return [
      { ...one, outcome: 'rejected', reason: 'a trigger kept the row from being updated', restored: [] },
    ]
  })
  return { outcomes, locked }
}

/** The entries of these columns; null when there are none. */
function only(
  columns: readonly string[],
  values: Readonly<Record<string, unknown>>,
): Record<string, unknown> | null {
  const entries = columns
    .filter((column) => Object.hasOwn(values, column))
    .map((c) => [c, values[c]] as const)
  return entries.length > 0 ? Object.fromEntries(entries) : null
}
