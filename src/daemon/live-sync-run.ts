import * as runProgress from '../store/run-progress.ts'
import * as runs from '../store/runs.ts'
import { randomUUID } from 'node:crypto'
import { toRunBound } from '../pipeline/pick/budget.ts'
import { LEASE_MS, type Deps } from '../pipeline/deps.ts'
import { toRunService } from '../pipeline/pick/pass.ts'
import { finishRun } from '../runs/finish.ts'
import {
  heartbeat,
  createPart,
  RunObservations,
  firstOf,
  scopesOf,
  budgetOf,
  type RunDeps,
  type ServicePart,
} from '../runs/run-part.ts'
import { RunCounters } from '../runs/counters.ts'
import { findRequeued, repickAt } from '../runs/monitor.ts'
import type { Workers } from '../runs/workers.ts'
import type { Source } from '../sources/source-model.ts'
import { adoptLookups } from '../store/lookups.ts'
import { readOverruns } from '../store/spend.ts'

/** What live sync picks: single edits (`follow`), or imports (`backfill`). */
export type LiveSyncKind = 'follow' | 'backfill'

export const LIVE_SYNC_KINDS: readonly LiveSyncKind[] = ['follow', 'backfill']

/** What live sync needs of its process. */
export type LiveSyncDeps = Pick<RunDeps, keyof Deps | 'serviceName' | 'serviceBudget' | 'owner' | 'elector'>

/** A service, as live sync uses it. */
export interface LiveSyncService {
  readonly deps: LiveSyncDeps
  readonly workers: Workers
}

export interface LiveSyncRunOptions {
  readonly sources: readonly string[]
  /** `sync` for single edits, `backfill` for imports. */
  readonly trigger: LiveSyncKind
  /** Lookups per day, over all live sync runs. Null: unlimited. */
  readonly budget: number | null
  /** Names the budget shared by the runs of a day. Null: unlimited. */
  readonly budgetName: string | null
}

/**
 * A run closes after this long without changes, and after an hour even with changes, so that each can be
 * undone separately.
 */
const IDLE_CLOSE_MS = 5 * 60_000
const MAX_AGE_MS = 60 * 60_000

/** A service of an open run. */
export interface LivePart extends ServicePart<LiveSyncDeps> {
  readonly workers: Workers
}

/**
 * A run that stays open while changes arrive. It picks rows by key, each at the first service of its
 * source; they are processed as in any run.
 */
export class LiveSyncRun {
  readonly id: number
  readonly trigger: LiveSyncKind
  readonly budgetName: string | null
  readonly #parts: readonly LivePart[]
  readonly #db: LiveSyncDeps['db']
  readonly #token: string
  readonly #counters = new RunCounters()
  readonly #observations = new RunObservations()
  readonly #startedAt = performance.now()
  readonly #ended = new AbortController()
  readonly #detach: readonly (() => void)[]
  readonly #heartbeat: Promise<void>
  #lastPickAt = performance.now()

  /** @param services of the configuration, in their order; one at least */
  static async open(services: readonly LiveSyncService[], options: LiveSyncRunOptions): Promise<LiveSyncRun> {
    const { db, log, owner } = firstOf(services).deps
    const { trigger, sources, budgetName } = options
    const token = randomUUID()
    const { budget } = options
    const parts = services.map(({ deps, workers }) => {
      const own = sources.flatMap((name) => deps.sources.get(name) ?? [])
      const service = { deps, service: deps.service, name: deps.serviceName ?? '', workers }
      return { ...service, sources: own, budget: budgetOf(deps, options) }
    })
    const id = await runs.insertRun(db, {
      trigger,
      sources,
      options: {
        limit: null,
        budget,
        where: null,
        route: trigger === 'follow' ? 'sync' : 'auto',
        follow: true,
      },
      owner,
      token,
      leaseMs: LEASE_MS,
      scopes: scopesOf(services.map(({ deps }) => deps)),
      budgetName,
      bound: toRunBound(parts, await readOverruns(db)),
    })
    // More changes may always arrive, so process at once what is there.
    await runs.markPicked(db, id, token)
    log.info({ event: 'run_started', run: id, trigger, sources, budget }, 'run started')
    return new LiveSyncRun(parts, options, { id, token, db })
  }

