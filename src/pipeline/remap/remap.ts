import { setTimeout as sleep } from 'node:timers/promises'
import { Row } from '../../domain/row.ts'
import type { Source } from '../../sources/source.ts'
import * as store from '../../store/remap.ts'
import { inTransaction } from '../../store/transaction.ts'
import type { DiffRow } from '../dry-run/diff.ts'
import type { DryRun } from '../dry-run/dry-run.ts'
import { makeReport, type RunReport } from '../run/report.ts'
import { runWithoutAsking, type WithoutAskingDeps } from '../run/without-asking.ts'
import * as writeBack from '../write-back/write-back.ts'
import { rehearse, type Fate, type Rehearsed } from './rehearse.ts'

/** Rows of one batch. */
const AT_ONCE = 1_000
const LOOK_MS = 200

export interface RemapOptions {
  readonly source: Source
  /** Tells what would be written, and writes nothing. */
  readonly dryRun: boolean
  /** Whose records are written; null: whichever settled a row. */
  readonly service: number | null
  /** Rows to keep for showing, at the most. */
  readonly sample: number
  readonly signal: AbortSignal
  readonly onProgress?: ((done: number, all: number) => void) | undefined
}

/** What the rows with a stored record would get, or got. All but the last two sum to `rows`. */
export interface Examined extends Record<Fate, number> {
  readonly rows: number
  /** Of those to write: their write was taken back before. */
  readonly undone: number
  /** Cells that would be written, touched ones left aside. */
  readonly cells: number
}

/** What was found, cells by column and the first rows as in a dry run; and the report of the run that wrote it. */
export interface RemapReport extends DryRun {
  readonly dry_run: boolean
  readonly source: string
  readonly examined: Examined
  /** Null: nothing was written. */
  readonly report: RunReport | null
}

/**
 * Writes stored records again under the mapping as it is now, without a call: rows whose stored record would change
 * something wait with their answer, and the pipeline's own write back writes them. Rows in which nothing would change
 * keep their state.
 */
export async function remap(deps: WithoutAskingDeps, options: RemapOptions): Promise<RemapReport> {
  const { source, dryRun, signal } = options
  const began = performance.now()
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
  const columns = source.outputs.map(({ column }) => ({ source: source.name, column, written: 0 }))
  const sample: DiffRow[] = []
  const found = { source: source.name, examined, columns, sample }
  const add = (rehearsed: readonly Rehearsed[]): void => {
    examined.rows += rehearsed.length
    for (const one of rehearsed) {
      examined[one.fate]++
      if (one.fate !== 'changed') continue
      if (one.row.undone) examined.undone++
      if (one.diff === null) continue
      examined.cells += one.diff.cells.length
      for (const cell of one.diff.cells)
        for (const count of columns) if (count.column === cell.column) count.written++
      if (sample.length < options.sample && one.diff.cells.length > 0) sample.push(one.diff)
    }
  }
  if (dryRun) {
    await eachPage(deps, options, (after) => page(deps, options, after, null), add)
    return { dry_run: true, ...found, report: null }
  }
  const run = { sources: [source.name], options: { remap: true } }
  const report = await runWithoutAsking(deps, run, signal, async ({ id, step, signal: ending }) => {
    await eachPage(
      deps,
      { ...options, signal: ending },
      (after) => step(() => page(deps, options, after, id)),
      add,
      () => writeAll(deps, source, id, step),
    )
    await writeLeft(deps, { source, signal: ending }, id, step)
    return makeReport(deps.db, {
      id,
      status: ending.aborted ? 'interrupted' : 'completed',
      reason: ending.aborted ? 'asked to stop' : null,
      leftOut: 0,
      requests: { person: 0, company: 0, bulk: 0, retried: 0, throttled: 0 },
      rate: null,
      durationMs: performance.now() - began,
    })
  })
  return { dry_run: false, ...found, report }
}

async function eachPage(
  deps: WithoutAskingDeps,
  { source, service, signal, onProgress }: RemapOptions,
  read: (after: string) => Promise<Rehearsed[]>,
  add: (rehearsed: readonly Rehearsed[]) => void,
  write: () => Promise<void> = async () => {},
): Promise<void> {
  const all = onProgress ? await store.count(deps.db, source.name, service) : 0
  let done = 0
  let after = ''
  while (!signal.aborted) {
    const rehearsed = await read(after)
    add(rehearsed)
    await write()
    done += rehearsed.length
    onProgress?.(done, all)
    if (rehearsed.length < AT_ONCE) return
    after = rehearsed.at(-1)?.row.key ?? ''
  }
}

/** Reads one page, and has those rows written that a record would change. @param run null: only looks */
function page(
  deps: Pick<WithoutAskingDeps, 'db' | 'rules'>,
  { source, service }: RemapOptions,
  after: string,
  run: number | null,
): Promise<Rehearsed[]> {
  return inTransaction(
    deps.db,
    async (tx) => {
      const rehearsed = await rehearse(tx, source, await store.page(tx, source.name, after, AT_ONCE, service))
      if (run !== null) {
        const rows = rehearsed.filter(isToWrite).map((one) => one.row)
        await store.writeAgain(tx, source.name, run, rows)
      }
      return rehearsed
    },
    deps.rules.sourceTimeoutMs,
  )
}

/** Also a row in which nothing would change, where its state tells of something that is no more. */
const isToWrite = ({ row, fate }: Rehearsed): boolean =>
  fate === 'changed' || (fate === 'unchanged' && row.state !== Row.enriched && row.state !== Row.unchanged)

async function writeAll(
  deps: WithoutAskingDeps,
  source: Source,
  run: number,
  step: <T>(act: () => Promise<T>) => Promise<T>,
): Promise<void> {
  for (;;) {
    const { rows, more } = await step(() => writeBack.tick(deps, source))
    if (rows > 0 || more) continue
    // What other transactions have locked comes at the end.
    if (!(await step(() => store.anyToWrite(deps.db, source.name, run, { left: false })))) return
    // Another process is writing them.
    await sleep(50)
  }
}

/** Rows that other transactions have locked are waited for a while; then they are left to the next run, or the daemon. */
async function writeLeft(
  deps: Pick<WithoutAskingDeps, 'db' | 'rules'>,
  { source, signal }: Pick<RemapOptions, 'source' | 'signal'>,
  run: number,
  step: <T>(act: () => Promise<T>) => Promise<T>,
): Promise<void> {
  const { leftWaitMs } = deps.rules
  for (let movedAt = performance.now(); !signal.aborted && performance.now() - movedAt < leftWaitMs;) {
    if (!(await step(() => store.anyToWrite(deps.db, source.name, run, { left: true })))) return
    const { rows } = await step(() => writeBack.tick(deps, source))
    if (rows > 0) movedAt = performance.now()
    else await sleep(LOOK_MS, undefined, { signal }).catch(() => {})
  }
}
