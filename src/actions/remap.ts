import { setTimeout as sleep } from 'node:timers/promises'
import { afterAnswer, ROW_STATE_FACTS } from '../domain/row.ts'
import { toDiffRow } from '../pipeline/preview.ts'
import { writeBackBatch } from '../pipeline/write-back.ts'
import { runMaintenance, type MaintenanceDeps, type MaintenanceRun } from '../runs/maintenance.ts'
import { createRunReport } from '../runs/report.ts'
import { firstOf } from '../runs/run-part.ts'
import { fitRow, listSkippedCells } from '../pipeline/row-results.ts'
import type { Source } from '../sources/source-model.ts'
import { writeBatch, type WriteResult } from '../sources/write/write.ts'
import * as store from '../store/remap.ts'
import type { FoundRecord } from '../store/remap.ts'
import { replaceSkippedCells } from '../store/skipped-cells.ts'
import { inTransaction, type Tx } from '../store/transaction.ts'
import { type PreviewedRemap, RemapFindings, type RemapOutcome, type RemapReport } from './remap-findings.ts'

export type { RemapReport } from './remap-findings.ts'

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
 * Writes stored records again under the current mapping, without a call: rows that would change are queued with their record, and the
 * write-back writes them; the others keep their state. Of several services in their order: as in a run, a later one fills only what the
 * records of those before it have left blank.
 * @param services of the source, in their order; one at least
 */
export async function remapSource(
  services: readonly RemapService[],
  options: RemapOptions,
): Promise<RemapReport> {
  const { source, dryRun, signal } = options
  const first = firstOf(services)
  const findings = new RemapFindings(source, options.sample, first.deps.random)
  const { db } = first.deps
  const numbers = numbersOf(services)
  const count = (): Promise<number> => store.countRowsWithRecord(db, source.name, numbers)
  const readPage = (afterKey: string): Promise<RowKey[]> =>
    store.listKeysWithRecord(db, source.name, numbers, afterKey, REMAP_BATCH_SIZE)
  if (dryRun) {
    await forEachPage(options, count, async (afterKey) => {
      const rows = await readPage(afterKey)
      const previewed: PreviewedRemap[] = []
      for (const service of services) {
        const { own } = await inPage(service, (tx) => previewService(tx, services, service, rows, previewed))
        previewed.push(...own)
      }
      findings.add(mergeByRow(previewed))
      return rows
    })
    return findings.report(null)
  }
  return writeRemap(first.deps, findings, signal, async ({ id, attempt, signal: stopping }) => {
    // Rows that wait are in no page: those that a remap left when it was killed lack the records of later services.
    for (const service of services) await writeQueued(service.deps, service.source, attempt)
    await forEachPage({ ...options, signal: stopping }, count, async (afterKey) => {
      const rows = await attempt(() => readPage(afterKey))
      const previewed: PreviewedRemap[] = []
      for (const service of services) {
        const page = await attempt(() =>
          inPage(service, async (tx) => {
            const records = await previewService(tx, services, service, rows, previewed)
            await requeue(tx, service.source.name, id, records)
            return records.own
          }),
        )
        previewed.push(...page)
        await writeRequeued(service.deps, service.source, id, attempt)
      }
      findings.add(mergeByRow(previewed))
      return rows
    })
    for (const service of services)
      await writeLockedRows(service.deps, { source: service.source, signal: stopping }, id, attempt)
  })
}

