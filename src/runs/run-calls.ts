import { toPriority } from '../domain/run.ts'
import type { CallDeps } from '../pipeline/deps.ts'
import { lookUpBatch, type LookUpOptions } from '../pipeline/look-up/look-up.ts'
import type { ServiceError } from '../service/errors.ts'
import type { RunningRun } from '../store/runs.ts'
import { cached } from '../util/cached.ts'
import type { RunCounters } from './counters.ts'
import type { AnswerUrgency } from './writers.ts'

/** What the calls of a run report. */
export interface RunCallOptions {
  /** Updates the counters of a run of this process, or of every one. A run of another process has none here. */
  readonly countFor: (run: number | 'all', act: (counters: RunCounters) => void) => void
  /** Called after answers were stored, with their number. */
  readonly onAnswers: (answers: number, urgency: AnswerUrgency) => void
  /** Called after a final response. */
  readonly onResponse?: () => void
  /** The service rejects the key or the client for good. */
  readonly onStop: (error: ServiceError) => void
}

/** Lookups of a run before the next one of its priority has its turn. */
export const LOOKUPS_PER_TURN = 5_000

/**
 * A turn of a run: as long as it has lookups while no other run of its priority waits, and otherwise `LOOKUPS_PER_TURN`. At
 * the end of a turn slots are idle until the slowest answer is stored.
 */
export function startTurn(
  { id, trigger }: RunningRun,
  listRunning: () => Promise<readonly RunningRun[]>,
): Pick<LookUpOptions, 'limit' | 'onStored'> {
  let others = 1
  const listSlowly = cached(listRunning)
  const countOthers = async (): Promise<void> => {
    const running = await listSlowly().catch(() => null)
    others =
      running?.filter((run) => run.id !== id && toPriority(run.trigger) === toPriority(trigger)).length ?? 1
  }
  void countOthers()
  return {
    limit: () => (others === 0 ? Number.POSITIVE_INFINITY : LOOKUPS_PER_TURN),
    onStored: () => void countOthers(),
  }
}

/** Looks up for one run. @returns how many lookups were requested */
export async function lookUpRun(
  options: RunCallOptions,
  deps: CallDeps,
  run: RunningRun,
  tick: Pick<LookUpOptions, 'limit' | 'signal' | 'onLeased' | 'onStored' | 'endpoint'>,
): Promise<number> {
  const isUrgent = toPriority(run.trigger) === 'urgent'
  const result = await lookUpBatch(deps, run, {
    ...tick,
    onStored: (answers, isLast) => {
      tick.onStored?.(answers, isLast)
      // Rows of another run may wait for the same lookup.
      options.countFor('all', (counters) => {
        counters.touch()
        // A dry run writes nothing.
        if (isLast) counters.maybeComplete.notify()
      })
      options.onAnswers(answers, isUrgent ? 'sync' : isLast ? 'last' : 'none')
    },
    onRequest: () =>
      options.countFor(run.id, (counters) => {
        counters.requested++
      }),
  })
  if (result.answered > 0) options.onResponse?.()
  if (result.stop !== null) options.onStop(result.stop)
  return result.requested
}
