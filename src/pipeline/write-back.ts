import type { DiffRow, DryRunReport, SkippedGroup } from '../domain/report/run.ts'
import * as writeBackQueue from '../store/write-back-queue.ts'
import * as writePace from '../store/source-state.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { isRowError } from '../sources/db.ts'
import type { Source } from '../sources/source-model.ts'
import type { ExecuteOptions } from '../sources/write/execute.ts'
import { NO_RESULT, writeBatch, type WriteResult } from '../sources/write/write.ts'
import type { WriteRow } from '../sources/write/write-update.ts'
import { moveToNextStep, type AnsweredRow, type FinishedRow } from '../store/write-back-queue.ts'
import {
  inTableTransaction,
  inTransaction,
  TableBusyError,
  type OnTable,
  type Tx,
} from '../store/transaction.ts'
import { describeTableBusy, MAX_SINGLE_ROW_TRIES, sharedBatchSize, statementTimeoutMs } from './batch-size.ts'
import { isRowWait } from '../util/error-text.ts'
import type { Deps, TableDeps } from './deps.ts'
import { partitionAnswered, toFinishedRow, untrackedColumns, type FittedRow } from './row-results.ts'
import { ROW_STATES, type RowState } from '../domain/row.ts'
import { describeSkip, MAX_LISTED_VALUES, type SkippedCell } from '../domain/skipped-cell.ts'
import type { CellCounts } from '../store/rows.ts'

interface WriteBackResult {
  /** Rows finished, or requeued to be picked again. */
  readonly rows: number
  readonly enriched: number
  readonly cells: number
  /** Rows that another transaction has locked: they keep waiting and are retried soon. */
  readonly deferred: number
  /** There may be more to do at once. */
  readonly more: boolean
}

/**
 * Writes answered rows of one source: the source's cells, the changes and the rows' states in one transaction, so
 * that a crash leaves all of it or nothing. It never waits for rows locked by other transactions: these are deferred,
 * and the others are written. A batch that takes too long is cancelled, and the next one is smaller.
 */
export async function writeBackBatch(
  deps: TableDeps & Pick<Deps, 'metrics'>,
  source: Source,
): Promise<WriteBackResult> {
  if (!(await writeBackQueue.hasQueued(deps.db))) return NOTHING_WRITTEN
  const { writes } = source.mapping
  if (writes !== null) {
    const { waitMs } = await writePace.readWriteGrant(deps.db, source.name, writes.perHour)
    if (waitMs > 0) {
      await sleep(Math.min(waitMs, MAX_PACE_WAIT_MS))
      return { ...NOTHING_WRITTEN, more: true }
    }
  }
  const startedAt = performance.now()
  const result = await writeWithRetries(deps, source)
  if (result.rows > 0)
    deps.metrics?.recordWriteBack(source.name, { ms: performance.now() - startedAt, cells: result.cells })
  return result
}

/** How long a loop stays in one wait for `writes.perHour`: it must end when its process does. Milliseconds. */
const MAX_PACE_WAIT_MS = 250

/** What a batch holds, to handle it when the batch is cancelled. */
interface ClaimedBatch {
  claimed: readonly writeBackQueue.ClaimedRow[]
  /** The places of the queue's entries that they were found in. */
  entries: readonly string[]
  bytes: number
  /** What the source may be written now; null: it has no limit. */
  grant: writePace.LockedWriteGrant | null
  fitted: readonly FittedRow[]
}

/**
 * A batch is written without a savepoint until the database rejects one; this many after it get one, so that their cells
 * can be left out at once.
 */
const GUARDED_BATCHES = 10
const guardedBatches = new WeakMap<Source, number>()

/** Where a trigger rejects one row after another, each further one is tried less often. */
const rejectedInARow = new WeakMap<Source, number>()

