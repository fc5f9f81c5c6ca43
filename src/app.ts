import * as rateLimits from './store/rate-limits.ts'
import * as services from './store/services.ts'
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { Logger } from 'pino'
import type { Config } from './config/config.ts'
import type { Environment } from './config/environment.ts'
import {
  type BulkAvailability,
  type Receiver,
  type ReceiverOptions,
  checkBulkAvailability,
  openReceiver,
} from './http/receiver.ts'
import { LeaderElector } from './runs/leader.ts'
import type { DaemonApp } from './daemon/daemon.ts'
import { runService } from './daemon/service.ts'
import { Notifier } from './daemon/notifier.ts'
import { type ServeReceiverOptions, serveReceiver as serveForever } from './daemon/serve.ts'
import type { RouteOption } from './domain/route.ts'
import type { Trigger } from './domain/run.ts'
import {
  type Deps,
  SOURCE_TIMEOUT_MS,
  configuredAddress,
  registerService,
  toPolicy,
} from './pipeline/deps.ts'
import { createSlots } from './pipeline/look-up/slots.ts'
import { MetricsRecorder } from './pipeline/metrics-recorder.ts'
import { explainRow as tell } from './actions/explain/explain.ts'
import type { RowHistory } from './actions/explain/row-history.ts'
import { type TriggerStatus, setTriggers } from './actions/triggers.ts'
import { type Plan, createPlan as makePlan } from './actions/plan/plan.ts'
import { type RemapOptions, type RemapReport, remapSource as writeAgain } from './actions/remap.ts'
import {
  assertRoutePossible,
  chooseSource,
  chooseSources,
  requireBudget,
  requireSetting,
  toBudgetLimit,
} from './actions/validate-request.ts'
import { type RetryOptions, type RetryReport, retryFailedRows as makeDue } from './actions/retry.ts'
import type { RunProgress } from './runs/counters.ts'
import type { RunReport } from './runs/report.ts'
import { type RunDeps, executeRun as runOnce } from './runs/run.ts'
import type { UndoReport } from './actions/undo/report.ts'
import { type UndoOptions, undoRun as takeBack } from './actions/undo/undo.ts'
import { createBreaker } from './service/breaker.ts'
import { EnrichmentClient } from './service/client.ts'
import { checkWhere } from './sources/check/expressions.ts'
import { type Source, openSource } from './sources/source.ts'
import { pendingMigrations } from './store/migrate.ts'
import { type Database, openDatabase } from './store/open.ts'
import { WakeSignal } from './util/wake-signal.ts'

export interface AppOptions {
  readonly config: Config
  readonly environment: Environment
  readonly log: Logger
  /** How long Postgres may say nothing before a connection is given up, in milliseconds. Default: 75 s. */
  readonly silentAfterMs?: number
  /** Told of every statement sent. */
  readonly onStatement?: (sql: string) => void
}

export interface PassRequest {
  /** Names of sources; none means all. */
  readonly sources: readonly string[]
  readonly limit: number | null
  /** Undefined: the configuration's. */
  readonly budget?: number | 'unlimited' | undefined
  readonly where: string | null
  readonly route: RouteOption
  readonly signal: AbortSignal
}

export interface RunRequest extends PassRequest {
  readonly trigger?: Trigger
  /** How long to wait for deliveries when nothing else is left to do, in milliseconds. */
  readonly waitMs: number
  /** Asks, but writes nothing: the report tells what would be written, with so many of the rows. */
  readonly dryRun?: { readonly sample: number } | null
  readonly onProgress?: (progress: RunProgress) => void
}

