import type { RunReport } from '../domain/report/run.ts'
import * as runs from '../store/runs.ts'
import * as store from '../store/source-state.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RateStatus } from '../domain/rate-status.ts'
import { retryWhileUnavailable, inTransaction, withTableTimeouts } from '../store/transaction.ts'
import { OutOfCreditsError } from '../service/errors.ts'
import type { WakeSignal } from '../util/wake-signal.ts'
import type { RunProgress } from './counters.ts'
import { DryRun } from './dry-run.ts'
import {
  heartbeat,
  firstOf,
  isEnded,
  startRun,
  type RunDeps,
  type ServicePart,
  type ServiceProcess,
  type StartedRun,
  type StartRunOptions,
} from './run-part.ts'
import { isAbort } from './loop.ts'
import { finishRun, finishWorkUnderWay } from './finish.ts'
import { monitorRun, pickRequeued } from './monitor.ts'
import { pickSources } from './pick-sources.ts'
import { isLeftOut } from './source-health.ts'
import { Workers } from './workers.ts'
import { describeError } from '../util/error-text.ts'
import type { Deps } from '../pipeline/deps.ts'
import { countFilled } from '../sources/left-out.ts'
import type { Source } from '../sources/source-model.ts'

export interface ExecuteRunOptions extends StartRunOptions {
  /** How long to wait for deliveries when nothing else is left to do, in milliseconds. */
  readonly waitMs: number
  readonly onProgress?: ((progress: RunProgress) => void) | undefined
  /** Notified when the run's receiver has stored a delivery. */
  readonly deliveries?: WakeSignal
  readonly onStarted?: ((run: number) => void) | undefined
}

/**
 * One pass over some sources: all steps at once, each in its own loop, until no row of the run waits. Any number of
 * runs may share a database; each finishes what it picked, and takes over from dead ones. A service that fails
 * holds up only the rows that wait for it.
 * @param services in their order, one at least
 * @throws the error that ended the run, after it was stored as failed
 */
export async function executeRun(
  services: readonly ServiceProcess[],
  options: ExecuteRunOptions,
): Promise<RunReport> {
  const run = await startRun(
    services.map(({ deps }) => deps),
    options,
  )
  const workersOf = ({ deps }: ServicePart): Workers | undefined =>
    services.find((service) => service.deps === deps)?.workers
  return new RunExecution(options, run, workersOf).execute()
}

/** A service of a run, and what its steps go by. */
interface RunningPart {
  readonly part: ServicePart
  readonly workers: Workers
  /** They are the process's own, which runs them already. */
  readonly areShared: boolean
  /** Ends its picking. */
  readonly outOfCredits: AbortController
  /** Ends its steps. */
  readonly ended: AbortController
  readonly stopping: AbortSignal
}

/** The steps of one run. The first that fails ends the others, and their failures are reported together. */
class RunExecution {
  readonly #deps: RunDeps
  readonly #options: ExecuteRunOptions
  readonly #run: StartedRun
  readonly #parts: readonly RunningPart[]
  /** Null: it writes. */
  readonly #dry: DryRun | null
  readonly #finished = new AbortController()
  readonly #cancelled = new AbortController()
  /** A user ends it. */
  readonly #interrupted: AbortSignal
  /** Ends all steps. */
  readonly #stopping: AbortSignal
  #isPicking = true