async function writeWithRetries(deps: TableDeps, source: Source): Promise<WriteBackResult> {
  const batchSize = sharedBatchSize(source)
  const { sourceTimeoutMs } = deps.policy
  for (let attempt = 1; ; attempt++) {
    const limit = batchSize.rows
    const batch: ClaimedBatch = { claimed: [], entries: [], bytes: 0, grant: null, fitted: [] }
    const guarded = guardedBatches.get(source) ?? 0
    try {
      const { tookMs, ...result } = await writeClaimed(deps, source, limit, batch, guarded === 0)
      const { length } = batch.claimed
      if (length > 0) batchSize.onBatch(length, tookMs, batch.bytes)
      if (length > 0) guardedBatches.set(source, Math.max(0, guarded - 1))
      if (result.enriched > 0) rejectedInARow.delete(source)
      return { ...result, more: length >= limit / 2 && result.rows + result.deferred > 0 }
    } catch (error) {
      const isBusy = error instanceof TableBusyError
      if (guarded === 0 && (isRowError(error) || (isBusy && isRowWait(error.cause)))) {
        guardedBatches.set(source, GUARDED_BATCHES)
        continue
      }
      if (!isBusy) throw error
      const [first, ...others] = batch.fitted
      // Nothing was done for the rows: the server lacks resources for Fillrate's own tables.
      if (error.reason === 'exhausted' && first === undefined) throw error.cause
      if (error.isTableLock) return await deferRows(deps, source, batch.claimed, error)
      // A row alone in a batch of several had less time than it gets before it is rejected.
      const hadLess = statementTimeoutMs(limit, sourceTimeoutMs) < sourceTimeoutMs
      if (first === undefined || others.length > 0 || (hadLess && error.reason === 'slow')) {
        batchSize.halve(batch.claimed.length)
        return { ...NOTHING_WRITTEN, more: true }
      }
      const rejected = rejectedInARow.get(source) ?? 0
      if (error.isRaised && attempt < MAX_SINGLE_ROW_TRIES - rejected) await sleep(20 * attempt * attempt)
      else if (error.isRaised || error.reason === 'slow') {
        rejectedInARow.set(source, rejected + 1)
        return await rejectRow(deps, source, batch, first, error)
      } else return { ...(await deferRows(deps, source, [first.row], error)), more: true }
    }
  }
}

const NOTHING_WRITTEN = { rows: 0, enriched: 0, cells: 0, deferred: 0, more: false } as const

function writeClaimed(
  deps: TableDeps,
  source: Source,
  limit: number,
  batch: ClaimedBatch,
  isUnguarded: boolean,
): Promise<Omit<WriteBackResult, 'more'> & { readonly tookMs: number }> {
  const { sourceTimeoutMs } = deps.policy
  const timeouts = { tableMs: statementTimeoutMs(limit, sourceTimeoutMs), laterMs: sourceTimeoutMs }
  const write = async (tx: Tx, onTable: OnTable): ReturnType<typeof writeClaimed> => {
    // Claimed under the same timeouts: a batch that takes long to claim is too large as well.
    const { finished, outcomes, tookMs } = await onTable(async () => {
      const pace = source.mapping.writes
      batch.grant = pace && (await writePace.lockWriteGrant(tx, source.name, pace.perHour))
      const most = Math.min(limit, batch.grant?.rows ?? limit)
      if (most === 0) return { finished: [], outcomes: new Map<string, WriteResult>(), tookMs: 0 }
      const claim = await writeBackQueue.claimForWriteBack(tx, source.name, most, {
        ...source.mapping.step,
        ofRunning: deps.leavesEndedRuns ?? false,
      })
      const { finished, fitted } = partitionAnswered(source, claim.rows)
      const { rows: claimed, entries, bytes } = claim
      Object.assign(batch, { claimed, entries, bytes, fitted })
      const startedAt = performance.now()
      const writes = fitted.map(({ write }) => write)
      const results = await writeByStep(tx, source, writes, { isUnguarded })
      const outcomes = new Map(results.map((result) => [result.key, result]))
      return { finished, outcomes, tookMs: performance.now() - startedAt }
    })
    const { claimed, entries, fitted, grant } = batch
    if (claimed.length === 0) return { ...NOTHING_WRITTEN, tookMs: 0 }
    const locked: string[] = []
    for (const fit of fitted) {
      const result = outcomes.get(fit.row.key)
      if (!result)
        throw new Error(`the write to source ${source.name} returned no result for one of its rows`)
      if (result.outcome === 'locked') {
        locked.push(fit.row.key)
        continue
      }
      finished.push(toFinishedRow(source, fit, result))
    }
    await writeBackQueue.finishRows(tx, source.name, finished, untrackedColumns(source))
    const keys = finished.filter(({ isMissing }) => isMissing !== true).map(({ key }) => key)
    await moveToNextStep(tx, source.name, keys, source.mapping.step)
    await writeBackQueue.postponeRows(tx, source.name, locked, LOCKED_REASON)
    await writeBackQueue.dequeueWritten(tx, entries)
    const enriched = finished.filter(({ change }) => change !== null).length
    if (grant !== null && enriched > 0)
      await writePace.chargeWrites(tx, source.name, { ...grant, allowance: grant.allowance - enriched })
    return {
      rows: finished.length,
      enriched,
      cells: finished.reduce((sum, row) => sum + row.cells.written, 0),
      deferred: locked.length,
      tookMs,
    }
  }
  return inTableTransaction(deps.db, write, timeouts)
}

