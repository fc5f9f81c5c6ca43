import { describeError } from '../util/error-text.ts'
import type { Deps } from '../pipeline/deps.ts'
import { countFilled, readTableNode } from '../sources/fill-counts.ts'
import { estimateRows } from '../sources/sample-keys.ts'
import type { Source } from '../sources/source-model.ts'
import { hasWrittenRows, lastWriteOf } from '../store/changes.ts'
import * as store from '../store/metrics.ts'
import { inTransaction, withTableTimeouts } from '../store/transaction.ts'

/** Counting reads the whole table; longer than this is not worth it. */
const COUNT_TIMEOUT_MS = 30_000
/** If counting takes longer than this (milliseconds), spend at most 1/COST_FACTOR of the time on it. */
const CHEAP_COUNT_MS = 100
const COST_FACTOR = 100
/** Nor is it spent, within a day, on a run that has written less than this share of the rows. */
const MIN_SHARE = 0.01

/** A run that has written nothing counts only if the last sample is older than this, or of another table. */
const DAY_MS = 24 * 3_600_000
/** A batch is written before its time is seen: a sample that is newer by less than this may lack it. */
const WRITE_MS = 5_000

export interface FillRateSampleOptions {
  readonly run: number
  /** Minimum age of the last sample, in milliseconds. */
  readonly minAgeMs: number
  /** When the run started, at its end: what it has counted itself is counted once more, whatever it costs. */
  readonly startedAt?: number
  /** Rows of the largest table that is counted; absent: of any size. */
  readonly maxRows?: number
}

/**
 * Stores a sample of a source's fill rates, unless the last one is recent, the run has written nothing since, or counting
 * costs too much. For display only: failures are logged at debug level.
 * @returns whether it was counted
 */
async function sampleFillRate(
  { db, log, now }: Pick<Deps, 'db' | 'log' | 'now'>,
  source: Source,
  {
    run,
    minAgeMs,
    startedAt: runStartedAt = Number.POSITIVE_INFINITY,
    maxRows = Number.POSITIVE_INFINITY,
  }: FillRateSampleOptions,
): Promise<boolean> {
  try {
    const lastSample = await store.latestFillRateSample(db, source.name)
    const tableNode = await readTableNode(db, source)
    if (lastSample !== null) {
      const ageMs = now() - lastSample.at.getTime()
      const isOwn = lastSample.at.getTime() >= runStartedAt
      if (ageMs < Math.max(minAgeMs, isOwn ? 0 : minIntervalMs(lastSample.took_ms))) return false
      // What was counted in a table that has been swapped, truncated or rewritten since says nothing.
      if (ageMs < DAY_MS && lastSample.table_node === tableNode) {
        const countedAt = lastSample.at.getTime() - lastSample.took_ms - WRITE_MS
        if (countedAt > ((await lastWriteOf(db, run))?.getTime() ?? 0)) return false
        const rows = Math.ceil(lastSample.eligible * MIN_SHARE)
        const isDear = lastSample.took_ms > CHEAP_COUNT_MS
        if (isDear && !(await hasWrittenRows(db, run, source.name, rows))) return false
      }
    }
    if (maxRows !== Number.POSITIVE_INFINITY && (await estimateRows(db, source)) > maxRows) return false
    const startedAt = performance.now()
    const { eligible, columns } = await inTransaction(db, (tx) =>
      withTableTimeouts(tx, COUNT_TIMEOUT_MS, () => countFilled(tx, source)),
    )
    await store.saveFillRateSample(db, {
      source: source.name,
      eligible,
      filled: Object.fromEntries(columns.map(({ column, filled }) => [column, filled])),
      took_ms: performance.now() - startedAt,
      table_node: tableNode,
    })
    return true
  } catch (error) {
    log.debug(
      { event: 'fill_rate_not_measured', source: source.name, reason: describeError(error) },
      'fill rates not sampled',
    )
    return false
  }
}

const minIntervalMs = (tookMs: number): number => (tookMs > CHEAP_COUNT_MS ? COST_FACTOR * tookMs : 0)

/** Samples sources one after the other. */
export async function sampleFillRates(
  deps: Pick<Deps, 'db' | 'log' | 'now'>,
  sources: readonly Source[],
  options: FillRateSampleOptions,
): Promise<void> {
  for (const source of sources) await sampleFillRate(deps, source, options)
}
