import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from './util/log.ts'
import { explainRow } from './actions/explain/explain.ts'
import type { RowHistory } from './actions/explain/row-history.ts'
import { forgetDeleted } from './actions/forget-deleted.ts'
import { createPlan, type Plan } from './actions/plan/plan.ts'
import { remapSource, type RemapOptions, type RemapReport } from './actions/remap.ts'
import { retryFailedRows } from './actions/retry.ts'
import { setTriggers, type TriggerStatus } from './actions/triggers.ts'
import { undoRun } from './actions/undo/undo.ts'
import { openServiceClient } from './actions/service-client.ts'
import {
  checkRequest,
  chooseSource,
  chooseSources,
  type PassRequest,
  requireBudget,
  toBudgetLimit,
} from './actions/validate-request.ts'
import type { Config } from './config/config.ts'
import { requireDatabaseUrl, type Environment } from './config/environment.ts'
import type { DaemonApp } from './daemon/daemon.ts'
import { Notifier } from './daemon/notifier.ts'
import { serveReceiver, type ServeReceiverOptions } from './daemon/serve.ts'
import { listDueTimes } from './config/cron.ts'
import { runService } from './daemon/service.ts'
import { workAsProcess } from './daemon/process.ts'
import { OwnTroubles } from './daemon/own-troubles.ts'
import type { SourceMapping } from './domain/mapping.ts'
import {
  checkBulkAvailability,
  openReceiver,
  type BulkAvailability,
  type Receiver,
  type ReceiverOptions,
} from './http/receiver.ts'
import {
  configuredAddress,
  registerService,
  SOURCE_TIMEOUT_MS,
  toPolicy,
  type Deps,
} from './pipeline/deps.ts'
import { createSlots } from './pipeline/look-up/slots.ts'
import { MetricsRecorder } from './pipeline/metrics-recorder.ts'
import { LeaderElector } from './runs/leader.ts'
import type { RunReport } from './runs/report.ts'
import { listLeftOut } from './runs/source-health.ts'
import { executeRun, type ExecuteRunOptions, type RunDeps } from './runs/run.ts'
import { Breaker } from './service/breaker.ts'
import { UnauthorizedError } from './service/errors.ts'
import type { EnrichmentClient } from './service/client.ts'
import { openSources, type OpenedSources, reopenSources } from './sources/open-sources.ts'
import { retryWhileUnavailable } from './store/connectivity.ts'
import { pendingMigrations, SchemaMissingError } from './store/migrate.ts'
import { openConnections, openDatabase, type Database } from './store/open.ts'
import * as rateLimits from './store/rate-limits.ts'
import * as services from './store/services.ts'
import { WakeSignal } from './util/wake-signal.ts'

export interface AppOptions {
  readonly config: Config
  readonly environment: Environment
  readonly log: Log
  /** How long Postgres may stay silent before a connection is given up, in milliseconds. Default: 75 s. */
  readonly silentAfterMs?: number
  /** Called with every statement sent. */
  readonly onStatement?: (sql: string) => void
  readonly random?: () => number
  /** Sources that must fit their tables. Default: none, as long as one does. */
  readonly isRequired?: ((mapping: SourceMapping) => boolean) | undefined
  /** What this process knows to be wrong, where its watch outlives this configuration. Default: a watch of its own. */
  readonly own?: OwnTroubles
}

/** How long closing waits for a slow target of notifications: another process sends them then. */
const CLOSE_TIMEOUT_MS = 15_000

/** What a run needs until its first page: to pick, to lead, and for what it records meanwhile. */
const FIRST_CONNECTIONS = 4

export type RunRequest = PassRequest &
  Pick<ExecuteRunOptions, 'waitMs' | 'dryRun' | 'onProgress' | 'onStarted'> &
  Partial<Pick<ExecuteRunOptions, 'trigger'>>

