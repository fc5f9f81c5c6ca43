import { setTimeout as sleep } from 'node:timers/promises'
import { afterAnswer, ROW_STATE_FACTS, toEarlierValues } from '../domain/row.ts'
import { toDiffRow, type DiffRow, type DryRunReport } from '../pipeline/preview.ts'
import { RandomSample } from '../pipeline/random-sample.ts'
import { writeBackBatch } from '../pipeline/write-back.ts'
import { runMaintenance, type MaintenanceDeps } from '../runs/maintenance.ts'
import { createRunReport, type RunReport } from '../runs/report.ts'
import { SkippedTally, type SkippedCell, type SkippedGroup } from '../domain/skipped-cell.ts'
import { listSkippedCells } from '../pipeline/row-results.ts'
import { coerceRecord } from '../sources/coerce/record.ts'
import type { Source } from '../sources/source-model.ts'
import { writeBatch, type WriteResult } from '../sources/write/write.ts'
import * as store from '../store/requeue-rows.ts'
import type { RemapRow } from '../store/requeue-rows.ts'
import { replaceSkippedCells } from '../store/skipped-cells.ts'
import { inTransaction, type Tx } from '../store/transaction.ts'

/** Rows per batch. */
const REMAP_BATCH_SIZE = 1_000
const POLL_MS = 200

export interface RemapOptions {
  readonly source: Source
  /** Reports what would be written, and writes nothing. */
  readonly dryRun: boolean
  /** Service whose records are written; null: any. */
  readonly service: number | null
  /** Maximum rows to return as a sample. */
  readonly sample: number
  readonly signal: AbortSignal
  readonly onProgress?: ((processed: number, total: number) => void) | undefined
}

/** Outcomes of the rows with a stored record. All but the last two add up to `rows`. */
interface RemapCounts extends Record<RemapOutcome, number> {
  readonly rows: number
  /** Rows to write whose earlier write was undone. */
  readonly undone: number
  /** Cells that would be written, without `touch` columns. */
  readonly cells: number
}

/** Counts, cells by column and a sample as in a dry run; and the report of the run that wrote them. */
export interface RemapReport extends DryRunReport {
  readonly dry_run: boolean
  readonly source: string
  readonly examined: RemapCounts
  /** Values that are not written under the current mapping, by column and reason. */
  readonly skipped_cells: readonly SkippedGroup[]
  /** Null: nothing was written. */
  readonly report: RunReport | null
}

/**
 * Writes stored records again under the current mapping, without a call: rows that would change are queued with their
 * record, and the write-back writes them. Rows that would not change keep their state.
 */
export async function remapSource(deps: MaintenanceDeps, options: RemapOptions): Promise<RemapReport> {
  const { source, dryRun, signal } = options
  const startedAt = performance.now()
  const counts = {
    rows: 0,
    changed: 0,
    unchanged: 0,
    below_confidence: 0,
    inputs_changed: 0,
    row_missing: 0,
    undone: 0,
    cells: 0,
  }
  const columns = source.outputs.map(({ column }) => ({ source: source.name, column, written: 0 }))
  const sample = new RandomSample<DiffRow>(options.sample, deps.random)
  const tally = new SkippedTally()
  const findings = () => ({
    source: source.name,
    examined: counts,
    skipped_cells: tally.groups(),
    columns,
    sample: sample.take(),
  })
  const addPage = (previewed: readonly PreviewedRemap[]): void => {
    counts.rows += previewed.length
    for (const one of previewed) {
      counts[one.outcome]++
      tally.add(source.name, one.skipped)
      if (one.outcome !== 'changed') continue
      if (one.row.undone) counts.undone++
      if (one.diff === null) continue
      counts.cells += one.diff.cells.length
      for (const cell of one.diff.cells)
        for (const count of columns) if (count.column === cell.column) count.written++
      if (one.diff.cells.length > 0) sample.add(one.diff)
    }
  }
  if (dryRun) {
    await forEachPage(deps, options, (afterKey) => remapPage(deps, options, afterKey, null), addPage)
    return { dry_run: true, ...findings(), report: null }
  }
  const run = { sources: [source.name], options: { remap: true } }
  const report = await runMaintenance(deps, run, signal, async ({ id, attempt, signal: stopping }) => {
    await forEachPage(
      deps,
      { ...options, signal: stopping },
      (afterKey) => attempt(() => remapPage(deps, options, afterKey, id)),
      addPage,
      () => writeRequeued(deps, source, id, attempt),
    )
    await writeLockedRows(deps, { source, signal: stopping }, id, attempt)
    return createRunReport(deps.db, {
      id,
      status: stopping.aborted ? 'interrupted' : 'completed',
      reason: stopping.aborted ? 'stopped on request' : null,
      rowsSkipped: 0,
      rate: null,
      isOnlyRun: true,
      price: null,
      durationMs: performance.now() - startedAt,
    })
  })
  return { dry_run: false, ...findings(), report }
}

async function forEachPage(
  deps: MaintenanceDeps,
  { source, service, signal, onProgress }: RemapOptions,
  read: (afterKey: string) => Promise<PreviewedRemap[]>,
  addPage: (previewed: readonly PreviewedRemap[]) => void,
  write: () => Promise<void> = async () => {},
): Promise<void> {
  const total = onProgress ? await store.countRemapRows(deps.db, source.name, service) : 0
  let processed = 0
  let afterKey = ''
  while (!signal.aborted) {
    const previewed = await read(afterKey)
    addPage(previewed)
    await write()
    processed += previewed.length
    onProgress?.(processed, total)
    if (previewed.length < REMAP_BATCH_SIZE) return
    afterKey = previewed.at(-1)?.row.key ?? ''
  }
}

