import type * as rows from '../store/rows.ts'
import type * as writeBackQueue from '../store/write-back-queue.ts'
import { hasCascade } from '../domain/identifiers/kind.ts'
import {
  afterSteps,
  dueAfterSteps,
  afterAnswer,
  afterWrite,
  Row,
  ROW_MISSING_REASON,
  toEarlierValues,
  type RowOutcome,
} from '../domain/row.ts'
import { describeSkip, isRejectedByDatabase, type SkippedCell } from '../domain/skipped-cell.ts'
import { coerceRecord, readField } from '../sources/coerce/record.ts'
import { readsEarlier, toWholeSource } from '../sources/earlier-values.ts'
import type { Source } from '../sources/source-model.ts'
import type { WriteRow } from '../sources/write/write-update.ts'
import type { WriteResult } from '../sources/write/write.ts'
import type { NewChange } from '../store/changes.ts'

/** An answered row with the values for its columns. */
export interface FittedRow {
  readonly row: PlacedRow
  readonly write: WriteRow
  /** Outputs without a value to write. */
  readonly skipped: readonly SkippedCell[]
}

/** Separates answered rows that have a record to write from rows that finish without a write. */
export function partitionAnswered(
  source: Source,
  answered: readonly PlacedRow[],
): { finished: writeBackQueue.FinishedRow[]; fitted: FittedRow[] } {
  const finished: writeBackQueue.FinishedRow[] = []
  const toWrite: FittedRow[] = []
  for (const row of answered) {
    const nextState = afterAnswer(row, source.mapping.minConfidence, hasCascade(source.mapping))
    if (nextState === null) toWrite.push(fitRow(source, row))
    else if (nextState.state === Row.waiting)
      finished.push({ ...baseResult(row), ...nextState, nextAt: null, missed: true })
    else finished.push({ ...baseResult(row), ...withStepsBefore(row, keepsEarlier(row, nextState)) })
  }
  return { finished, fitted: toWrite }
}

/** Without a record nothing is written, and nothing that was written for other inputs goes. */
const keepsEarlier = ({ earlier }: PlacedRow, outcome: RowOutcome): RowOutcome =>
  toEarlierValues(earlier) === null || outcome.reason === null
    ? outcome
    : { ...outcome, reason: `${outcome.reason}; what was written for its earlier inputs stays` }

/** Fits the values of a row's record to its columns. Pure. */
function fitRow(source: Source, row: PlacedRow): FittedRow {
  const { values, skipped } = coerceRecord(source, row.record, row.confidence)
  const { key, inputHash, written, confidence } = row
  const earlier = toEarlierValues(row.earlier)
  const misfits = skipped.filter((cell) => !isAbsent(cell)).map(({ column }) => column)
  return {
    row,
    skipped,
    write: {
      key,
      inputHash,
      values,
      misfits,
      lastWritten: written,
      earlier,
      confidence,
      ...(row.stepsBefore?.onlyBlanks === true && { onlyBlanks: true }),
    },
  }
}

const isAbsent = ({ reason }: SkippedCell): boolean => reason === 'absent'

const NO_CELLS: rows.CellCounts = { written: 0, protected: 0, skipped: 0 }

/** An answered row, and where it is, if it is locked. */
type PlacedRow = writeBackQueue.AnsweredRow & Partial<Pick<writeBackQueue.ClaimedRow, 'ctid'>>

/** What it adds to what services before this one have left. */
const withStepsBefore = ({ stepsBefore }: PlacedRow, outcome: RowOutcome): RowOutcome =>
  stepsBefore === undefined ? outcome : afterSteps(outcome, stepsBefore)

const toDate = (text: string | null): Date | null => (text === null ? null : new Date(text))

const dueAfter = (row: PlacedRow): Date | null =>
  row.stepsBefore === undefined
    ? row.dueAt
    : dueAfterSteps(row, {
        foundDueAt: toDate(row.stepsBefore.foundDueAt),
        missedDueAt: toDate(row.stepsBefore.missedDueAt),
      })

const baseResult = (row: PlacedRow) => ({
  key: row.key,
  ctid: row.ctid,
  change: null,
  nextAt: dueAfter(row),
  cells: NO_CELLS,
  skipped: [],
  ...toRemapped(row),
})

const toRemapped = ({ stepsBefore }: PlacedRow) =>
  stepsBefore?.isRemapped === true ? { isRemapped: true } : {}

/** The state of a row after its write or previewed write. */
export function toFinishedRow(
  source: Source,
  fitted: FittedRow,
  result: WriteResult,
): writeBackQueue.FinishedRow {
  const { row, write } = fitted
  const skipped = listSkippedCells(source, fitted, result)
  const finished = afterWrite(
    result.outcome,
    describeWrite(result, write, skipped) ?? describeKept(source, write, result),
  )
  if (finished === null)
    return {
      ...baseResult(row),
      state: Row.waiting,
      reason: 'its inputs changed meanwhile: picked again',
      nextAt: null,
    }
  const ended = withStepsBefore(row, finished)
  const change = toChange(row, result)
  const isMissing = result.outcome === 'row_missing'
  return {
    key: row.key,
    ctid: row.ctid,
    state: ended.state,
    reason: ended.reason,
    change,
    ...(write.earlier && change !== null && { blanked: listBlanked(source, write, change) }),
    ...(isAnothers(source, write, result) && { isAnothers: true }),
    ...(result.confirmed && { confirmed: pickEarlier(write, result.confirmed) }),
    ownWrites: result.ownWrites ?? null,
    nextAt: isMissing ? null : dueAfter(row),
    ...(isMissing && { isMissing }),
    ...toRemapped(row),
    ...(write.onlyBlanks === true && change !== null && { filled: Object.keys(change.after) }),
    cells: {
      written: Object.keys(change?.after ?? {}).filter((column) => Object.hasOwn(write.values, column))
        .length,
      protected: result.protectedColumns.length,
      skipped: skipped.length,
    },
    skipped,
  }
}