/** Writes as a run of its own, which makes no call. */
async function writeRemap(
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
      parts: [],
      areWorkersShared: false,
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
async function forEachPage(
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

const inPage = <Result>({ deps }: RemapService, act: (tx: Tx) => Promise<Result>): Promise<Result> =>
  inTransaction(deps.db, act, deps.policy.sourceTimeoutMs)

/** Null: no service is configured. */
const numbersOf = (services: readonly RemapService[]): number[] | null => {
  const numbers = services.flatMap(({ service }) => service ?? [])
  return numbers.length === 0 ? null : numbers
}

type RowKey = Pick<FoundRecord, 'key'>

interface ServiceRecords {
  /** What those of the service would change. */
  readonly own: readonly PreviewedRemap[]
  /** Rows that a service before it has found: only their blank cells are filled. */
  readonly found: ReadonlySet<string>
}

/** What the records of one service would change, after those before it. @param earlier what these would change */
async function previewService(
  tx: Tx,
  services: readonly RemapService[],
  { source, service: number }: RemapService,
  rows: readonly RowKey[],
  earlier: readonly PreviewedRemap[],
): Promise<ServiceRecords> {
  const keys = rows.map(({ key }) => key)
  const records = await store.listFoundRecords(tx, source.name, keys, numbersOf(services))
  const before = services.slice(
    0,
    services.findIndex((one) => one.source === source),
  )
  const found = new Set(records.filter((one) => isTakenBy(before, one)).map(({ key }) => key))
  const own = records.filter(({ service }) => number === null || service === number)
  const cells = earlier.flatMap(({ row, diff }) =>
    (diff?.cells ?? []).map(({ column }) => toCellName(row.key, column)),
  )
  const filled = new Set(cells)
  const [after, alone] = [own.filter(({ key }) => found.has(key)), own.filter(({ key }) => !found.has(key))]
  const isFilled = (key: string, column: string): boolean => filled.has(toCellName(key, column))
  return {
    own: [
      ...(await previewRemap(tx, source, alone)),
      ...(await previewRemap(tx, source.afterFound ?? source, after, isFilled)),
    ],
    found,
  }
}

const toCellName = (key: string, column: string): string => JSON.stringify([key, column])

/** Whether a record is of one of these services, and has the confidence that the source requires of it. */
const isTakenBy = (services: readonly RemapService[], { service, confidence }: FoundRecord): boolean =>
  services.some(
    ({ source, service: number }) =>
      number === service &&
      afterAnswer({ state: 'found', reason: null, confidence }, source.mapping.minConfidence) === null,
  )

/** Queues the rows that would change, and notes what is skipped of the others. */
async function requeue(tx: Tx, source: string, run: number, { own, found }: ServiceRecords): Promise<void> {
  const rows = own.filter(needsWrite).map(({ row }) => ({ ...row, onlyBlanks: found.has(row.key) }))
  await store.requeueForRecord(tx, source, run, rows)
  await replaceSkippedCells(tx, source, own.filter(keepsState).map(toSkippedRow))
}

/** What decides about a row with records of several services, the first one first. */
const OUTCOMES: readonly PreviewedRemap['outcome'][] = [
  'changed',
  'inputs_changed',
  'row_missing',
  'unchanged',
  'below_confidence',
]

/** One finding for each row. */
function mergeByRow(previewed: readonly PreviewedRemap[]): PreviewedRemap[] {
  return [...Map.groupBy(previewed, ({ row }) => row.key).values()].flatMap((ofRow) => {
    const [first] = ofRow
    if (first === undefined || ofRow.length === 1) return ofRow
    const diffs = ofRow.flatMap(({ diff }) => diff ?? [])
    const [diff = null] = diffs
    return {
      row: first.row,
      outcome: OUTCOMES.find((one) => ofRow.some(({ outcome }) => outcome === one)) ?? first.outcome,
      diff: diff && { ...diff, cells: diffs.flatMap((one) => one.cells) },
      skipped: ofRow.flatMap((one) => one.skipped),
    }
  })
}

/** Includes unchanged rows whose state is no longer true. */
const needsWrite = ({ row, outcome }: PreviewedRemap): boolean =>
  outcome === 'changed' || (outcome === 'unchanged' && !ROW_STATE_FACTS[row.state].isApplied)

/** Rows that keep their state: what is skipped of them may have changed with the mapping. */
const keepsState = (one: PreviewedRemap): boolean =>
  !needsWrite(one) && (one.outcome === 'unchanged' || one.outcome === 'below_confidence')

const toSkippedRow = ({ row, skipped }: PreviewedRemap) => ({
  key: row.key,
  lookup: row.lookup,
  skipped,
})

async function writeRequeued(
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
async function writeQueued(
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

/**
 * Compares stored records with their rows under the current mapping. Takes no locks and writes nothing.
 * @param isDropped a cell that is filled otherwise
 */
async function previewRemap(
  tx: Tx,
  source: Source,
  rows: readonly FoundRecord[],
  isDropped: (key: string, column: string) => boolean = () => false,
): Promise<PreviewedRemap[]> {
  if (rows.length === 0) return []
  const { minConfidence } = source.mapping
  const isConfident = (row: FoundRecord): boolean =>
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
