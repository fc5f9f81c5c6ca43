import { type Config, lookupBudgetOf, mixedBudgetOf } from '../config/config.ts'
import type { SourceMapping } from '../domain/mapping.ts'
import { TABLE_POLICY } from '../pipeline/deps.ts'
import type { SourceDeps } from '../runs/maintenance.ts'
import { firstOf } from '../runs/run-part.ts'
import { explainBreakage, listLeftOut } from '../runs/source-health.ts'
import type { OpenedSources } from '../sources/open-sources.ts'
import type { Source, WholeSource } from '../sources/source-model.ts'
import type { Database } from '../store/open.ts'
import * as rateLimits from '../store/rate-limits.ts'
import type { BulkAvailability } from './bulk-availability.ts'
import { explainRow } from './explain/explain.ts'
import type { RowHistory } from './explain/row-history.ts'
import { forgetDeleted, type ForgetDeletedReport } from '../runs/reconcile-deleted.ts'
import { type OpenedConfig, OpenService } from './open-service.ts'
import { createPlan, type Plan } from './plan/plan.ts'
import type { PlannedService, PlanOptions } from './plan/report.ts'
import { remapSource, type RemapOptions, type RemapReport } from './remap.ts'
import { retryFailedRows, type RetryOptions, type RetryReport } from './retry.ts'
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

type PlanRequest = PassRequest & Pick<PlanOptions, 'listsFiltered'>

/** A configuration that is open, and what can be done with it beside runs: by commands, the dashboard and programs. */
export class Actions implements OpenedSources {
  readonly db: Database
  readonly config: Config
  readonly sources: OpenedSources['sources']
  readonly brokenSources: OpenedSources['brokenSources']
  /** Each service of the configuration, in their order; one at least. */
  readonly services: readonly OpenService[]
  /** The sources of the configuration, by name: also those that are broken. */
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
    this.services = config.services.map((one) => new OpenService(opened, one))
    this.base = { db, log, sources, brokenSources, policy: TABLE_POLICY, owner, random, now: Date.now }
  }

  /** Which processes may do the runs that are requested here: those that call the same first service. */
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
    return all.find(({ usesWebhook }) => usesWebhook) ?? all.find((one) => one.isPossible) ?? firstOf(all)
  }

  /** The services of some sources; of all, if none is named. */
  servicesOf(sources: readonly string[]): readonly OpenService[] {
    const serving = new Set(
      sources.flatMap((name) => this.mappings.get(name)?.steps.map(({ turn }) => turn.service) ?? []),
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
      sources: chosen.flatMap(({ steps }) => steps.filter(({ mapping }) => mapping.turn.service === name)),
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
        .filter(({ name }) => name === step.mapping.turn.service)
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
