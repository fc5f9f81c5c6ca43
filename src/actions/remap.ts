import type { DiffRow, DryRunReport, RunReport, SkippedGroup } from '../domain/report/run.ts'
import * as store from '../store/remap.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAnswer, ROW_STATE_FACTS } from '../domain/row.ts'
import {
  mergeDiffs,
  PreviewTally,
  previewWriteBack,
  writeBackBatch,
  type PreviewedRow,
} from '../pipeline/write-back.ts'
import { runMaintenance, firstOf, type MaintenanceDeps, type MaintenanceRun } from '../runs/run-part.ts'
import { createRunReport } from '../runs/report.ts'
import type { Source } from '../sources/source-model.ts'
import { replaceSkippedCells } from '../store/skipped-cells.ts'
import { readPages } from '../store/sql.ts'
import { inTransaction, type Tx } from '../store/transaction.ts'

/** Rows per batch. */
const REMAP_BATCH_SIZE = 1_000
const POLL_MS = 200

export interface RemapOptions {
  /** With the outputs of all services. */
  readonly source: Source
  /** Reports what would be written, and writes nothing. */
  readonly dryRun: boolean
  /** Maximum rows to return as a sample. */
  readonly sample: number
  readonly signal: AbortSignal
  readonly onProgress?: ((processed: number, total: number) => void) | undefined
}

/** A service of a source, as the source is filled by it. */
export interface RemapService {
  readonly deps: MaintenanceDeps
  readonly source: Source
  /** Whose records are written; null: none is configured, and each row's own record is. */
  readonly service: number | null
}

/**
 * What stored records would change in a row. Of several services, the first of these outcomes counts.
 * - `changed`: a cell would change, or only the database can tell
 * - `inputs_changed`: the next run picks the row
 * - `row_missing`: the row is no longer in the source
 * - `unchanged`: nothing would change
 * - `below_confidence`: the record's confidence is too low for the source
 */
const OUTCOMES = ['changed', 'inputs_changed', 'row_missing', 'unchanged', 'below_confidence'] as const
type RemapOutcome = (typeof OUTCOMES)[number]

/** Counts, cells by column and a sample as in a dry run; and the report of the run that wrote them. */
export interface RemapReport extends DryRunReport {
  readonly dry_run: boolean
  readonly source: string
  /** Outcomes of the rows with a stored record: all but the last two add up to `rows`. */
  readonly examined: Readonly<Record<RemapOutcome, number>> & {
    readonly rows: number
    /** Rows to write whose earlier write was undone. */
    readonly undone: number
    /** Cells that would be written, without `touch` columns. */
    readonly cells: number
  }
  /** Values that are not written under the current mapping, by column and reason. */
  readonly skipped_cells: readonly SkippedGroup[]
  /** Null: nothing was written. */
  readonly report: RunReport | null
}

/** A remap that writes, or one that only shows what it would write. */
type RemapRun = Pick<MaintenanceRun, 'attempt' | 'signal'> & { readonly id: number | null }

/**
 * Writes stored records again under the current mapping, without a call: rows that would change are queued with their record, and the
 * write-back writes them; the others keep their state. Of several services in their order: as in a run, a
 * later one fills only what the records of those before it have left blank.
 * @param services of the source, in their order; one at least
 */
export async function remapSource(
  services: readonly RemapService[],
  options: RemapOptions,
): Promise<RemapReport> {
  const { source, dryRun, signal } = options
  const { deps } = firstOf(services)
  const tally = new PreviewTally([source], options.sample, deps.random)
  const examined = {
    rows: 0,
    changed: 0,
    unchanged: 0,
    below_confidence: 0,
    inputs_changed: 0,
    row_missing: 0,
    undone: 0,
    cells: 0,
  }
  const examine = (run: RemapRun): Promise<void> =>
    forEachPage(services, options, run, async (keys) => {
      const found: Findings = new Map()
      for (const service of services) {
        const previewed = await remapPage(services, service, keys, found, run)
        for (const preview of previewed) {
          tally.addWrite(source, service.deps.service, preview)
          found.set(preview.row.key, mergeFindings(found.get(preview.row.key), preview))
        }
      }
      for (const { outcome, isUndone, diff } of found.values()) {
        examined.rows++
        examined[outcome]++
        if (outcome === 'changed' && isUndone) examined.undone++
        examined.cells += diff?.cells.length ?? 0
        if (diff !== null && diff.cells.length > 0) tally.addSample(source.name, diff)
      }
    })
  let report: RunReport | null = null
  if (dryRun) await examine({ id: null, attempt: (act) => act(), signal })
  else report = await writeRemap(services, source, signal, examine)
  const { skipped, columns, sample } = tally.report([])
  return {
    dry_run: dryRun,
    source: source.name,
    examined,
    skipped_cells: skipped,
    columns,
    sample,
    report,
  }
}

