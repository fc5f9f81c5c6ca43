import type { RunReport } from './domain/report/run.ts'
import { Actions, type OpenedConfig, type OpenService } from './actions/actions.ts'
import { requireBudget, type PassRequest } from './actions/validate-request.ts'
import { listDueTimes } from './config/cron.ts'
import { mixedBudgetOf } from './config/config.ts'
import { requireDatabaseUrl } from './config/environment.ts'
import { Notifier } from './daemon/notifier.ts'
import { ProcessState, startConditionWatch } from './daemon/condition-watch.ts'
import { settleDeliveries, runConfig, type WorkOptions } from './daemon/daemon.ts'
import { asReviewed } from './domain/mapping.ts'
import { openReceiver, type Receiver, type ReceiverOptions } from './http/receiver.ts'
import { SOURCE_TIMEOUT_MS } from './pipeline/deps.ts'
import { startProcessReports } from './runs/process-reports.ts'
import { executeRun, type ExecuteRunOptions } from './runs/run.ts'
import type { RunDeps } from './runs/run-part.ts'
import { openSources, reopenSources } from './sources/open-sources.ts'
import { retryWhileUnavailable } from './store/transaction.ts'
import { pendingMigrations } from './store/migrate.ts'
import { SchemaMissingError } from './store/schema-errors.ts'
import { openDatabase } from './store/open.ts'
import type { ProcessRole } from './store/processes.ts'
import { WakeSignal } from './util/wake-signal.ts'

export interface AppOptions extends Pick<OpenedConfig, 'config' | 'environment' | 'log' | 'random'> {
  /** How long Postgres may stay silent before a connection is given up, in milliseconds. Default: 75 s. */
  readonly silentAfterMs?: number
  /** Called with every statement sent. */
  readonly onStatement?: (sql: string) => void
  /** Whether to open sources that no person has reviewed, too: what plans them looks nothing up. Default: false. */
  readonly opensUnreviewed?: boolean
  /** What this process knows to be wrong, where its watch has begun before. Default: a watch of its own. */
  readonly state?: ProcessState
}

/** A short run looks for conditions once, at its end: a look costs Postgres as much as a page of rows. Milliseconds. */
const FIRST_LOOK_MS = 2_000

export type RunRequest = PassRequest &
  Pick<ExecuteRunOptions, 'waitMs' | 'dryRun' | 'onProgress' | 'onStarted'> &
  Partial<Pick<ExecuteRunOptions, 'trigger'>>

/**
 * Opens the database, and checks the configuration against it.
 * @throws ConfigProblems, SourceProblems, SchemaMissingError, or Postgres's error if it cannot be reached
 */
export async function openApp(options: AppOptions): Promise<App> {
  const { environment, log, onStatement, silentAfterMs = SOURCE_TIMEOUT_MS + 15_000 } = options
  const state = options.state ?? new ProcessState()
  const db = openDatabase({
    url: requireDatabaseUrl(environment),
    ...(environment.maxConnections !== null && { max: environment.maxConnections }),
    silentAfterMs,
    ...(onStatement && { onStatement }),
    ...state.watchConnections(log),
  })
  try {
    if ((await pendingMigrations(db)).length > 0) throw new SchemaMissingError()
    const shared = { db, owner: state.owner, onKeyAccepted: (scope: string) => state.acceptKey(scope) }
    const { sources } = options.config
    const mappings = options.opensUnreviewed === true ? asReviewed(sources) : sources
    const opened = await openSources(db, mappings)
    return new App(options, state, { ...options, ...opened, ...shared, metrics: state.metrics })
  } catch (error) {
    await db.destroy()
    throw error
  }
}

/** Fillrate opened with its configuration: what commands, the daemon and the public API are built on. */
export class App extends Actions {
  readonly notifier: Notifier
  readonly #state: ProcessState
  /** A watch that has begun before goes on. */
  readonly #isWatched: boolean

  constructor(options: AppOptions, state: ProcessState, opened: OpenedConfig) {
    super(opened)
    const { config, environment, log } = opened
    this.#state = state
    this.#isWatched = options.state !== undefined
    this.notifier = new Notifier({
      owner: state.owner,
      dashboardUrl: environment.dashboardUrl,
      targets: config.notify,
      url: environment.notifyUrl,
      proxies: environment.proxies,
      log,
    })
  }

