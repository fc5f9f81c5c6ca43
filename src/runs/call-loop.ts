import { setTimeout as sleep } from 'node:timers/promises'
import { keyPauseMs } from '../domain/backoff.ts'
import { toPriority } from '../domain/run.ts'
import type { CallDeps } from '../pipeline/deps.ts'
import * as lookUp from '../pipeline/look-up/look-up.ts'
import * as submit from '../pipeline/submit.ts'
import type { ServiceError } from '../service/errors.ts'
import type { RateStatus } from '../domain/rate-status.ts'
import * as followed from '../store/changed-rows.ts'
import { retryWhileUnavailable } from '../store/connectivity.ts'
import * as runs from '../store/runs.ts'
import { cached } from '../util/cached.ts'
import type { WakeSignal } from '../util/wake-signal.ts'
import type { RunCounters } from './counters.ts'
import type { Elector, Leadership } from './leader.ts'
import { runLoop } from './loop.ts'

/** Lookups per tick, before more urgent runs are considered again. */
const LOOKUPS_PER_TICK = 5_000

export interface CallLoopOptions {
  readonly deps: Omit<CallDeps, 'limiter'>
  readonly elector: Elector
  /** The runs of this process. */
  readonly runIds: () => readonly number[]
  /** Updates the counters of every run of this process. */
  readonly countForRuns: (act: (tally: RunCounters) => void) => void
  readonly toLookUp: WakeSignal
  readonly toSync: WakeSignal
  readonly toSubmit: WakeSignal
  readonly wakeWriters: () => void
  /** Stops calling once the calls in flight have finished. */
  readonly signal: AbortSignal
  readonly onLeadership: (leadership: Leadership | null) => void
  /** Another process is the leader, and has reported this. */
  readonly onLeaderStatus: (status: RateStatus) => void
  /** How long to wait after consecutive rejections of the key, in milliseconds. */
  readonly pauseMs?: (refusals: number) => number
  /** Called after a final response. */
  readonly onResponse?: () => void
  /** The service rejects the key or the client for good. */
  readonly onStop: (error: ServiceError) => void
}

/** Calls the service while this process is the leader: for all running runs of its scope, the most urgent first. */
export async function runCallLoop(options: CallLoopOptions): Promise<void> {
  const { deps, elector, signal, pauseMs = keyPauseMs } = options
  const work = options.toLookUp.listen()
  /** Consecutive leaderships that ended because the service rejected the key. */
  let refusals = 0
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
      onWait: (error, ms) =>
        deps.log.warn({ step: 'call', reason: error.message, ms }, 'waiting for Postgres'),
    }).catch((error: unknown) => {
      if (signal.aborted) return null
      throw error
    })
    if (leadership === null) {
      await work.wait(1_000, signal)
      continue
    }
    options.onLeadership(leadership)
    let ended = { isRejected: false, hasAnswered: false }
    try {
      ended = await callWhileLeader(options, { ...deps, limiter: leadership.limiter }, leadership)
    } finally {
      await leadership.end()
      options.onLeadership(null)
    }
    if (ended.hasAnswered) refusals = 0
    if (!ended.isRejected || signal.aborted) continue
    // The key may have been fixed meanwhile.
    await sleep(pauseMs(++refusals), undefined, { signal }).catch(() => {})
    deps.client.resetKeys()
  }
}

/** How a leadership ended: whether the service rejects the key, and whether it had answered before. */
interface LeadershipEnd {
  readonly isRejected: boolean
  readonly hasAnswered: boolean
}

