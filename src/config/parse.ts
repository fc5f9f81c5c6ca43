import type { Config, ScheduleEntry } from './config.ts'
import { ConfigProblems, type Problem } from './problems.ts'
import { salvageConfig } from './salvage.ts'
import { toProblems } from './schema-problems.ts'
import { type ParsedConfig, configSchema } from './schema.ts'
import { describeValue, didYouMean, oneOf } from '../util/text.ts'
import type { OutputMapping, SourceMapping } from '../domain/mapping.ts'
import { NOTIFICATION_KINDS } from '../domain/run.ts'
import type { ParsedSource } from './source-schema.ts'

/**
 * Checks a configuration and fills in its defaults. Reports every problem at once; those between the schedule and the
 * rest once everything else is valid.
 *
 * @param path the file it was loaded from, for messages; null for a configuration from code
 * @throws InvalidConfig
 */
export function parseConfig(value: unknown, path: string | null): Config {
  const where = path ?? 'the configuration'
  const parsed = configSchema.safeParse(value)
  if (!parsed.success) {
    const usable = salvageConfig(value)
    throw new InvalidConfig(
      where,
      toProblems(parsed.error.issues, configSchema, value),
      usable === null ? null : resolveConfig(usable, path),
    )
  }
  const problems = checkSchedule(parsed.data)
  if (problems.length > 0) throw new InvalidConfig(where, problems, resolveConfig(parsed.data, path))
  return resolveConfig(parsed.data, path)
}

/** A configuration that was read, with problems. */
export class InvalidConfig extends ConfigProblems {
  /** What is valid of it, to be checked against the database; null if there is no valid source. */
  readonly usable: Config | null

  constructor(where: string, problems: readonly Problem[], usable: Config | null) {
    super(where, problems)
    this.usable = usable
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

const SECOND_MS = 1000
const HOUR_MS = 3600 * SECOND_MS
const DAY_MS = 24 * HOUR_MS

/** The configuration with every default filled in. */
function resolveConfig(parsed: ParsedConfig, path: string | null): Config {
  const names = Object.keys(parsed.sources)
  const refreshAfterMs = parsed.refreshAfter ?? 90 * DAY_MS
  return {
    path,
    sources: Object.fromEntries(
      Object.entries(parsed.sources).map(([name, source]) => [
        name,
        resolveSource(name, source, refreshAfterMs),
      ]),
    ),
    service: {
      concurrency: parsed.service?.concurrency ?? 32,
      timeoutMs: parsed.service?.timeout ?? 30 * SECOND_MS,
      reserve: parsed.service?.reserve ?? 0.1,
    },
    bulk: {
      minimum: parsed.bulk?.minimum ?? 50,
      deadlineMs: parsed.bulk?.deadline ?? 6 * HOUR_MS,
      graceMs: parsed.bulk?.grace ?? 300 * SECOND_MS,
    },
    refreshAfterMs,
    retryNotFoundAfterMs: parsed.retryNotFoundAfter ?? 30 * DAY_MS,
    attempts: parsed.attempts ?? 5,
    budget: parsed.budget ?? null,
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
    notify: (parsed.notify ?? []).map((target) => ({
      url: target.url ?? null,
      form: target.form ?? 'json',
      on: target.on ?? NOTIFICATION_KINDS,
    })),
  }
}

function resolveSource(name: string, source: ParsedSource, refreshAfterMs: number): SourceMapping {
  return {
    name,
    kind: source.kind,
    table: source.table.trim(),
    joins: source.joins ?? null,
    key: source.key === undefined ? null : [source.key].flat(),
    where: source.where ?? null,
    changedAt: source.changedAt ?? null,
    freshness: source.freshness ? { column: source.freshness.column, maxAgeMs: refreshAfterMs } : null,
    inputs: Object.fromEntries(
      Object.entries(source.inputs).filter(([, expression]) => expression !== undefined),
    ),
    follow: source.follow ?? false,
    minConfidence: source.minConfidence ?? 0,
    cascade: source.cascade ?? false,
    outputs: Object.entries(source.outputs).map(([column, output]) => resolveOutput(column, output)),
    touch: source.touch ?? {},
  }
}

type ParsedOutput = ParsedSource['outputs'][string]

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
