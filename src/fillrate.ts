import type { Logger } from 'pino'
import { z } from 'zod'
import type { RowHistory } from './domain/report/explain.ts'
import type { Plan } from './domain/report/plan.ts'
import type { RunReport } from './domain/report/run.ts'
import type { UndoReport, UndoOptions } from './actions/undo/undo.ts'
import type { PassRequest } from './actions/validate-request.ts'
import type { App, RunRequest } from './app.ts'
import type { Config } from './config/config.ts'
import type { AnyConfigInput } from './config/define.ts'
import { readEnvironment, requireDatabaseUrl, type Environment } from './config/environment.ts'
import { loadConfig, loadNamedServices, parseConfig } from './config/load.ts'
import { lookupBudgetForm } from './config/config-schema.ts'
import {
  booleanFlag,
  countFromZero,
  integerBetween,
  objectOf,
  oneOfStrings,
  requiredString,
} from './config/primitives.ts'
import { ConfigProblems, toProblems } from './config/problems.ts'
import { ROUTES } from './domain/route.ts'

/**
 * How to open Fillrate.
 * @example
 * const options: FillrateOptions = { config: './fillrate.config.ts', env: process.env, migrate: true }
 */
export interface FillrateOptions {
  /** A configuration, or the path of a configuration file. */
  readonly config: AnyConfigInput | string
  /** Settings and secrets under the names of the environment variables: `process.env`, or an object of your own. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** Creates or upgrades the schema `fillrate` first. Default: false; an older schema is then an error. */
  readonly migrate?: boolean
  /** A pino logger. Default: no log. */
  readonly log?: Logger
}

/**
 * Which rows a plan or a run is about; `sources` are names or patterns such as `acme_*`. Defaults: all sources, all rows, the configuration's budget, route `auto`.
 * @example
 * const options: PassOptions = { sources: ['contacts'], limit: 1_000, where: "t.country = 'NO'" }
 */
export type PassOptions = Partial<PassRequest>

/**
 * Options of a run. `waitMs` is how long to wait for deliveries when nothing else is left to do, 30 minutes by default;
 * `dryRun` requests lookups but writes nothing, and reports `sample` rows.
 * @example
 * const options: RunOptions = { budget: 500, dryRun: { sample: 10 }, onProgress: ({ picked }) => console.log(picked) }
 */
export type RunOptions = Partial<Omit<RunRequest, 'trigger'>>

/**
 * Options of the daemon.
 * @example
 * const stop = new AbortController()
 * process.once('SIGTERM', () => stop.abort())
 * const options: StartOptions = { signal: stop.signal }
 */
export interface StartOptions {
  /** Stops the daemon: no new work, calls in flight finish, the state is saved. */
  readonly signal: AbortSignal
  /** Called with the receiver's URL; null: another Fillrate process on this machine has the port. */
  readonly onListening?: (url: string | null) => void
}

/** Fillrate in your own program. Everything but `start` shares one pool of connections until it is closed. */
export interface Fillrate {
  /**
   * What a run would request and cost. Writes nothing and calls nothing.
   * @example
   * const { cost } = await fillrate.plan({ sources: ['contacts'] })
   * console.log(`${cost.lookups} lookups`)
   */
  plan(options?: PassOptions): Promise<Plan>
  /**
   * One pass over the sources. Resolves with its report, also when the budget or the signal ended it.
   * @throws ConfigProblems for an unknown source, an invalid condition, or without a budget
   * @example
   * const report = await fillrate.run({ budget: 1_000, signal: AbortSignal.timeout(3_600_000) })
   * console.log(report.status, report.rows.enriched)
   */
  run(options?: RunOptions): Promise<RunReport>
  /**
   * The daemon, on its own connections: schedule, live sync, receiver and dashboard. Resolves when the signal has ended
   * it.
   * @example
   * await fillrate.start({ signal: stop.signal, onListening: (url) => console.log(url) })
   */
  start(options: StartOptions): Promise<void>
  /**
   * The history of one row: inputs, lookup, calls, job, delivery, record, changes, and the next step.
   * @example
   * const history = await fillrate.explain('contacts', '42')
   */
  explain(source: string, key: string): Promise<RowHistory>
  /**
   * Reverts the writes of a run, except cells that have changed since.
   * @example
   * const preview = await fillrate.undo(7, { dryRun: true })
   */
  undo(run: number, options?: Partial<Pick<UndoOptions, 'dryRun' | 'signal'>>): Promise<UndoReport>
  /**
   * Ends what is under way as its signal would, so that answers which are paid for are stored, and closes the connections; also
   * `await using fillrate = await createFillrate(…)`.
   */
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

const DEFAULT_WAIT_MS = 30 * 60_000

const given = z.unknown().optional()
const signal = z.instanceof(AbortSignal, { error: 'an AbortSignal' })
const callback = z.custom((value) => typeof value === 'function', { error: 'a function' }).optional()
const WORDS = "a list of names of sources, or of patterns such as 'acme_*'"

const PASS = {
  sources: z.array(z.string({ error: WORDS }), { error: WORDS }).optional(),
  limit: integerBetween(1, Number.MAX_SAFE_INTEGER).nullish(),
  budget: lookupBudgetForm.optional(),
  where: requiredString(`an SQL condition, such as "t.country = 'NO'"`).nullish(),
  route: oneOfStrings(ROUTES).optional(),
  signal: signal.optional(),
}

/** What each function takes: a program in JavaScript has no compiler that refuses a misspelt name, or NaN as a budget. */
const OPTIONS = {
  createFillrate: objectOf({ config: given, env: given, log: given, migrate: booleanFlag.optional() }),
  plan: objectOf(PASS),
  run: objectOf({
    ...PASS,
    waitMs: countFromZero('a whole number of milliseconds').optional(),
    dryRun: objectOf({ sample: countFromZero('how many rows it shows') }, '{ sample: 20 }').nullish(),
    onProgress: callback,
    onStarted: callback,
  }),
}

/** @throws ConfigProblems that name each wrong option of a function */
function checkOptions(of: keyof typeof OPTIONS, options: unknown): void {
  const parsed = OPTIONS[of].safeParse(options, { jitless: true })
  if (!parsed.success)
    throw new ConfigProblems(`the options of ${of}`, toProblems(parsed.error.issues, options))
}

/**
 * Opens Fillrate for a program with its own scheduler, and checks the configuration against the database.
 * @throws ConfigProblems, SourceProblems, SchemaMissingError, or Postgres's error if it cannot be reached
 * @example
 * import { createFillrate } from 'fillrate'
 *
 * await using fillrate = await createFillrate({ config: './fillrate.config.ts', env: process.env })
 * const report = await fillrate.run({ sources: ['contacts'], budget: 1_000 })
 */
export async function createFillrate(options: FillrateOptions): Promise<Fillrate> {
  checkOptions('createFillrate', options)
  // Imported on demand: configurations import this package too, and do not need a database driver.
  const [{ openApp }, { pino }] = await Promise.all([import('./app.ts'), import('pino')])
  const { config: input } = options
  const config =
    typeof input === 'string'
      ? await loadConfig({ cwd: '.', path: input })
      : parseConfig(input, null, await loadNamedServices(input, '.'))
  const environment = readEnvironment({ ...options.env })
  const log = options.log ?? pino({ level: 'silent' })
  if (options.migrate === true && environment.databaseUrl !== null)
    await migrateDatabase(environment.databaseUrl, log)
  return toFillrate(await openApp({ config, environment, log }), (start) =>
    startDaemon({ ...start, config, environment, log }),
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
      onBlocked: (blockers) =>
        log.warn({ event: 'migration_waiting', blockers }, 'a migration is waiting for a lock; retrying'),
    })
  } finally {
    await db.destroy()
  }
}

