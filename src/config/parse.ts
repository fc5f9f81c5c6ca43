import type { Config, ScheduleEntry } from './config.ts'
import { ConfigProblems, type Problem } from './problems.ts'
import { salvageConfig } from './salvage.ts'
import { toProblems } from './schema-problems.ts'
import { type ParsedConfig, createConfigSchema } from './schema.ts'
import { fieldsOf } from './fields.ts'
import { checkSources, parseService, splitService, type GivenService } from './service.ts'
import { defaultBulkMinimum } from '../domain/route.ts'
import { BUILT_IN_SERVICE } from '../domain/service/built-in.ts'
import type { Service } from '../domain/service/service.ts'
import { describeValue, didYouMean, oneOf } from '../util/text.ts'
import type { OutputMapping, SourceMapping } from '../domain/mapping.ts'
import type { Price } from '../domain/spend.ts'
import { DEFAULT_TOPICS } from '../domain/notification.ts'
import type { ParsedSource } from './source-schema.ts'

/**
 * Checks a configuration and fills in its defaults. Reports every problem at once; those between the schedule and the
 * rest once everything else is valid.
 *
 * @param path the file it was loaded from, for messages; null for a configuration from code
 * @param module the service of a module that the configuration names
 * @throws InvalidConfig
 */
export function parseConfig(value: unknown, path: string | null, module: GivenService | null = null): Config {
  const where = path ?? 'the configuration'
  const { config, given } = splitService(value)
  const named = module ?? given
  const { service, problems: wrong } = named
    ? parseService(named)
    : { service: BUILT_IN_SERVICE, problems: [] }
  // A mistake in the service leaves nothing to hold the outputs against.
  const fields = service === null ? ANY_FIELDS : fieldsOf(service)
  const schema = createConfigSchema(fields)
  const resolve = (valid: ParsedConfig): Config => resolveConfig(valid, path, service ?? BUILT_IN_SERVICE)
  const parsed = schema.safeParse(config, { jitless: true })
  if (!parsed.success) {
    const usable = salvageConfig(config, schema)
    throw new InvalidConfig(
      where,
      [...wrong, ...toProblems(parsed.error.issues, schema, config, fields)],
      usable && resolve(usable),
      { hasInvalidService: wrong.length > 0 },
    )
  }
  const resolved = resolve(parsed.data)
  const problems = [
    ...wrong,
    ...checkSchedule(parsed.data),
    ...checkSources(parsed.data.sources, resolved.adapter),
  ]
  if (problems.length > 0)
    throw new InvalidConfig(where, problems, resolved, { hasInvalidService: wrong.length > 0 })
  return resolved
}

/** A configuration that was read, with problems. */
export class InvalidConfig extends ConfigProblems {
  /** What is valid of it, to be checked against the database; null if there is no valid source. */
  readonly usable: Config | null
  /** The service that it describes is among the mistakes: nothing can be said about how it is called. */
  readonly hasInvalidService: boolean

  constructor(
    where: string,
    problems: readonly Problem[],
    usable: Config | null,
    { hasInvalidService }: { readonly hasInvalidService: boolean },
  ) {
    super(where, problems)
    this.usable = usable
    this.hasInvalidService = hasInvalidService
  }
}

/** A schedule runs unattended: a missing source or budget would be noticed only the next morning. */
function checkSchedule(config: ParsedConfig): Problem[] {
  const names = Object.keys(config.sources)
  return (config.schedule ?? []).flatMap((entry, index) => {
    const problems: Problem[] = (entry.sources ?? []).flatMap((name, position) =>
      names.includes(name)
        ? []
        : [
            {
              place: `schedule[${index}].sources[${position}]`,
              found: describeValue(name),
              expected: `a source of this configuration: ${oneOf(names)}`,
              todo: didYouMean(name, names),
            },
          ],
    )
    if (entry.budget === undefined && config.budget === undefined) {
      problems.push({
        place: `schedule[${index}].budget`,
        found: 'nothing, and no budget for all runs either',
        expected: "a whole number of lookups, such as 10000, or 'unlimited'",
        todo: 'Add `budget` here or at the top level of the configuration: a run requires one.',
      })
    }
    return problems
  })
}

const ANY_FIELDS = { person: [], company: [] } as const

const SECOND_MS = 1000
const HOUR_MS = 3600 * SECOND_MS
const DAY_MS = 24 * HOUR_MS

