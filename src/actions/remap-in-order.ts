import { afterAnswer } from '../domain/row.ts'
import type { MaintenanceDeps } from '../runs/maintenance.ts'
import type { Source } from '../sources/source-model.ts'
import { toBlankOnlySource } from '../sources/views.ts'
import * as store from '../store/remap-in-order.ts'
import type { FoundRecord } from '../store/remap-in-order.ts'
import { replaceSkippedCells } from '../store/skipped-cells.ts'
import { inTransaction, type Tx } from '../store/transaction.ts'
import { type PreviewedRemap, RemapFindings, type RemapReport } from './remap-findings.ts'
import {
  keepsState,
  forEachPage,
  needsWrite,
  previewRemap,
  type RemapOptions,
  REMAP_BATCH_SIZE,
  toSkippedRow,
  writeLockedRows,
  writeQueued,
  writeRemap,
  writeRequeued,
} from './remap.ts'

/** A service of a source, as the source is filled by it. */
export interface RemapService {
  readonly deps: MaintenanceDeps
  readonly source: Source
}

/**
 * Writes the stored records of several services again, in their order: as in a run, a later one fills only what the records of
 * those before it have left blank.
 * @param options.source with the outputs of all services
 */
export async function remapInOrder(
  services: readonly RemapService[],
  options: Omit<RemapOptions, 'service'>,
): Promise<RemapReport> {
  const { source, dryRun, signal } = options
  const [first] = services
  if (first === undefined) throw new Error('a source has a service')
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

const inPage = <Result>({ deps }: RemapService, act: (tx: Tx) => Promise<Result>): Promise<Result> =>
  inTransaction(deps.db, act, deps.policy.sourceTimeoutMs)

const numbersOf = (services: readonly RemapService[]): number[] => services.map(({ deps }) => deps.service)

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
  { deps, source }: RemapService,
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
  const own = records.filter(({ service }) => service === deps.service)
  const cells = earlier.flatMap(({ row, diff }) =>
    (diff?.cells ?? []).map(({ column }) => toCellName(row.key, column)),
  )
  const filled = new Set(cells)
  const [after, alone] = [own.filter(({ key }) => found.has(key)), own.filter(({ key }) => !found.has(key))]
  const isFilled = (key: string, column: string): boolean => filled.has(toCellName(key, column))
  return {
    own: [
      ...(await previewRemap(tx, source, alone)),
      ...(await previewRemap(tx, toBlankOnlySource(source), after, isFilled)),
    ],
    found,
  }
}

const toCellName = (key: string, column: string): string => JSON.stringify([key, column])

/** Whether a record is of one of these services, and has the confidence that the source requires of it. */
const isTakenBy = (services: readonly RemapService[], { service, confidence }: FoundRecord): boolean =>
  services.some(
    ({ deps, source }) =>
      deps.service === service &&
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
