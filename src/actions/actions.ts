import { type Config, lookupBudgetOf, mixedBudgetOf } from '../config/config.ts'
import type { Environment } from '../config/environment.ts'
import type { SourceMapping } from '../domain/mapping.ts'
import { toLookupBudget } from '../domain/spend.ts'
import { configuredAddress, firstPollMs, toPolicy } from '../pipeline/deps.ts'
import { MetricsRecorder } from '../pipeline/metrics-recorder.ts'
import type { MaintenanceDeps } from '../runs/maintenance.ts'
import { listLeftOut } from '../runs/source-health.ts'
import type { EnrichmentClient } from '../service/client.ts'
import type { OpenedSources } from '../sources/open-sources.ts'
import type { Source } from '../sources/source-model.ts'
import type { Database } from '../store/open.ts'
import * as rateLimits from '../store/rate-limits.ts'
import * as services from '../store/services.ts'
import type { Log } from '../util/log.ts'
import { type BulkAvailability, checkBulkAvailability } from './bulk-availability.ts'
import { explainRow } from './explain/explain.ts'
import type { RowHistory } from './explain/row-history.ts'
import { forgetDeleted, type ForgetDeletedReport } from './forget-deleted.ts'
import { createPlan, type Plan } from './plan/plan.ts'
import type { PlanOptions } from './plan/report.ts'
import type { PlannedParty } from './plan/service-plan.ts'
import { planInOrder } from './plan/services.ts'
import { remapSource, type RemapOptions, type RemapReport } from './remap.ts'
import { retryFailedRows, type RetryOptions, type RetryReport } from './retry.ts'
import { openServiceClient } from './service-client.ts'
import { readServiceReport, type ServiceReport, type ServiceReportOptions } from './service-report.ts'
import { setTriggers, type TriggerStatus } from './triggers.ts'
import type { UndoReport } from './undo/report.ts'
import { undoRun, type UndoOptions } from './undo/undo.ts'
import {
  checkRequest,
  chooseSource,
  chooseSources,
  expandSourceNames,
  type PassRequest,
  toBudgetLimit,
} from './validate-request.ts'

/** What a configuration is opened with. */
export interface OpenedConfig extends OpenedSources {
  readonly config: Config
  readonly environment: Environment
  readonly log: Log
  readonly db: Database
  /** Identifies this process; unique for each start. */
  readonly owner: string
  readonly random?: (() => number) | undefined
  /** The service has accepted a call with the key of this scope. */
  readonly onKeyAccepted: (scope: string) => void
}

/** `onInvalid` receives the rows without a usable input, a page at a time. */
type PlanRequest = PassRequest & Pick<PlanOptions, 'onInvalid' | 'listsFiltered'>

/** A configuration that is open, and what can be done with it beside runs: by commands, the dashboard and programs. */
export class Actions implements OpenedSources {
  readonly db: Database
  readonly config: Config
  readonly sources: OpenedSources['sources']
  /** Each service of the configuration, in their order, with the sources as it fills them. */
  readonly services: readonly Actions[] = [this]
  readonly brokenSources: OpenedSources['brokenSources']
  /** The sources of the configuration, by name: also those that are broken. */
  readonly mappings: ReadonlyMap<string, SourceMapping>
  /** Whether lookups can be submitted in bulk, and if not, why. */
  readonly bulk: BulkAvailability
  /** The configured service's address; null: none is configured. */
  readonly address: string | null
  protected readonly opened: OpenedConfig
  protected readonly base: Omit<MaintenanceDeps, 'service'> & { readonly metrics: MetricsRecorder }
  #client: EnrichmentClient | null = null

  constructor(opened: OpenedConfig) {
    const { db, config, environment, log, sources, brokenSources, owner, random = Math.random } = opened
    const { adapter } = config
    this.opened = opened
    this.db = db
    this.config = config
    this.sources = sources
    this.brokenSources = brokenSources
    this.mappings = new Map(Object.entries(config.sources))
    this.bulk = checkBulkAvailability(environment, adapter)
    this.address = configuredAddress(config, environment)
    const policy = toPolicy(config)
    const metrics = new MetricsRecorder(db, log, config.serviceName)
    this.base = { db, log, sources, brokenSources, adapter, policy, metrics, owner, random, now: Date.now }
  }

  /** Service and key, which the rate limit belongs to; null without a base URL and a key. */
  get scope(): string | null {
    const { address, config } = this
    if (address === null || this.opened.environment.apiKeys.length === 0) return null
    return `${address} ${config.service.account ?? this.openClient().keyId}`
  }

  /** The service that requested runs call; 0 if this process calls none. Another process may have registered it. */
  service(): Promise<number> {
    return services.findService(this.db, this.address)
  }

  /** @throws ConfigProblems if a pattern matches no source */
  expandSourceNames(words: readonly string[]): string[] {
    return expandSourceNames(words, [...this.mappings.keys()])
  }

  /** @throws ConfigProblems if the configuration has no such source, or the condition is invalid */
  validate(request: PassRequest): Promise<Source[]> {
    return checkRequest(this, request, this.bulk)
  }

