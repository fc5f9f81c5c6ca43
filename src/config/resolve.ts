import type { OutputMapping, SourceMapping } from '../domain/mapping.ts'
import { NOTICES } from '../domain/notice.ts'
import type { Config, ScheduleEntry } from './config.ts'
import type { ParsedConfig } from './schema.ts'
import type { ParsedSource } from './source-schema.ts'

const second = 1000
const hour = 3600 * second
const day = 24 * hour

/** The configuration with every default filled in. */
export function resolveConfig(parsed: ParsedConfig, path: string | null): Config {
  const names = Object.keys(parsed.sources)
  return {
    path,
    sources: Object.fromEntries(
      Object.entries(parsed.sources).map(([name, source]) => [name, resolveSource(name, source)]),
    ),
    service: {
      concurrency: parsed.service?.concurrency ?? 32,
      timeoutMs: parsed.service?.timeout ?? 30 * second,
      reserve: parsed.service?.reserve ?? 0.1,
    },
    bulk: {
      minimum: parsed.bulk?.minimum ?? 50,
      deadlineMs: parsed.bulk?.deadline ?? 6 * hour,
      graceMs: parsed.bulk?.grace ?? 300 * second,
    },
    refreshAfterMs: parsed.refreshAfter ?? 90 * day,
    retryNotFoundAfterMs: parsed.retryNotFoundAfter ?? 30 * day,
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
      deliveriesMs: parsed.keepDeliveries ?? 30 * day,
      changesMs: parsed.keepChanges ?? null,
    },
    notify: (parsed.notify ?? []).map((target) => ({
      url: target.url ?? null,
      form: target.form ?? 'json',
      on: target.on ?? NOTICES,
    })),
  }
}

function resolveSource(name: string, source: ParsedSource): SourceMapping {
  return {
    name,
    kind: source.kind,
    table: source.table.trim(),
    joins: source.joins ?? null,
    key: source.key === undefined ? null : [source.key].flat(),
    where: source.where ?? null,
    changedAt: source.changedAt ?? null,
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
    matches: options.matches ?? null,
    tooLong: options.tooLong ?? 'skip',
    as: options.as ?? null,
  }
}
