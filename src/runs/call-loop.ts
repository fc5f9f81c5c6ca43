import * as runs from '../store/runs.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RateStatus } from '../domain/rate-status.ts'
import { toPriority } from '../domain/run.ts'
import { SINGLE_ENDPOINTS, type SingleEndpoint } from '../domain/spend.ts'
import type { CallDeps } from '../pipeline/deps.ts'
import { pollJobs } from '../pipeline/poll.ts'
import { JOBS_PER_TICK, submitJobs, type SubmitResult } from '../pipeline/submit.ts'
import { OutOfCreditsError, type ServiceError, UnreadResultsError } from '../service/errors.ts'
import { retryWhileUnavailable } from '../store/transaction.ts'
import type { RunningRun } from '../store/runs.ts'
import { readTry } from '../store/services.ts'
import { cache, type CachedRead } from '../util/cached.ts'
import type { WakeSignal } from '../util/wake-signal.ts'
import type { Elector, Leadership } from './leadership.ts'
import { logWait, runLoop, type LoopOptions } from './loop.ts'
import { lookUpBatch, type LookUpOptions } from '../pipeline/look-up/look-up.ts'
import type { Database } from '../store/open.ts'
import type { Log } from '../util/log.ts'
import type { RunCounters } from './counters.ts'
import type { AnswerUrgency } from './writers.ts'
import { hasPendingLookups, type RunService } from '../store/pending-lookups.ts'

interface CallLoopOptions extends RunCallOptions {
  readonly deps: Omit<CallDeps, 'limiter'>
  readonly elector: Elector
  /** Whether a list of running runs has those of this process as they are. */
  readonly isCurrent: (listed: readonly runs.RunningRun[]) => boolean
  readonly lookUpSignal: WakeSignal
  readonly syncSignal: WakeSignal
  readonly submitSignal: WakeSignal
  /** Results came with a call, and are stored as deliveries. */
  readonly wakeSettling?: () => void
  /** Stops calling once the calls in flight have finished. */
  readonly signal: AbortSignal
  readonly onLeadership: (leadership: Leadership | null) => void
  /** Another process is the leader, and has reported this. */
  readonly onLeaderStatus: (status: RateStatus) => void
  /** How long to wait after a rejection of the key, in milliseconds. */
  readonly pauseMs?: () => number
}

/** Calls the service while this process is the leader: for all running runs of its scope, the most urgent first. */
export async function runCallLoop(options: CallLoopOptions): Promise<void> {
  const { deps, elector, signal, pauseMs = () => KEY_PAUSE_MS } = options
  const lookUps = options.lookUpSignal.listen()
  // The key may have been rejected in an earlier run of this process.
  deps.client.resetKey()
  const acquire = async (): Promise<Leadership | null> => {
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
    let isRejected = false
    try {
      isRejected = await new LeaderCalls(options, { ...deps, limiter: leadership.limiter }, leadership).run()
    } finally {
      await leadership.end()
      options.onLeadership(null)
    }
    if (!isRejected || signal.aborted) continue
    // The key may have been fixed meanwhile.
    await waitForKey(options, pauseMs())
    deps.client.resetKey()
  }
}

/** How long a rejected key is left alone, in milliseconds. */
const KEY_PAUSE_MS = 5 * 60_000
/** How often a waiting process looks whether the service is to be tried, in milliseconds. */
const TRY_POLL_MS = 2_000

/** Waits before a rejected key is tried again: less if it was proved, or a person wants it to be tried. */
async function waitForKey(
  { deps: { db, service }, signal }: Pick<CallLoopOptions, 'deps' | 'signal'>,
  ms: number,
): Promise<void> {
  const until = performance.now() + ms
  const before = await readTry(db, service).catch(() => null)
  while (!signal.aborted && performance.now() < until) {
    await sleep(Math.min(until - performance.now(), TRY_POLL_MS), undefined, { signal }).catch(() => {})
    if ((await readTry(db, service).catch(() => before)) !== before) return
  }
}

