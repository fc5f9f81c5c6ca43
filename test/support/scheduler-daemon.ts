import type { Logger } from 'pino'
import type { ScheduleEntry } from '../../src/config/config.ts'
import { type ScheduledRunOptions, Scheduler } from '../../src/daemon/scheduler.ts'
import { type Database, openDatabase } from '../../src/store/open.ts'
import type { TestDatabase } from './database.ts'

/** Longer than a test: a shorter lease could expire on a busy machine. Tests expire the leases of dead daemons. */
const LEASE_MS = 600_000

interface BegunRun {
  readonly by: string
  readonly entry: ScheduleEntry
  readonly options: ScheduledRunOptions
  end(status?: 'completed' | 'interrupted'): void
}

/** The scheduler of a daemon on its own connection, with the clock of a test. */
export class SchedulerDaemon {
  readonly begun: BegunRun[] = []
  readonly schedule: Scheduler
  readonly name: string
  readonly #database: TestDatabase
  readonly #db: Database

  /** @param url where this daemon finds the database, if not where the test does */
  constructor(options: {
    readonly name: string
    readonly entries: readonly ScheduleEntry[]
    readonly database: TestDatabase
    readonly log: Logger
    readonly clock: () => number
    readonly url?: string
    readonly onBegun?: (run: BegunRun) => void
  }) {
    const { name, entries, database, log, clock, url = database.url, onBegun } = options
    this.name = name
    this.#database = database
    this.#db = openDatabase({ url, max: 2 })
    const run = (entry: ScheduleEntry, of: ScheduledRunOptions) =>
      new Promise<{ status: 'completed' | 'interrupted'; reason: null }>((resolve) => {
        const end = (status: 'completed' | 'interrupted' = 'completed'): void =>
          resolve({ status, reason: null })
        of.signal.addEventListener('abort', () => end('interrupted'))
        const begun = { by: name, entry, options: of, end }
        this.begun.push(begun)
        onBegun?.(begun)
      })
    this.schedule = new Scheduler(
      { db: this.#db, log, owner: name, clock: async () => clock(), leaseMs: LEASE_MS, run },
      entries,
    )
  }

  async stop(): Promise<void> {
    await this.schedule.stop()
    await this.#db.destroy()
  }

  /** Waits until finished runs are recorded. */
  async idle(): Promise<void> {
    for (;;) {
      const { rowCount } = await this.#database.pool.query(
        `select from fillrate.scheduled_runs where owner = $1 and state = 'running'`,
        [this.name],
      )
      if (rowCount === 0) return
    }
  }

  /** Dies: its connection is cut, and its leases expire. */
  async kill(): Promise<void> {
    await this.#db.destroy()
    await this.#database.pool.query(
      `update fillrate.scheduled_runs set leased_until = now() - interval '1 s' where owner = $1 and state = 'running'`,
      [this.name],
    )
  }
}
