import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { Logger } from 'pino'
import type { Config } from './config/config.ts'
import type { Environment } from './config/environment.ts'
import { bulkOf, type Bulk } from './daemon/bulk.ts'
import { hearRate, takeTurn, type Claim } from './daemon/caller.ts'
import type { DaemonApp } from './daemon/daemon.ts'
import { work } from './daemon/loop.ts'
import { Notifier } from './daemon/notify.ts'
import { openReceiver, type OpenReceiver, type ReceiverOptions } from './daemon/receiver.ts'
import { serve as serveForever, type ServeOptions } from './daemon/serve.ts'
import type { RouteOption } from './domain/route.ts'
import type { Trigger } from './domain/run.ts'
import type { Deps } from './pipeline/deps.ts'
import { slotsOf } from './pipeline/look-up/slots.ts'
import { Meter } from './pipeline/meter.ts'
import { explain as tell } from './pipeline/explain/explain.ts'
import type { Story } from './pipeline/explain/story.ts'
import { changeFollowing, type Following } from './pipeline/following.ts'
import { plan as makePlan, type Plan } from './pipeline/plan.ts'
import { remap as writeAgain, type RemapOptions, type RemapReport } from './pipeline/remap/remap.ts'
import {
  budgetOf,
  chooseSource,
  chooseSources,
  demand,
  refuseImpossibleRoute,
  toNumber,
} from './pipeline/request.ts'
import { retry as makeDue, type RetryOptions, type RetryReport } from './pipeline/retry.ts'
import { addressOf, registerService } from './pipeline/scope.ts'
import { rulesOf, SOURCE_TIMEOUT_MS } from './pipeline/rules.ts'
import type { RunProgress } from './pipeline/run/progress.ts'
import type { RunReport } from './pipeline/run/report.ts'
import { run as runOnce, type RunDeps } from './pipeline/run/run.ts'
import type { UndoReport } from './pipeline/undo/report.ts'
import { undo as takeBack, type UndoOptions } from './pipeline/undo/undo.ts'
import { createBreaker } from './service/breaker.ts'
import { EnrichmentClient } from './service/client.ts'
import { checkWhere } from './sources/check/where.ts'
import { openSource, type Source } from './sources/source.ts'
import { pendingMigrations } from './store/migrate.ts'
import { openDatabase, type Database } from './store/open.ts'
import * as outages from './store/outages.ts'
import * as rateLimits from './store/rate-limits.ts'
import * as services from './store/services.ts'

export interface AppOptions {
  readonly config: Config
  readonly environment: Environment
  readonly log: Logger
  /** How long Postgres may say nothing before a connection is given up, in milliseconds. Default: 75 s. */
  readonly silentAfterMs?: number
  /** Told of every statement sent. */
  readonly onStatement?: (sql: string) => void
}

export interface PassOptions {
  /** Names of sources; none means all. */
  readonly sources: readonly string[]
  readonly limit: number | null
  /** Undefined: the configuration's. */
  readonly budget?: number | 'unlimited' | undefined
  readonly where: string | null
  readonly route: RouteOption
  readonly signal: AbortSignal
}

export interface RunRequest extends PassOptions {
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
  readonly bulk: Bulk
  /** What the limit belongs to; null without an address and a key. */
  readonly scope: string | null
  run(request: RunRequest): Promise<RunReport>
  /** @param request.sample shows so many rows before and after, out of those whose records are stored already */
  plan(request: PassOptions & { readonly sample?: number | null }): Promise<Plan>
  /** The daemon with this configuration, behind a receiver that is open already. */
  start(options: Parameters<DaemonApp['start']>[0]): Promise<void>
  /** Puts the triggers of a sync on a source's table, or takes them off. */
  follow(action: 'install' | 'remove', source: string): Promise<Following>
  serve(options: Pick<ServeOptions, 'signal' | 'onListening'>): Promise<void>
  /** One row's story. */
  explain(source: string, key: string): Promise<Story>
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
  const url = demand(
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
    if ((await pendingMigrations(db)).length > 0) throw new SchemaMissing()
    const sources = new Map<string, Source>()
    for (const mapping of Object.values(config.sources))
      sources.set(mapping.name, await openSource(db, mapping))
    return build(options, db, sources)
  } catch (error) {
    await db.destroy()
    throw error
  }
}

/** The `fillrate` schema is not there, or is an older one. */
export class SchemaMissing extends Error {
  override readonly name = 'SchemaMissing'
  constructor() {
    super(
      'the schema "fillrate" is missing in this database, or older than this version. Run `fillrate migrate` first',
    )
  }
}

