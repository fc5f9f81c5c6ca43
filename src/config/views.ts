import type { SourceMapping } from '../domain/mapping.ts'
import { type Price, type ConfiguredBudget, toLookupBudget } from '../domain/spend.ts'
import type { ParsedConfig } from './input-schema.ts'
import { toOutputMapping } from './source-schema.ts'
import { type ConfiguredService, outputFor, turnOf } from './turns.ts'

/** The configuration as each of its services sees it, and as a whole: with the defaults that follow from another part. */
export function resolveViews(parsed: ParsedConfig, services: readonly ConfiguredService[]) {
  const all = services.map((one) => resolveView(parsed, one, services))
  // One that serves no source is not called, and needs no key.
  const views = all.filter(({ sources }) => Object.keys(sources).length > 0)
  const first = views[0] ?? all[0]
  if (first === undefined) throw new Error('a configuration has one service at least')
  if (first.serviceName === null) return { ...first, views: [] }
  return {
    ...first,
    serviceName: null,
    // Each as its first service sees it.
    sources: Object.fromEntries(
      Object.keys(parsed.sources).flatMap((name) => {
        const mapping = views.map((view) => view.sources[name]).find((one) => one?.turn.isFirst === true)
        return mapping === undefined ? [] : [[name, mapping] as const]
      }),
    ),
    budget: parsed.budget,
    liveSync: resolveLiveSync(parsed, parsed.budget, toPrices(parsed)),
    views,
  }
}

/** What a service that is named may have of its own; the only one has it at the top of the configuration. */
function toSettings(parsed: ParsedConfig, name: string | null) {
  const settings = name === null ? undefined : parsed.services?.[name]
  return settings === undefined
    ? { ...parsed, ...parsed.service }
    : {
        ...settings,
        refreshAfter: settings.refreshAfter ?? parsed.refreshAfter,
        retryNotFoundAfter: settings.retryNotFoundAfter ?? parsed.retryNotFoundAfter,
        attempts: settings.attempts ?? parsed.attempts,
        budget: settings.budget ?? parsed.budget,
      }
}

function resolveView(
  parsed: ParsedConfig,
  configured: ConfiguredService,
  services: readonly ConfiguredService[],
) {
  const { name: serviceName, service: adapter } = configured
  const settings = toSettings(parsed, serviceName)
  return {
    serviceName,
    serviceNames: services.flatMap(({ name }) => name ?? []) as readonly string[],
    adapter,
    sources: Object.fromEntries(
      Object.entries(parsed.sources).flatMap(([name, source]) => {
        const mapping = resolveSource(name, source, configured, services, settings.refreshAfter)
        return mapping === null ? [] : [[name, mapping] as const]
      }),
    ),
    service: {
      concurrency: settings.concurrency,
      timeoutMs: settings.timeout,
      reserve: settings.reserve,
      account: settings.account,
    },
    bulk: {
      minimum: settings.bulk.minimum,
      deadlineMs: settings.bulk.deadline,
      graceMs: settings.bulk.grace,
    },
    refreshAfterMs: settings.refreshAfter,
    retryNotFoundAfterMs: settings.retryNotFoundAfter,
    attempts: settings.attempts,
    budget: settings.budget,
    price: settings.price,
    liveSync: resolveLiveSync(parsed, settings.budget, [settings.price]),
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
    dashboard: parsed.dashboard,
  }
}

/** A source as a service sees it; null: it does not serve it. */
function resolveSource(
  name: string,
  source: ParsedConfig['sources'][string],
  { name: serviceName, service }: ConfiguredService,
  services: readonly ConfiguredService[],
  refreshAfterMs: number,
): SourceMapping | null {
  const serving = turnOf(source, services, serviceName)
  if (serving === null) return null
  const { services: _, ...rest } = source
  return {
    name,
    ...rest,
    turn: serving.turn,
    shapes: service.shapes[source.kind],
    minConfidence: serving.minConfidence ?? source.minConfidence,
    freshness: source.freshness && toFreshness(source.freshness, refreshAfterMs),
    outputs: Object.entries(source.outputs).flatMap(([column, output]) => {
      const own = outputFor(output, serviceName ?? '')
      return own === null ? [] : [toOutputMapping(column, own)]
    }),
  }
}

/** The schema has seen to it that there is one of them. */
const toFreshness = (
  { column, read = '' }: { readonly column?: string | undefined; readonly read?: string | undefined },
  maxAgeMs: number,
): SourceMapping['freshness'] => (column === undefined ? { read, maxAgeMs } : { column, maxAgeMs })

const toPrices = ({ services, price }: Pick<ParsedConfig, 'services' | 'price'>): (Price | null)[] =>
  services === null ? [price] : Object.values(services).map((one) => one.price)

const resolveLiveSync = (
  { liveSync: { budget } }: Pick<ParsedConfig, 'liveSync'>,
  ofRun: ConfiguredBudget | null,
  prices: readonly (Price | null)[],
) => ({ budget: budget ?? toLookupBudget(ofRun, prices) })
