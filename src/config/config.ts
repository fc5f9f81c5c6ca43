import { toLookupBudget, type LookupBudget, type MixedBudget } from '../domain/spend.ts'
import type { ParsedConfig } from './config-schema.ts'
import {
  listTaken,
  listServing,
  outputFor,
  toOutputMapping,
  type ConfiguredService,
  type ParsedSource,
} from './source-schema.ts'
import type { SourceMapping, SourceStep } from '../domain/mapping.ts'

/** A configuration that has been checked, with every default filled in. `ConfigInput` says what each part means. */
export interface Config extends ReturnType<typeof resolveConfig> {
  /** The file it was loaded from. Null: from code. */
  readonly path: string | null
}

/** A service of the configuration that serves a source, with its settings. */
export type ConfigService = Config['services'][number]

type Priced = Pick<Config, 'budget' | 'services'>

/** The budget of a run in lookups, where it is in money: at the price of its dearest service. */
export const lookupBudgetOf = ({ budget, services }: Priced): LookupBudget | null =>
  toLookupBudget(
    budget,
    services.map(({ price }) => price),
  )

/** A budget in money whose lookups have several prices: each counts at its own. Null: all lookups count alike. */
export function mixedBudgetOf({ budget, services }: Priced): MixedBudget | null {
  if (budget === null || typeof budget !== 'object') return null
  const prices = services.flatMap(({ price }) => (price === null ? [] : [price.person, price.company]))
  const highest = Math.max(...prices)
  return Math.min(...prices) === highest ? null : { ...budget, highest }
}

/** Names of the sources whose rows are enriched as they change. */
export const listFollowed = (sources: Config['sources']): string[] =>
  Object.values(sources)
    .filter(({ follow }) => follow)
    .map(({ name }) => name)

/** An entry of the schedule: when to run which sources. */
export type ScheduleEntry = Config['schedule'][number]

/** A receiver of notifications. */
export type NotifyTarget = Config['notify'][number]

/**
 * The configuration with the defaults that follow from another part: its services with their settings,
 * its sources with their steps.
 */
export function resolveConfig(parsed: ParsedConfig, configured: readonly ConfiguredService[]) {
  const all = configured.map((service) => resolveService(parsed, service))
  const prices = all.map(({ price }) => price)
  const sources = Object.fromEntries(
    Object.entries(parsed.sources).map(([name, source]) => [name, resolveSource(name, source, all)] as const),
  )
  const names = new Set(Object.values(sources).flatMap(({ steps }) => steps.map(({ step }) => step.service)))
  return {
    sources,
    // One that serves no source is not called, and needs no key.
    services: all.filter(({ name }) => names.has(name)),
    serviceNames: configured.flatMap(({ name }) => name ?? []) as readonly string[],
    budget: parsed.budget,
    liveSync: { budget: parsed.liveSync.budget ?? toLookupBudget(parsed.budget, prices) },
    schedule: parsed.schedule.map((entry) => ({
      ...entry,
      sources: entry.sources ?? Object.keys(parsed.sources),
    })),
    keep: {
      recordsMs: parsed.keepRecords,
      deliveriesMs: parsed.keepDeliveries,
      changesMs: parsed.keepChanges,
    },
    notify: parsed.notify.map(({ url = null, ...target }) => ({ ...target, url })),
  }
}

/** A service with its settings. One that has a name has its own; the only one has them at the top of the configuration. */
function resolveService(parsed: ParsedConfig, configured: ConfiguredService) {
  const { bulk, ...settings } = parsed.services?.[configured.name ?? ''] ?? { ...parsed, ...parsed.service }
  return {
    ...configured,
    /** Concurrent calls. */
    concurrency: settings.concurrency,
    /** Of one call. */
    timeoutMs: settings.timeout,
    reserve: settings.reserve,
    account: settings.account,
    bulk: {
      /** Null: it depends on the endpoint. */
      minimum: bulk.minimum,
      deadlineMs: bulk.deadline,
      /** How long a completed job waits for another delivery with the missing results. */
      graceMs: bulk.grace,
    },
    refreshAfterMs: settings.refreshAfter ?? parsed.refreshAfter,
    retryNotFoundAfterMs: settings.retryNotFoundAfter ?? parsed.retryNotFoundAfter,
    /** Attempts after which a lookup fails. */
    attempts: settings.attempts ?? parsed.attempts,
    budget: settings.budget ?? parsed.budget,
    /** Null: unknown. */
    price: settings.price,
  }
}

/** A source with its steps; as a whole it has the outputs of all of them, each column as the first of them fills it. */
function resolveSource(
  name: string,
  source: ParsedSource,
  services: readonly ReturnType<typeof resolveService>[],
): SourceMapping {
  const { services: _, freshness, minConfidence, outputs, ...rest } = source
  const serving = listServing(source, services)
  const steps = serving.map((service, index): SourceStep => {
    const next = serving[index + 1]
    const taken = listTaken(source, service)
    return {
      step: {
        service: service.name,
        services: serving.flatMap(({ name }) => name ?? []),
        isFirst: index === 0,
        next: next === undefined || next.name === null ? null : { service: next.name, when: next.when },
        takes: service.name === null || taken.length === Object.keys(source.inputs).length ? null : taken,
        details: service.adapter[source.kind]?.details ?? [],
      },
      minConfidence: service.minConfidence ?? minConfidence,
      freshness: freshness && { ...freshness, maxAgeMs: service.refreshAfterMs },
      outputs: Object.entries(outputs).flatMap(([column, output]) => {
        const filling = outputFor(output, service.name ?? '')
        return filling === null ? [] : [toOutputMapping(column, filling)]
      }),
    }
  })
  const [first] = steps
  if (first === undefined) throw new Error(`source ${name} has one service at least`)
  const columns = new Map(
    steps.flatMap((step) => step.outputs.map((output) => [output.column, output] as const)).toReversed(),
  )
  const ofAll = Object.keys(outputs).flatMap((column) => columns.get(column) ?? [])
  return { name, ...rest, ...first, outputs: ofAll, steps }
}
