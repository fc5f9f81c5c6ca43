import { describeError } from '../util/error-text.ts'
import type { Deps } from '../pipeline/deps.ts'
import { countFilled, readTableNode } from '../sources/fill-counts.ts'
import { estimateRows } from '../sources/sample-keys.ts'
import type { Source } from '../sources/source-model.ts'
import { hasWrittenRows, lastWriteOf } from '../store/changes.ts'
import * as store from '../store/fill-rates.ts'
import { inTransaction, withTableTimeouts } from '../store/transaction.ts'

/** Counting reads the whole table; longer than this is not worth it. */
const COUNT_TIMEOUT_MS = 30_000
/** If counting takes longer than this (milliseconds), at most 1/COST_FACTOR of the time is spent on it. */
const CHEAP_COUNT_MS = 100
const COST_FACTOR = 100
/** Nor is it spent, within a day, on a run that has written less than this share of the rows. */
const MIN_SHARE = 0.01

/** A run that has written nothing counts only if the last count is older than this, or of another table. */
const DAY_MS = 24 * 3_600_000
/** A batch is written before its time is seen: a count that is newer by less than this may lack it. */
const WRITE_MS = 5_000

/** How full a source is. */
export type SourceCount = Omit<store.FillRate, 'at'>

interface CountOptions {
  readonly run: number
  /** Rows of the largest table that is counted; absent: of any size. */
  readonly maxRows?: number
}

/**
 * Counts how full a source is at the end of a run, unless the run has written nothing since the last count, or
 * counting costs too much. For display only: failures are logged at debug level.
 * @returns null: it was not counted
 */
async function countSource(
  { db, log, now }: Pick<Deps, 'db' | 'log' | 'now'>,
  source: Source,
  { run, maxRows = Number.POSITIVE_INFINITY }: CountOptions,
): Promise<SourceCount | null> {
  try {
    const last = await store.findFillRate(db, source.name)
    const tableNode = await readTableNode(db, source)
    if (last !== null) {
      const ageMs = now() - last.at.getTime()
      const isDear = last.took_ms > CHEAP_COUNT_MS
      if (isDear && ageMs < COST_FACTOR * last.took_ms) return null
      // What was counted in a table that has been swapped, truncated or rewritten since says nothing.
      if (ageMs < DAY_MS && last.table_node === tableNode) {
        const countedAt = last.at.getTime() - last.took_ms - WRITE_MS
        if (countedAt > ((await lastWriteOf(db, run))?.getTime() ?? 0)) return null
        const rows = Math.ceil(last.eligible * MIN_SHARE)
        if (isDear && !(await hasWrittenRows(db, run, source.name, rows))) return null
      }
    }
    if (maxRows !== Number.POSITIVE_INFINITY && (await estimateRows(db, source)) > maxRows) return null
    const startedAt = performance.now()
    const { eligible, columns } = await inTransaction(db, (tx) =>
      withTableTimeouts(tx, COUNT_TIMEOUT_MS, () => countFilled(tx, source)),
    )
    return {
      source: source.name,
      eligible,
      filled: Object.fromEntries(columns.map(({ column, filled }) => [column, filled])),
      took_ms: Math.round(performance.now() - startedAt),
      table_node: tableNode,
    }
  } catch (error) {
    logNotCounted(log, error, source.name)
    return null
  }
}

const logNotCounted = (log: Deps['log'], error: unknown, source: string): void =>
  log.debug(
    { event: 'fill_rate_not_measured', source, reason: describeError(error) },
    'fill rates not counted',
  )

/** Counts sources one after the other. */
export async function countSources(
  deps: Pick<Deps, 'db' | 'log' | 'now'>,
  sources: readonly Source[],
  options: CountOptions,
): Promise<SourceCount[]> {
  const counted: SourceCount[] = []
  for (const source of sources) {
    const one = await countSource(deps, source, options)
    if (one !== null) counted.push(one)
  }
  return counted
}

/** Keeps what was counted with its run, which is closed. */
export async function saveCounts(
  { db, log }: Pick<Deps, 'db' | 'log'>,
  run: number,
  counted: readonly SourceCount[],
): Promise<void> {
  await store
    .saveFillRates(db, run, counted)
    .catch((error: unknown) => logNotCounted(log, error, counted.map(({ source }) => source).join(', ')))
}
