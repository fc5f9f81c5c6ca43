import type { RowHistory } from '../domain/report/explain.ts'
import type { Plan } from '../domain/report/plan.ts'
import * as rateLimits from '../store/rate-limits.ts'
import * as services from '../store/services.ts'
import { lookupBudgetOf, mixedBudgetOf, type Config, type ConfigService } from '../config/config.ts'
import type { SourceMapping } from '../domain/mapping.ts'
import { TABLE_POLICY, configuredAddress, registerService, type Deps } from '../pipeline/deps.ts'
import { firstOf, type SourceDeps, type MaintenanceDeps, type RunDeps } from '../runs/run-part.ts'
import { explainBreakage, listLeftOut } from '../runs/source-health.ts'
import { toSteps, type OpenedSources, type OpenedSteps } from '../sources/open-sources.ts'
import type { Source, WholeSource } from '../sources/source-model.ts'
import type { Database } from '../store/open.ts'
import { checkBulkAvailability, type BulkAvailability } from './bulk-availability.ts'
import { explainRow } from './explain/explain.ts'
import { forgetDeleted, type ForgetDeletedReport } from '../runs/pick-sources.ts'
import { createPlan } from './plan/plan.ts'
import type { PlannedService, PlanOptions } from './plan/report.ts'
import { remapSource, type RemapOptions, type RemapReport } from './remap.ts'
import { retryFailedRows, type RetryOptions, type RetryReport } from './retry.ts'
import { setTriggers, type TriggerStatus } from './triggers.ts'
import { undoRun, type UndoReport, type UndoOptions } from './undo/undo.ts'
import {
  checkRequest,
  chooseSource,
  chooseSources,
  expandSourceNames,
  toBudgetLimit,
  requireSetting,
  type PassRequest,
} from './validate-request.ts'
import { environmentOf, variableOf, checkClient, type Environment } from '../config/environment.ts'
import { createSlots, type PrioritySemaphore } from '../pipeline/look-up/slots.ts'
import { MetricsRecorder, type WorkMetrics } from '../pipeline/metrics-recorder.ts'
import { LeaderElector } from '../runs/leadership.ts'
import { toScope } from '../service/api-keys.ts'
import { Breaker } from '../service/breaker.ts'
import { EnrichmentClient } from '../service/client.ts'
import { UnauthorizedError } from '../service/errors.ts'
import { acceptKey } from '../store/rate-limits.ts'
import type { Log } from '../util/log.ts'
import { toJobAddress } from '../webhook/address.ts'
import { ConfigProblems } from '../config/problems.ts'
import type { Service } from '../domain/service/service.ts'
import { describeError } from '../util/error-text.ts'
import { pluralize } from '../util/text.ts'

type PlanRequest = PassRequest & Pick<PlanOptions, 'listsFiltered'>

/** A configuration that is open, and what can be done with it beside runs: by commands, the dashboard and programs. */
export class Actions implements OpenedSources {
  readonly db: Database
  readonly config: Config
  readonly sources: OpenedSources['sources']
  readonly brokenSources: OpenedSources['brokenSources']
  /** Each service of the configuration, in their order; one at least. */
  readonly services: readonly OpenService[]
  /** The sources of the configuration, by name, broken ones included. */
  readonly mappings: ReadonlyMap<string, SourceMapping>
  protected readonly opened: OpenedConfig
  /** For what is done for sources, whichever services fill them. */
  protected readonly base: SourceDeps

  constructor(opened: OpenedConfig) {
    const { db, config, log, sources, brokenSources, owner, random = Math.random } = opened
    this.opened = opened
    this.db = db
    this.config = config
    this.sources = sources
    this.brokenSources = brokenSources
    this.mappings = new Map(Object.entries(config.sources))
    this.services = config.services.map((service) => new OpenService(opened, service))
    this.base = {
      db,
      log,
      sources,
      brokenSources,
      policy: TABLE_POLICY,
      owner,
      random,
      now: Date.now,
    }
  }

  /** Which processes may do the runs that are requested here: processes that call the same first service. */
  service(): Promise<number> {
    return firstOf(this.services).number()
  }

  /** @throws ConfigProblems if a pattern matches no source */
  expandSourceNames(words: readonly string[]): string[] {
    return expandSourceNames(words, [...this.mappings.keys()])
  }