  private constructor(
    parts: readonly Omit<Parameters<typeof createPart<LiveSyncDeps>>[0] & LiveSyncService, 'id'>[],
    options: LiveSyncRunOptions,
    { id, token, db }: { readonly id: number; readonly token: string; readonly db: LiveSyncDeps['db'] },
  ) {
    const { trigger, sources, budgetName } = options
    this.id = id
    this.trigger = trigger
    this.budgetName = budgetName
    this.#db = db
    this.#token = token
    this.#parts = parts.map(({ workers, ...part }) => ({
      ...createPart({ ...part, id }, this.#counters),
      workers,
    }))
    this.#detach = this.#parts.map(({ workers, counters }) =>
      workers.attach({
        run: id,
        sources,
        counters,
        // Keep the run open until the service accepts calls again: a new run would wait as well.
        onStop: () => {},
        onFailure: (error) => this.#observations.failures.push(error),
      }),
    )
    this.#heartbeat = heartbeat(firstOf(parts).deps, id, token, this.#ended.signal, (by) => {
      this.#observations.cancelledBy = by
    }).catch((error: unknown) => {
      this.#observations.failures.push(error)
    })
  }

  /** A failure ended it. */
  get hasFailed(): boolean {
    return this.#observations.failures.length > 0
  }

  /** It is cancelled, in this process or another one. */
  get isCancelled(): boolean {
    return this.#observations.cancelledBy !== null
  }

  /** No change for a while: close it, unless its rows wait for a retry. */
  get isIdle(): boolean {
    return performance.now() - this.#lastPickAt > IDLE_CLOSE_MS
  }

  /** It reached its maximum age. */
  get isExpired(): boolean {
    return performance.now() - this.#startedAt > MAX_AGE_MS
  }

  /** The service that the changes of a source are picked for. */
  firstOf({ name }: Source): LivePart | null {
    const isFirst = (source: Source): boolean => source.name === name && source.mapping.step.isFirst
    return this.#parts.find(({ sources }) => sources.some(isFirst)) ?? null
  }

  /** The day's budget is spent. */
  markReached(): void {
    for (const { budget } of this.#parts) budget.markReached()
  }

  recordPicked(rows: number): void {
    if (rows === 0) return
    this.#counters.picked += rows
    this.#counters.touch()
    this.#lastPickAt = performance.now()
  }

  hasWorkUnderWay(): Promise<boolean> {
    return runProgress.hasWorkUnderWay(this.#db, this.id)
  }

  async hasWaitingRows(): Promise<boolean> {
    return (await runProgress.findWaitingRows(this.#db, this.id, [])).hasWaiting
  }

  /** Picks its rows that wait to be picked again. @param isUnpaidTried also where the budget could not pay some of them before */
  async repick(signal: AbortSignal, { isUnpaidTried }: { readonly isUnpaidTried: boolean }): Promise<void> {
    const run = { id: this.id, parts: this.#parts, counters: this.#counters }
    const { requeuedAt } = await findRequeued(run, isUnpaidTried)
    if (requeuedAt.length === 0) return
    const options = { includeAbandoned: false, limit: null, signal }
    if (!(await repickAt(run, requeuedAt, options))) return
    this.#lastPickAt = performance.now()
    this.#counters.touch()
    for (const { workers } of this.#parts) {
      workers.wakeCalls()
      workers.wakeWriters()
    }
  }

  /** Takes over the lookups that dead runs have left. */
  async adoptLookups(): Promise<void> {
    const live = await runs.listHolding(this.#db)
    for (const part of this.#parts) {
      await adoptLookups(this.#db, toRunService(part), live)
      part.workers.wakeCalls()
    }
  }

  /** Closes the run. The next one picks its unfinished rows again. */
  async close(reason: 'done' | 'interrupted'): Promise<void> {
    this.#ended.abort()
    await this.#heartbeat
    for (const end of this.#detach) end()
    const stopped = new AbortController()
    if (reason === 'interrupted') stopped.abort()
    const [failure] = this.#observations.failures
    try {
      await finishRun(
        {
          id: this.id,
          token: this.#token,
          trigger: this.trigger,
          parts: this.#parts,
          startedAt: this.#startedAt,
          observations: this.#observations,
        },
        {
          signal: stopped.signal,
          rateOf: ({ service }) =>
            this.#parts.find((part) => part.service === service)?.workers.rate() ?? null,
          areWorkersShared: true,
        },
      )
    } catch (error) {
      // The failure is stored as the run's reason already; throw anything else.
      if (error !== failure) throw error
    }
  }
}