export interface App {
  readonly db: Database
  readonly sources: ReadonlyMap<string, Source>
  /** Whether lookups can go in bulk, and if not, why. */
  readonly bulk: BulkAvailability
  /** What the limit belongs to; null without an address and a key. */
  readonly scope: string | null
  run(request: RunRequest): Promise<RunReport>
  /** @param request.sample shows so many rows before and after, out of those whose records are stored already */
  plan(request: PassRequest & { readonly sample?: number | null }): Promise<Plan>
  /** The daemon with this configuration, behind a receiver that is open already. */
  start(options: Parameters<DaemonApp['start']>[0]): Promise<void>
  /** Puts the triggers of a sync on a source's table, or takes them off. */
  follow(action: 'install' | 'remove', source: string): Promise<TriggerStatus>
  serve(options: Pick<ServeReceiverOptions, 'signal' | 'onListening'>): Promise<void>
  /** One row's story. */
  explain(source: string, key: string): Promise<RowHistory>
  /** Takes back a run's writes. */
  undo(options: UndoOptions): Promise<UndoReport>
  /** Makes failed rows due. `sources`: names; none means all. */
  retry(
    options: Omit<RetryOptions, 'sources'> & { readonly sources: readonly string[] },
  ): Promise<RetryReport>
  /** Writes stored records again. */
  remap(options: Omit<RemapOptions, 'source' | 'service'> & { readonly source: string }): Promise<RemapReport>
  close(): Promise<void>
}

/**
 * Builds everything out of a configuration and an environment, and holds the configuration against the database.
 * @throws ConfigProblems, SourceProblems, SchemaMissing, or what Postgres says when it can't be reached
 */
export async function openApp(options: AppOptions): Promise<App> {
  const { config, environment, log } = options
  const url = requireSetting(
    environment.databaseUrl,
    'DATABASE_URL',
    'the address of the CRM database, postgres://user@host/name',
  )
  const db = openDatabase({
    url,
    silentAfterMs: options.silentAfterMs ?? SOURCE_TIMEOUT_MS + 15_000,
    ...(options.onStatement && { onStatement: options.onStatement }),
    onLost: (error) => log.warn({ reason: error.message }, 'an idle connection to Postgres was lost'),
  })
  try {
    if ((await pendingMigrations(db)).length > 0) throw new SchemaMissingError()
    const sources = new Map<string, Source>()
    for (const mapping of Object.values(config.sources))
      sources.set(mapping.name, await openSource(db, mapping))
    return buildApp(options, db, sources)
  } catch (error) {
    await db.destroy()
    throw error
  }
}

/** The `fillrate` schema is not there, or is an older one. */
export class SchemaMissingError extends Error {
  override readonly name = 'SchemaMissing'
  constructor() {
    super(
      'the schema "fillrate" is missing in this database, or older than this version. Run `fillrate migrate` first',
    )
  }
}