  /**
   * Whether a run of some sources can submit in bulk, at one of their services at least, and if not,
   * why.
   * @param sources none: all
   */
  bulkOf(sources: readonly string[]): BulkAvailability {
    const all = this.servicesOf(sources).map(({ bulk }) => bulk)
    return (
      all.find(({ usesWebhook }) => usesWebhook) ?? all.find(({ isPossible }) => isPossible) ?? firstOf(all)
    )
  }

  /** The services of some sources; of all, if none is named. */
  servicesOf(sources: readonly string[]): readonly OpenService[] {
    const serving = new Set(
      sources.flatMap((name) => this.mappings.get(name)?.steps.map(({ step }) => step.service) ?? []),
    )
    return serving.size === 0 ? this.services : this.services.filter(({ name }) => serving.has(name))
  }

  /** @throws ConfigProblems if the configuration has no such source, or the condition is invalid */
  validate(request: PassRequest): Promise<WholeSource[]> {
    return checkRequest(this, request, this.bulkOf(request.sources))
  }

  /** @param request.budget bounds what is read, as in a run; the configuration's does not */
  async plan(request: PlanRequest): Promise<Plan> {
    const chosen = await this.validate(request)
    const planned: PlannedService[] = []
    for (const service of this.servicesOf(request.sources))
      planned.push(await this.#preparePlan(service, request.sources, chosen))
    const plan = createPlan(this.db, planned, {
      ...request,
      budget: toBudgetLimit(request.budget ?? lookupBudgetOf(this.config)),
      mixed: request.budget === undefined ? mixedBudgetOf(this.config) : null,
    })
    return this.#read(chosen, plan)
  }

  async #preparePlan(
    service: OpenService,
    names: readonly string[],
    chosen: readonly WholeSource[],
  ): Promise<PlannedService> {
    const { scope, bulk, config } = service
    const { name, budget } = config
    return {
      name,
      deps: await service.deps(),
      sources: chosen.flatMap(({ steps }) => steps.filter(({ mapping }) => mapping.step.service === name)),
      leftOut: listLeftOut(this, names),
      budget: name === null ? null : budget,
      usesWebhook: bulk.usesWebhook === true,
      knownLimit: scope === null ? null : await rateLimits.readRateLimit(this.db, scope),
    }
  }

  /** The history of one row. */
  async explain(source: string, key: string): Promise<RowHistory> {
    const chosen = chooseSource(this, source)
    const served = new Map<number, Source>()
    for (const { step, service } of this.#listSteps(chosen)) served.set(await service.number(), step)
    return this.#read([chosen], explainRow({ ...this.base, served }, chosen, key))
  }

  /** What is read of the tables of some sources. @throws SourceProblems if one is broken */
  #read<Result>(sources: readonly Source[], result: Promise<Result>): Promise<Result> {
    return explainBreakage(
      this.db,
      sources.map(({ mapping }) => mapping),
      () => result,
    )
  }

  /** Reverts the writes of a run. */
  async undo(options: UndoOptions): Promise<UndoReport> {
    return undoRun(this.base, options)
  }

  /** Queues failed rows again. `sources`: names; none means all. */
  async retry(
    options: Omit<RetryOptions, 'sources'> & { readonly sources: readonly string[] },
  ): Promise<RetryReport> {
    const sources = chooseSources(this, options.sources)
    return this.#read(sources, retryFailedRows(this.base, { ...options, sources }))
  }

  /** Writes stored records again under the current mapping. */
  async remap(options: Omit<RemapOptions, 'source'> & { readonly source: string }): Promise<RemapReport> {
    const source = chooseSource(this, options.source)
    const served = this.#listSteps(source).map(async ({ step, service }) => {
      const deps = await service.deps()
      return { deps, source: step, service: service.address === null ? null : deps.service }
    })
    return remapSource(await Promise.all(served), { ...options, source })
  }

  /** The steps of a source, each with its service. */
  #listSteps({ steps }: WholeSource): { readonly step: Source; readonly service: OpenService }[] {
    return steps.flatMap((step) =>
      this.services
        .filter(({ name }) => name === step.mapping.step.service)
        .map((service) => ({ step, service })),
    )
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
    for (const service of this.services) await service.close()
    await this.db.destroy()
  }
}