/**
 * How long the loops go by the same list of runs, in milliseconds. A run of another process waits that long for its first
 * call. At 100 ms, and with a list of its own for live sync, that was 5% of what a run in bulk sent.
 */
const RUNS_LISTED_MS = 300

/** The loops of a leader: they end together, before another process becomes the leader. */
class LeaderCalls {
  readonly #options: CallLoopOptions
  readonly #deps: CallDeps
  readonly #scope: string
  readonly #stopped = new AbortController()
  readonly #signal: AbortSignal
  /** The loops share one query. */
  readonly #listCached: CachedRead<runs.RunningRun[]>
  readonly #cancellations: Cancellations
  /** The runs that are served, and those of them for which the account was found without credits. */
  #listed: readonly number[] = []
  #triedFor: ReadonlySet<number> = new Set()
  #isRejected = false

  constructor(options: CallLoopOptions, deps: CallDeps, leadership: Leadership) {
    this.#options = {
      ...options,
      onStop: (error) => {
        if (error instanceof OutOfCreditsError) this.#triedFor = new Set([...this.#triedFor, ...this.#listed])
        else {
          this.#isRejected = true
          this.#stopped.abort()
        }
        options.onStop(error)
      },
    }
    this.#deps = deps
    this.#scope = leadership.scope
    this.#signal = AbortSignal.any([options.signal, leadership.lost, this.#stopped.signal])
    this.#listCached = cache(
      () => runs.listRunning(deps.db, { service: deps.service, scope: leadership.scope }),
      { minAgeMs: RUNS_LISTED_MS },
    )
    this.#cancellations = new Cancellations(deps)
  }

  /** @returns whether it ended because the service rejects the key */
  async run(): Promise<boolean> {
    const loops = this.#start()
    const ended = loops.map((loop) =>
      loop.catch((error: unknown) => {
        this.#stopped.abort()
        throw error
      }),
    )
    await Promise.all(ended).catch(async (error: unknown) => {
      await Promise.allSettled(loops)
      throw error
    })
    return this.#isRejected
  }

  #start(): Promise<void>[] {
    const options = this.#options
    const signal = this.#signal
    const loop = (rest: Omit<LoopOptions, 'signal' | 'log'>): Promise<void> =>
      runLoop({ signal, log: this.#deps.log, ...rest })
    // Each has its own loop: people do not wait for companies, whose limit may be another, and a backfill's tick may wait for
    // permits for a whole window.
    const lookUps = SINGLE_ENDPOINTS.flatMap((endpoint) => [
      lookUpUrgent(options, this.#deps, {
        listRunning: this.#listRunning,
        signal,
        cancellations: this.#cancellations,
        endpoint,
      }),
      ...(['normal', 'low'] as const).map((priority) =>
        loop({
          name: `look up, ${priority}`,
          wakeSignal: options.lookUpSignal,
          tick: () => this.#lookUp(priority, endpoint),
        }),
      ),
    ])
    const submit = loop({
      name: 'submit',
      wakeSignal: options.submitSignal,
      paceMs: 100,
      fullTick: JOBS_PER_TICK,
      tick: () => this.#submit(),
    })
    const poll = this.#deps.adapter.poll ? [loop({ name: 'poll', tick: () => this.#poll() })] : []
    return [this.#cancellations.watch(signal), ...lookUps, submit, ...poll]
  }

  readonly #listRunning = async (): Promise<runs.RunningRun[]> => {
    let listed = await this.#listCached()
    if (!this.#options.isCurrent(listed)) {
      // A run of this process has begun, or has picked its rows: it waits for nothing. One that is ending is listed for a
      // moment longer.
      this.#listCached.invalidate()
      listed = await this.#listCached()
    }
    this.#probeCredits(listed)
    const unread = listed.find((run) => run.unread !== null)?.unread ?? null
    if (unread === null || this.#stopped.signal.aborted) return listed
    this.#options.onStop(new UnreadResultsError(unread, this.#deps.adapter.name))
    return []
  }

  /** A run that begins finds out whether the account has credits again. Live sync finds out once an hour. */
  #probeCredits(listed: readonly runs.RunningRun[]): void {
    this.#listed = listed.map(({ id }) => id)
    if (!this.#deps.breaker.isOutOfCredits) return
    const isUntried = ({ id, options: { follow } }: runs.RunningRun): boolean =>
      follow !== true && !this.#triedFor.has(id)
    if (listed.some(isUntried)) this.#deps.breaker.probe()
    this.#triedFor = new Set([...this.#triedFor, ...this.#listed])
  }

  #queueOf({ id: run }: runs.RunningRun): RunService {
    return { run, service: this.#deps.service }
  }

  async #lookUp(priority: 'normal' | 'low', endpoint: SingleEndpoint): Promise<number> {
    let done = 0
    for (const run of await this.#listRunning()) {
      if (this.#signal.aborted) break
      if (toPriority(run.trigger) !== priority) continue
      // Many runs have no companies: nothing is granted, and leased, for none.
      if (endpoint === 'company' && !(await hasPendingLookups(this.#deps.db, this.#queueOf(run), endpoint)))
        continue
      const turn = startTurn(run, this.#listRunning)
      const options = { ...this.#options, cancellations: this.#cancellations }
      done += await lookUpRun(options, this.#deps, run, { ...turn, signal: this.#signal, endpoint })
    }
    return done
  }

  async #submit(): Promise<number> {
    let done = 0
    const listed = await this.#listRunning()
    for (const run of listed) {
      if (this.#signal.aborted) break
      const result = await this.#submitRun(run)
      done += result.calls
      // What is left when all rows are picked is requested singly now, and not up to a second later.
      const isPicking = run.picking && this.#options.isCurrent(listed)
      if (result.calls > 0 && !isPicking) this.#options.lookUpSignal.notify()
    }
    return done
  }

  async #submitRun(run: runs.RunningRun): Promise<SubmitResult> {
    const options = this.#options
    const result = await submitJobs(this.#deps, run, { signal: this.#signal })
    if (result.answered > 0) options.wakeSettling?.()
    options.countFor(run.id, (counters) => {
      counters.submitted += result.inputs
      if (result.calls > 0) counters.touch()
    })
    if (result.stop !== null) options.onStop(result.stop)
    return result
  }

  async #poll(): Promise<number> {
    const result = await pollJobs(this.#deps, this.#scope, { signal: this.#signal })
    if (result.fetched > 0) this.#options.wakeSettling?.()
    if (result.stop !== null) this.#options.onStop(result.stop)
    return result.polled
  }
}

interface UrgentCallOptions extends RunCallOptions {
  readonly syncSignal: WakeSignal
}

/** Maximum concurrent ticks; each has at least one call in flight. */
const MAX_URGENT_TICKS = 64

/**
 * Looks up for live sync. Ticks overlap, or a change would wait for the slowest response of earlier ones: the next
 * tick starts once the one before it has leased what was there.
 */
async function lookUpUrgent(
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

/** What the calls of a run report. */
interface RunCallOptions {
  /** Updates the counters of a run of this process, or of every one. A run of another process has none here. */
  readonly countFor: (run: number | 'all', act: (counters: RunCounters) => void) => void
  /** Called after answers were stored, with their number. */
  readonly onAnswers: (answers: number, urgency: AnswerUrgency) => void
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
  const listSlowly = cache(listRunning)
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
const lookUpRun = (
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
  if (result.stop !== null) options.onStop(result.stop)
  return result.requested
}

const POLL_INTERVAL_MS = 1_000

/**
 * Stops the leader's work for runs that are cancelled, whichever process they belong to: one batch of lookups may take
 * minutes at a low rate limit.
 */
class Cancellations {
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