/** Fillrate opened with one configuration: what commands, the daemon and the public API are built on. */
export interface App extends DaemonApp, OpenedSources {
  readonly db: Database
  /** Whether lookups can be submitted in bulk, and if not, why. */
  readonly bulk: BulkAvailability
  /** Service and key, which the rate limit belongs to; null without a base URL and a key. */
  readonly scope: string | null
  run(request: RunRequest): Promise<RunReport>
  /** @param request.budget bounds what is read, as in a run; the configuration's does not */
  plan(request: PassRequest & { readonly sample?: number | null }): Promise<Plan>
  /** Installs or removes the triggers of live sync on a source's table. */
  follow(action: 'install' | 'remove', source: string): Promise<TriggerStatus>
  /** The receiver, dashboard and metrics, without runs. */
  serve(options: Pick<ServeReceiverOptions, 'signal' | 'onListening'>): Promise<void>
  /** Writes stored records again under the current mapping. */
  remap(options: Omit<RemapOptions, 'source' | 'service'> & { readonly source: string }): Promise<RemapReport>
}

/**
 * Opens the database, and checks the configuration against it.
 * @throws ConfigProblems, SourceProblems, SchemaMissingError, or Postgres's error if it cannot be reached
 */
export async function openApp(options: AppOptions): Promise<App> {
  const { environment, log, onStatement, silentAfterMs = SOURCE_TIMEOUT_MS + 15_000 } = options
  const own = options.own ?? new OwnTroubles()
  const db = openDatabase({
    url: requireDatabaseUrl(environment),
    ...(environment.maxConnections !== null && { max: environment.maxConnections }),
    silentAfterMs,
    ...(onStatement && { onStatement }),
    ...own.watchConnections(log),
  })
  try {
    if ((await pendingMigrations(db)).length > 0) throw new SchemaMissingError()
    return buildApp(options, own, db, await openSources(db, options.config.sources, options.isRequired))
  } catch (error) {
    await db.destroy()
    throw error
  }
}