  async run(request: RunRequest): Promise<RunReport> {
    await this.validate(request)
    const budget = requireBudget(request, this.config)
    const mixed = request.budget === undefined ? mixedBudgetOf(this.config) : null
    const services = this.servicesOf(request.sources)
    for (const service of services) service.openClient()
    const deliveries = new WakeSignal()
    const usesWebhook = services.some((service) => service.bulk.usesWebhook === true)
    const receiver = usesWebhook && request.route !== 'sync' ? await this.#openReceiver(deliveries) : null
    try {
      const options = { trigger: 'manual', ...request, budget, mixed, deliveries } as const
      return await this.#work('run', async () => {
        const opened = await this.#createRunDeps(services, receiver, request.signal)
        return executeRun(
          opened.map((deps) => ({ deps })),
          options,
        )
      })
    } finally {
      await receiver?.close()
    }
  }

  /** Waits for Postgres, as in the middle of a run: the watch reports once that it is away. @throws if aborted meanwhile */
  async #createRunDeps(
    services: readonly OpenService[],
    receiver: Pick<Receiver, 'publicUrl'> | null,
    signal: AbortSignal,
  ): Promise<RunDeps[]> {
    const state = this.#state
    const created: RunDeps[] = []
    for (const service of services) {
      const process = {
        // Deliveries of one without a secret cannot be verified, and are not received.
        publicUrl: service.bulk.usesWebhook === true && receiver !== null ? receiver.publicUrl : null,
        onKeyRefused: (scope: string, service: number, reason: string | null) =>
          state.refuseKey(scope, service, reason),
        describeOutage: () => state.describeOutage(),
      }
      const create = (): Promise<RunDeps> => service.createRunDeps(process)
      created.push(await retryWhileUnavailable(create, { giveUp: () => signal.aborted }))
    }
    return created
  }

  /** The receiver, dashboard and metrics, without runs. */
  async serve(options: {
    readonly signal: AbortSignal
    readonly onListening?: (listens: string | null) => void
  }): Promise<void> {
    const dashboard: ReceiverOptions['dashboard'] = {
      observer: () => ({ outage: this.#state.findOutage(), schedules: this.#schedules() }),
      app: () => this,
      config: this.config,
      metrics: this.#state.metrics,
    }
    return this.#work('serve', async () => {
      const deliveries = new WakeSignal()
      const receiver = await this.#openReceiver(deliveries, dashboard)
      options.onListening?.(receiver.url)
      const openServices = () => Promise.all(this.services.map((service) => service.deps()))
      try {
        await this.#workUntilAborted(options.signal, openServices, (services, mended) =>
          settleDeliveries(this.base, services, { ...mended, deliveries }),
        )
      } finally {
        await receiver.close()
      }
    })
  }

  /**
   * Works until aborted, and anew with the sources as they are then after a broken one was mended. Waits for Postgres before it
   * begins.
   */
  async #workUntilAborted<Services>(
    signal: AbortSignal,
    openServices: () => Promise<Services>,
    work: (services: Services, mended: Pick<WorkOptions, 'signal' | 'onMended'>) => Promise<void>,
  ): Promise<void> {
    const reopen = async (): Promise<Services> => {
      await reopenSources(this.db, this.config.sources, this)
      return openServices()
    }
    for (let open = openServices; !signal.aborted; open = reopen) {
      const services = await retryWhileUnavailable(open, { giveUp: () => signal.aborted }).catch(
        (error: unknown) => {
          if (!signal.aborted) throw error
          return null
        },
      )
      if (services === null) return
      const mended = new AbortController()
      const until = AbortSignal.any([signal, mended.signal])
      await work(services, { signal: until, onMended: () => mended.abort() })
    }
  }

  /** The daemon, behind a receiver that is already open. */
  async start({
    receiver,
    ...options
  }: Omit<WorkOptions, 'onMended'> & { readonly receiver: Pick<Receiver, 'publicUrl'> }): Promise<void> {
    const { config } = this
    const openServices = () => this.#createRunDeps(this.services, receiver, options.signal)
    return this.#work('start', () =>
      this.#workUntilAborted(options.signal, openServices, (services, mended) =>
        runConfig({ ...this.base, services, config, state: this.#state }, { ...options, ...mended }),
      ),
    )
  }

  readonly #schedules = (): ReadonlyMap<string, number | null> =>
    listDueTimes(this.config.schedule, Date.now())

  /**
   * Works as a process that the dashboard lists, and that watches conditions unless a watch has begun
   * before.
   */
  async #work<Result>(role: ProcessRole, work: () => Promise<Result>): Promise<Result> {
    const deps = { db: this.db, log: this.opened.log }
    const state = this.#state
    const reports = await startProcessReports({ ...deps, owner: state.owner }, { role, config: this.config })
    const watched = {
      state,
      schedules: this.#schedules,
      notifier: () => this.notifier,
      delayMs: FIRST_LOOK_MS,
    }
    // The daemon's watch begins before Postgres is there.
    const watch = this.#isWatched ? null : startConditionWatch({ ...deps, ...watched })
    try {
      return await work()
    } finally {
      await watch?.stop()
      await reports.stop()
    }
  }

  #openReceiver(deliveries: WakeSignal, dashboard: ReceiverOptions['dashboard'] = null): Promise<Receiver> {
    const { db, environment, log, config } = this.opened
    return openReceiver({ db, environment, log, config, deliveries, dashboard })
  }
}
