import { keyPauseMs } from '../domain/backoff.ts'
import type { RateStatus } from '../domain/rate-status.ts'
import { toPriority } from '../domain/run.ts'
import type { CallDeps } from '../pipeline/deps.ts'
import { pollJobs } from '../pipeline/poll.ts'
import { JOBS_PER_TICK, submitJobs, type SubmitResult } from '../pipeline/submit.ts'
import { retryWhileUnavailable } from '../store/connectivity.ts'
import { hasPendingLookups } from '../store/pending-lookups.ts'
import * as runs from '../store/runs.ts'
import { cached } from '../util/cached.ts'
import type { WakeSignal } from '../util/wake-signal.ts'
import { Cancellations } from './cancellations.ts'
import type { Elector, Leadership } from './leader.ts'
import { runLoop, logWait } from './loop.ts'
import { LOOKUPS_PER_TURN, lookUpRun, type RunCallOptions, startTurn } from './run-calls.ts'

export interface CallLoopOptions extends RunCallOptions {
  readonly deps: Omit<CallDeps, 'limiter'>
  readonly elector: Elector
  /** The runs of this process. */
  readonly runIds: () => readonly number[]
  /** Whether a list of running runs has those of this process as they are. */
  readonly isCurrent: (listed: readonly runs.RunningRun[]) => boolean
  readonly lookUpSignal: WakeSignal
  readonly syncSignal: WakeSignal
  readonly submitSignal: WakeSignal
  /** Ends the wait after a rejected key. */
  readonly keyAccepted: WakeSignal
  /** Results came with a call, and are stored as deliveries. */
  readonly wakeSettling?: () => void
  /** Called after each tick of submissions, also one that posted nothing. */
  readonly onSubmitted?: (result: SubmitResult) => void
  /** Stops calling once the calls in flight have finished. */
  readonly signal: AbortSignal
  readonly onLeadership: (leadership: Leadership | null) => void
  /** Another process is the leader, and has reported this. */
  readonly onLeaderStatus: (status: RateStatus) => void
  /** How long to wait after consecutive rejections of the key, in milliseconds. */
  readonly pauseMs?: (rejections: number) => number
}

/** Calls the service while this process is the leader: for all running runs of its scope, the most urgent first. */
export async function runCallLoop(options: CallLoopOptions): Promise<void> {
  const { deps, elector, signal, pauseMs = keyPauseMs } = options
  const lookUps = options.lookUpSignal.listen()
  const accepted = options.keyAccepted.listen()
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
      onWait: logWait(deps.log, { step: 'call' }),
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
    await accepted.wait(pauseMs(++rejections), signal)
    deps.client.resetKeys()
  }
}

/**
 * How long the loops go by the same list of runs, in milliseconds. A run of another process waits that long for its first
 * call. At 100 ms, and with a list of its own for live sync, that was 5% of what a run in bulk sent.
 */
const RUNS_LISTED_MS = 300

/** How long jobs that are to be posted again wait behind full ticks of new ones, in milliseconds. */
const SUBMIT_UNSEEN_MS = 1_000

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
  // The loops share one query.
  const listCached = cached(() => runs.listRunning(deps.db, leadership.scope), { minAgeMs: RUNS_LISTED_MS })
  const listRunning = async (): Promise<runs.RunningRun[]> => {
    const listed = await listCached()
    if (options.isCurrent(listed)) return listed
    // A run of this process has begun, or has picked its rows: it waits for nothing. One that is ending is listed for a
    // moment longer.
    listCached.invalidate()
    return listCached()
  }
  const cancellations = new Cancellations(deps)
  /** Until when the jobs of a run are created without looking first: its ticks are full. */
  const fullUntil = new Map<number, number>()
  // Each endpoint may have a limit of its own: people do not wait for companies.
  const endpoints = ['person', 'company'] as const
  const endpointPriorities = (['normal', 'low'] as const).flatMap((priority) =>
    endpoints.map((endpoint) => ({ priority, endpoint })),
  )
  const loops = [
    cancellations.watch(signal),
    ...endpoints.map((endpoint) =>
      lookUpUrgent(options, deps, { listRunning, signal, cancellations, endpoint }),
    ),
    // Each has its own loop: a backfill's tick may wait for permits for a whole window.
    ...endpointPriorities.map(({ priority, endpoint }) =>
      runLoop({
        ...common,
        name: `look up, ${priority}`,
        wakeSignal: options.lookUpSignal,
        tick: async () => {
          let done = 0
          for (const run of await listRunning()) {
            if (signal.aborted) break
            if (toPriority(run.trigger) !== priority) continue
            // Many runs have no companies: nothing is granted, and leased, for none.
            if (endpoint === 'company' && !(await hasPendingLookups(deps.db, run.id, endpoint))) continue
            const turn = startTurn(run, listRunning)
            done += await cancellations.during(run.id, signal, (stopping) =>
              lookUpRun(options, deps, run, { ...turn, signal: stopping, endpoint }),
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
      paceMs: 100,
      fullTick: JOBS_PER_TICK,
      tick: async () => {
        let done = 0
        const listed = await listRunning()
        for (const run of listed) {
          if (signal.aborted) break
          const hasMore = (fullUntil.get(run.id) ?? 0) > performance.now()
          const result = await submitJobs(deps, run, { signal, hasMore })
          if (!result.isFull) fullUntil.delete(run.id)
          else if (!hasMore) fullUntil.set(run.id, performance.now() + SUBMIT_UNSEEN_MS)
          done += result.calls
          if (result.answered > 0) options.wakeSettling?.()
          // What is left when all rows are picked is requested singly now, and not up to a second later.
          const isPicking = run.picking && options.isCurrent(listed)
          if (result.calls > 0 && !isPicking) options.lookUpSignal.notify()
          options.onSubmitted?.(result)
          options.countFor(run.id, (counters) => {
            counters.submitted += result.emails
            if (result.calls > 0) counters.touch()
          })
          if (result.stop !== null) options.onStop(result.stop)
        }
        return done
      },
    }),
  ]
  if (deps.adapter.poll)
    loops.push(
      runLoop({
        ...common,
        name: 'poll',
        tick: async () => {
          const result = await pollJobs(deps, leadership.scope, { signal })
          if (result.fetched > 0) options.wakeSettling?.()
          if (result.stop !== null) options.onStop(result.stop)
          return result.polled
        },
      }),
    )
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
    listRunning,
    signal,
    cancellations,
    endpoint,
  }: {
    readonly listRunning: () => Promise<readonly runs.RunningRun[]>
    readonly signal: AbortSignal
    readonly cancellations: Cancellations
    readonly endpoint: 'person' | 'company'
  },
): Promise<void> {
  const inFlight = new Set<Promise<void>>()
  let failure: { readonly error: unknown } | null = null
  const startTick = async (run: runs.RunningRun): Promise<number> => {
    if (inFlight.size >= MAX_URGENT_TICKS) await Promise.race(inFlight)
    const leased = Promise.withResolvers<number>()
    const tick = { limit: () => LOOKUPS_PER_TURN, onLeased: leased.resolve }
    const task = cancellations
      .during(run.id, signal, (stopping) =>
        lookUpRun(options, deps, run, { ...tick, signal: stopping, endpoint }),
      )
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
          if (await hasPendingLookups(deps.db, run.id, endpoint)) done += await startTick(run)
        }
        return done
      },
    })
  } finally {
    await Promise.all(inFlight)
  }
}
