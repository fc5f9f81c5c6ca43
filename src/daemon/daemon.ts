import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Log } from '../util/log.ts'
import type { Actions } from '../actions/actions.ts'
import type { SourceMapping } from '../domain/mapping.ts'
import type { Config } from '../config/config.ts'
import type { Environment } from '../config/environment.ts'
import { ConfigProblems, type Problem } from '../config/problems.ts'
import { WakeSignal } from '../util/wake-signal.ts'
import { isConflict, isTransient, retryWhileUnavailable } from '../store/transaction.ts'
import { SchemaMissingError } from '../store/schema-errors.ts'
import { openDatabase, type Database } from '../store/open.ts'
import { runWithReload, toOneLine, type Instance } from './reload.ts'
import { listDueTimes } from '../config/cron.ts'
import { ProcessState, startConditionWatch } from './condition-watch.ts'
import { supervise, type ServiceOptions } from './service.ts'
import type { Notifier } from './notifier.ts'
import { openReceiver, type Receiver } from '../http/receiver.ts'
import type { MaintenanceDeps, SourceDeps } from '../runs/maintenance.ts'
import { Workers } from '../runs/workers.ts'

/** Fillrate opened with one configuration. */
type DaemonApp = Actions & {
  readonly notifier: Notifier
  /** The daemon with this configuration, behind a receiver that is already open. */
  start(options: ServiceOptions & { readonly receiver: Pick<Receiver, 'publicUrl'> }): Promise<void>
}

interface DaemonOptions {
  readonly environment: Environment & { readonly databaseUrl: string }
  readonly log: Log
  readonly signal: AbortSignal
  readonly onReload: (listener: () => void) => void
  /** @throws ConfigProblems */
  readonly readConfig: () => Promise<Config>
  /** Checks a configuration against the database and opens it. It adds to `own` what it learns to be wrong. */
  readonly open: (
    config: Config,
    own: ProcessState,
    isRequired: (mapping: SourceMapping) => boolean,
  ) => Promise<DaemonApp>
  readonly onListening: (listens: string | null) => void
  /** Called when a configuration takes effect. */
  readonly onConfig: (config: Config) => void
}

/**
 * `fillrate start`: the receiver, open from the start, and one instance per configuration. Waits until Postgres and
 * the schema are available; `/readyz` reports the reason.
 */
export async function runDaemon(options: DaemonOptions): Promise<void> {
  const { environment, log } = options
  const own = new ProcessState()
  const db = openDatabase({
    url: environment.databaseUrl,
    max: 4,
    name: 'fillrate receiver',
    ...own.watchConnections(log),
  })
  try {
    await new Daemon(options, own, db).run()
  } finally {
    await db.destroy()
  }
}

/** What outlives every reload: the receiver, the watch of conditions, and which configuration is in force. */
class Daemon {
  readonly #options: DaemonOptions
  readonly #own: ProcessState
  readonly #db: Database
  readonly #deliveries = new WakeSignal()
  /** The configuration in force; null before the first. */
  #app: DaemonApp | null = null
  /** Null until a configuration is read: how deliveries are signed is not known before. */
  #config: Config | null = null
  /** The next configuration is the current one: only what was broken has changed. */
  #isReopening = false

  constructor(options: DaemonOptions, own: ProcessState, db: Database) {
    this.#options = options
    this.#own = own
    this.#db = db
  }

  async run(): Promise<void> {
    const { log, signal, onListening, onReload } = this.#options
    // First: a process that cannot listen ends, and has neither watched nor recorded anything.
    let receiver = await this.#openReceiver()
    onListening(receiver.url)
    // Open from the start, as the receiver is, and through every reload.
    const watch = startConditionWatch({
      db: this.#db,
      log,
      own: this.#own,
      schedules: this.#schedules,
      notifier: () => this.#app?.notifier ?? null,
    })
    const ended = new AbortController()
    const until = AbortSignal.any([signal, ended.signal])
    // The process that has the port may be the one that this process replaces.
    const taking = takeOverPort(
      receiver,
      () => this.#openReceiver(),
      log,
      until,
      (taken) => {
        receiver = taken
        onListening(taken.url)
      },
    )
    let reload = (): void => {}
    const reopen = (): void => {
      this.#isReopening = true
      reload()
    }
    try {
      await runWithReload({
        open: () => this.#openGeneration(() => receiver, reopen),
        signal,
        onReload: (listener) => {
          reload = listener
          onReload(() => {
            this.#isReopening = false
            listener()
          })
        },
        own: this.#own,
        log,
        waitFor: (error) =>
          error instanceof SchemaMissingError
            ? 'the schema'
            : isTransient(error) || isConflict(error)
              ? 'Postgres'
              : null,
      })
    } finally {
      ended.abort()
      await taking
      await receiver.close()
      await watch.stop()
    }
  }

