import { setTimeout as sleep } from 'node:timers/promises'
import { keyPauseMs } from '../domain/backoff.ts'
import { toPriority } from '../domain/run.ts'
import type { ServiceError } from '../service/errors.ts'
import * as followed from '../store/changed-rows.ts'
import { retryWhileUnavailable } from '../store/connectivity.ts'
import * as runs from '../store/runs.ts'
import type { CallDeps } from '../pipeline/deps.ts'
import * as lookUp from '../pipeline/look-up/look-up.ts'
import { cached } from '../util/cached.ts'
import * as submit from '../pipeline/submit.ts'
import { runLoop } from './loop.ts'
import type { WakeSignal } from '../util/wake-signal.ts'
import type { RunCounters } from './counters.ts'
import type { RateState } from '../service/rate-limit/limiter.ts'
import type { Elector, Leadership } from './leader.ts'

/** Lookups of one tick: after so many, more urgent runs are looked at again. */
const LOOKUPS_PER_TICK = 5_000

export interface CallLoopOptions {
  readonly deps: Omit<CallDeps, 'limiter'>
  readonly elector: Elector
  /** The runs of this process. */
  readonly runIds: () => readonly number[]
  /** Tells what was done to every run of this process. */
  readonly countForRuns: (act: (tally: RunCounters) => void) => void
  readonly toLookUp: WakeSignal
  readonly toSync: WakeSignal
  readonly toSubmit: WakeSignal
  readonly wakeWriters: () => void
  /** Ends the calling when what is under way is done. */
  readonly signal: AbortSignal
  readonly onLeadership: (leadership: Leadership | null) => void
  /** Another process is the leader, and has reported this. */
  readonly onLeaderStatus: (status: RateState) => void
  /** How long to wait after so many refusals in a row, in milliseconds. */
  readonly pauseMs?: (refusals: number) => number
  /** A lookup was answered. */
  readonly onResponse?: () => void
  /** The service refuses us for good. */
  readonly onStop: (error: ServiceError) => void
}

/** Calls the service whenever it is this process's turn: for all live runs of its scope, the most urgent first. */
export async function runCallLoop(options: CallLoopOptions): Promise<void> {
  const { deps, elector, signal, pauseMs = keyPauseMs } = options
  const work = options.toLookUp.listen()
  /** Turns in a row that ended because the service refuses us. */
  let refusals = 0
  // What was refused in a run before this one of the same process is tried again.
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
    let ended = { refused: false, answered: false }
    try {
      ended = await callWhileLeader(options, { ...deps, limiter: leadership.limiter }, leadership)
    } finally {
      await leadership.end()
      options.onLeadership(null)
    }
    if (ended.answered) refusals = 0
    if (!ended.refused || signal.aborted) continue
    // Somebody may have put the key right meanwhile.
    await sleep(pauseMs(++refusals), undefined, { signal }).catch(() => {})
    deps.client.resetKeys()
  }
}

/** How a turn ended: whether the service refuses us, and whether it had answered before. */
interface LeadershipEnd {
  readonly refused: boolean
  readonly answered: boolean
}

async function callWhileLeader(
  given: CallLoopOptions,
  deps: CallDeps,
  turn: Leadership,
): Promise<LeadershipEnd> {
  let refused = false
  let answered = false
  const options: CallLoopOptions = {
    ...given,
    onResponse: () => {
      answered = true
    },
    onStop: (error) => {
      refused = true
      ended.abort()
      given.onStop(error)
    },
  }
  const ended = new AbortController()
  const signal = AbortSignal.any([options.signal, turn.lost, ended.signal])
  const common = { signal, log: deps.log }
  // The loops look at the same moments. Not for syncs: nothing may keep one waiting.
  const live = cached(() => runs.listRunning(deps.db, turn.scope), { least: 100 })
  const loops = [
    lookUpUrgent(options, deps, turn.scope, signal),
    // Each in its own loop: a backfill's tick may wait for permits for as long as a window lasts.
    ...(['normal', 'low'] as const).map((priority) =>
      runLoop({
        ...common,
        name: `look up, ${priority}`,
        nudge: options.toLookUp,
        tick: async () => {
          let did = 0
          for (const run of await live()) {
            if (signal.aborted) break
            if (toPriority(run.trigger) !== priority) continue
            did += await lookUpFor(options, deps, run, { most: LOOKUPS_PER_TICK, signal })
          }
          return did
        },
      }),
    ),
    runLoop({
      ...common,
      name: 'submit',
      nudge: options.toSubmit,
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
  // A turn that one loop has failed in is over for all of them, before another process may have it.
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
  return { refused, answered }
}

/** Ticks under way at once, at the most: each has at least one call on the wire. */
const MAX_URGENT_TICKS = 64

/**
 * Looks up for syncs. A tick is not waited for, or a change would wait for the slowest answer of those before it: the
 * next one begins when the one before has leased what was there.
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
    const task = lookUpFor(options, deps, run, { most: LOOKUPS_PER_TICK, signal, onLeased: leased.resolve })
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
      nudge: options.toSync,
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
  tick: Pick<lookUp.LookUpOptions, 'most' | 'signal' | 'onLeased'>,
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
  return result.asked
}
