import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { hasCascade } from '../domain/identifiers/kind.ts'
import type { RouteOption } from '../domain/route.ts'
import { resolveSourceBudgets } from '../domain/spend.ts'
import type { Trigger } from '../domain/run.ts'
import { LEASE_MS, type CallDeps } from '../pipeline/deps.ts'
import { RunBudget } from '../pipeline/pick/budget.ts'
import { type Preview, previewRun } from '../pipeline/preview.ts'
import { describeWrittenByOthers } from '../sources/check/written-where.ts'
import type { Source } from '../sources/source.ts'
import { retryWhileUnavailable } from '../store/connectivity.ts'
import * as pauses from '../store/paused-sources.ts'
import { hasWorkUnderWay } from '../store/run-progress.ts'
import * as runs from '../store/runs.ts'
import type { ServiceError } from '../service/errors.ts'
import type { WakeSignal } from '../util/wake-signal.ts'
import { RunCounters, type RunProgress } from './counters.ts'
import { sampleFillRates } from './fill-rate.ts'
import { heartbeat } from './heartbeat.ts'
import { isAbort, logWait, repeating, runLoop } from './loop.ts'
import { finishRun, type OnRunEnding, RunObservations } from './finish.ts'
import type { LeaderElector } from './leader.ts'
import { monitorRun } from './monitor.ts'
import { pickSources } from './pick-sources.ts'
import type { RunReport } from './report.ts'
import { checkBreakage, isFit, isLeftOut, listLeftOut } from './source-health.ts'
import { Workers } from './workers.ts'

export interface RunDeps extends Omit<CallDeps, 'limiter'> {
  /** Only the leader of its scope serves the runs of this process. */
  readonly elector: Pick<LeaderElector, 'scope' | 'acquire' | 'readStatus' | 'findOpenCircuit'>
  /** Identifies this process in tables and logs; unique for each start. */
  readonly owner: string
  /** The service rejects the key or the client for good. */
  readonly onUnauthorized: (error: ServiceError) => void
  /** Notified when a rejected key is accepted again, by a call of any process. */
  readonly keyAccepted: WakeSignal
  /** What Postgres refuses to this process, in words; null: nothing. */
  readonly describeOutage: () => string | null
}

export interface ExecuteRunOptions {
  readonly sources: readonly Source[]
  /** The requested names, with those of sources that could not be opened; none means all. */
  readonly names: readonly string[]
  readonly trigger: Trigger
  /** Maximum rows of each source. */
  readonly limit: number | null
  /** Maximum lookups to request. Null: explicitly unlimited. */
  readonly budget: number | null
  /** Shares the budget of all runs with this name: a resumed scheduled run continues with what is left. */
  readonly budgetName?: string | null
  readonly where: string | null
  readonly route: RouteOption
  /** How long to wait for deliveries when nothing else is left to do, in milliseconds. */
  readonly waitMs: number
  /** Interrupts the run: nothing new starts, calls in flight finish, the state is saved. */
  readonly signal: AbortSignal
  readonly onProgress?: (progress: RunProgress) => void
  /** Requests lookups but writes nothing: the report shows what would be written, with this many rows as a sample. */
  readonly dryRun?: { readonly sample: number } | null
  /** Notified when the run's receiver has stored a delivery. */
  readonly deliveries?: WakeSignal
  readonly onStarted?: (run: number) => void
  readonly onEnding?: OnRunEnding
  /** Workers that this process already runs. Without them the run does all steps itself. */
  readonly workers?: Workers
}

/**
 * One pass over some sources: all steps at once, each in its own loop, until no row of the run waits. Any number of
 * runs may share a database; each finishes what it picked, and takes over from dead ones. A paused source is skipped,
 * or not picked any further.
 * @throws the error that ended the run, after it was stored as failed
 */