async function callWhileLeader(
  given: CallLoopOptions,
  deps: CallDeps,
  turn: Leadership,
): Promise<LeadershipEnd> {
  let isRejected = false
  let hasAnswered = false
  const options: CallLoopOptions = {
    ...given,
    onResponse: () => {
      hasAnswered = true
    },
    onStop: (error) => {
      isRejected = true
      ended.abort()
      given.onStop(error)
    },
  }
  const ended = new AbortController()
  const signal = AbortSignal.any([options.signal, turn.lost, ended.signal])
  const common = { signal, log: deps.log }
  // The loops share one query. Live sync has its own: it must not wait.
  const live = cached(() => runs.listRunning(deps.db, turn.scope), { minAgeMs: 100 })
  const loops = [
    lookUpUrgent(options, deps, turn.scope, signal),
    // Each has its own loop: a backfill's tick may wait for permits for a whole window.
    ...(['normal', 'low'] as const).map((priority) =>
      runLoop({
        ...common,
        name: `look up, ${priority}`,
        wakeSignal: options.toLookUp,
        tick: async () => {
          let did = 0
          for (const run of await live()) {
            if (signal.aborted) break
            if (toPriority(run.trigger) !== priority) continue
            did += await lookUpFor(options, deps, run, { limit: LOOKUPS_PER_TICK, signal })
          }
          return did
        },
      }),
    ),
    runLoop({
      ...common,
      name: 'submit',
      wakeSignal: options.toSubmit,
      tick: async () => {
        let did = 0
        for (const run of await live()) {
          if (signal.aborted) break
          const result = await submit.submitJobs(deps, run, { signal })
          did += result.calls
          options.countForRuns((tally) => {
            tally.bulk += result.calls
            tally.submitted += result.emails
            tally.throttled += result.throttled
            if (result.calls > 0) tally.touch()
          })
          if (result.stop !== null) options.onStop(result.stop)
        }
        return did
      },
    }),
  ]
  // If one loop fails, stop all of them before another process becomes the leader.
  await Promise.all(
    loops.map((one) =>
      one.catch((error: unknown) => {
        ended.abort()
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
  scope: string,
  signal: AbortSignal,
): Promise<void> {
  const underWay = new Set<Promise<void>>()
  let failure: { readonly error: unknown } | null = null
  const begin = async (run: runs.RunningRun): Promise<number> => {
    if (underWay.size >= MAX_URGENT_TICKS) await Promise.race(underWay)
    const leased = Promise.withResolvers<number>()
    const task = lookUpFor(options, deps, run, { limit: LOOKUPS_PER_TICK, signal, onLeased: leased.resolve })
      .then(
        () => {},
        (error: unknown) => {
          failure ??= { error }
        },
      )
      .finally(() => {
        underWay.delete(task)
        leased.resolve(0)
      })
    underWay.add(task)
    return leased.promise
  }
  try {
    await runLoop({
      name: 'look up, sync',
      log: deps.log,
      signal,
      wakeSignal: options.toSync,
      tick: async () => {
        if (failure !== null) {
          const { error } = failure
          failure = null
          throw error
        }
        let did = 0
        for (const run of await runs.listRunning(deps.db, scope)) {
          if (signal.aborted || toPriority(run.trigger) !== 'urgent') break
          if (await followed.hasPendingLookups(deps.db, run.id)) did += await begin(run)
        }
        return did
      },
    })
  } finally {
    await Promise.all(underWay)
  }
}

async function lookUpFor(
  options: CallLoopOptions,
  deps: CallDeps,
  run: runs.RunningRun,
  tick: Pick<lookUp.LookUpOptions, 'limit' | 'signal' | 'onLeased'>,
): Promise<number> {
  const result = await lookUp.lookUpBatch(deps, run, {
    ...tick,
    onStored: () => {
      options.countForRuns((tally) => tally.touch())
      options.wakeWriters()
    },
    onRequest: (call) =>
      options.countForRuns((tally) => {
        tally.requested++
        tally[call]++
      }),
  })
  options.countForRuns((tally) => {
    tally.retried += result.retried
    tally.throttled += result.throttled
  })
  if (result.answered > 0) options.onResponse?.()
  if (result.stop !== null) options.onStop(result.stop)
  return result.requested
}
