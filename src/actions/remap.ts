import { setTimeout as sleep } from 'node:timers/promises'
import { afterAnswer, ROW_STATE_FACTS } from '../domain/row.ts'
import { toDiffRow } from '../pipeline/preview.ts'
import { writeBackBatch } from '../pipeline/write-back.ts'
import { runMaintenance, type MaintenanceDeps, type MaintenanceRun } from '../runs/maintenance.ts'
import { createRunReport } from '../runs/report.ts'
import { fitRow, listSkippedCells } from '../pipeline/row-results.ts'
import type { Source } from '../sources/source-model.ts'
import { writeBatch, type WriteResult } from '../sources/write/write.ts'
import * as store from '../store/requeue-rows.ts'
import type { RemapRow } from '../store/requeue-rows.ts'
import { replaceSkippedCells } from '../store/skipped-cells.ts'
import { inTransaction, type Tx } from '../store/transaction.ts'
import { type PreviewedRemap, RemapFindings, type RemapOutcome, type RemapReport } from './remap-findings.ts'

export type { RemapReport } from './remap-findings.ts'

/** Rows per batch. */
export const REMAP_BATCH_SIZE = 1_000
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

/**
 * Writes stored records again under the current mapping, without a call: rows that would change are queued with their
 * record, and the write-back writes them. Rows that would not change keep their state.
 */
export async function remapSource(deps: MaintenanceDeps, options: RemapOptions): Promise<RemapReport> {
  const { source, dryRun, signal } = options
  const findings = new RemapFindings(source, options.sample, deps.random)
  const count = (): Promise<number> => store.countRemapRows(deps.db, source.name, options.service)
  if (dryRun) {
    await forEachPage(options, count, async (afterKey) => {
      const page = await remapPage(deps, options, afterKey, null)
      findings.add(page)
      return page.map(({ row }) => row)
    })
    return findings.report(null)
  }
  return writeRemap(deps, findings, signal, async ({ id, attempt, signal: stopping }) => {
    await forEachPage({ ...options, signal: stopping }, count, async (afterKey) => {
      const page = await attempt(() => remapPage(deps, options, afterKey, id))
      findings.add(page)
      await writeRequeued(deps, source, id, attempt)
      return page.map(({ row }) => row)
    })
    await writeLockedRows(deps, { source, signal: stopping }, id, attempt)
  })
}

/** Writes as a run of its own, which makes no call. */
export async function writeRemap(
  deps: MaintenanceDeps,
  findings: RemapFindings,
  signal: AbortSignal,
  write: (run: MaintenanceRun) => Promise<void>,
): Promise<RemapReport> {
  const startedAt = performance.now()
  const started = { sources: [findings.source.name], options: { remap: true } }
  const report = await runMaintenance(deps, started, signal, async (run) => {
    await write(run)
    const isStopped = run.signal.aborted
    return createRunReport(deps.db, {
      id: run.id,
      status: isStopped ? 'interrupted' : 'completed',
      reason: isStopped ? 'stopped on request' : null,
      rowsSkipped: 0,
      rate: null,
      isOnlyRun: true,
      price: null,
      durationMs: performance.now() - startedAt,
    })
  })
  return findings.report(report)
}

/**
 * Goes through the rows of a source in pages of `REMAP_BATCH_SIZE`.
 * @param count all rows, for the progress
 * @param processPage those after a key; resolves to them, in key order
 */
export async function forEachPage(
  { signal, onProgress }: Pick<RemapOptions, 'signal' | 'onProgress'>,
  count: () => Promise<number>,
  processPage: (afterKey: string) => Promise<readonly { readonly key: string }[]>,
): Promise<void> {
  const total = onProgress ? await count() : 0
  let processed = 0
  let afterKey = ''
  while (!signal.aborted) {
    const rows = await processPage(afterKey)
    processed += rows.length
    onProgress?.(processed, total)
    if (rows.length < REMAP_BATCH_SIZE) return
    afterKey = rows.at(-1)?.key ?? ''
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
export const needsWrite = ({ row, outcome }: PreviewedRemap): boolean =>
  outcome === 'changed' || (outcome === 'unchanged' && !ROW_STATE_FACTS[row.state].isApplied)

/** Rows that keep their state: what is skipped of them may have changed with the mapping. */
export const keepsState = (one: PreviewedRemap): boolean =>
  !needsWrite(one) && (one.outcome === 'unchanged' || one.outcome === 'below_confidence')

export const toSkippedRow = ({ row, skipped }: PreviewedRemap) => ({
  key: row.key,
  lookup: row.lookup,
  skipped,
})

export async function writeRequeued(
  deps: MaintenanceDeps,
  source: Source,
  run: number,
  step: <T>(act: () => Promise<T>) => Promise<T>,
): Promise<void> {
  for (;;) {
    await writeQueued(deps, source, step)
    // Locked rows are written at the end.
    if (!(await step(() => store.hasRowsToWrite(deps.db, source.name, run, { left: false })))) return
    // Another process is writing them.
    await sleep(50)
  }
}

/** Writes what is queued of a source, whichever run its rows wait in. */
export async function writeQueued(
  deps: MaintenanceDeps,
  source: Source,
  step: <T>(act: () => Promise<T>) => Promise<T>,
): Promise<void> {
  for (let isDone = false; !isDone;) {
    const { rows, more } = await step(() => writeBackBatch(deps, source))
    isDone = rows === 0 && !more
  }
}

/** Waits a while for locked rows, then leaves them to the next run or the daemon. */
export async function writeLockedRows(
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

/**
 * Compares stored records with their rows under the current mapping. Takes no locks and writes nothing.
 * @param isDropped a cell that is filled otherwise
 */
export async function previewRemap(
  tx: Tx,
  source: Source,
  rows: readonly RemapRow[],
  isDropped: (key: string, column: string) => boolean = () => false,
): Promise<PreviewedRemap[]> {
  const { minConfidence } = source.mapping
  const isConfident = (row: RemapRow): boolean =>
    afterAnswer({ state: 'found', reason: null, confidence: row.confidence }, minConfidence) === null
  const confident = rows.filter(isConfident)
  const fitted = confident.map((row) => {
    const one = fitRow(source, row)
    const kept = Object.entries(one.write.values).filter(([column]) => !isDropped(row.key, column))
    return { ...one, write: { ...one.write, values: Object.fromEntries(kept) } }
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