function buildApp(options: AppOptions, own: OwnTroubles, db: Database, all: OpenedSources): App {
  const { config, environment, log } = options
  const { adapter } = config
  const mappings = new Map(Object.entries(config.sources))
  const metrics = new MetricsRecorder(db, log)
  const policy = toPolicy(config)
  const bulk = checkBulkAvailability(environment, adapter)
  const base = {
    ...all,
    db,
    log,
    policy,
    adapter,
    now: Date.now,
    random: options.random ?? Math.random,
    metrics,
  }
  const slots = createSlots(config.service.concurrency, Object.values(config.sources))
  // Unique for each start, so that a process is never mistaken for an earlier one with the same process id.
  const { owner } = own
  let client: EnrichmentClient | null = null
  const openClient = (): EnrichmentClient =>
    (client ??= openServiceClient(options, metrics, () => own.acceptKey(currentScope() ?? '')))
  const address = configuredAddress(environment)
  const currentScope = (): string | null =>
    address === null || environment.apiKeys.length === 0
      ? null
      : `${address} ${config.service.account ?? openClient().keyId}`
  // Looked up each time: another process may have registered the service first.
  const deps = async (): Promise<Deps> => ({ ...base, service: await services.findService(db, address) })
  const explain = async (source: string, key: string): Promise<RowHistory> =>
    explainRow(await deps(), chooseSource(all, source), key)
  const openOwnReceiver = (
    deliveries: WakeSignal,
    dashboard: ReceiverOptions['dashboard'] = null,
  ): Promise<Receiver> =>
    openReceiver({ db, environment, log, service: () => adapter, deliveries, dashboard })

  // One for all runs of the process, since it reflects the state of the service.
  const breaker = new Breaker()
  const createRunDeps = async (receiver: Pick<Receiver, 'publicUrl'> | null): Promise<RunDeps> => ({
    ...base,
    service: await registerService(base, address),
    owner,
    client: openClient(),
    breaker,
    slots,
    onUnauthorized: (error) => {
      // Without a status: the key was rejected before, and no call was made.
      if (error instanceof UnauthorizedError)
        own.raise(
          'key_refused',
          currentScope() ?? '',
          error.status === null ? {} : { reason: `HTTP ${error.status}` },
        )
    },
    keyAccepted: own.keyAccepted,
    describeOutage: () => own.describeOutage(),
    recordRun: (tx, report, run) => notifier.recordRun(tx, report, run),
    webhookUrl: receiver && ((job) => `${receiver.publicUrl}/webhooks/enrichment/${job}`),
    elector: new LeaderElector({
      db,
      scope: () => currentScope() ?? '',
      owner,
      log,
      reserve: config.service.reserve,
      documented: adapter.rateLimits,
      breaker,
    }),
  })
  const notifier = new Notifier({
    db,
    environment: environment.name,
    dashboardUrl: environment.dashboardUrl,
    targets: config.notify,
    url: environment.notifyUrl,
    secrets: environment.notifySecrets,
    proxies: environment.proxies,
    log,
  })

  const schedules = () => listDueTimes(config.schedule, Date.now())
  const check = (request: PassRequest) => checkRequest({ ...all, db }, request, bulk)
  const self = { db, log, own, config, notifier, schedules, isWatched: options.own !== undefined }
  const app: App = {
    ...all,
    db,
    mappings,
    bulk,
    defaults: { budget: config.budget, allowsWhere: config.dashboard.allowWhere },
    service: async () => (await deps()).service,
    validate: check,
    get scope() {
      return currentScope()
    },
    run: async (request) => {
      await check(request)
      const budget = requireBudget(request, config)
      openClient()
      openConnections(db, FIRST_CONNECTIONS)
      const deliveries = new WakeSignal()
      const receiver =
        bulk.usesWebhook === true && request.route !== 'sync' ? await openOwnReceiver(deliveries) : null
      try {
        // The watch reports once that Postgres is away, as in the middle of a run.
        const waiting = { giveUp: () => request.signal.aborted }
        return await workAsProcess(self, 'run', async () =>
          executeRun(await retryWhileUnavailable(() => createRunDeps(receiver), waiting), {
            trigger: 'manual',
            ...request,
            budget,
            deliveries,
          }),
        )
      } finally {
        await receiver?.close()
      }
    },
    plan: async (request) => {
      const scope = currentScope()
      return createPlan(await deps(), {
        ...request,
        sources: await check(request),
        leftOut: listLeftOut(all, request.sources),
        budget: toBudgetLimit(request.budget ?? config.budget),
        isBoundedByBudget: request.budget !== undefined,
        bulkPossible: bulk.isPossible,
        knownLimit: scope === null ? null : await rateLimits.readRateLimit(db, scope),
      })
    },
    serve: async (request) => {
      const serveDeps = await deps()
      return workAsProcess(self, 'serve', () =>
        serveReceiver(
          { ...serveDeps, owner },
          {
            ...request,
            receiver: (deliveries) =>
              openOwnReceiver(deliveries, {
                sources: () => mappings,
                spendSettings: () => config,
                observer: () => ({ own: own.list(), schedules: schedules() }),
                explain,
                app: () => app,
              }),
            notifier,
            reopen: () => reopenSources(db, config.sources, all),
          },
        ),
      )
    },
    start: async ({ receiver, ...request }) => {
      const runDeps = await createRunDeps(bulk.usesWebhook === true ? receiver : null)
      return workAsProcess(self, 'start', () => runService({ ...runDeps, config, notifier, own }, request))
    },
    follow: (action, name) => setTriggers(db, chooseSource(all, name), action),
    explain,
    notifier,
    undo: async (request) => undoRun({ ...(await deps()), owner }, request),
    forgetDeleted: (name, request) => forgetDeleted(base, chooseSource(all, name), request),
    retry: async (request) =>
      retryFailedRows(await deps(), { ...request, sources: chooseSources(all, request.sources) }),
    remap: async (request) => {
      const remapDeps = { ...(await deps()), owner }
      const source = chooseSource(all, request.source)
      return remapSource(remapDeps, {
        ...request,
        source,
        service: address === null ? null : remapDeps.service,
      })
    },
    close: async () => {
      // What a single run has queued: the next process would send it too, perhaps tomorrow.
      await Promise.race([notifier.send(), sleep(CLOSE_TIMEOUT_MS, 0, { ref: false })]).catch(() => 0)
      await client?.close()
      await metrics.close()
      await db.destroy()
    },
  }
  return app
}