/** The configuration with every default filled in. */
function resolveConfig(parsed: ParsedConfig, path: string | null, service: Service): Config {
  const names = Object.keys(parsed.sources)
  const refreshAfterMs = parsed.refreshAfter ?? 90 * DAY_MS
  return {
    path,
    adapter: service,
    sources: Object.fromEntries(
      Object.entries(parsed.sources).map(([name, source]) => [
        name,
        resolveSource(name, source, { refreshAfterMs, service }),
      ]),
    ),
    service: {
      concurrency: parsed.service?.concurrency ?? 32,
      timeoutMs: parsed.service?.timeout ?? 30 * SECOND_MS,
      reserve: parsed.service?.reserve ?? 0.1,
      account: parsed.service?.account ?? null,
    },
    bulk: {
      minimum: parsed.bulk?.minimum ?? defaultBulkMinimum(service.bulk),
      deadlineMs: parsed.bulk?.deadline ?? 6 * HOUR_MS,
      graceMs: parsed.bulk?.grace ?? 300 * SECOND_MS,
    },
    refreshAfterMs,
    retryNotFoundAfterMs: parsed.retryNotFoundAfter ?? 30 * DAY_MS,
    attempts: parsed.attempts ?? 5,
    budget: parsed.budget ?? null,
    price: parsed.price ? resolvePrice(parsed.price) : null,
    liveSync: {
      budget: parsed.liveSync?.budget ?? parsed.budget ?? null,
      importBudget: parsed.liveSync?.importBudget ?? parsed.budget ?? null,
    },
    schedule: (parsed.schedule ?? []).map((entry): ScheduleEntry => ({
      cron: entry.cron.trim(),
      timezone: entry.timezone ?? null,
      sources: entry.sources ?? names,
      budget: entry.budget ?? null,
      limit: entry.limit ?? null,
      catchUp: entry.catchUp ?? true,
    })),
    keep: {
      recordsMs: parsed.keepRecords ?? null,
      deliveriesMs: parsed.keepDeliveries ?? 30 * DAY_MS,
      changesMs: parsed.keepChanges ?? null,
    },
    dashboard: { allowWhere: parsed.dashboard?.allowWhere ?? false },
    notify: (parsed.notify ?? []).map((target) => ({
      url: target.url ?? null,
      form: target.form ?? 'json',
      on: target.on ?? DEFAULT_TOPICS,
    })),
  }
}

const resolvePrice = ({ currency, lookup }: NonNullable<ParsedConfig['price']>): Price => ({
  currency,
  ...(typeof lookup === 'number' ? { person: lookup, company: lookup } : lookup),
})

function resolveSource(
  name: string,
  source: ParsedSource,
  { refreshAfterMs, service }: { readonly refreshAfterMs: number; readonly service: Service },
): SourceMapping {
  return {
    name,
    kind: source.kind,
    shapes: service.shapes[source.kind],
    table: source.table.trim(),
    joins: source.joins ?? null,
    key: source.key === undefined ? null : [source.key].flat(),
    where: source.where ?? null,
    changedAt: source.changedAt ?? null,
    freshness: source.freshness ? toFreshness(source.freshness, refreshAfterMs) : null,
    inputs: Object.fromEntries(
      Object.entries(source.inputs).filter(([, expression]) => expression !== undefined),
    ),
    follow: source.follow ?? false,
    onDelete: source.onDelete ?? 'forget',
    budget: source.budget ?? null,
    minConfidence: source.minConfidence ?? 0,
    cascade: source.cascade ?? false,
    outputs: Object.entries(source.outputs).map(([column, output]) => resolveOutput(column, output)),
    touch: source.touch ?? {},
  }
}

type ParsedOutput = ParsedSource['outputs'][string]

/** The schema has seen to it that there is one of them. */
const toFreshness = (
  { column, read = '' }: NonNullable<ParsedSource['freshness']>,
  maxAgeMs: number,
): SourceMapping['freshness'] => (column === undefined ? { read, maxAgeMs } : { column, maxAgeMs })

function resolveOutput(column: string, output: ParsedOutput): OutputMapping {
  const options: Exclude<ParsedOutput, string> =
    typeof output === 'string' ? { field: output, unlisted: true } : output
  return {
    column,
    field: options.field,
    policy: options.policy ?? 'blank',
    minConfidence: options.minConfidence ?? null,
    map: options.map ?? null,
    sql: options.sql ?? null,
    group: options.group ?? null,
    unique: options.unique ?? null,
    matches: options.matches ?? null,
    tooLong: options.tooLong ?? 'skip',
    as: options.as ?? null,
  }
}
