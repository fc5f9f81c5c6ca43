import { setTimeout as sleep } from 'node:timers/promises'
import { keyPauseMs } from '../domain/backoff.ts'
import type { RateStatus } from '../domain/rate-status.ts'
import { toPriority } from '../domain/run.ts'
import type { CallDeps } from '../pipeline/deps.ts'
import { lookUpBatch, type LookUpOptions } from '../pipeline/look-up/look-up.ts'
import { submitJobs } from '../pipeline/submit.ts'
import type { ServiceError } from '../service/errors.ts'
import * as followed from '../store/changed-rows.ts'
import { retryWhileUnavailable } from '../store/connectivity.ts'
import * as runs from '../store/runs.ts'
import { cached } from '../util/cached.ts'
import type { WakeSignal } from '../util/wake-signal.ts'
import type { RunCounters } from './counters.ts'
import { Cancellations } from './cancellations.ts'
import type { Elector, Leadership } from './leader.ts'
import { runLoop, warnOfWait } from './loop.ts'

/** Lookups per tick, before more urgent runs are considered again. */
const LOOKUPS_PER_TICK = 5_000

export interface CallLoopOptions {
  readonly deps: Omit<CallDeps, 'limiter'>
  readonly elector: Elector
  /** The runs of this process. */
  readonly runIds: () => readonly number[]
  /** Updates the counters of every run of this process. */
  readonly countForRuns: (act: (counters: RunCounters) => void) => void
  readonly lookUpSignal: WakeSignal
  readonly syncSignal: WakeSignal
  readonly submitSignal: WakeSignal
  readonly wakeWriters: () => void
  /** Stops calling once the calls in flight have finished. */
  readonly signal: AbortSignal
  readonly onLeadership: (leadership: Leadership | null) => void
  /** Another process is the leader, and has reported this. */
  readonly onLeaderStatus: (status: RateStatus) => void
  /** How long to wait after consecutive rejections of the key, in milliseconds. */
  readonly pauseMs?: (rejections: number) => number
  /** Called after a final response. */
  readonly onResponse?: () => void
  /** The service rejects the key or the client for good. */
  readonly onStop: (error: ServiceError) => void
}

/** Calls the service while this process is the leader: for all running runs of its scope, the most urgent first. */
export async function runCallLoop(options: CallLoopOptions): Promise<void> {
  const { deps, elector, signal, pauseMs = keyPauseMs } = options
  const lookUps = options.lookUpSignal.listen()
  /** Consecutive leaderships that ended because the service rejected the key. */
  let rejections = 0
  // Retry keys that were rejected in an earlier run of this process.
  deps.client.resetKeys()
  let { scope } = elector
  const acquire = async (): Promise<Leadership | null> => {
    if (scope !== elector.scope) {
      // Their heartbeats would do it only seconds later; until then no leader would serve them.
      await runs.updateRunScope(deps.db, options.runIds(), elector.scope)
      scope = elector.scope
    }
    const leadership = await elector.acquire()
    const status = leadership === null ? await elector.readStatus() : null
    if (status !== null) options.onLeaderStatus(status)
    return leadership
  }
  while (!signal.aborted) {
    const leadership = await retryWhileUnavailable(acquire, {
      signal,
      onWait: warnOfWait(deps.log, { step: 'call' }),
    }).catch((error: unknown) => {
      if (signal.aborted) return null
      throw error
    })
    if (leadership === null) {
      await lookUps.wait(1_000, signal)
      continue
    }
    options.onLeadership(leadership)
    let stopped = { isRejected: false, hasAnswered: false }
    try {
      stopped = await callWhileLeader(options, { ...deps, limiter: leadership.limiter }, leadership)
    } finally {
      await leadership.end()
      options.onLeadership(null)
    }
    if (stopped.hasAnswered) rejections = 0
    if (!stopped.isRejected || signal.aborted) continue
    // The key may have been fixed meanwhile.
    await sleep(pauseMs(++rejections), undefined, { signal }).catch(() => {})
    deps.client.resetKeys()
  }
}

/** How a leadership ended: whether the service rejects the key, and whether it had answered before. */
interface LeadershipEnd {
  readonly isRejected: boolean
  readonly hasAnswered: boolean
}