/**
 * The values of the record that were not written: those that do not fit, those that the database did not take, and all
 * of a rejected row. A field that the record lacks is none, and neither is a cell that the policy protects anyway.
 */
function listSkippedCells(
  source: Source,
  { row, write, skipped }: FittedRow,
  result: WriteResult,
): SkippedCell[] {
  if (result.outcome === 'row_missing') return []
  // Nearly always.
  if (result.outcome !== 'rejected' && result.skipped.length === 0 && skipped.every(isAbsent)) return []
  const accountedFor = new Set([...result.protectedColumns, ...result.skipped.map(({ column }) => column)])
  const rejected: WriteResult['skipped'] =
    result.outcome === 'rejected' && result.reason !== null
      ? Object.keys(write.values)
          .filter((column) => !accountedFor.has(column))
          .map((column) => ({ column, reason: 'row_rejected', detail: result.reason }))
      : []
  const fields = new Map(source.outputs.map((output) => [output.column, output.mapping.field]))
  return [
    ...skipped.filter((cell) => !isAbsent(cell) && !result.protectedColumns.includes(cell.column)),
    ...[...result.skipped, ...rejected].map((cell) => ({
      ...cell,
      value: readField(row.record, fields.get(cell.column) ?? '') ?? null,
    })),
  ]
}

function describeWrite(result: WriteResult, write: WriteRow, skipped: readonly SkippedCell[]): string | null {
  if (result.reason !== null) return result.reason
  // What rejects a row is what the database says; values that did not fit have not.
  const named = result.outcome === 'rejected' ? skipped.filter(isRejectedByDatabase) : skipped
  if (named.length > 0) return [...new Set(named.map(describeSkippedCell))].join('; ')
  if (result.outcome !== 'unchanged') return null
  if (Object.keys(write.values).length === 0) return 'the record has no value for its columns'
  return result.protectedColumns.length > 0 ? 'its columns already hold values' : null
}

/** Outputs that were emptied: another service may fill some of them. */
const listBlanked = ({ touches }: Source, { values }: WriteRow, { after }: NewChange): string[] =>
  Object.keys(after).filter(
    (column) => !Object.hasOwn(values, column) && touches.every((touch) => touch.column !== column),
  )

/** What its cells still hold of earlier inputs is a user's, where the source reads whose it is. */
const isAnothers = (source: Source, { earlier }: WriteRow, { confirmed }: WriteResult): boolean =>
  earlier !== null && confirmed === undefined && readsEarlier(toWholeSource(source))

const pickEarlier = ({ earlier }: WriteRow, columns: readonly string[]): Record<string, unknown> =>
  Object.fromEntries(columns.map((column) => [column, earlier?.[column] ?? null]))

/** What was written for earlier inputs and cannot be blanked. */
function describeKept(source: Source, { values, earlier }: WriteRow, { after }: WriteResult): string | null {
  const kept = source.outputs
    .map(({ column }) => column)
    .filter((column) => earlier && Object.hasOwn(earlier, column) && !Object.hasOwn(values, column))
    .filter((column) => !Object.hasOwn(after ?? {}, column))
  if (kept.length === 0) return null
  return `no new value for ${kept.join(', ')}: what was written for earlier inputs stays`
}

/** An error that a trigger raises for one cell is the same for the others: without the column they share a reason. */
const describeSkippedCell = (cell: SkippedCell): string =>
  cell.reason === 'rejected' && cell.detail !== null ? cell.detail : `${cell.column}: ${describeSkip(cell)}`

/** What is recorded of a write. */
function toChange(
  { written, earlier }: writeBackQueue.AnsweredRow,
  { outcome, before, after }: WriteResult,
): NewChange | null {
  if (outcome !== 'written' || !before || !after) return null
  const replaced = <Value>(values: Readonly<Record<string, Value>> | null): Record<string, Value> | null => {
    const entries = Object.entries(values ?? {}).filter(([column]) => Object.hasOwn(after, column))
    return entries.length > 0 ? Object.fromEntries(entries) : null
  }
  return { before, after, writtenBefore: replaced(written), earlierBefore: replaced(earlier) }
}

/**
 * Columns of `touch` that are not stored with what was written. The stamp is: it shows whether another
 * program has set it since.
 */
export const untrackedColumns = ({ touches, freshness }: Source): string[] =>
  touches.map((touch) => touch.column).filter((column) => column !== freshness?.cell.column)

/** Whether the column is one of `touch`, and no output. */
export const isTouchColumn = (source: Source, column: string): boolean =>
  source.touches.some((touch) => touch.column === column)

/** Sorts columns as the configuration lists them; a change stores them in jsonb's own order. */
export function sortByConfig(source: Source, columns: readonly string[]): string[] {
  const configured = [...source.outputs, ...source.touches].map((cell) => cell.column)
  const positionOf = (column: string): number => {
    const index = configured.indexOf(column)
    return index === -1 ? configured.length : index
  }
  return columns.toSorted((a, b) => positionOf(a) - positionOf(b))
}

/** A row that finishes without its lookup: nothing is left to do. */
export const toIdleRow = (key: string, reason: string): writeBackQueue.FinishedRow => ({
  key,
  state: Row.unchanged,
  reason,
  change: null,
  nextAt: null,
  cells: NO_CELLS,
  skipped: [],
})

/** A waiting row that is no longer in its source. */
export const toMissingRow = (key: string): writeBackQueue.FinishedRow => ({
  ...toIdleRow(key, ROW_MISSING_REASON),
  isMissing: true,
})