/** Rows that a service before this one has found get their blank cells filled, and no other. */
async function writeByStep(
  tx: Tx,
  source: Source,
  writes: readonly WriteRow[],
  options: ExecuteOptions,
): Promise<WriteResult[]> {
  const blanks = writes.filter((row) => row.onlyBlanks === true)
  if (blanks.length === 0) return writeBatch(tx, source, writes, options)
  const others = writes.filter((row) => row.onlyBlanks !== true)
  return [
    ...(await writeBatch(tx, source, others, options)),
    ...(await writeBatch(tx, source.afterFound ?? source, blanks, options)),
  ]
}

/** Reason of a deferred row. */
const LOCKED_REASON =
  'another transaction has locked its row, or what a trigger or a constraint needs for it: written when it ends'

/** Defers the rows of a cancelled batch. */
async function deferRows(
  { db, policy }: TableDeps,
  source: Source,
  deferredRows: readonly writeBackQueue.AnsweredRow[],
  busy: TableBusyError,
): Promise<WriteBackResult> {
  const keys = deferredRows.map((row) => row.key)
  const reason = await describeTableBusy(db, busy, policy.sourceTimeoutMs)
  await inTransaction(db, (tx) => writeBackQueue.postponeRows(tx, source.name, keys, reason))
  return { ...NOTHING_WRITTEN, deferred: keys.length }
}

/** Rejects the one row that cannot be written, unless it has changed since the attempt. */
async function rejectRow(
  deps: TableDeps,
  source: Source,
  { entries }: ClaimedBatch,
  fit: FittedRow,
  busy: TableBusyError,
): Promise<WriteBackResult> {
  const reason = await describeTableBusy(deps.db, busy, deps.policy.sourceTimeoutMs)
  const rejected = { ...NO_RESULT, key: fit.row.key, outcome: 'rejected', reason } as const
  const finished = toFinishedRow(source, fit, rejected)
  const isFinished = await inTransaction(deps.db, async (tx) => {
    if (!(await writeBackQueue.lockAnsweredRow(tx, source.name, fit.row))) return false
    // Its place was read by the transaction that was cancelled: since then it may have moved.
    await writeBackQueue.finishRows(tx, source.name, [{ ...finished, ctid: undefined }])
    await writeBackQueue.dequeueWritten(tx, entries)
    return true
  })
  return { ...NOTHING_WRITTEN, rows: isFinished ? 1 : 0, more: true }
}

/** Converts a previewed write to the row's difference; null if nothing would change. Pure. */
function toDiffRow(source: Source, result: WriteResult, confidence: number | null): DiffRow | null {
  const { before, after } = result
  if (after === null) return null
  const { service } = source.mapping.step
  const by = service === null ? {} : { service }
  const cells = source.outputs.flatMap(({ column }): DiffRow['cells'] =>
    Object.hasOwn(after, column)
      ? [{ column, before: before?.[column] ?? null, after: after[column], ...by }]
      : [],
  )
  return { source: source.name, key: result.key, confidence, cells }
}