/** Writes as a run of its own, which makes no call. */
function writeRemap(
  services: readonly RemapService[],
  { name }: Source,
  signal: AbortSignal,
  examine: (run: RemapRun) => Promise<void>,
): Promise<RunReport> {
  const startedAt = performance.now()
  const { deps } = firstOf(services)
  return runMaintenance(deps, { sources: [name], options: { remap: true } }, signal, async (run) => {
    // Rows that wait are in no page. Those that a killed remap has left lack the records of later services.
    for (const service of services) await writeQueued(service, run.attempt)
    await examine(run)
    for (const service of services) await writeLockedRows(service, run)
    const isStopped = run.signal.aborted
    return createRunReport(deps.db, {
      id: run.id,
      status: isStopped ? 'interrupted' : 'completed',
      reason: isStopped ? 'stopped on request' : null,
      parts: [],
      areWorkersShared: false,
      durationMs: performance.now() - startedAt,
    })
  })
}

/** Goes through the rows of a source that have a record, in key order, in pages of `REMAP_BATCH_SIZE`. */
async function forEachPage(
  services: readonly RemapService[],
  { source: { name }, onProgress }: RemapOptions,
  { attempt, signal }: RemapRun,
  processPage: (keys: readonly string[]) => Promise<void>,
): Promise<void> {
  const { db } = firstOf(services).deps
  const numbers = numbersOf(services)
  const total = onProgress ? await attempt(() => store.countRowsWithRecord(db, name, numbers)) : 0
  const pages = readPages<string>(
    (after, limit) => attempt(() => store.listKeysWithRecord(db, name, numbers, after, limit)),
    REMAP_BATCH_SIZE,
  )
  let processed = 0
  for await (const keys of pages) {
    if (signal.aborted) return
    await processPage(keys)
    processed += keys.length
    onProgress?.(processed, total)
  }
}

/** Null: no service is configured. */
const numbersOf = (services: readonly RemapService[]): number[] | null => {
  const numbers = services.flatMap(({ service }) => service ?? [])
  return numbers.length === 0 ? null : numbers
}

/** What the services so far would change in a row, by its key. */
type Findings = Map<string, Finding>
interface Finding {
  readonly outcome: RemapOutcome
  readonly diff: DiffRow | null
  /** An earlier write to the row was undone. */
  readonly isUndone: boolean
}

/** What the record of one service would change in its row. */
interface PreviewedRemap extends Omit<PreviewedRow, 'outcome'> {
  readonly record: store.FoundRecord
  /** A service before has found the row: only its blank cells are filled. */
  readonly onlyBlanks: boolean
  readonly outcome: RemapOutcome
}

function mergeFindings(before: Finding | undefined, { outcome, diff, record }: PreviewedRemap): Finding {
  return {
    outcome: OUTCOMES.find((candidate) => candidate === outcome || candidate === before?.outcome) ?? outcome,
    diff: mergeDiffs(before?.diff ?? null, diff),
    isUndone: before?.isUndone ?? record.undone,
  }
}

/**
 * Previews the records of one service, and writes them if the remap does.
 * @param found what the services before it would change
 */
async function remapPage(
  services: readonly RemapService[],
  service: RemapService,
  keys: readonly string[],
  found: Findings,
  { id, attempt }: RemapRun,
): Promise<PreviewedRemap[]> {
  const { deps, source } = service
  const preview = async (tx: Tx): Promise<PreviewedRemap[]> => {
    const previewed = await previewService(tx, services, service, keys, found)
    if (id !== null) await requeue(tx, source, id, previewed)
    return previewed
  }
  const previewed = await attempt(() => inTransaction(deps.db, preview, deps.policy.sourceTimeoutMs))
  if (id === null) return previewed
  for (;;) {
    await writeQueued(service, attempt)
    // Locked rows are written at the end.
    const isLeft = () => store.hasRowsToWrite(deps.db, source.name, id, { left: false })
    if (!(await attempt(isLeft))) return previewed
    // Another process is writing them.
    await sleep(50)
  }
}