async function callWhileLeader(
  callOptions: CallLoopOptions,
  deps: CallDeps,
  leadership: Leadership,
): Promise<LeadershipEnd> {
  let isRejected = false
  let hasAnswered = false
  const options: CallLoopOptions = {
    ...callOptions,
    onResponse: () => {
      hasAnswered = true
    },
    onStop: (error) => {
      isRejected = true
      stopped.abort()
      callOptions.onStop(error)
    },
  }
  const stopped = new AbortController()
  const signal = AbortSignal.any([options.signal, leadership.lost, stopped.signal])
  const common = { signal, log: deps.log }
  // The loops share one query. Live sync has its own: it must not wait.
  const listRunning = cached(() => runs.listRunning(deps.db, leadership.scope), { minAgeMs: 100 })
  const cancellations = new Cancellations(deps)
  const loops = [
    cancellations.watch(signal),
    lookUpUrgent(options, deps, { scope: leadership.scope, signal, cancellations }),
    // Each has its own loop: a backfill's tick may wait for permits for a whole window.
    ...(['normal', 'low'] as const).map((priority) =>
      runLoop({
        ...common,
        name: `look up, ${priority}`,
        wakeSignal: options.lookUpSignal,
        tick: async () => {
          let done = 0
          for (const run of await listRunning()) {
            if (signal.aborted) break
            if (toPriority(run.trigger) !== priority) continue
            done += await cancellations.during(run.id, signal, (stopping) =>
              lookUpFor(options, deps, run, { limit: LOOKUPS_PER_TICK, signal: stopping }),
            )
          }
          return done
        },
      }),
    ),
    runLoop({
      ...common,
      name: 'submit',
      wakeSignal: options.submitSignal,
      tick: async () => {
        let done = 0
        for (const run of await listRunning()) {
          if (signal.aborted) break
          const result = await submitJobs(deps, run, { signal })
          done += result.calls
          options.countForRuns((counters) => {
            counters.bulk += result.calls
            counters.submitted += result.emails
            counters.throttled += result.throttled
            if (result.calls > 0) counters.touch()
          })
          if (result.stop !== null) options.onStop(result.stop)
        }
        return done
      },
    }),
  ]
  // If one loop fails, stop all of them before another process becomes the leader.
  await Promise.all(
    loops.map((one) =>
      one.catch((error: unknown) => {
        stopped.abort()
        throw error
      }),
    ),
  ).catch(async (error: unknown) => {
    await Promise.allSettled(loops)
    throw error
  })
  return { isRejected, hasAnswered }
}

/** Maximum concurrent ticks; each has at least one call in flight. */
const MAX_URGENT_TICKS = 64

/**
 * Looks up for live sync. Ticks overlap, or a change would wait for the slowest response of earlier ones: the next
 * tick starts once the one before it has leased what was there.
 */
async function lookUpUrgent(
  options: CallLoopOptions,
  deps: CallDeps,
  {
    scope,
    signal,
    cancellations,
  }: { readonly scope: string; readonly signal: AbortSignal; readonly cancellations: Cancellations },
): Promise<void> {
  const inFlight = new Set<Promise<void>>()
  let failure: { readonly error: unknown } | null = null
  const startTick = async (run: runs.RunningRun): Promise<number> => {
    if (inFlight.size >= MAX_URGENT_TICKS) await Promise.race(inFlight)
    const leased = Promise.withResolvers<number>()
    const tick = { limit: LOOKUPS_PER_TICK, onLeased: leased.resolve }
    const task = cancellations
      .during(run.id, signal, (stopping) => lookUpFor(options, deps, run, { ...tick, signal: stopping }))
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
        for (const run of await runs.listRunning(deps.db, scope)) {
          if (signal.aborted || toPriority(run.trigger) !== 'urgent') break
          if (await followed.hasPendingLookups(deps.db, run.id)) done += await startTick(run)
        }
        return done
      },
    })
  } finally {
    await Promise.all(inFlight)
  }
}

async function lookUpFor(
  options: CallLoopOptions,
  deps: CallDeps,
  run: runs.RunningRun,
  tick: Pick<LookUpOptions, 'limit' | 'signal' | 'onLeased'>,
): Promise<number> {
  const result = await lookUpBatch(deps, run, {
    ...tick,
    onStored: () => {
      options.countForRuns((counters) => counters.touch())
      options.wakeWriters()
    },
    onRequest: (call) =>
      options.countForRuns((counters) => {
        counters.requested++
        counters[call]++
      }),
  })
  options.countForRuns((counters) => {
    counters.retried += result.retried
    counters.throttled += result.throttled
  })
  if (result.answered > 0) options.onResponse?.()
  if (result.stop !== null) options.onStop(result.stop)
  return result.requested
}
