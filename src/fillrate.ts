import type { Logger } from 'pino'
import type { App } from './app.ts'
import type { ConfigInput } from './config/define.ts'
import type { LookupBudget, Config } from './config/config.ts'
import { readEnvironment, type Environment } from './config/environment.ts'
import { loadConfig } from './config/load.ts'
import { parseConfig } from './config/parse.ts'
import type { RouteOption } from './domain/route.ts'
import type { RowHistory } from './actions/explain/row-history.ts'
import type { Plan } from './actions/plan/plan.ts'
import type { RunProgress } from './runs/counters.ts'
import type { RunReport } from './runs/report.ts'
import type { UndoReport } from './actions/undo/report.ts'

export interface FillrateOptions {
  /** A configuration, or the path of a file that holds one. */
  readonly config: ConfigInput | string
  /** Addresses and secrets, under the names that the program reads them by: `process.env`, or an object of one's own. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** Creates or upgrades the schema `fillrate` first. Default: false, and an older schema is an error. */
  readonly migrate?: boolean
  /** Default: none. */
  readonly log?: Logger
}

export interface PassOptions {
  /** Names of sources. Default: all. */
  readonly sources?: readonly string[]
  /** Rows of each source at the most. Default: all. */
  readonly limit?: number
  /** Lookups that may be asked. Default: the configuration's. */
  readonly budget?: LookupBudget
  /** An SQL condition; the table is `t`. */
  readonly where?: string
  /** Default: `auto`. */
  readonly route?: RouteOption
  /** Stops taking work; what is under way is finished and the state is saved. */
  readonly signal?: AbortSignal
}

export interface RunOptions extends PassOptions {
  /** How long to wait for deliveries when nothing else is left to do, in milliseconds. Default: 30 minutes. */
  readonly waitMs?: number
  /** Asks and stores the answers, and writes nothing: the report shows so many of the rows. */
  readonly dryRun?: { readonly sample: number }
  readonly onProgress?: (progress: RunProgress) => void
}

export interface StartOptions {
  /** Stops taking work, lets what is under way finish, and ends it. */
  readonly signal: AbortSignal
  /** Given what reads the configuration again, to be called on SIGHUP for instance. Default: it is read once. */
  readonly onReload?: (reload: () => void) => void
  /** Told where it listens; null: another Fillrate process on this machine has the port. */
  readonly onListening?: (url: string | null) => void
}

/** Fillrate in a program of one's own. Everything works on one pool of connections, until it is closed. */
export interface Fillrate {
  /** What a run would ask and cost. Writes nothing and calls nothing. `sample`: rows to show, out of stored records. */
  plan(options?: PassOptions & { readonly sample?: number }): Promise<Plan>
  /** One pass. Resolves with what it did, also when its budget or its signal ended it. */
  run(options?: RunOptions): Promise<RunReport>
  /**
   * The daemon, on connections of its own: the schedule, sync, the receiver and the dashboard. Resolves when its signal
   * has ended it. A configuration that came from a file is read again where `onReload` is told to.
   */
  start(options: StartOptions): Promise<void>
  /** One row's story. */
  explain(source: string, key: string): Promise<RowHistory>
  /** Takes back a run's writes. */
  undo(
    run: number,
    options?: { readonly dryRun?: boolean; readonly signal?: AbortSignal },
  ): Promise<UndoReport>
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

const DEFAULT_WAIT_MS = 30 * 60_000

/**
 * Opens Fillrate for a program that has a scheduler of its own, and holds the configuration against the database.
 * @throws ConfigProblems, SourceProblems, SchemaMissing, or what Postgres says when it can't be reached
 */
export async function createFillrate(options: FillrateOptions): Promise<Fillrate> {
  // Not before it is wanted: a configuration imports this package too, and has no use for a database driver.
  const [{ openApp }, { pino }] = await Promise.all([import('./app.ts'), import('pino')])
  const { config: given } = options
  const readConfig = async (): Promise<Config> =>
    typeof given === 'string' ? loadConfig({ cwd: '.', path: given }) : parseConfig(given, null)
  const config = await readConfig()
  const environment = readEnvironment({ ...options.env })
  const log = options.log ?? pino({ level: 'silent' })
  if (options.migrate === true && environment.databaseUrl !== null)
    await migrateDatabase(environment.databaseUrl, log)
  return toFillrate(await openApp({ config, environment, log }), (start) =>
    startDaemon({ ...start, readConfig, environment, log }),
  )
}

async function migrateDatabase(url: string, log: Logger): Promise<void> {
  const [{ migrate }, { openDatabase }] = await Promise.all([
    import('./store/migrate.ts'),
    import('./store/open.ts'),
  ])
  const db = openDatabase({ url, max: 1 })
  try {
    await migrate(db, {
      onBlocked: (blockers) => log.warn({ blockers }, 'a migration waits for a lock, and is tried again'),
    })
  } finally {
    await db.destroy()
  }
}

async function startDaemon(
  options: StartOptions & {
    readonly readConfig: () => Promise<Config>
    readonly environment: Environment
    readonly log: Logger
  },
): Promise<void> {
  const [{ openApp, SchemaMissingError }, { runDaemon }] = await Promise.all([
    import('./app.ts'),
    import('./daemon/daemon.ts'),
  ])
  const { environment, log, signal, readConfig } = options
  await runDaemon({
    // An app was opened with it.
    environment: { ...environment, databaseUrl: environment.databaseUrl ?? '' },
    log,
    signal,
    readConfig,
    onReload: options.onReload ?? (() => {}),
    open: (config) => openApp({ config, environment, log }),
    isSchemaMissing: (error) => error instanceof SchemaMissingError,
    onListening: options.onListening ?? (() => {}),
    onConfig: () => {},
  })
}

function toFillrate(app: App, start: Fillrate['start']): Fillrate {
  const pass = (options: PassOptions) => ({
    sources: options.sources ?? [],
    limit: options.limit ?? null,
    budget: options.budget,
    where: options.where ?? null,
    route: options.route ?? ('auto' as const),
    signal: options.signal ?? new AbortController().signal,
  })
  return {
    plan: (options = {}) => app.plan({ ...pass(options), sample: options.sample ?? null }),
    run: (options = {}) =>
      app.run({
        ...pass(options),
        waitMs: options.waitMs ?? DEFAULT_WAIT_MS,
        dryRun: options.dryRun ?? null,
        ...(options.onProgress && { onProgress: options.onProgress }),
      }),
    start,
    explain: (source, key) => app.explain(source, key),
    undo: (run, options = {}) =>
      app.undo({
        run,
        dryRun: options.dryRun ?? false,
        signal: options.signal ?? new AbortController().signal,
      }),
    close: () => app.close(),
    [Symbol.asyncDispose]: () => app.close(),
  }
}
