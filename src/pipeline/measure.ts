import { coverage } from '../sources/coverage.ts'
import type { Source } from '../sources/source.ts'
import { onUsersTable } from '../store/conflict.ts'
import * as store from '../store/coverage.ts'
import { inTransaction } from '../store/transaction.ts'
import type { Deps } from './deps.ts'

/** Counting reads the whole table: what takes longer than this is not worth knowing. */
const TIMEOUT_MS = 30_000
/** A count that takes longer than this may cost one part in so many of the database's time. In milliseconds. */
const CHEAP_MS = 500
const COST = 100

export interface MeasureOptions {
  /** Not before the last one is so old, in milliseconds. */
  readonly everyMs: number
}

/**
 * Keeps how much of a source is filled, unless it was counted lately or counting costs too much. Only for people to look
 * at, so that a failure is logged and no more.
 * @returns whether it was counted
 */
export async function measure(
  { db, log, now }: Pick<Deps, 'db' | 'log' | 'now'>,
  source: Source,
  { everyMs }: MeasureOptions,
): Promise<boolean> {
  try {
    const last = await store.latest(db, source.name)
    if (last !== null && now() - last.at.getTime() < Math.max(everyMs, restOf(last.took_ms))) return false
    const began = performance.now()
    const { eligible, columns } = await inTransaction(db, (tx) =>
      onUsersTable(tx, TIMEOUT_MS, () => coverage(tx, source)),
    )
    await store.keep(db, {
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

const restOf = (tookMs: number): number => (tookMs > CHEAP_MS ? COST * tookMs : 0)

/** All of some sources, one after the other. */
export async function measureAll(
  deps: Pick<Deps, 'db' | 'log' | 'now'>,
  sources: readonly Source[],
  options: MeasureOptions,
): Promise<void> {
  for (const source of sources) await measure(deps, source, options)
}
