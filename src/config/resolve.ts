import type { SourceMapping, SourceStep } from '../domain/mapping.ts'
import { type Price, toLookupBudget } from '../domain/spend.ts'
import { type ParsedConfig, createInputSchema } from './input-schema.ts'
import { toOutputMapping } from './source-schema.ts'
import { type ConfiguredService, outputFor, turnsOf, type ServingTurn } from './turns.ts'

/**
 * The configuration with the defaults that follow from another part: its services with their settings,
 * its sources with their steps.
 */
function resolveConfig(parsed: ParsedConfig, configured: readonly ConfiguredService[]) {
  const all = configured.map((one) => resolveService(parsed, one))
  const ageOf = (name: string | null): number =>
    all.find((one) => one.name === name)?.refreshAfterMs ?? parsed.refreshAfter
  const sources = Object.fromEntries(
    Object.entries(parsed.sources).map(([name, source]) => {
      const turns = turnsOf(source, configured)
      return [name, resolveSource(name, source, turns, ageOf)] as const
    }),
  )
  const names = new Set(Object.values(sources).flatMap(({ steps }) => steps.map(({ turn }) => turn.service)))
  return {
    sources,
    // One that serves no source is not called, and needs no key.
    services: all.filter(({ name }) => names.has(name)),
    serviceNames: configured.flatMap(({ name }) => name ?? []) as readonly string[],
    budget: parsed.budget,
    liveSync: {
      budget: parsed.liveSync.budget ?? toLookupBudget(parsed.budget, toPrices(parsed)),
    },
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

function resolveService(parsed: ParsedConfig, { name, service: adapter, hasCases }: ConfiguredService) {
  const settings = toSettings(parsed, name)
  return {
    /** Null: the configuration has one service, which needs none. */
    name,
    /** How it is called. */
    adapter,
    /** Whether its module exports cases; undefined: it has no module. */
    hasCases,
    concurrency: settings.concurrency,
    timeoutMs: settings.timeout,
    reserve: settings.reserve,
    account: settings.account,
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
  }
}

type ParsedSource = ParsedConfig['sources'][string]

/** A source with its steps; as a whole it has the outputs of all of them, each column as the first of them fills it. */
function resolveSource(
  name: string,
  source: ParsedSource,
  turns: readonly ServingTurn[],
  ageOf: (service: string | null) => number,
): SourceMapping {
  const { services: _, freshness, minConfidence, outputs, ...rest } = source
  const steps = turns.map((serving): SourceStep => ({
    turn: serving.turn,
    shapes: serving.service.shapes[source.kind],
    minConfidence: serving.minConfidence ?? minConfidence,
    freshness: freshness && toFreshness(freshness, ageOf(serving.turn.service)),
    outputs: Object.entries(outputs).flatMap(([column, output]) => {
      const own = outputFor(output, serving.turn.service ?? '')
      return own === null ? [] : [toOutputMapping(column, own)]
    }),
  }))
  const [first] = steps
  if (first === undefined) throw new Error(`source ${name} has one service at least`)
  const columns = new Map(
    steps.flatMap((step) => step.outputs.map((output) => [output.column, output] as const)).toReversed(),
  )
  const ofAll = Object.keys(outputs).flatMap((column) => columns.get(column) ?? [])
  return { name, ...rest, ...first, outputs: ofAll, steps }
}

/** The schema has seen to it that there is one of them. */
const toFreshness = (
  { column, read = '' }: { readonly column?: string | undefined; readonly read?: string | undefined },
  maxAgeMs: number,
): SourceMapping['freshness'] => (column === undefined ? { read, maxAgeMs } : { column, maxAgeMs })

const toPrices = ({ services, price }: Pick<ParsedConfig, 'services' | 'price'>): (Price | null)[] =>
  services === null ? [price] : Object.values(services).map((one) => one.price)

/**
 * A configuration file: `ConfigInput` in; out, checked and with every default, what the program works with.
 * @param options.isOpen it may name any service, as the JSON Schema of editors has it
 */
export const createConfigSchema = (
  services: readonly ConfiguredService[],
  { isOpen }: { readonly isOpen: boolean } = { isOpen: false },
) => createInputSchema({ services, isOpen }).transform((parsed) => resolveConfig(parsed, services))

export type ConfigSchema = ReturnType<typeof createConfigSchema>