  /** @param request.budget bounds what is read, as in a run; the configuration's does not */
  async plan(request: PlanRequest): Promise<Plan> {
    const budget = toBudgetLimit(request.budget ?? lookupBudgetOf(this.config))
    const mixed = request.budget === undefined ? mixedBudgetOf(this.config) : null
    const chosen = await this.validate(request)
    if (this.config.views.length === 0) {
      const [deps, options] = await this.#preparePlan(request, chosen, budget)
      return createPlan(deps, { ...options, mixed })
    }
    const parties: PlannedParty[] = []
    for (const service of this.services) {
      const { serviceName, budget: limit, price } = service.config
      const names = request.sources.filter((name) => service.mappings.has(name))
      if (request.sources.length > 0 && names.length === 0) continue
      // The route is that of services that have it: the others are called singly.
      const own = { ...request, sources: names }
      const sources = await checkRequest(service, own, { isPossible: true, todo: null })
      const [deps, options] = await service.#preparePlan(own, sources, budget)
      const ownBudget = toBudgetLimit(toLookupBudget(limit, [price]))
      parties.push({ name: serviceName ?? '', deps, options, budget: ownBudget })
    }
    return planInOrder(parties, budget, mixed)
  }

  async #preparePlan(
    request: PlanRequest,
    sources: readonly Source[],
    budget: number | null,
  ): Promise<Parameters<typeof createPlan>> {
    const { scope } = this
    const { adapter } = this.config
    const options = {
      ...request,
      sources,
      leftOut: listLeftOut(this, request.sources),
      budget,
      isBoundedByBudget: request.budget !== undefined,
      usesWebhook: this.bulk.usesWebhook === true,
      firstPollMs: adapter.poll && firstPollMs(adapter, false),
      knownLimit: scope === null ? null : await rateLimits.readRateLimit(this.db, scope),
    }
    return [await this.deps(), options]
  }

  /** The history of one row. */
  async explain(source: string, key: string): Promise<RowHistory> {
    const chosen = chooseSource(this, source)
    const isAlone = this.config.views.length === 0
    const served = new Map<number, Source>()
    for (const service of isAlone ? [this] : this.#listFilling(chosen))
      served.set(await service.service(), chooseSource(service, source))
    return explainRow({ ...(await this.deps()), served }, chosen, key)
  }

  /** What each service earns. Reads all lookups and changes. */
  serviceReport(options: ServiceReportOptions): Promise<ServiceReport> {
    return readServiceReport(this.db, this, options)
  }

  /** Reverts the writes of a run. */
  async undo(options: UndoOptions): Promise<UndoReport> {
    return undoRun(await this.deps(), options)
  }

  /** Queues failed rows again. `sources`: names; none means all. */
  async retry(
    options: Omit<RetryOptions, 'sources'> & { readonly sources: readonly string[] },
  ): Promise<RetryReport> {
    return retryFailedRows(await this.deps(), { ...options, sources: chooseSources(this, options.sources) })
  }

  /** Writes stored records again under the current mapping. */
  async remap(options: Omit<RemapOptions, 'source'> & { readonly source: string }): Promise<RemapReport> {
    const source = chooseSource(this, options.source)
    const served = this.#listFilling(source).map(async (service) => {
      const deps = await service.deps()
      const number = service.address === null ? null : deps.service
      return { deps, source: chooseSource(service, source.name), service: number }
    })
    return remapSource(await Promise.all(served), { ...options, source })
  }

  /** The services that fill a source, in its order. */
  #listFilling({ name, mapping }: Source): Actions[] {
    const placeOf = ({ config }: Actions): number => mapping.turn.services.indexOf(config.serviceName ?? '')
    return this.services
      .filter((service) => service.sources.has(name))
      .toSorted((a, b) => placeOf(a) - placeOf(b))
  }

  /** Erases what is stored of the rows that a source's table no longer has. */
  async forgetDeleted(
    source: string,
    options: { readonly dryRun: boolean; readonly signal: AbortSignal },
  ): Promise<ForgetDeletedReport> {
    return forgetDeleted(this.base, chooseSource(this, source), options)
  }

  /** Installs or removes the triggers of live sync on a source's table. */
  async follow(action: 'install' | 'remove', source: string): Promise<TriggerStatus> {
    return setTriggers(this.db, chooseSource(this, source), action)
  }

  async close(): Promise<void> {
    await this.closeClient()
    await this.db.destroy()
  }

  /** Closes what is its own, and not the connections to Postgres. */
  async closeClient(): Promise<void> {
    await this.#client?.close()
    await this.base.metrics.close()
  }

  protected async deps(): Promise<MaintenanceDeps> {
    return { ...this.base, service: await this.service() }
  }

  /** @throws a problem of the configuration if the service's URL or its key is missing */
  openClient(): EnrichmentClient {
    return (this.#client ??= openServiceClient(this.opened, this.base.metrics, () =>
      this.opened.onKeyAccepted(this.scope ?? ''),
    ))
  }
}
