import { setTimeout as sleep } from 'node:timers/promises'
import { type Preview, previewRun } from '../pipeline/preview.ts'
import type { ConfiguredBudget } from '../domain/spend.ts'
import { retryWhileUnavailable } from '../store/connectivity.ts'
import * as runs from '../store/runs.ts'
import { OutOfCreditsError } from '../service/errors.ts'
import type { WakeSignal } from '../util/wake-signal.ts'
import { RunCounters, type RunProgress } from './counters.ts'
import { type FillRateSampleOptions, sampleFillRates } from './fill-rate.ts'
import { heartbeat } from './heartbeat.ts'
import { isAbort, repeating, runLoop } from './loop.ts'
import { finishRun, finishWorkUnderWay, type RecordRun } from './finish.ts'
import type { LeaderElector } from './leader.ts'
import { monitorRun } from './monitor.ts'
import { createPickAlone } from './pick-alone.ts'
import { pickSources } from './pick-sources.ts'
import type { RunReport } from './report.ts'
import { goesOnAfterMiss, pickHandedOn, type RunGroup } from './run-group.ts'
import { checkBreakage, isFit, isLeftOut } from './source-health.ts'
import { type StartedRun, startRun, type StartRunOptions } from './start-run.ts'
import { type CallSetup, Workers } from './workers.ts'

export interface RunDeps extends CallSetup {
  /** In the configuration; null or absent: it has one service. */
  readonly serviceName?: string | null
  /** The most for this service, of a budget that several share. */
  readonly serviceBudget?: ConfiguredBudget | null
  /** Only the leader of its scope serves the runs of this process. */
  readonly elector: Pick<LeaderElector, 'scope' | 'acquire' | 'readStatus' | 'findOpenCircuit'>
  /** Identifies this process in tables and logs; unique for each start. */
  readonly owner: string
  /** What Postgres refuses to this process, in words; null: nothing. */
  readonly describeOutage: () => string | null
  /** Records the end of a run that is no dry run, in the transaction that stores it. */
  readonly recordRun: RecordRun
}

export interface ExecuteRunOptions extends StartRunOptions {
  /** How long to wait for deliveries when nothing else is left to do, in milliseconds. */
  readonly waitMs: number
  /** @param waiting rows that wait in this run */
  readonly onProgress?: ((progress: RunProgress, waiting: number) => void) | undefined
  /** Notified when the run's receiver has stored a delivery. */
  readonly deliveries?: WakeSignal
  readonly onStarted?: ((run: number) => void) | undefined
  /** Workers that this process already runs. Without them the run does all steps itself. */
  readonly workers?: Workers
}

/**
 * One pass over some sources: all steps at once, each in its own loop, until no row of the run waits. Any number of
 * runs may share a database; each finishes what it picked, and takes over from dead ones. A paused source is skipped,
 * or not picked any further.
 * @throws the error that ended the run, after it was stored as failed
 */
export async function executeRun(deps: RunDeps, options: ExecuteRunOptions): Promise<RunReport> {
  return new RunExecution(deps, options, await startRun(deps, options)).execute()
}

/** The steps of one run. The first that fails ends the others, and their failures are reported together. */
export class RunExecution {
  readonly #deps: RunDeps
  readonly #options: ExecuteRunOptions
  readonly #run: StartedRun
  /** The runs of other services that it is started with. Null: it is alone. */
  readonly #group: RunGroup | null
  readonly #workers: Workers
  readonly #counters = new RunCounters()
  readonly #finished = new AbortController()
  readonly #cancelled = new AbortController()
  /** Ends the picking. */
  readonly #outOfCredits = new AbortController()
  /** A user ends it. */
  readonly #interrupted: AbortSignal
  /** Ends all steps. */
  readonly #stopping: AbortSignal
  #isPicking = true
  /** Since when only its own rows are waited for. Null: it has picked these, and rows of other runs may be handed on to it. */
  #aloneSince: number | null = performance.now()
  readonly #pickAlone = createPickAlone()
  readonly #firstPage = Promise.withResolvers<void>()

  constructor(deps: RunDeps, options: ExecuteRunOptions, run: StartedRun, group: RunGroup | null = null) {
    this.#group = group
    this.#deps = deps
    this.#options = options
    this.#run = run
    this.#interrupted = AbortSignal.any([options.signal, this.#cancelled.signal])
    this.#stopping = AbortSignal.any([this.#finished.signal, this.#interrupted])
    this.#workers =
      options.workers ??
      new Workers(deps, {
        sources: run.isDryRun ? [] : run.sources,
        calls: deps,
        signal: this.#stopping,
        ...(options.deliveries && { deliveries: options.deliveries }),
      })
  }

