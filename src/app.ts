import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { Logger } from 'pino'
import { explainRow } from './actions/explain/explain.ts'
import type { RowHistory } from './actions/explain/row-history.ts'
import { createPlan, type Plan } from './actions/plan/plan.ts'
import { remapSource, type RemapOptions, type RemapReport } from './actions/remap.ts'
import { retryFailedRows, type RetryOptions, type RetryReport } from './actions/retry.ts'
import { setTriggers, type TriggerStatus } from './actions/triggers.ts'
import type { UndoReport } from './actions/undo/report.ts'
import { undoRun, type UndoOptions } from './actions/undo/undo.ts'
import {
  assertRoutePossible,
  chooseSource,
  chooseSources,
  requireBudget,
  requireSetting,
  toBudgetLimit,
} from './actions/validate-request.ts'
import type { Config, LookupBudget } from './config/config.ts'
import { requireDatabaseUrl, type Environment } from './config/environment.ts'
import type { DaemonApp } from './daemon/daemon.ts'
import { Notifier } from './daemon/notifier.ts'
import { serveReceiver, type ServeReceiverOptions } from './daemon/serve.ts'
import { runService } from './daemon/service.ts'
import type { RouteOption } from './domain/route.ts'
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
import { executeRun, type ExecuteRunOptions, type RunDeps } from './runs/run.ts'
import { createBreaker } from './service/breaker.ts'
import { EnrichmentClient } from './service/client.ts'
import { checkWhere } from './sources/check/expressions.ts'
import { linkSources } from './sources/link.ts'
import { openSource, type Source } from './sources/source.ts'
import { pendingMigrations, SchemaMissingError } from './store/migrate.ts'
import { openDatabase, type Database } from './store/open.ts'
import * as rateLimits from './store/rate-limits.ts'
import * as services from './store/services.ts'
import { WakeSignal } from './util/wake-signal.ts'

export interface AppOptions {
  readonly config: Config
  readonly environment: Environment
  readonly log: Logger
  /** How long Postgres may stay silent before a connection is given up, in milliseconds. Default: 75 s. */
  readonly silentAfterMs?: number
  /** Called with every statement sent. */
  readonly onStatement?: (sql: string) => void
  readonly random?: () => number
}

/** Which rows a run or a plan is about. */
export interface PassRequest {
  /** Names of sources; none means all. */
  readonly sources: readonly string[]
  /** Maximum rows of each source; null: all. */
  readonly limit: number | null
  /** Maximum lookups to request. Undefined: the configuration's. */
  readonly budget?: LookupBudget | undefined
  /** An SQL condition; the table is `t`. */
  readonly where: string | null
  readonly route: RouteOption
  /** Stops taking work: calls in flight finish, and the state is saved. */
  readonly signal: AbortSignal
}

export type RunRequest = PassRequest &
  Pick<ExecuteRunOptions, 'waitMs' | 'dryRun' | 'onProgress'> &
  Partial<Pick<ExecuteRunOptions, 'trigger'>>

/** Fillrate opened with one configuration: what commands, the daemon and the public API are built on. */
export interface App {
  readonly db: Database
  readonly sources: ReadonlyMap<string, Source>
  /** Whether lookups can be submitted in bulk, and if not, why. */
  readonly bulk: BulkAvailability
  /** Service and key, which the rate limit belongs to; null without a base URL and a key. */
  readonly scope: string | null
  run(request: RunRequest): Promise<RunReport>
  /** @param request.budget bounds what is read, as in a run; the configuration's does not */
  plan(request: PassRequest & { readonly sample?: number | null }): Promise<Plan>
  /** The daemon with this configuration, behind a receiver that is already open. */
  start(options: Parameters<DaemonApp['start']>[0]): Promise<void>
  /** Installs or removes the triggers of live sync on a source's table. */
  follow(action: 'install' | 'remove', source: string): Promise<TriggerStatus>
  /** The receiver, dashboard and metrics, without runs. */
  serve(options: Pick<ServeReceiverOptions, 'signal' | 'onListening'>): Promise<void>
  /** The history of one row. */
  explain(source: string, key: string): Promise<RowHistory>
  /** Reverts the writes of a run. */
  undo(options: UndoOptions): Promise<UndoReport>
  /** Queues failed rows again. `sources`: names; none means all. */
  retry(
    options: Omit<RetryOptions, 'sources'> & { readonly sources: readonly string[] },
  ): Promise<RetryReport>
  /** Writes stored records again under the current mapping. */
  remap(options: Omit<RemapOptions, 'source' | 'service'> & { readonly source: string }): Promise<RemapReport>
  close(): Promise<void>
}