  constructor(
    options: ExecuteRunOptions,
    run: StartedRun,
    workersOf: (part: ServicePart) => Workers | undefined,
  ) {
    this.#deps = firstOf(run.parts).deps
    this.#options = options
    this.#run = run
    this.#interrupted = AbortSignal.any([options.signal, this.#cancelled.signal])
    this.#stopping = AbortSignal.any([this.#finished.signal, this.#interrupted])
    this.#parts = run.parts.map((part) => {
      const ended = new AbortController()
      const stopping = AbortSignal.any([this.#stopping, ended.signal])
      const shared = workersOf(part)
      const workers = shared ?? this.#createWorkers(part, stopping)
      const outOfCredits = new AbortController()
      return { part, workers, areShared: shared !== undefined, outOfCredits, ended, stopping }
    })
    const ofRows = { limit: options.limit, signal: this.#stopping, onFailure: this.#onPartFailure }
    this.#dry = options.dryRun ? new DryRun(run, { ...options, ...options.dryRun, ...ofRows }) : null
  }

  #createWorkers({ deps, sources }: ServicePart, signal: AbortSignal): Workers {
    const { deliveries, dryRun } = this.#options
    return new Workers(
      { ...deps, leavesEndedRuns: true },
      {
        sources: dryRun ? [] : sources,
        calls: deps,
        signal,
        ...(deliveries && { deliveries }),
      },
    )
  }

  async execute(): Promise<RunReport> {
    const { id, token, parts } = this.#run
    const detach = this.#parts.map((part) => this.#attach(part))
    this.#options.onStarted?.(id)
    // Ends after the other steps: keys may be compared for longer than the lease lasts.
    const idle = new AbortController()
    const beating = heartbeat(this.#deps, id, token, idle.signal, (by) => {
      this.#run.observations.cancelledBy = by
      this.#cancelled.abort()
    }).catch(this.#onFailure)
    await Promise.all(this.#startSteps())
    // It may have broken while its rows were written.
    for (const { sources, leftOut } of parts) for (const source of sources) isLeftOut(source, leftOut)
    idle.abort()
    await beating
    if (this.#cancelled.signal.aborted) await finishWorkUnderWay(this.#deps, id)
    for (const end of detach) end()
    return this.#finish()
  }

  #attach(running: RunningPart): () => void {
    const { part, workers, outOfCredits } = running
    return workers.attach({
      run: part.id,
      sources: part.sources.map((source) => source.name),
      counters: part.counters,
      isPicking: () => this.#isPicking || part.isGathering,
      onStop: (error) => {
        if (error instanceof OutOfCreditsError) {
          // What was paid for is awaited, as at the end of a budget.
          part.isOutOfCredits = true
          outOfCredits.abort()
          return
        }
        part.fatalError ??= error
        this.#end(running)
      },
      onFailure: (error) => this.#failPart(running, error),
    })
  }

  readonly #onFailure = (error: unknown): void => {
    // So a step ends that waits for Postgres, where the run is interrupted or another step has failed.
    if (this.#stopping.aborted && isAbort(error)) return
    this.#run.observations.failures.push(error)
    this.#finished.abort()
  }

  #failPart(running: RunningPart, error: unknown): void {
    if (running.stopping.aborted && isAbort(error)) return
    running.part.failures.push(error)
    this.#end(running)
  }

  readonly #rateOf = ({ service }: Pick<ServicePart, 'service'>): RateStatus | null =>
    this.#parts.find(({ part }) => part.service === service)?.workers.rate() ?? null

