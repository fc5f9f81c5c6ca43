import { readDatabaseTime } from '../store/scheduled-runs.ts'
import type { RateStatus } from '../domain/rate-status.ts'
import { LEASE_MS, type CallDeps, type TableDeps } from '../pipeline/deps.ts'
import { recoverAbandoned } from '../pipeline/recover.ts'
import { settleReceived } from '../pipeline/settle.ts'
import type { ServiceError } from '../service/errors.ts'
import type { Source } from '../sources/source-model.ts'
import { requeueUnread } from '../store/deliveries.ts'
import { retryWhileUnavailable, TakeoverGrace } from '../store/transaction.ts'
import { WakeSignal } from '../util/wake-signal.ts'
import { runCallLoop } from './call-loop.ts'
import type { RunCounters } from './counters.ts'
import type { Elector, Leadership } from './leadership.ts'
import { loopTask, logWait, repeating, type WorkerTask } from './loop.ts'
import { SOURCE_CHECK_MS, SourceWatch } from './source-health.ts'
import { Writers } from './writers.ts'

/** What a run gives to its workers. */
interface RunHandle {
  readonly run: number
  readonly sources: readonly string[]
  readonly counters: RunCounters
  /** Whether more rows may come. Absent: as Postgres knows. */
  readonly isPicking?: () => boolean
  /** The service rejects the key or the client for good. */
  readonly onStop: (error: ServiceError) => void
  /** A step failed that the run cannot continue without. */
  readonly onFailure: (error: unknown) => void
}

/** What a process needs to call the service for its runs. */
export interface CallSetup extends Omit<CallDeps, 'limiter'> {
  readonly elector: Elector
  /** In the configuration; null or absent: it has one service. */
  readonly serviceName?: string | null
  /** The service rejects the key or the client for good; calls stop for a while. */
  readonly onUnauthorized: (error: ServiceError) => void
}

interface WorkersOptions {
  /** Sources to write back. */
  readonly sources: readonly Source[]
  /** A source that was broken fits again. */
  readonly onMended?: (() => void) | undefined
  /** Null: makes no calls. */
  readonly calls: CallSetup | null
  /** Stops all tasks after their current tick. */
  readonly signal: AbortSignal
  /** Notified when a delivery is stored. Without it they are polled for. */
  readonly deliveries?: WakeSignal
}

type WorkersDeps = Pick<
  CallDeps,
  'db' | 'sources' | 'brokenSources' | 'log' | 'now' | 'random' | 'policy' | 'adapter'
> &
  TableDeps

/**
 * The steps that a process does for all its runs together: look up, submit, settle, write back and recover, each in
 * its own loop. A single run has its own workers; the runs of a daemon share them.
 */
export class Workers {
  readonly #deps: WorkersDeps
  readonly #options: WorkersOptions
  readonly #runs = new Set<RunHandle>()
  readonly #lookUpSignal = new WakeSignal()
  readonly #syncSignal = new WakeSignal()
  readonly #submitSignal = new WakeSignal()
  readonly #settleSignal: WakeSignal
  readonly #writers: Writers
  readonly #grace: TakeoverGrace
  #leadership: Leadership | null = null
  #lastRate: RateStatus | null = null
  /** The status that another process reported as the leader. */
  #reportedRate: RateStatus | null = null

  constructor(deps: WorkersDeps, options: WorkersOptions) {
    this.#deps = deps
    this.#options = options
    this.#grace = new TakeoverGrace(deps.db, LEASE_MS)
    this.#settleSignal = options.deliveries ?? new WakeSignal()
    this.#writers = new Writers(deps, options, (act) => this.#forEachRun(act))
  }

  /**
   * Attaches a run: it receives counts and failures from now on.
   * @returns detaches it
   */
  attach(run: RunHandle): () => void {
    this.#runs.add(run)
    return () => this.#runs.delete(run)
  }

  readonly wakeCalls = (): void => {
    this.#syncSignal.notify()
    this.#lookUpSignal.notify()
    this.#submitSignal.notify()
  }

  /** There are answers to write. */
  readonly wakeWriters = (): void => this.#writers.onAnswers(0, 'sync')