  async execute(): Promise<RunReport> {
    const { id, token, sources, observations } = this.#run
    const detach = this.#workers.attach({
      run: id,
      sources: sources.map((source) => source.name),
      counters: this.#counters,
      isPicking: () => this.#isPicking,
      onStop: (error) => {
        if (error instanceof OutOfCreditsError) {
          // What was paid for is awaited, as at the end of a budget.
          observations.isOutOfCredits = true
          this.#outOfCredits.abort()
          return
        }
        observations.fatalError ??= error
        this.#finished.abort()
      },
      onFailure: this.#onFailure,
    })
    this.#options.onStarted?.(id)
    // Ends after the other steps: keys may be compared for longer than the lease lasts.
    const idle = new AbortController()
    const beating = heartbeat(this.#deps, id, token, idle.signal, (by) => {
      observations.cancelledBy = by
      this.#cancelled.abort()
    }).catch(this.#onFailure)
    await Promise.all(this.#startSteps().map((step) => step.catch(this.#onFailure)))
    // It may have broken while its rows were written.
    for (const source of sources) isLeftOut(source, observations.leftOut)
    idle.abort()
    await beating
    if (this.#cancelled.signal.aborted) await finishWorkUnderWay(this.#deps, id)
    detach()
    // Nothing is handed on any more, and what is left to do may take long.
    this.#group?.markEnded(this.#run.id)
    return this.#finish()
  }

  readonly #onFailure = (error: unknown): void => {
    // So a step ends that waits for Postgres, where the run is interrupted or another step has failed.
    if (this.#stopping.aborted && isAbort(error)) return
    this.#run.observations.failures.push(error)
    this.#finished.abort()
  }

  #startSteps(): Promise<void>[] {
    // No other step has work before there is a page, and they would take connections and processor time from it.
    const isUnderWay = Promise.race([
      this.#firstPage.promise,
      sleep(FIRST_PAGE_MS, undefined, { signal: this.#stopping }).catch(() => {}),
    ])
    const own = this.#options.workers === undefined ? this.#workers.tasks() : []
    return [
      this.#pick(),
      ...own.map(({ name, start }) => (name === 'call' ? start() : isUnderWay.then(start))),
      ...(this.#run.isDryRun ? [] : [isUnderWay.then(() => this.#measure())]),
      this.#monitor().finally(() => this.#finished.abort()),
    ]
  }

  async #pick(): Promise<void> {
    const { id, token, sources, observations } = this.#run
    const { wakeCalls, wakeWriters } = this.#workers
    const markPicked = (signal: AbortSignal): Promise<void> =>
      retryWhileUnavailable(() => runs.markPicked(this.#deps.db, id, token), { signal })
    await pickSources({
      deps: this.#deps,
      run: this.#run,
      options: {
        ...this.#options,
        sources: sources.filter(({ mapping }) => mapping.turn.isFirst),
        interrupted: this.#interrupted,
        onAwaitingCredits: async () => {
          await markPicked(this.#stopping)
          wakeCalls()
        },
      },
      signal: AbortSignal.any([this.#stopping, this.#outOfCredits.signal]),
      observations,
      onPicked: (picked, mayBeAnswered) => {
        if (picked > 0) this.#firstPage.resolve()
        this.#counters.picked += picked
        if (picked > 0) this.#counters.touch()
        wakeCalls()
        if (mayBeAnswered) wakeWriters()
      },
    }).catch((error: unknown) => {
      if (!this.#outOfCredits.signal.aborted || !isAbort(error)) throw error
    })
    this.#firstPage.resolve()
    if (this.#group !== null) {
      // Its inputs wait for a full job while it picks, and the rows that it waits for may come after them.
      if (this.#group.hasOppositeOrders) await markPicked(this.#stopping).then(wakeCalls)
      await this.#pickHandedOn(this.#group)
    }
    if (this.#stopping.aborted) return
    await markPicked(this.#finished.signal)
    this.#isPicking = false
    this.#counters.maybeComplete.notify()
    wakeCalls()
  }

  #mayEnd(isDone: boolean | null, changes: number): boolean {
    // What was not looked at again is as it was: a run that counts as busy with each look would never be found idle.
    if (isDone === null) return false
    if (this.#group === null || this.#aloneSince !== null) return isDone
    if (isDone) return this.#group.markIdle(this.#run.id, changes)
    this.#group.markBusy(this.#run.id)
    return false
  }

  async #pickHandedOn(group: RunGroup): Promise<void> {
    this.#aloneSince = null
    await pickHandedOn(this.#deps, group, this.#run, {
      signal: AbortSignal.any([this.#stopping, this.#outOfCredits.signal]),
      pickAlone: this.#pickAlone,
      onPicked: (rows) => {
        group.markBusy(this.#run.id)
        if (rows > 0) this.#counters.touch()
        this.#workers.wakeCalls()
        this.#workers.wakeWriters()
      },
    }).catch((error: unknown) => {
      if (!this.#outOfCredits.signal.aborted || !isAbort(error)) throw error
    })
    this.#aloneSince = performance.now()
  }

  /** Samples fill rates while the run writes. */
  #measure(): Promise<void> {
    const loop = { name: 'measure', signal: this.#stopping, log: this.#deps.log }
    return runLoop(
      repeating(loop, async () => {
        await this.#sample({ minAgeMs: FILL_RATE_INTERVAL_MS })
        return FILL_RATE_INTERVAL_MS
      }),
    )
  }

  #sample(options: Pick<FillRateSampleOptions, 'minAgeMs' | 'startedAt'>): Promise<void> {
    // Counting reads the whole table, which a run of a few rows must not.
    const counted = this.#options.limit === null ? {} : { maxRows: LIMITED_COUNT_ROWS }
    return sampleFillRates(this.#deps, this.#run.sources, { ...options, ...counted, run: this.#run.id })
  }

  /** Waits until the run is complete; then previews, in a dry run. */
  async #monitor(): Promise<void> {
    const { id, sources, observations } = this.#run
    const deps = this.#deps
    observations.leftover = await monitorRun(
      deps,
      {
        ...this.#run,
        cascading: sources.filter(goesOnAfterMiss).map(({ name }) => name),
        limit: this.#options.limit,
        counters: this.#counters,
        waitMs: this.#options.waitMs,
        isPicking: () => this.#isPicking && this.#aloneSince !== null,
        pickAlone: this.#pickAlone,
        aloneSince: () => this.#aloneSince ?? this.#run.startedAt,
        beginCheck: () => {
          const changes = this.#group?.changes ?? 0
          return (isDone) => this.#mayEnd(isDone, changes)
        },
        rate: () => this.#workers.rate(),
        describeOutage: deps.describeOutage,
        findOpenCircuit: () => deps.elector.findOpenCircuit(),
        wakeCalls: this.#workers.wakeCalls,
        onProgress: this.#options.onProgress,
      },
      this.#stopping,
    )
    const { dryRun = null } = this.#options
    // While the heartbeat still runs: otherwise another run could take the rows meanwhile.
    if (dryRun === null || this.#stopping.aborted) return
    const preview = async (): Promise<Preview> => {
      // A dry run writes no row, and would not notice.
      for (const source of sources) await checkBreakage(deps, source)
      const fit = sources.filter(isFit)
      return previewRun(deps, id, { sources: fit, sample: dryRun.sample, signal: this.#stopping })
    }
    observations.preview = await retryWhileUnavailable(preview, { signal: this.#stopping })
  }

  async #finish(): Promise<RunReport> {
    const { isDryRun, startedAt } = this.#run
    const sampleLast = async (): Promise<void> => {
      if (isDryRun || this.#interrupted.aborted) return
      await this.#sample({
        minAgeMs: 0,
        startedAt: this.#deps.now() - (performance.now() - startedAt),
      })
    }
    // Side by side: the heartbeat has ended, and counting a large table may take longer than its lease lasts.
    const [ended] = await Promise.allSettled([
      finishRun(
        this.#deps,
        {
          ...this.#run,
          rate: this.#workers.rate(),
          ...(this.#group !== null && { group: { sources: this.#run.sources } }),
        },
        this.#options,
      ),
      sampleLast(),
      this.#deps.metrics?.flush(),
    ])
    if (ended.status === 'rejected') throw ended.reason
    return ended.value
  }
}

/** How long the other steps wait for the first page at most, in milliseconds: a large table may have none for minutes. */
const FIRST_PAGE_MS = 500
/** How often fill rates are sampled during a run, if that is cheap. */
const FILL_RATE_INTERVAL_MS = 5_000
/** Rows of the largest table whose fill rates a run with a limit samples. */
const LIMITED_COUNT_ROWS = 100_000