/** Compares the stored records of one service with their rows under the current mapping. */
async function previewService(
  tx: Tx,
  services: readonly RemapService[],
  { source, service: number }: RemapService,
  keys: readonly string[],
  found: Findings,
): Promise<PreviewedRemap[]> {
  const records = await store.listFoundRecords(tx, source.name, keys, numbersOf(services))
  const place = services.findIndex((step) => step.source === source)
  const isTaken = ({ service, confidence }: store.FoundRecord): boolean =>
    services.slice(0, place).some((step) => step.service === service && isConfident(step.source, confidence))
  const taken = new Set(records.filter(isTaken).map(({ key }) => key))
  const isOwn = ({ service }: store.FoundRecord): boolean => number === null || service === number
  const own = new Map(records.filter(isOwn).map((record) => [record.key, record]))
  const answered = [...own.values()].map((record) => ({
    ...record,
    run: null,
    state: 'found' as const,
    reason: null,
    dueAt: null,
    stepsBefore: {
      onlyBlanks: taken.has(record.key),
      cellsWritten: 0,
      foundDueAt: null,
      missedDueAt: null,
      isRemapped: true,
    },
  }))
  const isFilled = (key: string, column: string): boolean =>
    found.get(key)?.diff?.cells.some((cell) => cell.column === column) === true
  const previewed = await previewWriteBack(tx, source, answered, isFilled)
  return previewed.flatMap(({ row, outcome, diff }) => {
    const record = own.get(row.key)
    const result = outcome === null ? 'below_confidence' : REMAP_OUTCOMES[outcome]
    return record ? [{ row, diff, record, onlyBlanks: taken.has(row.key), outcome: result }] : []
  })
}

const isConfident = ({ mapping }: Source, confidence: number | null): boolean =>
  afterAnswer({ state: 'found', reason: null, confidence }, mapping.minConfidence) === null

const REMAP_OUTCOMES: Readonly<Record<NonNullable<PreviewedRow['outcome']>, RemapOutcome>> = {
  written: 'changed',
  rejected: 'changed',
  unchanged: 'unchanged',
  inputs_changed: 'inputs_changed',
  row_missing: 'row_missing',
  // A preview takes no locks.
  locked: 'changed',
}

/** Queues the rows that would change, and notes the skipped cells of rows that keep their state. */
async function requeue(
  tx: Tx,
  { name }: Source,
  run: number,
  previewed: readonly PreviewedRemap[],
): Promise<void> {
  // With unchanged rows whose state is no longer true.
  const needsWrite = ({ outcome, record }: PreviewedRemap): boolean =>
    outcome === 'changed' ||
    (outcome === 'unchanged' && !ROW_STATE_FACTS[record.state].facts.includes('applied'))
  const keepsState = (preview: PreviewedRemap): boolean =>
    !needsWrite(preview) && (preview.outcome === 'unchanged' || preview.outcome === 'below_confidence')
  const toQueue = previewed.filter(needsWrite).map(({ record, onlyBlanks }) => ({ ...record, onlyBlanks }))
  await store.requeueForRecord(tx, name, run, toQueue)
  const kept = previewed.filter(keepsState).map(({ row, record }) => ({
    key: row.key,
    lookup: record.lookup,
    skipped: row.skipped,
  }))
  await replaceSkippedCells(tx, name, kept)
}

/** Writes what is queued of a source, whichever run its rows wait in. */
async function writeQueued(
  { deps, source }: RemapService,
  attempt: MaintenanceRun['attempt'],
): Promise<void> {
  for (let isDone = false; !isDone;) {
    const { rows, more } = await attempt(() => writeBackBatch(deps, source))
    isDone = rows === 0 && !more
  }
}

/** Waits a while for locked rows, then leaves them to the next run or the daemon. */
async function writeLockedRows(
  { deps, source }: RemapService,
  { id, attempt, signal }: MaintenanceRun,
): Promise<void> {
  const { lockedWaitMs } = deps.policy
  for (
    let lastProgressAt = performance.now();
    !signal.aborted && performance.now() - lastProgressAt < lockedWaitMs;
  ) {
    if (!(await attempt(() => store.hasRowsToWrite(deps.db, source.name, id, { left: true })))) return
    const { rows } = await attempt(() => writeBackBatch(deps, source))
    if (rows > 0) lastProgressAt = performance.now()
    else await sleep(POLL_MS, undefined, { signal }).catch(() => {})
  }
}