async function startDaemon(
  options: StartOptions & {
    readonly config: Config
    readonly environment: Environment
    readonly log: Logger
  },
): Promise<void> {
  const [{ openApp }, { runDaemon }] = await Promise.all([import('./app.ts'), import('./daemon/daemon.ts')])
  const { environment, log, config, signal, onListening = () => {} } = options
  await runDaemon({
    environment: { ...environment, databaseUrl: requireDatabaseUrl(environment) },
    log,
    signal,
    config,
    open: (state) => openApp({ config, environment, log, state }),
    onListening,
    onReady: () => {},
  })
}

function toFillrate(app: App, start: Fillrate['start']): Fillrate {
  const closing = new AbortController()
  const underWay = new Set<Promise<unknown>>()
  const work = async <Result>(
    given: AbortSignal | undefined,
    act: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> => {
    if (closing.signal.aborted) throw new Error('Fillrate is closed. Open it again with `createFillrate`.')
    const promise = act(given ? AbortSignal.any([given, closing.signal]) : closing.signal)
    underWay.add(promise)
    try {
      return await promise
    } finally {
      underWay.delete(promise)
    }
  }
  const close = async (): Promise<void> => {
    closing.abort()
    await Promise.allSettled(underWay)
    await app.close()
  }
  const toPass = <Options extends PassOptions>(options: Options, signal: AbortSignal) => ({
    ...options,
    sources: app.expandSourceNames(options.sources ?? []),
    limit: options.limit ?? null,
    where: options.where ?? null,
    route: options.route ?? ('auto' as const),
    signal,
  })
  return {
    plan: async (options = {}) => {
      checkOptions('plan', options)
      return work(options.signal, (signal) => app.plan(toPass(options, signal)))
    },
    run: async (options = {}) => {
      checkOptions('run', options)
      return work(options.signal, async (signal) => {
        const request = {
          ...toPass<RunOptions>(options, signal),
          waitMs: options.waitMs ?? DEFAULT_WAIT_MS,
        }
        const { sources, limit, budget, where, route } = request
        const { auditAction, createLocalActor, toAuditOutcome } = await import('./actions/audit.ts')
        return auditAction(
          app.db,
          {
            actor: createLocalActor('library'),
            action: 'run',
            parameters: { sources, limit, budget, where, route, dry_run: options.dryRun != null },
          },
          () => app.run(request),
          ({ status, reason, run }) => ({ outcome: toAuditOutcome(status), detail: reason, run }),
        )
      })
    },
    start,
    explain: (source, key) => work(undefined, () => app.explain(source, key)),
    undo: (run, { dryRun = false, signal: given } = {}) =>
      work(given, async (signal) => {
        if (dryRun) return app.undo({ run, dryRun, signal })
        const { auditAction, createLocalActor, toAuditOutcome } = await import('./actions/audit.ts')
        return auditAction(
          app.db,
          { actor: createLocalActor('library'), action: 'undo', parameters: { of_run: run } },
          () => app.undo({ run, dryRun, signal }),
          (done) => ({ outcome: toAuditOutcome(done.status), detail: null, run: done.run }),
        )
      }),
    close,
    [Symbol.asyncDispose]: close,
  }
}