  async #openGeneration(receiver: () => Receiver, onMended: () => void): Promise<Instance> {
    const { readConfig, open, environment, onConfig } = this.#options
    const before = this.#app?.config ?? null
    const config = this.#isReopening && before !== null ? before : await readConfig()
    this.#config ??= config
    requireBudgets(config)
    requireNotifyUrls(config, environment)
    // What is new must be right; of what was active already, the database is to blame.
    const isNew = (mapping: SourceMapping): boolean =>
      before !== null && !isDeepStrictEqual(before.sources[mapping.name], mapping)
    const app = await open(config, this.#own, isNew)
    this.#isReopening = false
    return {
      run: (signal) => {
        this.#app = app
        this.#config = config
        onConfig(config)
        return app.start({ signal, receiver: receiver(), deliveries: this.#deliveries, onMended })
      },
      close: () => app.close(),
    }
  }

  #openReceiver(): Promise<Receiver> {
    const { environment, log } = this.#options
    return openReceiver({
      db: this.#db,
      environment,
      log,
      config: () => this.#config,
      deliveries: this.#deliveries,
      dashboard: {
        observer: () => ({ outage: this.#own.findOutage(), schedules: this.#schedules() }),
        app: () => this.#app,
        metrics: this.#own.metrics,
      },
    })
  }

  readonly #schedules = (): ReadonlyMap<string, number | null> | null =>
    this.#app && listDueTimes(this.#app.config.schedule, Date.now())
}

const PORT_POLL_MS = 2_000

async function takeOverPort(
  first: Receiver,
  open: () => Promise<Receiver>,
  log: Log,
  signal: AbortSignal,
  onTaken: (receiver: Receiver) => void,
): Promise<void> {
  if (first.url !== null) return
  let logged = ''
  const onRefused = (error: unknown): null => {
    const reason = toOneLine(error)
    if (reason !== logged)
      log.error({ event: 'task_failed', task: 'receiver', reason }, 'cannot listen; trying again')
    logged = reason
    return null
  }
  while (!signal.aborted) {
    await sleep(PORT_POLL_MS, undefined, { signal }).catch(() => {})
    if (signal.aborted) return
    const receiver = await open().catch(onRefused)
    if (receiver === null || receiver.url === null) continue
    onTaken(receiver)
    return
  }
}

/** Requires an address for each notification target: a missing one would be noticed too late. */
function requireNotifyUrls(config: Config, environment: Environment): void {
  if (environment.notifyUrl !== null) return
  const problems: Problem[] = config.notify.flatMap(({ url }, n) =>
    url === null
      ? [
          {
            place: `notify[${n}].url`,
            found: 'none, and FILLRATE_NOTIFY_URL is not set',
            expected: 'the URL to notify',
            todo: 'set FILLRATE_NOTIFY_URL in the environment, or `url` here',
          },
        ]
      : [],
  )
  if (problems.length > 0) throw new ConfigProblems(config.path ?? 'the configuration', problems)
}

/** Requires a budget for live sync, which starts by itself. */
function requireBudgets(config: Config): void {
  if (config.liveSync.budget !== null) return
  const problems: Problem[] = Object.values(config.sources)
    .filter(({ follow }) => follow)
    .map(({ name }) => ({
      place: `sources.${name}.follow`,
      found: 'no budget',
      expected: 'a maximum number of lookups a day',
      todo: "set `budget` in the configuration: a number of lookups, or 'unlimited', or `liveSync: { budget }`",
    }))
  if (problems.length > 0) throw new ConfigProblems(config.path ?? 'the configuration', problems)
}

export interface ServeReceiverOptions {
  readonly signal: AbortSignal
  /** Those of the configuration, each with its sources as they are open now. */
  readonly services: () => Promise<readonly MaintenanceDeps[]>
  readonly receiver: (deliveries: WakeSignal) => Promise<Receiver>
  readonly onListening?: (listens: string | null) => void
  /** Opens the sources again, after a broken one was mended. */
  readonly reopen: () => Promise<void>
}

/**
 * Keeps the receiver open until aborted, and settles and writes back deliveries: a nightly `fillrate run --wait 0`
 * need not wait for them.
 */
export async function serveReceiver(deps: SourceDeps, options: ServeReceiverOptions): Promise<void> {
  const deliveries = new WakeSignal()
  const receiver = await options.receiver(deliveries)
  options.onListening?.(receiver.url)
  const { signal } = options
  // No run waits for what this process does.
  const runs = { fail: () => {} }
  const whenAvailable = <Result>(act: () => Promise<Result>): Promise<Result> =>
    retryWhileUnavailable(act, { giveUp: () => signal.aborted })
  const work = async (): Promise<void> => {
    while (!signal.aborted) {
      const mended = new AbortController()
      const until = AbortSignal.any([signal, mended.signal])
      const services = await whenAvailable(options.services)
      const workers = services.map(
        (service) =>
          new Workers(service, {
            sources: [...service.sources.values()],
            calls: null,
            signal: until,
            deliveries,
            onMended: () => mended.abort(),
          }),
      )
      const tasks = workers.flatMap((one) => one.tasks())
      await Promise.all(tasks.map((task) => supervise(deps, runs, task, until)))
      await whenAvailable(options.reopen)
    }
  }
  try {
    await work()
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    await receiver.close()
  }
}
