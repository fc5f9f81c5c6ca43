import { toPriority } from '../domain/run.ts'
import type { CallDeps } from '../pipeline/deps.ts'
import { lookUpBatch, type LookUpOptions } from '../pipeline/look-up/look-up.ts'
import type { ServiceError } from '../service/errors.ts'
import type { Database } from '../store/open.ts'
import * as runs from '../store/runs.ts'
import { cached } from '../util/cached.ts'
import type { Log } from '../util/log.ts'
import type { RunCounters } from './counters.ts'
import { runLoop } from './loop.ts'
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
  { id, trigger }: runs.RunningRun,
  listRunning: () => Promise<readonly runs.RunningRun[]>,
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

type LookUpTurn = Pick<LookUpOptions, 'limit' | 'signal' | 'onLeased' | 'onStored' | 'endpoint'>

/** Looks up for one run, until it is cancelled. @returns how many lookups were requested */
export const lookUpRun = (
  options: RunCallOptions & { readonly cancellations: Cancellations },
  deps: CallDeps,
  run: runs.RunningRun,
  turn: LookUpTurn,
): Promise<number> =>
  options.cancellations.during(run.id, turn.signal, (signal) =>
    lookUpUncancelled(options, deps, run, { ...turn, signal }),
  )

async function lookUpUncancelled(
  options: RunCallOptions,
  deps: CallDeps,
  run: runs.RunningRun,
  turn: LookUpTurn,
): Promise<number> {
  const isUrgent = toPriority(run.trigger) === 'urgent'
  const result = await lookUpBatch(deps, run, {
    ...turn,
    onStored: (answers, isLast) => {
      turn.onStored?.(answers, isLast)
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

const POLL_INTERVAL_MS = 1_000

/**
 * Stops the leader's work for runs that are cancelled, whichever process they belong to: one batch of lookups may take
 * minutes at a low rate limit.
 */
export class Cancellations {
  readonly #deps: { readonly db: Database; readonly log: Log }
  readonly #active = new Map<number, Set<AbortController>>()

  constructor(deps: { readonly db: Database; readonly log: Log }) {
    this.#deps = deps
  }

  /** Does a batch for a run. Its signal aborts with `signal`, and when the run is cancelled. */
  async during<Result>(
    run: number,
    signal: AbortSignal,
    act: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const stop = new AbortController()
    const batches = this.#active.get(run) ?? new Set()
    this.#active.set(run, batches.add(stop))
    try {
      return await act(AbortSignal.any([signal, stop.signal]))
    } finally {
      batches.delete(stop)
      if (batches.size === 0) this.#active.delete(run)
    }
  }

  /** Watches the runs that there are batches for. */
  watch(signal: AbortSignal): Promise<void> {
    return runLoop({
      name: 'cancel',
      log: this.#deps.log,
      signal,
      maxPollMs: POLL_INTERVAL_MS,
      tick: async () => {
        if (this.#active.size === 0) return 0
        for (const run of await runs.listCancelled(this.#deps.db, [...this.#active.keys()]))
          for (const batch of this.#active.get(run) ?? []) batch.abort()
        return 0
      },
    })
  }
}
