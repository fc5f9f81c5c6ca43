import type { Transaction } from 'kysely'
import { query } from '../db.ts'
import type { RejectedRow } from './bisect.ts'
import type { Source } from '../source-model.ts'
import { describeRowError } from '../pg-errors.ts'
import { rereadAfterTriggers, executeBatch } from './execute.ts'
import type { WriteResultRow } from './result-sql.ts'
import { writeStatement, type BatchRow } from './statement.ts'

export interface WriteRow {
  readonly key: string
  /** The fingerprint of the inputs that the record was asked with. */
  readonly inputHash: string
  /** Output column to value, as `fitRecord` gives them. */
  readonly values: Readonly<Record<string, unknown>>
  /** Output column to what Fillrate wrote last, as an earlier `after` gave it. */
  readonly written: Readonly<Record<string, unknown>> | null
  /** 0..1. */
  readonly confidence: number | null
}

export interface WriteResult {
  readonly key: string
  /**
   * `gone`: deleted, or no longer in the source. `inputs_changed`: not touched, to be picked again. `locked`: not
   * touched, because another transaction had locked it.
   */
  readonly outcome: 'written' | 'unchanged' | 'inputs_changed' | 'row_missing' | 'rejected' | 'locked'
  /** Of a rejected row, in words and without its values. */
  readonly reason: string | null
  /**
   * What the written and touched columns held. No entry: NULL, or no such key. Parents of a json key that were
   * empty or JSON null have entries too: `restoreBatch` needs them to tell them from parents made by the write.
   */
  readonly before: Record<string, unknown> | null
  /** What they hold now, after any trigger. */
  readonly after: Record<string, unknown> | null
  /** Cells that held a value which the policy protects. */
  readonly kept: number
  readonly keptColumns: readonly string[]
  /** Cells for which the output's `sql` gave nothing (`no_value`), or a text that is `too_long`. */
  readonly skipped: ReadonlyArray<{ readonly column: string; readonly reason: string }>
}

/**
 * Writes a batch in one statement. Hash and policies are tested on the rows as locked at that moment. A row that
 * another transaction has locked is left alone, so that a person's edit wins. When the database refuses the batch, its
 * bad rows are isolated and the others written. One result a row, in the order of the batch.
 * @param tx the caller commits; the rows stay locked until then
 * @throws what says nothing of a row: a lost connection, a timeout, a deadlock, a missing privilege
 */
export async function writeBatch<Schema>(
  tx: Transaction<Schema>,
  source: Source,
  batch: readonly WriteRow[],
): Promise<WriteResult[]> {
  if (batch.length === 0) return []
  const rows = batch.map(toBatchRow)
  if (source.table.hasDeferred) await query(tx, 'set constraints all immediate')
  const sent = await executeBatch(tx, source, writeStatement(source), rows, missingRow2)
  const told = await rereadAfterTriggers(tx, source, [...source.outputs, ...source.touches], rows, sent)
  return batch.map(({ key }, i) => toWriteResult(key, told.get(i)))
}

/**
 * What `writeBatch` would do, without a lock and without a write. `after` is told as it is before any trigger. A row
 * that an expression fails on is told as rejected; what only the write can show is not found.
 * @param tx nothing is written in it
 */
export async function previewWrites<Schema>(
  tx: Transaction<Schema>,
  source: Source,
  batch: readonly WriteRow[],
): Promise<WriteResult[]> {
  if (batch.length === 0) return []
  const statement = writeStatement(source, { rehearse: true })
  const told = await executeBatch(tx, source, statement, batch.map(toBatchRow), missingRow2)
  return batch.map(({ key }, i) => toWriteResult(key, told.get(i)))
}

const toBatchRow = ({ key, inputHash, values, written, confidence }: WriteRow, i: number): BatchRow => ({
  i,
  key,
  hash: inputHash,
  v: values,
  w: written ?? {},
  c: confidence,
})

const missingRow2 = (i: number): WriteResultRow => ({
  i,
  found: false,
  locked: false,
  copies: null,
  same: null,
  changes: null,
  written: false,
  before: null,
  after: null,
  kept: null,
  skipped: null,
})

const EMPTY_RESULT2 = {
  reason: null,
  before: null,
  after: null,
  kept: 0,
  keptColumns: [],
  skipped: [],
} as const

function toWriteResult(key: string, told: WriteResultRow | RejectedRow | undefined): WriteResult {
  if (told === undefined) throw new Error(`the statement told nothing of the row ${key}`)
  if ('error' in told)
    return { ...EMPTY_RESULT2, key, outcome: 'rejected', reason: describeRowError(told.error) }
  if (told.locked) return { ...EMPTY_RESULT2, key, outcome: 'locked' }
  if (!told.found) return { ...EMPTY_RESULT2, key, outcome: 'row_missing' }
  if ((told.copies ?? 1) > 1) {
    const reason = `the joins give ${told.copies} rows for this key, and only one can be right`
    return { ...EMPTY_RESULT2, key, outcome: 'rejected', reason }
  }
  if (!told.same) return { ...EMPTY_RESULT2, key, outcome: 'inputs_changed' }
  const keptColumns = told.kept ?? []
  const common = { key, kept: keptColumns.length, keptColumns, skipped: told.skipped ?? [] }
  if (told.written)
    return { ...common, outcome: 'written', reason: null, before: told.before, after: told.after }
  if (!told.changes) return { ...common, outcome: 'unchanged', reason: null, before: null, after: null }
  return {
    ...common,
    outcome: 'rejected',
    reason: 'a trigger kept the row from being updated',
    before: null,
    after: null,
  }
}
