import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import type { RunReport } from '../runs/report.ts'
import { RunBudget } from '../pipeline/pick/budget.ts'
import type { LiveRunPick } from '../pipeline/pick/pick-changed.ts'
import { LEASE_MS } from '../pipeline/deps.ts'
import { finishRun, RunObservations } from '../runs/finish.ts'
import { heartbeat } from '../runs/run.ts'
import { RunCounters } from '../runs/counters.ts'
import type { Workers } from '../runs/workers.ts'
import type { Database } from '../store/open.ts'
import * as runs from '../store/runs.ts'

export interface LiveSyncRunOptions {
  readonly db: Database
  readonly log: Logger
  readonly owner: string
  readonly scope: () => string
  readonly service: number
  readonly works: Workers
  readonly sources: readonly string[]
  /** `sync` for what people change, `backfill` for what they import. */
  readonly trigger: 'follow' | 'backfill'
  /** Lookups in a day, over all following runs. Null: unlimited. */
  readonly budget: number | null
  /** Of the budget that it shares with the other runs of the day. Null: unlimited. */
  readonly budgetName: string | null
  /** Told of its report when it has ended, in whatever way. */
  readonly onEnded: (report: RunReport) => void
}

/** A run without changes for so long is closed; one with changes is after an hour, so that it can be undone by itself. */
export const IDLE_CLOSE_MS = 5 * 60_000
const MAX_AGE_MS = 60 * 60_000

/** A run that stays open as long as changes come: it picks rows by their keys, and its rows are done as in any run. */
export class LiveSyncRun implements LiveRunPick {
  readonly id: number
  readonly trigger: 'follow' | 'backfill'
  readonly budget: RunBudget
  readonly service: number
  readonly #options: LiveSyncRunOptions
  readonly #token: string
  readonly #counters = new RunCounters()
  readonly #observations = new RunObservations()
  readonly #startedAt = performance.now()
  readonly #ended = new AbortController()
  readonly #detach: () => void
  readonly #heartbeat: Promise<void>
  #lastPickAt = performance.now()

  static async open(options: LiveSyncRunOptions): Promise<LiveSyncRun> {
    const { db, log, owner, scope, service, trigger, sources } = options
    const token = randomUUID()
    const { budget, budgetName } = options
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
      scope: scope(),
      service,
      budgetName,
    })
    // It never knows whether more comes: what waits now goes now.
    await runs.markPicked(db, id, token)
    log.info({ run: id, trigger, sources, budget }, 'run started: it follows the database')
    return new LiveSyncRun(options, id, token)
  }

  private constructor(options: LiveSyncRunOptions, id: number, token: string) {
    this.#options = options
    this.id = id
    this.trigger = options.trigger
    this.service = options.service
    this.budget = new RunBudget(options.budget)
    this.#token = token
    this.#detach = options.works.attach({
      run: id,
      sources: options.sources,
      counters: this.#counters,
      // It waits until the service takes our calls again: a run that is closed is followed by one that waits as well.
      onStop: () => {},
      onFailure: (error) => this.#observations.failures.push(error),
    })
    this.#heartbeat = heartbeat(options, id, token, this.#ended.signal).catch((error: unknown) => {
      this.#observations.failures.push(error)
    })
  }

  get budgetName(): string | null {
    return this.#options.budgetName
  }

  /** Something ended it that it could not go on from. */
  get hasFailed(): boolean {
    return this.#observations.failures.length > 0
  }

  /** Nothing came for a while: it is closed, unless rows of it wait for another try. */
  get isIdle(): boolean {
    return performance.now() - this.#lastPickAt > IDLE_CLOSE_MS
  }

  /** It has been open for long enough. */
  get isExpired(): boolean {
    return performance.now() - this.#startedAt > MAX_AGE_MS
  }

  recordPicked(rows: number): void {
    if (rows === 0) return
    this.#counters.picked += rows
    this.#counters.touch()
    this.#lastPickAt = performance.now()
  }

  /** Closes it. What still waits of its rows is picked again by the next one. */
  async close(reason: 'done' | 'interrupted'): Promise<void> {
    this.#ended.abort()
    await this.#heartbeat
    this.#detach()
    const { db, log, works } = this.#options
    const stopped = new AbortController()
    if (reason === 'interrupted') stopped.abort()
    const [failure] = this.#observations.failures
    try {
      await finishRun(
        { db, log },
        {
          id: this.id,
          token: this.#token,
          budget: this.budget,
          tally: this.#counters,
          began: this.#startedAt,
          seen: this.#observations,
          rate: works.rate(),
        },
        { signal: stopped.signal, onEnded: this.#options.onEnded },
      )
    } catch (error) {
      // What ended it, stored as the run's reason already; anything else is the caller's.
      if (error !== failure) throw error
      log.error({ run: this.id, reason: (error as Error).message }, 'a run that follows the database failed')
    }
  }
}