/** What one service after another would change in a row. */
export const mergeDiffs = (before: DiffRow | null, diff: DiffRow | null): DiffRow | null =>
  before === null || diff === null ? (before ?? diff) : { ...before, cells: [...before.cells, ...diff.cells] }

export interface PreviewedRow {
  /** The state that the row would reach. */
  readonly row: FinishedRow
  /** What became of the write; null: there is no record to write. */
  readonly outcome: WriteResult['outcome'] | null
  /** What would be written; null if nothing. */
  readonly diff: DiffRow | null
}

/**
 * Computes what the write-back would do with answered rows, by its own code. Takes no locks and writes nothing, so it
 * cannot detect errors that only a write raises (check constraint, unique value, trigger).
 * @param isFilled a cell that services before this one would have filled
 */
export async function previewWriteBack(
  tx: Tx,
  source: Source,
  answered: readonly AnsweredRow[],
  isFilled: (key: string, column: string) => boolean,
): Promise<PreviewedRow[]> {
  const { finished, fitted } = partitionAnswered(source, answered)
  const open = fitted.map((fit) => {
    const { values, misfits = [] } = fit.write
    const filled = [...Object.keys(values), ...misfits].filter((column) => isFilled(fit.row.key, column))
    const left = Object.entries(values).filter(([column]) => !filled.includes(column))
    return { filled, fit: { ...fit, write: { ...fit.write, values: Object.fromEntries(left) } } }
  })
  const writes = open.map(({ fit }) => fit.write)
  const written = await writeByStep(tx, source, writes, { preview: true })
  const results = new Map(written.map((result) => [result.key, result]))
  const previewed = open.map(({ fit, filled }) => {
    const result = results.get(fit.row.key)
    if (!result)
      throw new Error(`the preview of source ${source.name} returned no result for one of its rows`)
    const protectedColumns = [...new Set([...result.protectedColumns, ...filled])]
    const row = toFinishedRow(source, fit, { ...result, protectedColumns })
    return { row, outcome: result.outcome, diff: toDiffRow(source, result, fit.row.confidence) }
  })
  return [...finished.map((row) => ({ row, outcome: null, diff: null })), ...previewed]
}

/** The rows of a dry run, by the state they would reach. */
export interface Preview extends DryRunReport {
  readonly states: Readonly<Record<RowState, number>>
  readonly cells: CellCounts
  /** By service, and how many rows would end there, or wait. */
  readonly cellsBy: ReadonlyMap<number, CellCounts>
  readonly rows: ReadonlyMap<number, number>
  readonly skipped: readonly SkippedGroup[]
  /** The lookups that its rows need. */
  readonly lookups: readonly number[]
}

const NO_CELLS: CellCounts = { written: 0, protected: 0, skipped: 0 }

const addCells = (a: CellCounts, b: CellCounts): CellCounts => ({
  written: a.written + b.written,
  protected: a.protected + b.protected,
  skipped: a.skipped + b.skipped,
})

/** Counts what a dry run would write. */
export class PreviewTally {
  readonly #states = Object.fromEntries(ROW_STATES.map((state) => [state, 0])) as Record<RowState, number>
  readonly #rows = new Map<number, number>()
  readonly #cells = new Map<number, CellCounts>()
  readonly #skipped = new SkippedTally()
  readonly #columns = new Map<string, { source: string; column: string; written: number }>()
  readonly #samples = new Map<string, RandomSample<DiffRow>>()
  readonly #size: number

  /** @param size rows of the sample, as many of each source */
  constructor(sources: readonly Source[], size: number, random: () => number) {
    this.#size = size
    const names = new Set(sources.map(({ name }) => name))
    for (const { name: source, outputs } of sources) {
      for (const { column } of outputs)
        this.#columns.set(JSON.stringify([source, column]), { source, column, written: 0 })
      this.#samples.set(source, new RandomSample(Math.ceil(size / names.size), random))
    }
  }

