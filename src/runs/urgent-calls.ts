import { toPriority } from '../domain/run.ts'
import type { SingleEndpoint } from '../domain/spend.ts'
import type { CallDeps } from '../pipeline/deps.ts'
import { hasPendingLookups } from '../store/pending-lookups.ts'
import type { RunningRun } from '../store/runs.ts'
import type { WakeSignal } from '../util/wake-signal.ts'
import { runLoop } from './loop.ts'
import { type Cancellations, LOOKUPS_PER_TURN, lookUpRun, type RunCallOptions } from './run-calls.ts'

interface UrgentCallOptions extends RunCallOptions {
  readonly syncSignal: WakeSignal
}

/** Maximum concurrent ticks; each has at least one call in flight. */
const MAX_URGENT_TICKS = 64

/**
 * Looks up for live sync. Ticks overlap, or a change would wait for the slowest response of earlier ones: the next
 * tick starts once the one before it has leased what was there.
 */
export async function lookUpUrgent(
  options: UrgentCallOptions,
  deps: CallDeps,
  {
    listRunning,
    signal,
    cancellations,
    endpoint,
  }: {
    readonly listRunning: () => Promise<readonly RunningRun[]>
    readonly signal: AbortSignal
    readonly cancellations: Cancellations
    readonly endpoint: SingleEndpoint
  },
): Promise<void> {
  const inFlight = new Set<Promise<void>>()
  let failure: { readonly error: unknown } | null = null
  const startTick = async (run: RunningRun): Promise<number> => {
    if (inFlight.size >= MAX_URGENT_TICKS) await Promise.race(inFlight)
    const leased = Promise.withResolvers<number>()
    const tick = { limit: () => LOOKUPS_PER_TURN, onLeased: leased.resolve }
    const task = lookUpRun({ ...options, cancellations }, deps, run, { ...tick, signal, endpoint })
      .then(
        () => {},
        (error: unknown) => {
          failure ??= { error }
        },
      )
      .finally(() => {
        inFlight.delete(task)
        leased.resolve(0)
      })
    inFlight.add(task)
    return leased.promise
  }
  try {
    await runLoop({
      name: 'look up, sync',
      log: deps.log,
      signal,
      wakeSignal: options.syncSignal,
      tick: async () => {
        if (failure !== null) {
          const { error } = failure
          failure = null
          throw error
        }
        let done = 0
        for (const run of await listRunning()) {
          if (signal.aborted || toPriority(run.trigger) !== 'urgent') break
          if (await hasPendingLookups(deps.db, { run: run.id, service: deps.service }, endpoint))
            done += await startTick(run)
        }
        return done
      },
    })
  } finally {
    await Promise.all(inFlight)
  }
}