/** What a configuration is opened with. */
export interface OpenedConfig extends OpenedSources {
  readonly config: Config
  readonly environment: Environment
  readonly log: Log
  readonly db: Database
  /** Identifies this process; unique for each start. */
  readonly owner: string
  readonly random?: (() => number) | undefined
  /** Of the process: they outlive this configuration. */
  readonly metrics: WorkMetrics
  /** The service has accepted a call with the key of this scope. */
  readonly onKeyAccepted: (scope: string) => void
}

/** What the runs of a service need of their process. */
interface RunProcess extends Pick<RunDeps, 'describeOutage'> {
  /** The URL at which the service reaches the receiver; null: no delivery arrives here. */
  readonly publicUrl: string | null
  /**
   * The service of a number refuses the key of this scope.
   * @param reason in its words; null: it was refused before, and no call was made
   */
  readonly onKeyRefused: (scope: string, service: number, reason: string | null) => void
}

/** A service of an open configuration, with what its runs share in this process. */
export class OpenService {
  readonly config: ConfigService
  /** Its name in the configuration; null: the only one. */
  readonly name: string | null
  /** Whether lookups can be submitted in bulk, and if not, why. */
  readonly bulk: BulkAvailability
  /** Its address; null: none is configured. */
  readonly address: string | null
  readonly #opened: OpenedConfig
  readonly #environment: Environment
  readonly #metrics: MetricsRecorder
  /** One for all runs of the process, since it reflects the state of the service. */
  readonly #breaker = new Breaker()
  readonly #slots: PrioritySemaphore
  #client: EnrichmentClient | null = null