/**
 * Opens the database, and checks the configuration against it.
 * @throws ConfigProblems, SourceProblems, SchemaMissingError, or Postgres's error if it cannot be reached
 */
export async function openApp(options: AppOptions): Promise<App> {
  const { config, environment, log, onStatement, silentAfterMs = SOURCE_TIMEOUT_MS + 15_000 } = options
  const db = openDatabase({
    url: requireDatabaseUrl(environment),
    silentAfterMs,
    ...(onStatement && { onStatement }),
    onLost: (error) => log.warn({ reason: error.message }, 'an idle connection to Postgres was lost'),
  })
  try {
    if ((await pendingMigrations(db)).length > 0) throw new SchemaMissingError()
    const opened: Source[] = []
    for (const mapping of Object.values(config.sources)) opened.push(await openSource(db, mapping))
    const sources = await linkSources(db, opened)
    return buildApp(options, db, new Map(sources.map((source) => [source.name, source])))
  } catch (error) {
    await db.destroy()
    throw error
  }
}

function buildApp(options: AppOptions, db: Database, sources: ReadonlyMap<string, Source>): App {
  const { config, environment, log } = options
  const bulk = checkBulkAvailability(environment)
  const metrics = new MetricsRecorder(db, log)
  const policy = toPolicy(config)
  const base = { db, sources, log, policy, now: Date.now, random: options.random ?? Math.random, metrics }
  const slots = createSlots(config.service.concurrency, Object.values(config.sources))
  // Unique for each start, so that a process is never mistaken for an earlier one with the same process id.
  const owner = `${hostname()}:${process.pid}:${randomBytes(4).toString('hex')}`
  let client: EnrichmentClient | null = null
  const openClient = (): EnrichmentClient => (client ??= createClient(options, metrics))
  const address = configuredAddress(environment)
  const currentScope = (): string | null =>
    address === null || environment.apiKeys.length === 0 ? null : `${address} ${openClient().keyId}`
  // Looked up each time: another process may have registered the service first.
  const deps = async (): Promise<Deps> => ({ ...base, service: await services.findService(db, address) })
  const explain = async (source: string, key: string): Promise<RowHistory> =>
    explainRow(await deps(), chooseSource(sources, source), key)
  const openOwnReceiver = (
    deliveries: WakeSignal,
    dashboard: ReceiverOptions['dashboard'] = null,
  ): Promise<Receiver> => openReceiver({ db, environment, log, deliveries, dashboard })

  /** The sources of a request, after checking its condition against each of them. */
  const chooseFor = async (request: PassRequest): Promise<Source[]> => {
    const chosen = chooseSources(sources, request.sources)
    if (request.where !== null) for (const source of chosen) await checkWhere(db, source, request.where)
    return chosen
  }

  // One for all runs of the process, since it reflects the state of the service.
  const breaker = createBreaker()
  breaker.onChange((state) => {
    if (state === 'open') log.warn('the service is failing: calls stopped, except for periodic probes')
    if (state === 'closed') log.info('the service responds again')
  })
  const createRunDeps = async (receiver: Pick<Receiver, 'publicUrl'> | null): Promise<RunDeps> => ({
    ...base,
    service: await registerService(base, address),
    owner,
    client: openClient(),
    breaker,
    slots,
    webhookUrl: receiver && ((job) => `${receiver.publicUrl}/webhooks/enrichment/${job}`),
    elector: new LeaderElector({
      db,
      scope: () => currentScope() ?? '',
      owner,
      log,
      reserve: config.service.reserve,
      breaker,
    }),
  })
  const notifier = new Notifier({
    targets: config.notify,
    url: environment.notifyUrl,
    secrets: environment.notifySecrets,
    proxies: environment.proxies,
    log,
  })

  return {
    db,
    sources,
    bulk,
    get scope() {
      return currentScope()
    },
    run: async (request) => {
      const chosen = await chooseFor(request)
      const budget = requireBudget(request, config)
      const { trigger = 'manual', dryRun = null } = request
      assertRoutePossible(request.route, bulk)
      openClient()
      const deliveries = new WakeSignal()
      const receiver = bulk.isPossible && request.route !== 'sync' ? await openOwnReceiver(deliveries) : null
      const names = chosen.map(({ name }) => name)
      try {
        return await executeRun(await createRunDeps(receiver), {
          ...request,
          sources: chosen,
          trigger,
          budget,
          dryRun,
          deliveries,
          ...(dryRun === null && {
            onEnded: (report: RunReport) => notifier.runEnded(report, { trigger, sources: names }),
          }),
        })
      } finally {
        await receiver?.close()
      }
    },
    plan: async (request) => {
      assertRoutePossible(request.route, bulk)
      const scope = currentScope()
      return createPlan(await deps(), {
        ...request,
        sources: await chooseFor(request),
        budget: toBudgetLimit(request.budget ?? config.budget),
        isBoundedByBudget: request.budget !== undefined,
        bulkPossible: bulk.isPossible,
        knownLimit: scope === null ? null : await rateLimits.readRateLimit(db, scope),
      })
    },
    serve: async (request) =>
      serveReceiver(await deps(), {
        ...request,
        receiver: (deliveries) => openOwnReceiver(deliveries, { sources: () => sources, explain }),
      }),
    start: async ({ receiver, signal, deliveries }) => {
      const runDeps = await createRunDeps(bulk.isPossible ? receiver : null)
      return runService({ ...runDeps, config, notifier }, { signal, deliveries })
    },
    follow: (action, name) => setTriggers(db, chooseSource(sources, name), action),
    explain,
    undo: async (request) => undoRun({ ...(await deps()), owner }, request),
    retry: async (request) =>
      retryFailedRows(await deps(), { ...request, sources: chooseSources(sources, request.sources) }),
    remap: async (request) => {
      const all = { ...(await deps()), owner }
      const source = chooseSource(sources, request.source)
      return remapSource(all, { ...request, source, service: address === null ? null : all.service })
    },
    close: async () => {
      await notifier.close()
      await client?.close()
      await metrics.close()
      await db.destroy()
    },
  }
}

function createClient({ config, environment, log }: AppOptions, metrics: MetricsRecorder): EnrichmentClient {
  const { apiKeys } = environment
  return new EnrichmentClient({
    baseUrl: requireSetting(environment.baseUrl, 'FILLRATE_BASE_URL', 'the URL of the enrichment service'),
    apiKey: requireSetting(
      apiKeys.length > 0 ? apiKeys : null,
      'FILLRATE_API_KEY',
      'a key of the enrichment service',
    ),
    auth: environment.auth,
    proxies: environment.proxies,
    timeoutMs: config.service.timeoutMs,
    connections: config.service.concurrency,
    onCallEnd: (endpoint, status) => metrics.recordCall(endpoint, status),
    onKeyRejected: (rejection) => log.warn(rejection, 'the service rejected a key'),
    onKeyAccepted: (keyId) => log.info({ keyId }, 'the service accepts the key again'),
  })
}