  readonly #onPartFailure = (part: ServicePart, error: unknown): void => {
    const running = this.#parts.find((running) => running.part === part)
    if (running !== undefined) this.#failPart(running, error)
  }

  /** Ends the steps of a service, and the run with those of the last one. */
  #end({ ended }: RunningPart): void {
    ended.abort()
    if (this.#run.parts.every(isEnded)) this.#finished.abort()
    else this.#run.counters.maybeComplete.notify()
  }

  #startSteps(): Promise<void>[] {
    const own = this.#parts
      .filter(({ areShared }) => !areShared)
      .flatMap((running) =>
        running.workers
          .tasks()
          .map(({ start }) => start().catch((error: unknown) => this.#failPart(running, error))),
      )
    const steps = [this.#pick(), this.#monitor().finally(() => this.#finished.abort())]
    return [...own, ...steps.map((step) => step.catch(this.#onFailure))]
  }

  #wakeCalls(): void {
    for (const { workers } of this.#parts) workers.wakeCalls()
  }

  #markPicked(signal: AbortSignal): Promise<void> {
    const { id, token } = this.#run
    return retryWhileUnavailable(() => runs.markPicked(this.#deps.db, id, token), { signal })
  }

  /** No more rows go on to these services: what they have kept for a full job is requested. */
  async #endGathering(parts: readonly ServicePart[]): Promise<void> {
    if (parts.length === 0) return
    const { id, token } = this.#run
    const services = parts.map(({ service }) => service)
    await runs.endGathering(this.#deps.db, id, token, services)
    for (const part of parts) part.isGathering = false
    this.#wakeCalls()
  }

  async #pick(): Promise<void> {
    const picked = new AbortController()
    const laterSteps = this.#pickLaterSteps(picked.signal).catch(this.#onFailure)
    await Promise.all(
      this.#parts.map((running) =>
        this.#pickFirst(running).catch((error: unknown) => this.#failPart(running, error)),
      ),
    )
    picked.abort()
    await laterSteps
    if (this.#stopping.aborted) return
    await this.#markPicked(this.#finished.signal)
    this.#isPicking = false
    this.#run.counters.maybeComplete.notify()
    this.#wakeCalls()
  }

  /** Picks the sources whose rows begin with a service. */
  async #pickFirst({ part, workers, outOfCredits, stopping }: RunningPart): Promise<void> {
    const { observations, counters, parts } = this.#run
    await pickSources({
      deps: part.deps,
      run: part,
      options: {
        ...this.#options,
        sample: this.#dry?.picks(part),
        sources: part.sources.filter(({ mapping }) => mapping.step.isFirst),
        interrupted: this.#interrupted,
        onAtBudget: async () => {
          await this.#markPicked(stopping)
          await this.#endGathering(parts.filter(({ isGathering }) => isGathering))
          workers.wakeCalls()
        },
      },
      signal: AbortSignal.any([stopping, outOfCredits.signal]),
      observations: { ...observations, leftOut: part.leftOut },
      onPicked: (picked, mayBeAnswered) => {
        counters.picked += picked
        if (picked > 0) part.counters.touch()
        workers.wakeCalls()
        if (mayBeAnswered) workers.wakeWriters()
      },
    }).catch((error: unknown) => {
      if (!outOfCredits.signal.aborted || !isAbort(error)) throw error
    })
  }

  /** While sources are read, which may take hours, rows go on to the next service. After that the monitor picks them. */
  async #pickLaterSteps(picked: AbortSignal): Promise<void> {
    if (this.#parts.length === 1) return
    const ended = AbortSignal.any([this.#stopping, picked])
    const signal = this.#stopping
    let unpaidAt = 0
    while (!ended.aborted) {
      const isUnpaidTried = performance.now() >= unpaidAt
      if (isUnpaidTried) unpaidAt = performance.now() + UNPAID_POLL_MS
      const options = { signal, isUnpaidTried, unstored: this.#dry, onFailure: this.#onPartFailure }
      if (await retryWhileUnavailable(() => pickRequeued(this.#run, options), { signal })) this.#wakeAll()
      else await sleep(LATER_STEPS_POLL_MS, undefined, { signal: ended }).catch(() => {})
    }
  }

  #wakeAll(): void {
    this.#wakeCalls()
    for (const { workers } of this.#parts) workers.wakeWriters()
  }

  /**
   * How full the sources are at the end. An interrupted run does not count, because its end must not wait, nor does one of a few rows:
   * counting reads the whole table.
   */
  async #countSources(): Promise<readonly SourceCount[]> {
    if (this.#dry || this.#interrupted.aborted || this.#options.limit !== null) return []
    const sources = this.#run.parts
      .flatMap((part) => part.sources.filter(({ mapping }) => mapping.step.isFirst))
      .map((source) => ({ ...source, outputs: source.allOutputs ?? source.outputs }))
    return countSources(this.#deps, sources)
  }

  /** Waits until the run is complete. */
  async #monitor(): Promise<void> {
    this.#run.observations.leftover = await monitorRun(
      this.#run,
      {
        unstored: this.#dry,
        limit: this.#options.limit,
        waitMs: this.#options.waitMs,
        isPicking: () => this.#isPicking,
        rateOf: this.#rateOf,
        endGathering: (parts) => this.#endGathering(parts),
        onFailure: this.#onPartFailure,
        wakeCalls: () => this.#wakeAll(),
        onProgress: this.#options.onProgress,
      },
      this.#stopping,
    )
  }

  async #finish(): Promise<RunReport> {
    // Side by side: the heartbeat has ended, and counting a large table may take longer than its lease lasts.
    const [ended, counted] = await Promise.allSettled([
      finishRun(
        { ...this.#run, preview: this.#dry?.report() ?? null },
        {
          signal: this.#options.signal,
          rateOf: this.#rateOf,
          areWorkersShared: this.#parts.some(({ areShared }) => areShared),
        },
      ),
      this.#countSources(),
    ])
    if (counted.status === 'fulfilled') await saveCounts(this.#deps, this.#run.id, counted.value)
    if (ended.status === 'rejected') throw ended.reason
    return ended.value
  }
}

/** How often rows that have gone on to the next service are looked for while sources are read, and those that the budget could not pay, in milliseconds. */
const LATER_STEPS_POLL_MS = 200
const UNPAID_POLL_MS = 2_000

/** Counting reads the whole table; longer than this is not worth it. */
const COUNT_TIMEOUT_MS = 30_000
/** If counting takes longer than this (milliseconds), at most 1/COST_FACTOR of the time is spent on it. */
const CHEAP_COUNT_MS = 100
const COST_FACTOR = 100

/** How full a source is. */
type SourceCount = Omit<store.SourceFillRate, 'at'>

/**
 * Counts how full a source is at the end of a run, unless counting costs too much. For display only: failures are logged at debug level.
 * @returns null: it was not counted
 */
async function countSource(
  { db, log, now }: Pick<Deps, 'db' | 'log' | 'now'>,
  source: Source,
): Promise<SourceCount | null> {
  try {
    const [last] = await store.listFillRates(db, [source.name])
    if (last !== undefined && last.took_ms > CHEAP_COUNT_MS) {
      const ageMs = now() - last.at.getTime()
      if (ageMs < COST_FACTOR * last.took_ms) return null
    }
    const startedAt = performance.now()
    const { eligible, columns } = await inTransaction(db, (tx) =>
      withTableTimeouts(tx, COUNT_TIMEOUT_MS, () => countFilled(tx, source)),
    )
    return {
      source: source.name,
      eligible,
      filled: Object.fromEntries(columns.map(({ column, filled }) => [column, filled])),
      took_ms: Math.round(performance.now() - startedAt),
    }
  } catch (error) {
    logNotCounted(log, error, source.name)
    return null
  }
}

const logNotCounted = (log: Deps['log'], error: unknown, source: string): void =>
  log.debug(
    { event: 'fill_rate_not_measured', source, reason: describeError(error) },
    'fill rates not counted',
  )

/** Counts sources one after the other. */
async function countSources(
  deps: Pick<Deps, 'db' | 'log' | 'now'>,
  sources: readonly Source[],
): Promise<SourceCount[]> {
  const counted: SourceCount[] = []
  for (const source of sources) {
    const count = await countSource(deps, source)
    if (count !== null) counted.push(count)
  }
  return counted
}

/** Keeps what was counted with its run, which is closed. */
async function saveCounts(
  { db, log }: Pick<Deps, 'db' | 'log'>,
  run: number,
  counted: readonly SourceCount[],
): Promise<void> {
  await store
    .saveFillRates(db, run, counted)
    .catch((error: unknown) => logNotCounted(log, error, counted.map(({ source }) => source).join(', ')))
}