  constructor(opened: OpenedConfig, config: ConfigService) {
    const { environment, metrics } = opened
    this.config = config
    this.name = config.name
    this.#opened = opened
    this.#environment = environmentOf(environment, config.name)
    this.bulk = checkBulkAvailability(this.#environment, config.adapter)
    this.address = configuredAddress(config.name, opened.config, environment)
    const name = config.name ?? this.address ?? ''
    this.#metrics = new MetricsRecorder(metrics, name, Object.keys(opened.config.sources))
    this.#slots = createSlots(config.concurrency, Object.values(opened.config.sources))
  }

  /** The sources that it serves, each at its step there. */
  get steps(): OpenedSteps {
    return toSteps(this.#opened, this.name)
  }

  /** Service and key, which the rate limit belongs to; null without a base URL and a key. */
  get scope(): string | null {
    const { apiKey } = this.#environment
    return this.address === null || apiKey === null
      ? null
      : toScope(this.address, this.config.account, apiKey)
  }

  /** Its number in the database; 0 if there is no address. Another process may have registered it. */
  number(): Promise<number> {
    return services.findService(this.#opened.db, this.address)
  }

  async deps(): Promise<MaintenanceDeps> {
    return { ...this.#base(), service: await this.number() }
  }

  #base(): Omit<MaintenanceDeps, 'service'> & Required<Pick<Deps, 'metrics'>> {
    const { db, log, owner, random = Math.random } = this.#opened
    const { adapter } = this.config
    const policy = { ...this.config, ...TABLE_POLICY }
    return { db, log, ...this.steps, adapter, policy, metrics: this.#metrics, owner, random, now: Date.now }
  }

  /** Registers the service for runs. @throws ConfigProblems if its URL or its key is missing */
  async createRunDeps({ publicUrl, onKeyRefused, ...process }: RunProcess): Promise<RunDeps> {
    const { config, name } = this
    const { db, log, owner } = this.#opened
    const base = this.#base()
    const secrets = this.#environment.webhookSecrets
    const service = await registerService(base, this.address, name)
    return {
      ...base,
      ...process,
      serviceName: name,
      ...(name !== null && { serviceBudget: config.budget }),
      service,
      client: this.openClient(),
      breaker: this.#breaker,
      slots: this.#slots,
      onUnauthorized: (error) => {
        if (error instanceof UnauthorizedError) onKeyRefused(this.scope ?? '', service, error.reason)
      },
      webhookUrl:
        publicUrl === null
          ? null
          : (job) => toJobAddress({ publicUrl, service: name, job, secrets }, config.adapter),
      elector: new LeaderElector({
        db,
        scope: this.scope ?? '',
        service,
        owner,
        log,
        reserve: config.reserve,
        documented: config.adapter.rateLimits,
        breaker: this.#breaker,
      }),
    }
  }

  /** @throws a problem of the configuration if the service's URL or its key is missing */
  openClient(): EnrichmentClient {
    const { onKeyAccepted } = this.#opened
    return (this.#client ??= openServiceClient(
      { config: this.config, environment: this.#environment },
      this.#metrics,
      () => onKeyAccepted(this.scope ?? ''),
    ))
  }

  /**
   * Proves its key by its free call for the account, if its description names one, and lets the next
   * lookup of any process be tried at once, unless the account has just shown that it would be in vain.
   * @returns null: there is no such call
   */
  async tryNow(): Promise<AccountAnswer | null> {
    const { db } = this.#opened
    const answer = await callAccount(this.config.adapter, this.#environment)
    if (this.address === null || answer?.isAccepted === false) return answer
    if (answer !== null && this.scope !== null) await acceptKey(db, this.scope)
    if (answer?.credits !== 0) await services.requestTry(db, await this.number())
    return answer
  }

  /** Closes what is its own, and not the connections to Postgres. */
  async close(): Promise<void> {
    await this.#client?.close()
  }
}

/**
 * Concurrent calls for each spare connection. undici uses a connection again only two turns of the event loop after its
 * last answer, so that without spare connections each slot would be idle between two calls.
 */
const CALLS_PER_SPARE_CONNECTION = 4

/**
 * Whether a response proves that the service accepts the key. Any other status may come from a proxy before it.
 * @example isKeyAccepted(404) // true: it knows no such person
 */
const isKeyAccepted = (status: number | null): boolean =>
  status !== null && ((status >= 200 && status < 300) || status === 404)

/**
 * Opens the client of the configured service, which counts its calls and knows whether its key is rejected. Makes no call.
 * @throws ConfigProblems if the service's URL, its key, or what its description requires of the environment is missing
 */
export function openServiceClient(
  { config, environment }: { readonly config: ConfigService; readonly environment: Environment },
  metrics: Pick<MetricsRecorder, 'recordCall'>,
  onKeyAccepted: () => void,
): EnrichmentClient {
  const { apiKey, proxies } = environment
  const problems = checkClient(config.adapter, environment)
  if (problems.length > 0) throw new ConfigProblems('the environment', problems)
  const { concurrency, timeoutMs } = config
  return new EnrichmentClient({
    baseUrl: requireSetting(
      environment.baseUrl,
      variableOf(environment, 'BASE_URL'),
      'the URL of the enrichment service',
    ),
    apiKey: requireSetting(apiKey, variableOf(environment, 'API_KEY'), 'a key of the enrichment service'),
    service: config.adapter,
    auth: environment.auth,
    proxies,
    timeoutMs,
    connections: concurrency + Math.ceil(concurrency / CALLS_PER_SPARE_CONNECTION),
    onCallEnd: (call) => {
      metrics.recordCall(call)
      // Also where another process was refused.
      if (isKeyAccepted(call.status)) onKeyAccepted()
    },
  })
}

/** What the free call for the account says. */
export type AccountAnswer =
  | {
      readonly isAccepted: true
      /** That are left. Null: the description does not say where they stand. */
      readonly credits: number | null
    }
  | { readonly isAccepted: false; readonly reason: string }

/** What an accepted key says of the account. */
export const describeAccount = ({ credits }: Extract<AccountAnswer, { isAccepted: true }>): string =>
  `accepted by the service${credits === null ? '' : `; ${pluralize(credits, 'credit')} left`}`

const TIMEOUT_MS = 10_000

/** A client for one call beside those of runs; null: the environment lacks what the service needs. */
export function openClient(
  service: Service,
  environment: Environment,
  timeoutMs?: number,
): EnrichmentClient | null {
  const { baseUrl, apiKey, auth, proxies } = environment
  if (baseUrl === null || apiKey === null || checkClient(service, environment).length > 0) return null
  const timeout = timeoutMs === undefined ? {} : { timeoutMs }
  return new EnrichmentClient({ baseUrl, apiKey, auth, proxies, service, ...timeout })
}

/**
 * Requests the account of a service.
 * @returns null: its description names no such call, or the environment lacks what it needs
 */
export async function callAccount(service: Service, environment: Environment): Promise<AccountAnswer | null> {
  const client = service.account && openClient(service, environment, TIMEOUT_MS)
  if (client === null) return null
  try {
    return { isAccepted: true, credits: await client.readAccount() }
  } catch (error) {
    return { isAccepted: false, reason: describeError(error) }
  } finally {
    await client.close()
  }
}