  /** What a service would write to a row. */
  addWrite({ name }: Source, service: number, { row, diff }: Pick<PreviewedRow, 'row' | 'diff'>): void {
    this.#cells.set(service, addCells(this.#cells.get(service) ?? NO_CELLS, row.cells))
    this.#skipped.add(name, row.skipped)
    for (const { column } of diff?.cells ?? []) {
      const count = this.#columns.get(JSON.stringify([name, column]))
      if (count) count.written++
    }
  }

  /** A row that would end at a service, or waits for it. @param diff what all services would write to it */
  addRow({ name }: Source, service: number, state: RowState, diff: DiffRow | null): void {
    this.#states[state]++
    this.#rows.set(service, (this.#rows.get(service) ?? 0) + 1)
    if (diff !== null) this.addSample(name, diff)
  }

  /** What would be written to a row. */
  addSample(source: string, diff: DiffRow): void {
    this.#samples.get(source)?.add(diff)
  }

  report(lookups: readonly number[]): Preview {
    return {
      states: this.#states,
      cells: [...this.#cells.values()].reduce(addCells, NO_CELLS),
      cellsBy: this.#cells,
      rows: this.#rows,
      skipped: this.#skipped.groups(),
      columns: [...this.#columns.values()],
      sample: [...this.#samples.values()].flatMap(({ items }) => items).slice(0, this.#size),
      lookups,
    }
  }
}

/**
 * Chooses some of a stream of items at random, each with the same chance (a reservoir). The first ones would be no sample: rows come in
 * key order, and old rows differ from new ones.
 */
export class RandomSample<Item> {
  readonly #max: number
  readonly #random: () => number
  readonly items: Item[] = []
  #count = 0

  /**
   * @param max items to choose
   * @param random 0..1
   */
  constructor(max: number, random: () => number) {
    this.#max = max
    this.#random = random
  }

  add(item: Item): void {
    const place = this.#count < this.#max ? this.#count : Math.floor(this.#random() * (this.#count + 1))
    if (place < this.#max) this.items[place] = item
    this.#count++
  }
}

const nameOfGroup = ({
  source,
  column,
  reason,
  detail,
}: Pick<SkippedGroup, 'source' | 'column' | 'reason' | 'detail'>): string =>
  [source, column, reason, detail ?? ''].join('\u0000')

const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/** Distinct values counted per reason in memory. */
const MAX_COUNTED_VALUES = 10_000

/** Counts skipped cells in memory, for what is previewed and not stored. */
class SkippedTally {
  readonly #groups = new Map<
    string,
    { group: SkippedGroup; values: Map<string, { value: unknown; rows: number }> }
  >()

  add(source: string, cells: readonly SkippedCell[]): void {
    for (const { column, reason, detail, value } of cells) {
      const name = nameOfGroup({ source, column, reason, detail })
      const description = describeSkip({ reason, detail })
      const empty = {
        source,
        column,
        reason,
        detail,
        description,
        rows: 0,
        distinct_values: 0,
        values: [],
      }
      const { group, values } = this.#groups.get(name) ?? { group: empty, values: new Map() }
      const text = JSON.stringify(value) ?? 'null'
      const known = values.get(text)
      if (known !== undefined) known.rows++
      else if (values.size < MAX_COUNTED_VALUES) values.set(text, { value, rows: 1 })
      this.#groups.set(name, { group: { ...group, rows: group.rows + 1 }, values })
    }
  }

  /** Most frequent first, as the stored ones. */
  groups(): SkippedGroup[] {
    return [...this.#groups.values()]
      .map(({ group, values }) => ({
        ...group,
        distinct_values: values.size,
        values: [...values]
          .sort(([a, x], [b, y]) => y.rows - x.rows || compareText(a, b))
          .slice(0, MAX_LISTED_VALUES)
          .map(([, counted]) => counted),
      }))
      .sort((a, b) => b.rows - a.rows || compareText(nameOfGroup(a), nameOfGroup(b)))
  }
}