export async function executeRun(deps: RunDeps, requested: ExecuteRunOptions): Promise<RunReport> {
  const startedAt = performance.now()
  const observations = new RunObservations()
  // As in the middle of a run: Postgres was reached a moment ago.
  const whileAway = { giveUp: () => requested.signal.aborted, onWait: logWait(deps.log, { step: 'start' }) }
  const options = await retryWhileUnavailable(() => excludePaused(deps, requested, observations), whileAway)
  // It may have been mended a moment ago.
  for (const source of options.sources.filter((one) => !isFit(one)))
    await retryWhileUnavailable(() => checkBreakage(deps, source), whileAway)
  for (const one of listLeftOut(deps, options.names))
    if (!observations.pausedSources.has(one.source)) observations.leftOut.set(one.source, one)
  const all = [...deps.sources.values()]
  observations.leavingRows = options.sources.flatMap((source) => describeWrittenByOthers(source, all) ?? [])
  const { dryRun = null } = options
  const isDryRun = dryRun !== null
  // Counting reads the whole table, which a run of a few rows must not.
  const counted = options.limit === null ? {} : { maxRows: LIMITED_COUNT_ROWS }
  const counters = new RunCounters()
  const mappings = options.sources.map(({ mapping }) => mapping)
  const budget = new RunBudget(
    options.budget,
    resolveSourceBudgets(mappings, options.budget),
    deps.adapter.credits,
  )
  const token = randomUUID()
  const inserted = {
    trigger: options.trigger,
    sources: options.sources.map((source) => source.name),
    options: {
      limit: options.limit,
      budget: options.budget,
      where: options.where,
      route: options.route,
      ...(isDryRun && { dry: isDryRun }),
    },
    owner: deps.owner,
    token,
    leaseMs: LEASE_MS,
    budgetName: options.budgetName ?? null,
    scope: deps.elector.scope,
    service: deps.service,
  }
  const id = await retryWhileUnavailable(() => runs.insertRun(deps.db, inserted), whileAway)
  deps.log.info(
    {
      event: 'run_started',
      run: id,
      trigger: options.trigger,
      sources: options.sources.map((source) => source.name),
      budget: options.budget,
      dry: isDryRun,
    },
    'run started',
  )

  const finished = new AbortController()
  /** Ends the heartbeat: after `finished`, keys may be compared for longer than the lease lasts. */
  const idle = new AbortController()
  const cancelled = new AbortController()
  const interrupted = AbortSignal.any([options.signal, cancelled.signal])
  const stopping = AbortSignal.any([finished.signal, interrupted])
  let isPicking = true
  const firstPage = Promise.withResolvers<void>()
  // No other step has work before there is a page, and they would take connections and processor time from it.
  const isUnderWay = Promise.race([
    firstPage.promise,
    sleep(FIRST_PAGE_MS, undefined, { signal: stopping }).catch(() => {}),
  ])
  const afterFirstPage = <Result>(start: () => Promise<Result>): Promise<Result> => isUnderWay.then(start)
  const workers =
    options.workers ??
    new Workers(deps, {
      sources: isDryRun ? [] : options.sources,
      calls: { ...deps, deps },
      signal: stopping,
      ...(options.deliveries && { deliveries: options.deliveries }),
    })
  const { wakeCalls, wakeWriters } = workers
  const onFailure = (error: unknown): void => {
    // So a step ends that waits for Postgres, where the run is interrupted or another step has failed.
    if (stopping.aborted && isAbort(error)) return
    observations.failures.push(error)
    finished.abort()
  }
  const detach = workers.attach({
    run: id,
    sources: options.sources.map((source) => source.name),
    counters,
    isPicking: () => isPicking,
    onStop: (error) => {
      observations.fatalError ??= error
      finished.abort()
    },
    onFailure,
  })
  options.onStarted?.(id)
  const scope = (): string => deps.elector.scope
  const beating = heartbeat({ ...deps, scope }, id, token, idle.signal, (by) => {
    observations.cancelledBy = by
    cancelled.abort()
  }).catch(onFailure)
  const tasks = [
    pickSources(
      deps,
      { id, budget, isDryRun, service: deps.service },
      {
        ...options,
        interrupted,
        onAwaitingCredits: async () => {
          await retryWhileUnavailable(() => runs.markPicked(deps.db, id, token), { signal: stopping })
          wakeCalls()
        },
      },
      stopping,
      observations,
      (picked, mayBeAnswered) => {
        if (picked > 0) firstPage.resolve()
        counters.picked += picked
        if (picked > 0) counters.touch()
        wakeCalls()
        if (mayBeAnswered) wakeWriters()
      },
    ).then(async () => {
      firstPage.resolve()
      if (stopping.aborted) return
      await retryWhileUnavailable(() => runs.markPicked(deps.db, id, token), { signal: finished.signal })
      isPicking = false
      counters.maybeComplete.notify()
      wakeCalls()
    }),
    ...(options.workers
      ? []
      : workers.tasks().map(({ name, start }) => (name === 'call' ? start() : afterFirstPage(start)))),
    ...(isDryRun
      ? []
      : [
          afterFirstPage(() =>
            runLoop(
              repeating({ name: 'measure', signal: stopping, log: deps.log }, async () => {
                await sampleFillRates(deps, options.sources, {
                  ...counted,
                  run: id,
                  minAgeMs: FILL_RATE_INTERVAL_MS,
                })
                return FILL_RATE_INTERVAL_MS
              }),
            ),
          ),
        ]),
    monitorRun(
      deps,
      {
        id,
        trigger: options.trigger,
        isDryRun,
        service: deps.service,
        cascading: options.sources.filter(({ mapping }) => hasCascade(mapping)).map(({ name }) => name),
        sources: options.sources,
        limit: options.limit,
        budget,
        counters,
        waitMs: options.waitMs,
        startedAt,
        isPicking: () => isPicking,
        rate: () => workers.rate(),
        describeOutage: deps.describeOutage,
        findOpenCircuit: () => deps.elector.findOpenCircuit(),
        wakeCalls: wakeCalls,
        onProgress: options.onProgress,
      },
      stopping,
    )
      .then(async (leftover) => {
        observations.leftover = leftover
        // While the heartbeat still runs: otherwise another run could take the rows meanwhile.
        if (dryRun === null || stopping.aborted) return
        const preview = async (): Promise<Preview> => {
          // A dry run writes no row, and would not notice.
          for (const source of options.sources) await checkBreakage(deps, source)
          const sources = options.sources.filter(isFit)
          return previewRun(deps, id, { sources, sample: dryRun.sample, signal: stopping })
        }
        observations.preview = await retryWhileUnavailable(preview, { signal: stopping })
      })
      .finally(() => finished.abort()),
  ]
  await Promise.all(tasks.map((step) => step.catch(onFailure)))
  // It may have broken while its rows were written.
  for (const source of options.sources) isLeftOut(source, observations.leftOut)
  idle.abort()
  await beating
  if (cancelled.signal.aborted) await finishWorkUnderWay(deps, id)
  detach()
  const sampleLast = async (): Promise<void> => {
    if (isDryRun || interrupted.aborted) return
    await sampleFillRates(deps, options.sources, {
      run: id,
      minAgeMs: 0,
      startedAt: deps.now() - (performance.now() - startedAt),
      ...counted,
    })
  }
  // Side by side: the heartbeat has ended, and counting a large table may take longer than its lease lasts.
  const [ended] = await Promise.allSettled([
    finishRun(
      deps,
      { id, token, budget, counters: counters, startedAt: startedAt, observations, rate: workers.rate() },
      options,
    ),
    sampleLast(),
    deps.metrics?.flush(),
  ])
  if (ended.status === 'rejected') throw ended.reason
  return ended.value
}

