import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import type { RunReport } from '../pipeline/run/report.ts'
import { Budget } from '../pipeline/pick/budget.ts'
import type { FollowingRun } from '../pipeline/pick/changed.ts'
import { LEASE_MS } from '../pipeline/deps.ts'
import { end, Seen } from '../pipeline/run/close.ts'
import { heartbeat } from '../pipeline/run/run.ts'
import { Tally } from '../pipeline/run/tally.ts'
import type { Works } from '../pipeline/run/works.ts'
import type { Database } from '../store/open.ts'
import * as runs from '../store/runs.ts'

export interface FollowingRunOptions {
  readonly db: Database
  readonly log: Logger
  readonly owner: string
  readonly scope: () => string
  readonly service: number
  readonly works: Works
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
export const IDLE_MS = 5 * 60_000
const LONGEST_MS = 60 * 60_000

/** A run that stays open as long as changes come: it picks rows by their keys, and its rows are done as in any run. */
export class OpenFollowingRun implements FollowingRun {
  readonly id: number
  readonly trigger: 'follow' | 'backfill'
  readonly budget: Budget
  readonly service: number
  readonly #options: FollowingRunOptions
  readonly #token: string
  readonly #tally = new Tally()
  readonly #seen = new Seen()
  readonly #began = performance.now()
  readonly #ended = new AbortController()
  readonly #leave: () => void
  readonly #beating: Promise<void>
  #pickedAt = performance.now()

  static async open(options: FollowingRunOptions): Promise<OpenFollowingRun> {
    const { db, log, owner, scope, service, trigger, sources } = options
    const token = randomUUID()
    const { budget, budgetName } = options
    const id = await runs.start(db, {
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
    await runs.donePicking(db, id, token)
    log.info({ run: id, trigger, sources, budget }, 'run started: it follows the database')
    return new OpenFollowingRun(options, id, token)
  }

  private constructor(options: FollowingRunOptions, id: number, token: string) {
    this.#options = options
    this.id = id
    this.trigger = options.trigger
    this.service = options.service
    this.budget = new Budget(options.budget)
    this.#token = token
    this.#leave = options.works.join({
      run: id,
      sources: options.sources,
      tally: this.#tally,
      // It waits until the service takes our calls again: a run that is closed is followed by one that waits as well.
      onStop: () => {},
      onFailure: (error) => this.#seen.failures.push(error),
    })
    this.#beating = heartbeat(options, id, token, this.#ended.signal).catch((error: unknown) => {
      this.#seen.failures.push(error)
    })
  }

  get budgetName(): string | null {
    return this.#options.budgetName
  }

  /** Something ended it that it could not go on from. */
  get isBroken(): boolean {
    return this.#seen.failures.length > 0
  }

  /** Nothing came for a while: it is closed, unless rows of it wait for another try. */
  get isIdle(): boolean {
    return performance.now() - this.#pickedAt > IDLE_MS
  }

  /** It has been open for long enough. */
  get isOver(): boolean {
    return performance.now() - this.#began > LONGEST_MS
  }

  picked(rows: number): void {
    if (rows === 0) return
    this.#tally.picked += rows
    this.#tally.moved()
    this.#pickedAt = performance.now()
  }

  /** Closes it. What still waits of its rows is picked again by the next one. */
  async close(reason: 'done' | 'interrupted'): Promise<void> {
    this.#ended.abort()
    await this.#beating
    this.#leave()
    const { db, log, works } = this.#options
    const stopped = new AbortController()
    if (reason === 'interrupted') stopped.abort()
    const [failure] = this.#seen.failures
    try {
      await end(
        { db, log },
        {
          id: this.id,
          token: this.#token,
          budget: this.budget,
          tally: this.#tally,
          began: this.#began,
          seen: this.#seen,
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
