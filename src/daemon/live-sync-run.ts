import { randomUUID } from 'node:crypto'
import { RunBudget } from '../pipeline/pick/budget.ts'
import type { LiveRunPick } from '../pipeline/pick/pick-changed.ts'
import { type Deps, LEASE_MS } from '../pipeline/deps.ts'
import { finishRun, RunObservations } from '../runs/finish.ts'
import { heartbeat } from '../runs/heartbeat.ts'
import { RunCounters } from '../runs/counters.ts'
import type { RunDeps } from '../runs/run.ts'
import type { Workers } from '../runs/workers.ts'
import * as runs from '../store/runs.ts'

/** What live sync picks: single edits (`follow`), or imports (`backfill`). */
export type LiveSyncKind = 'follow' | 'backfill'

export const LIVE_SYNC_KINDS: readonly LiveSyncKind[] = ['follow', 'backfill']

/** What live sync needs of its process. */
export type LiveSyncDeps = Pick<RunDeps, keyof Deps | 'owner' | 'elector' | 'recordRun'>

export interface LiveSyncRunOptions {
  readonly workers: Workers
  readonly sources: readonly string[]
  /** `sync` for single edits, `backfill` for imports. */
  readonly trigger: LiveSyncKind
  /** Lookups per day, over all live sync runs, and of them the most for a source. Null: unlimited. */
  readonly budget: { readonly limit: number | null; readonly sources: ReadonlyMap<string, number> }
  /** Names the budget shared by the runs of a day. Null: unlimited. */
  readonly budgetName: string | null
  /** With several services: the run of the first one, null for that one. Absent: there is one. */
  readonly group?: number | null
}

/**
 * A run closes after this long without changes, and after an hour even with changes, so that each can be undone
 * separately.
 */
const IDLE_CLOSE_MS = 5 * 60_000
const MAX_AGE_MS = 60 * 60_000

/** A run that stays open while changes arrive. It picks rows by key; they are processed as in any run. */
export class LiveSyncRun implements LiveRunPick {
  readonly id: number
  readonly trigger: LiveSyncKind
  readonly budget: RunBudget
  readonly service: number
  readonly #deps: LiveSyncDeps
  readonly #options: LiveSyncRunOptions
  readonly #token: string
  readonly #counters = new RunCounters()
  readonly #observations = new RunObservations()
  readonly #startedAt = performance.now()
  readonly #ended = new AbortController()
  readonly #detach: () => void
  readonly #heartbeat: Promise<void>
  #lastPickAt = performance.now()

  static async open(deps: LiveSyncDeps, options: LiveSyncRunOptions): Promise<LiveSyncRun> {
    const { db, log, owner, elector, service } = deps
    const { trigger, sources, budgetName } = options
    const token = randomUUID()
    const { limit: budget, sources: sourceBudgets } = options.budget
    const id = await runs.insertRun(db, {
      trigger,
      sources,
      options: {
        limit: null,
        budget,
        where: null,
        route: trigger === 'follow' ? 'sync' : 'auto',
        follow: true,
        ...(sourceBudgets.size > 0 && { source_budgets: Object.fromEntries(sourceBudgets) }),
      },
      owner,
      token,
      leaseMs: LEASE_MS,
      scope: elector.scope,
      service,
      budgetName,
      group: options.group ?? null,
    })
    if (options.group === null) await runs.beginGroup(db, id)
    // More changes may always arrive, so process at once what is there.
    await runs.markPicked(db, id, token)
    log.info({ event: 'run_started', run: id, trigger, sources, budget }, 'run started')
    return new LiveSyncRun(deps, options, id, token)
  }

  private constructor(deps: LiveSyncDeps, options: LiveSyncRunOptions, id: number, token: string) {
    this.#deps = deps
    this.#options = options
    this.id = id
    this.trigger = options.trigger
    this.service = deps.service
    this.budget = new RunBudget(options.budget.limit, options.budget.sources, deps.adapter.credits)
    this.#token = token
    this.#detach = options.workers.attach({
      run: id,
      sources: options.sources,
      counters: this.#counters,
      // Keep the run open until the service accepts calls again: a new run would wait as well.
      onStop: () => {},
      onFailure: (error) => this.#observations.failures.push(error),
    })
    this.#heartbeat = heartbeat(deps, id, token, this.#ended.signal, (by) => {
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

  recordPicked(rows: number): void {
    if (rows === 0) return
    this.#counters.picked += rows
    this.#counters.touch()
    this.#lastPickAt = performance.now()
  }

  /** Closes the run. The next one picks its unfinished rows again. */
  async close(reason: 'done' | 'interrupted'): Promise<void> {
    this.#ended.abort()
    await this.#heartbeat
    this.#detach()
    const { trigger, sources, workers } = this.#options
    const stopped = new AbortController()
    if (reason === 'interrupted') stopped.abort()
    const [failure] = this.#observations.failures
    try {
      await finishRun(
        this.#deps,
        {
          id: this.id,
          token: this.#token,
          trigger,
          named: sources,
          budget: this.budget,
          startedAt: this.#startedAt,
          observations: this.#observations,
          rate: workers.rate(),
        },
        { signal: stopped.signal, workers },
      )
    } catch (error) {
      // The failure is stored as the run's reason already; throw anything else.
      if (error !== failure) throw error
    }
  }
}
