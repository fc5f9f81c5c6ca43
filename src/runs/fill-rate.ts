import * as store from '../store/metrics.ts'
import { countFilled } from '../sources/fill-counts.ts'
import type { Source } from '../sources/source.ts'
import { inTransaction, withTableTimeouts } from '../store/transaction.ts'
import type { Deps } from '../pipeline/deps.ts'

/** Counting reads the whole table: what takes longer than this is not worth knowing. */
const COUNT_TIMEOUT_MS = 30_000
/** A count that takes longer than this may cost one part in so many of the database's time. In milliseconds. */
const CHEAP_COUNT_MS = 500
const COST_FACTOR = 100

export interface FillRateSampleOptions {
  /** Not before the last one is so old, in milliseconds. */
  readonly minAgeMs: number
}

/**
 * Keeps how much of a source is filled, unless it was counted lately or counting costs too much. Only for people to look
 * at, so that a failure is logged and no more.
 * @returns whether it was counted
 */
export async function sampleFillRate(
  { db, log, now }: Pick<Deps, 'db' | 'log' | 'now'>,
  source: Source,
  { minAgeMs }: FillRateSampleOptions,
): Promise<boolean> {
  try {
    const last = await store.latestFillRateSample(db, source.name)
    if (last !== null && now() - last.at.getTime() < Math.max(minAgeMs, minIntervalMs(last.took_ms)))
      return false
    const began = performance.now()
    const { eligible, columns } = await inTransaction(db, (tx) =>
      withTableTimeouts(tx, COUNT_TIMEOUT_MS, () => countFilled(tx, source)),
    )
    await store.saveFillRateSample(db, {
      source: source.name,
      eligible,
      filled: Object.fromEntries(columns.map(({ column, filled }) => [column, filled])),
      took_ms: performance.now() - began,
    })
    return true
  } catch (error) {
    log.debug({ source: source.name, reason: (error as Error).message }, 'coverage was not counted')
    return false
  }
}

const minIntervalMs = (tookMs: number): number => (tookMs > CHEAP_COUNT_MS ? COST_FACTOR * tookMs : 0)

/** All of some sources, one after the other. */
export async function sampleFillRates(
  deps: Pick<Deps, 'db' | 'log' | 'now'>,
  sources: readonly Source[],
  options: FillRateSampleOptions,
): Promise<void> {
  for (const source of sources) await sampleFillRate(deps, source, options)
}