/** Waits for what a cancelled run has in flight: its workers may be shared, or belong to another process. */
async function finishWorkUnderWay({ db }: RunDeps, id: number): Promise<void> {
  const until = performance.now() + LEASE_MS / 2
  while (performance.now() < until) {
    if (!(await hasWorkUnderWay(db, id).catch(() => true))) return
    await sleep(200)
  }
}

/** How long the other steps wait for the first page at most, in milliseconds: a large table may have none for minutes. */
const FIRST_PAGE_MS = 500
/** How often fill rates are sampled during a run, if that is cheap. */
const FILL_RATE_INTERVAL_MS = 5_000
/** Rows of the largest table whose fill rates a run with a limit samples. */
const LIMITED_COUNT_ROWS = 100_000

/** Also of those that are broken: what is paused is left out by will, and is no fault of the run. */
async function excludePaused(
  deps: RunDeps,
  requested: ExecuteRunOptions,
  observations: RunObservations,
): Promise<ExecuteRunOptions> {
  const broken = listLeftOut(deps, requested.names).map(({ source }) => source)
  const names = [...requested.sources.map(({ name }) => name), ...broken]
  for (const name of await pauses.filterPaused(deps.db, names)) observations.pausedSources.add(name)
  return {
    ...requested,
    sources: requested.sources.filter((source) => !observations.pausedSources.has(source.name)),
  }
}