  /** The rate status: of this process's leadership, or as the leader reported it. */
  rate(): RateStatus | null {
    return this.#leadership?.limiter.state() ?? this.#lastRate ?? this.#reportedRate
  }

  /** All loops, to be started and awaited independently: one that fails does not stop the others. */
  tasks(): WorkerTask[] {
    const { calls, signal, sources, onMended } = this.#options
    const deps = this.#deps
    const watch = new SourceWatch(deps, sources, onMended !== undefined)
    const common = { signal, log: deps.log }
    return [
      ...(calls === null ? [] : [{ name: 'call', source: null, start: () => this.#runCalls(calls) }]),
      loopTask({
        ...common,
        name: 'settle',
        wakeSignal: this.#settleSignal,
        paceMs: 250,
        fullTick: 20,
        tick: async () => {
          const result = await settleReceived(deps)
          if (result.answered > 0) this.#writers.onAnswers(result.answered, 'sync')
          if (result.deliveries > 0) this.#forEachRun((counters) => counters.touch())
          return result.deliveries
        },
      }),
      ...this.#writers.tasks(),
      loopTask(
        repeating({ ...common, name: 'sources' }, async () => {
          if (await watch.check()) {
            this.wakeWriters()
            onMended?.()
          }
          return SOURCE_CHECK_MS
        }),
      ),
      loopTask(
        repeating({ ...common, name: 'recover' }, async () => {
          await this.#recover()
          return LEASE_MS / 5
        }),
      ),
    ]
  }

  async #recover(): Promise<void> {
    // An answer of Postgres, by which an outage shows, whatever it says.
    await readDatabaseTime(this.#deps.db)
    if (this.#grace.isRunning()) return
    // Never declare our own runs dead, however long Postgres was unavailable.
    await recoverAbandoned(this.#deps, this.#runIds()).catch((error: unknown) => {
      this.#grace.noteFailure(error)
      throw error
    })
  }

  async #runCalls({ elector, onUnauthorized, ...deps }: CallSetup): Promise<void> {
    await this.#settleBacklog(deps.service)
    return runCallLoop({
      deps,
      elector,
      isCurrent: (listed) =>
        [...this.#runs].every(({ run, isPicking }) =>
          listed.some(({ id, picking }) => id === run && !(picking && isPicking?.() === false)),
        ),
      countFor: (run, act) => this.#forEachRun(act, run),
      lookUpSignal: this.#lookUpSignal,
      syncSignal: this.#syncSignal,
      submitSignal: this.#submitSignal,
      onAnswers: (answers, urgency) => this.#writers.onAnswers(answers, urgency),
      wakeSettling: () => this.#settleSignal.notify(),
      signal: this.#options.signal,
      onLeadership: (leadership) => {
        if (this.#leadership) this.#lastRate = this.#leadership.limiter.state()
        this.#leadership = leadership
      },
      onLeaderStatus: (status) => {
        this.#reportedRate = status
      },
      onStop: (error) => {
        onUnauthorized(error)
        for (const run of this.#runs) run.onStop(error)
      },
    })
  }

  /**
   * Settles deliveries that arrived meanwhile, and what the description did not fit before: they answer lookups that would otherwise be
   * requested and paid again.
   */
  async #settleBacklog(service: number): Promise<void> {
    const { signal } = this.#options
    const { log } = this.#deps
    await retryWhileUnavailable(
      async () => {
        await requeueUnread(this.#deps.db, service)
        while (!signal.aborted && (await settleReceived(this.#deps)).deliveries > 0) this.wakeWriters()
      },
      {
        signal,
        onWait: logWait(log, { step: 'settle' }),
      },
    ).catch((error: unknown) => {
      if (!signal.aborted) throw error
    })
  }

  /** Reports a failed task to the runs that depend on it. Null: all of them. */
  fail(error: unknown, source: string | null): void {
    for (const run of this.#runs) if (source === null || run.sources.includes(source)) run.onFailure(error)
  }

  #runIds(): number[] {
    return [...this.#runs].map((run) => run.run)
  }

  #forEachRun(act: (counters: RunCounters) => void, only: number | 'all' = 'all'): void {
    for (const { run, counters } of this.#runs) if (only === 'all' || run === only) act(counters)
  }
}