function build(options: AppOptions, db: Database, sources: ReadonlyMap<string, Source>): App {
  const { config, environment, log } = options
  const bulk = bulkOf(environment)
  const rules = rulesOf(config)
  const meter = new Meter(db, log)
  const base = { db, sources, log, rules, now: Date.now, random: Math.random, meter }
  const slots = slotsOf(config.service.concurrency, Object.values(config.sources))
  // Unique for each start, so that a process is never taken for the one before it with the same number.
  const owner = `${hostname()}:${process.pid}:${randomBytes(4).toString('hex')}`
  let client: EnrichmentClient | null = null
  const openClient = (): EnrichmentClient =>
    (client ??= new EnrichmentClient({
      baseUrl: demand(environment.baseUrl, 'FILLRATE_BASE_URL', 'the address of the enrichment service'),
      apiKey: demand(
        environment.apiKeys.length > 0 ? environment.apiKeys : null,
        'FILLRATE_API_KEY',
        'a key of the enrichment service',
      ),
      auth: environment.auth,
      proxies: environment.proxies,
      timeoutMs: config.service.timeoutMs,
      connections: config.service.concurrency,
      onEnded: (endpoint, status) => meter.called(endpoint, status),
      onKeyRefused: (refusal) => log.warn(refusal, 'the service refuses a key'),
      onKeyAccepted: (keyId) => log.info({ keyId }, 'the service accepts the key again'),
    }))
  const address = addressOf(environment)
  // Looked up each time: another process may have met another service first.
  const deps = async (): Promise<Deps> => ({ ...base, service: await services.find(db, address) })
  const scopeOf = (): string | null =>
    address === null || environment.apiKeys.length === 0 ? null : `${address} ${openClient().keyId}`
  const explain = async (source: string, key: string): Promise<Story> =>
    tell(await deps(), chooseSource(sources, source), key)
  const receiver = (onDelivered: () => void, board: ReceiverOptions['board'] = null): Promise<OpenReceiver> =>
    openReceiver({ db, environment, log, onDelivered, board })

  /** The sources of a request, with its condition held against each of them. */
  const choose = async (request: PassOptions): Promise<Source[]> => {
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
  const calling = async (receiver: Pick<OpenReceiver, 'publicUrl'> | null): Promise<RunDeps> => {
    const claim: Claim = { token: null }
    return {
      ...base,
      service: await registerService(base, address),
      owner,
      scope: () => scopeOf() ?? '',
      client: openClient(),
      breaker,
      slots,
      webhookUrl: receiver && ((job) => `${receiver.publicUrl}/webhooks/enrichment/${job}`),
      takeTurn: () =>
        takeTurn({
          db,
          scope: () => scopeOf() ?? '',
          owner,
          log,
          concurrency: rules.concurrency,
          reserve: config.service.reserve,
          breaker,
          claim,
        }),
      hearRate: () => hearRate(db, scopeOf() ?? '', base.now()),
      findOutage: () => outages.find(db, scopeOf() ?? ''),
    }
  }
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
      const budget = budgetOf(request, config)
      const { trigger = 'manual' } = request
      refuseImpossibleRoute(request.route, bulk)
      openClient()
      let delivered = (): void => {}
      const open = bulk.possible && request.route !== 'sync' ? await receiver(() => delivered()) : null
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
          onStarted: (wake) => {
            delivered = wake.delivered
          },
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
      refuseImpossibleRoute(request.route, bulk)
      const scope = scopeOf()
      return makePlan(await deps(), {
        sources: await choose(request),
        limit: request.limit,
        budget: toNumber(request.budget ?? config.budget),
        where: request.where,
        route: request.route,
        bulkPossible: bulk.possible,
        knownLimit: scope === null ? null : await rateLimits.recall(db, scope),
        sample: request.sample ?? null,
        signal: request.signal,
      })
    },
    serve: async (request) =>
      serveForever(await deps(), {
        ...request,
        receiver: (onDelivered) => receiver(onDelivered, { sources: () => sources, explain }),
      }),
    start: async ({ receiver: open, signal, onStarted }) =>
      work(
        {
          ...(await calling(bulk.possible ? open : null)),
          config,
          notifier,
        },
        { signal, onStarted },
      ),
    follow: (action, name) => changeFollowing(db, chooseSource(sources, name), action),
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
      await meter.close()
      await db.destroy()
    },
  }
}