function buildApp(options: AppOptions, db: Database, sources: ReadonlyMap<string, Source>): App {
  const { config, environment, log } = options
  const bulk = checkBulkAvailability(environment)
  const policy = toPolicy(config)
  const metrics = new MetricsRecorder(db, log)
  const base = { db, sources, log, policy, now: Date.now, random: Math.random, metrics }
  const slots = createSlots(config.service.concurrency, Object.values(config.sources))
  // Unique for each start, so that a process is never taken for the one before it with the same number.
  const owner = `${hostname()}:${process.pid}:${randomBytes(4).toString('hex')}`
  let client: EnrichmentClient | null = null
  const openClient = (): EnrichmentClient =>
    (client ??= new EnrichmentClient({
      baseUrl: requireSetting(
        environment.baseUrl,
        'FILLRATE_BASE_URL',
        'the address of the enrichment service',
      ),
      apiKey: requireSetting(
        environment.apiKeys.length > 0 ? environment.apiKeys : null,
        'FILLRATE_API_KEY',
        'a key of the enrichment service',
      ),
      auth: environment.auth,
      proxies: environment.proxies,
      timeoutMs: config.service.timeoutMs,
      connections: config.service.concurrency,
      onCallEnd: (endpoint, status) => metrics.recordCall(endpoint, status),
      onKeyRejected: (refusal) => log.warn(refusal, 'the service refuses a key'),
      onKeyAccepted: (keyId) => log.info({ keyId }, 'the service accepts the key again'),
    }))
  const address = configuredAddress(environment)
  // Looked up each time: another process may have met another service first.
  const deps = async (): Promise<Deps> => ({ ...base, service: await services.findService(db, address) })
  const scopeOf = (): string | null =>
    address === null || environment.apiKeys.length === 0 ? null : `${address} ${openClient().keyId}`
  const explain = async (source: string, key: string): Promise<RowHistory> =>
    tell(await deps(), chooseSource(sources, source), key)
  const receiver = (
    deliveries: WakeSignal,
    dashboard: ReceiverOptions['dashboard'] = null,
  ): Promise<Receiver> => openReceiver({ db, environment, log, deliveries, dashboard })

  /** The sources of a request, with its condition held against each of them. */
  const choose = async (request: PassRequest): Promise<Source[]> => {
    const chosen = chooseSources(sources, request.sources)
    if (request.where !== null) for (const source of chosen) await checkWhere(db, source, request.where)
    return chosen
  }

  // One for all runs of the process: it is the service that is down.
  const breaker = createBreaker()
  breaker.onChange((state) => {
    if (state === 'open') log.warn('the service fails: calling stops, but for a probe now and then')
    if (state === 'closed') log.info('the service answers again')
  })
  /** What a run needs to call the service. */
  const calling = async (receiver: Pick<Receiver, 'publicUrl'> | null): Promise<RunDeps> => ({
    ...base,
    service: await registerService(base, address),
    owner,
    client: openClient(),
    breaker,
    slots,
    webhookUrl: receiver && ((job) => `${receiver.publicUrl}/webhooks/enrichment/${job}`),
    elector: new LeaderElector({
      db,
      scope: () => scopeOf() ?? '',
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
      return scopeOf()
    },
    run: async (request) => {
      const chosen = await choose(request)
      const budget = requireBudget(request, config)
      const { trigger = 'manual' } = request
      assertRoutePossible(request.route, bulk)
      openClient()
      const deliveries = new WakeSignal()
      const open = bulk.possible && request.route !== 'sync' ? await receiver(deliveries) : null
      try {
        return await runOnce(await calling(open), {
          sources: chosen,
          trigger,
          limit: request.limit,
          budget,
          where: request.where,
          route: request.route,
          waitMs: request.waitMs,
          signal: request.signal,
          dryRun: request.dryRun ?? null,
          ...(request.onProgress && { onProgress: request.onProgress }),
          deliveries,
          ...(!request.dryRun && {
            onEnded: (report) =>
              notifier.runEnded(report, { trigger, sources: chosen.map(({ name }) => name) }),
          }),
        })
      } finally {
        await open?.close()
      }
    },
    plan: async (request) => {
      assertRoutePossible(request.route, bulk)
      const scope = scopeOf()
      return makePlan(await deps(), {
        sources: await choose(request),
        limit: request.limit,
        budget: toBudgetLimit(request.budget ?? config.budget),
        where: request.where,
        route: request.route,
        bulkPossible: bulk.possible,
        knownLimit: scope === null ? null : await rateLimits.readRateLimit(db, scope),
        sample: request.sample ?? null,
        signal: request.signal,
      })
    },
    serve: async (request) =>
      serveForever(await deps(), {
        ...request,
        receiver: (deliveries) => receiver(deliveries, { sources: () => sources, explain }),
      }),
    start: async ({ receiver: open, signal, deliveries }) =>
      runService(
        {
          ...(await calling(bulk.possible ? open : null)),
          config,
          notifier,
        },
        { signal, deliveries },
      ),
    follow: (action, name) => setTriggers(db, chooseSource(sources, name), action),
    explain,
    undo: async (request) => takeBack({ ...(await deps()), owner }, request),
    retry: async (request) =>
      makeDue(await deps(), { ...request, sources: chooseSources(sources, request.sources) }),
    remap: async (request) => {
      const all = { ...(await deps()), owner }
      const service = address === null ? null : all.service
      return writeAgain(all, { ...request, source: chooseSource(sources, request.source), service })
    },
    close: async () => {
      await notifier.close()
      await client?.close()
      await metrics.close()
      await db.destroy()
    },
  }
}