/**
 * Reads one page, and queues the rows that would change.
 * @param run null: only preview
 */
function remapPage(
  deps: Pick<MaintenanceDeps, 'db' | 'policy'>,
  { source, service }: RemapOptions,
  afterKey: string,
  run: number | null,
): Promise<PreviewedRemap[]> {
  return inTransaction(
    deps.db,
    async (tx) => {
      const previewed = await previewRemap(
        tx,
        source,
        await store.listRemapRows(tx, source.name, afterKey, REMAP_BATCH_SIZE, service),
      )
      if (run !== null) {
        const rows = previewed.filter(needsWrite).map((one) => one.row)
        await store.requeueRowsForWrite(tx, source.name, run, rows)
        await replaceSkippedCells(tx, source.name, previewed.filter(keepsState).map(toSkippedRow))
      }
      return previewed
    },
    deps.policy.sourceTimeoutMs,
  )
}

/** Includes unchanged rows whose state is no longer true. */
const needsWrite = ({ row, outcome }: PreviewedRemap): boolean =>
  outcome === 'changed' || (outcome === 'unchanged' && !ROW_STATE_FACTS[row.state].isApplied)

/** Rows that keep their state: what is skipped of them may have changed with the mapping. */
const keepsState = (one: PreviewedRemap): boolean =>
  !needsWrite(one) && (one.outcome === 'unchanged' || one.outcome === 'below_confidence')

const toSkippedRow = ({ row, skipped }: PreviewedRemap) => ({ key: row.key, lookup: row.lookup, skipped })

async function writeRequeued(
  deps: MaintenanceDeps,
  source: Source,
  run: number,
  step: <T>(act: () => Promise<T>) => Promise<T>,
): Promise<void> {
  for (;;) {
    const { rows, more } = await step(() => writeBackBatch(deps, source))
    if (rows > 0 || more) continue
    // Locked rows are written at the end.
    if (!(await step(() => store.hasRowsToWrite(deps.db, source.name, run, { left: false })))) return
    // Another process is writing them.
    await sleep(50)
  }
}

/** Waits a while for locked rows, then leaves them to the next run or the daemon. */
async function writeLockedRows(
  deps: Pick<MaintenanceDeps, 'db' | 'policy'>,
  { source, signal }: Pick<RemapOptions, 'source' | 'signal'>,
  run: number,
  step: <T>(act: () => Promise<T>) => Promise<T>,
): Promise<void> {
  const { lockedWaitMs } = deps.policy
  for (
    let lastProgressAt = performance.now();
    !signal.aborted && performance.now() - lastProgressAt < lockedWaitMs;
  ) {
    if (!(await step(() => store.hasRowsToWrite(deps.db, source.name, run, { left: true })))) return
    const { rows } = await step(() => writeBackBatch(deps, source))
    if (rows > 0) lastProgressAt = performance.now()
    else await sleep(POLL_MS, undefined, { signal }).catch(() => {})
  }
}

/** What a stored record would change in its row. */
interface PreviewedRemap {
  readonly row: RemapRow
  /**
   * - `changed`: a cell would change, or only the database can tell
   * - `unchanged`: nothing would change
   * - `below_confidence`: the record's confidence is too low for the source
   * - `inputs_changed`: the next run picks it
   * - `row_missing`: no longer in the source
   */
  readonly outcome: RemapOutcome
  /** What would be written, as far as that is known; null: nothing. */
  readonly diff: DiffRow | null
  /** Values of the record that are not written, as far as that is known. */
  readonly skipped: readonly SkippedCell[]
}

type RemapOutcome = 'changed' | 'unchanged' | 'below_confidence' | 'inputs_changed' | 'row_missing'

/** Compares stored records with their rows under the current mapping. Takes no locks and writes nothing. */
async function previewRemap(tx: Tx, source: Source, rows: readonly RemapRow[]): Promise<PreviewedRemap[]> {
  const { minConfidence } = source.mapping
  const isConfident = (row: RemapRow): boolean =>
    afterAnswer({ state: 'found', reason: null, confidence: row.confidence }, minConfidence) === null
  const confident = rows.filter(isConfident)
  const fitted = confident.map((row) => {
    const { key, inputHash, written, record, confidence } = row
    const { values, skipped } = coerceRecord(source, record, confidence)
    const earlier = toEarlierValues(row.earlier)
    return { row, skipped, write: { key, inputHash, values, lastWritten: written, earlier, confidence } }
  })
  const batch = fitted.map(({ write }) => write)
  const results = await writeBatch(tx, source, batch, { preview: true })
  const byKey = new Map(fitted.map((one, n) => [one.row.key, { one, result: results[n] }]))
  return rows.map((row) => {
    const { one, result } = byKey.get(row.key) ?? {}
    if (one === undefined || result === undefined)
      return { row, outcome: 'below_confidence', diff: null, skipped: [] }
    return {
      row,
      outcome: REMAP_OUTCOMES[result.outcome],
      diff: toDiffRow(source, result, row.confidence),
      skipped: listSkippedCells(source, one, result),
    }
  })
}

const REMAP_OUTCOMES: Readonly<Record<WriteResult['outcome'], RemapOutcome>> = {
  written: 'changed',
  rejected: 'changed',
  unchanged: 'unchanged',
  inputs_changed: 'inputs_changed',
  row_missing: 'row_missing',
  // A preview takes no locks.
  locked: 'changed',
}
