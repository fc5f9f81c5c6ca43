import { z } from 'zod'
import {
  EXPECTED_DURATION,
  booleanFlag,
  checkCron,
  checkTimezone,
  fraction,
  integerBetween,
  objectLike,
  oneOfStrings,
  orNull,
  requiredString,
} from './primitives.ts'
import { ONLY_SERVICE, type SourceMapping } from '../domain/mapping.ts'
import { DEFAULT_TOPICS, NOTIFICATION_FORMS, NOTIFICATION_TOPICS } from '../domain/notification.ts'
import type { Service } from '../domain/service/service.ts'
import type { Price } from '../domain/spend.ts'
import { type ServiceFields, fieldsOf } from './fields.ts'
import { createSourceSchema, toOutputMapping } from './source-schema.ts'
import { parseDuration } from '../util/format.ts'

const durationText = (minimumMs: number) =>
  z.string({ error: EXPECTED_DURATION }).transform((value, context) => {
    const parsed = parseDuration(value)
    if (parsed !== null && parsed >= minimumMs) return parsed
    const expected = parsed === null ? EXPECTED_DURATION : 'a duration above zero'
    context.addIssue({ code: 'custom', message: expected })
    return z.NEVER
  })

const EXPECTED_BUDGET = "a whole number of lookups, such as 10000, or 'unlimited'"
const budget = z.union(
  [
    z.int({ error: EXPECTED_BUDGET }).min(0, { error: EXPECTED_BUDGET }),
    z.literal('unlimited', { error: EXPECTED_BUDGET }),
  ],
  { error: EXPECTED_BUDGET },
)

/** Source names occur in commands, URLs and metric labels. */
const EXPECTED_SOURCE_NAME = "a source's name: letters, digits, _ and -, at most 63, the first one a letter"
const sourceName = z.string().regex(/^[A-Za-z][A-Za-z0-9_-]{0,62}$/, { error: EXPECTED_SOURCE_NAME })

const scheduleEntry = z.strictObject(
  {
    cron: requiredString('cron text').superRefine(checkCron).trim(),
    timezone: orNull(requiredString('a time zone').superRefine(checkTimezone)),
    sources: orNull(
      z
        .array(z.string({ error: "a source's name" }), { error: 'a list of sources' })
        .min(1, { error: 'at least one source; leave `sources` out for all' }),
    ),
    budget: orNull(budget),
    limit: orNull(integerBetween(1, 1_000_000_000)),
    catchUp: booleanFlag.prefault(true),
  },
  { error: objectLike("{ cron: '0 2 * * *' }") },
)

const EXPECTED_CURRENCY = "the three letters of a currency, such as 'EUR'"
const EXPECTED_PRICE = 'a number of at least 0, such as 0.05'
const amount = z.number({ error: EXPECTED_PRICE }).min(0, { error: EXPECTED_PRICE })

const price = z
  .strictObject(
    {
      currency: z.string({ error: EXPECTED_CURRENCY }).regex(/^[A-Z]{3}$/, { error: EXPECTED_CURRENCY }),
      lookup: z.union([amount, z.strictObject({ person: amount, company: amount })], {
        error: `${EXPECTED_PRICE}, or { person: 0.05, company: 0.02 }`,
      }),
    },
    { error: objectLike("{ currency: 'EUR', lookup: 0.05 }") },
  )
  .transform(({ currency, lookup }): Price => {
    const { person, company } = typeof lookup === 'number' ? { person: lookup, company: lookup } : lookup
    return { currency, person, company }
  })

const EXPECTED_URL = "an http or https address, such as 'https://ops.example.com/fillrate'"

const httpUrl = z
  .string({ error: EXPECTED_URL })
  .refine((text) => /^https?:$/.test(URL.parse(text)?.protocol ?? ''), { error: EXPECTED_URL })

const notifyTarget = z.strictObject(
  {
    // `url: process.env.OPS_URL` of a variable that is not set must not mean the default address.
    url: z.exactOptional(httpUrl),
    form: oneOfStrings(NOTIFICATION_FORMS).prefault('json'),
    on: z
      .array(oneOfStrings(NOTIFICATION_TOPICS), { error: 'a list of topics' })
      .min(1, { error: 'at least one topic; leave `on` out for errors alone' })
      .prefault([...DEFAULT_TOPICS]),
  },
  { error: objectLike("{ url: 'https://ops.example.com/fillrate' }") },
)

const EXPECTED_ADAPTER =
  "a service from defineService({ … }), or the path of a module that exports one: './my-service.ts'"

const callSettings = z
  .strictObject(
    {
      concurrency: integerBetween(1, 1024).prefault(32),
      timeout: durationText(1).prefault('30s'),
      reserve: fraction(0.9).prefault(0.1),
      account: orNull(
        z.string().regex(/^[\w.-]{1,64}$/, {
          error: "a word of letters, digits, '.', '_' and '-', such as 'acme-production'",
        }),
      ),
      adapter: z.string({ error: EXPECTED_ADAPTER }).optional(),
    },
    { error: objectLike("{ concurrency: 32, timeout: '30s' }") },
  )
  .prefault({})

const bulkSettings = z
  .strictObject(
    {
      minimum: orNull(integerBetween(1, 1_000_000_000)),
      deadline: durationText(1).prefault('6h'),
      grace: durationText(0).prefault('5m'),
    },
    { error: objectLike("{ minimum: 50, deadline: '6h' }") },
  )
  .prefault({})

const liveSyncBudgets = z
  .strictObject(
    { budget: orNull(budget), importBudget: orNull(budget) },
    { error: objectLike('{ budget: 1000, importBudget: 5000 }') },
  )
  .prefault({})

const dashboardSettings = z
  .strictObject({ allowWhere: booleanFlag.prefault(false) }, { error: objectLike('{ allowWhere: true }') })
  .prefault({})

const createInputSchema = (fields: ServiceFields) =>
  z.strictObject(
    {
      $schema: z.string({ error: 'the address of a JSON Schema' }).optional(),
      sources: z
        .record(sourceName, createSourceSchema(fields), {
          error: objectLike("{ contacts: { kind: 'person', … } }"),
        })
        .refine((sources) => Object.keys(sources).length > 0, { error: 'at least one source' }),
      service: callSettings,
      bulk: bulkSettings,
      refreshAfter: durationText(0).prefault('90d'),
      retryNotFoundAfter: durationText(0).prefault('30d'),
      attempts: integerBetween(1, 100).prefault(5),
      budget: orNull(budget),
      price: orNull(price),
      liveSync: liveSyncBudgets,
      schedule: z
        .array(scheduleEntry, { error: "a list of entries such as { cron: '0 2 * * *' }" })
        .prefault([]),
      keepRecords: orNull(durationText(1)),
      keepDeliveries: durationText(1).prefault('30d'),
      keepChanges: orNull(durationText(1)),
      notify: z
        .array(notifyTarget, {
          error: "a list of targets such as { url: 'https://ops.example.com/fillrate' }",
        })
        .prefault([]),
      dashboard: dashboardSettings,
    },
    { error: "an object such as { sources: { contacts: { kind: 'person', … } } }" },
  )

/**
 * A configuration file: `ConfigInput` in; out, checked and with every default, what the program works with. Here are the
 * defaults that follow from another part, beside the names that say their unit.
 */
export const createConfigSchema = (service: Service, fields = fieldsOf(service)) =>
  createInputSchema(fields).transform((parsed) => ({
    adapter: service,
    sources: Object.fromEntries(
      Object.entries(parsed.sources).map(([name, source]): [string, SourceMapping] => {
        const freshness = source.freshness && toFreshness(source.freshness, parsed.refreshAfter)
        const outputs = Object.entries(source.outputs).map(([column, output]) =>
          toOutputMapping(column, output),
        )
        return [
          name,
          { name, turn: ONLY_SERVICE, shapes: service.shapes[source.kind], ...source, freshness, outputs },
        ]
      }),
    ),
    service: {
      concurrency: parsed.service.concurrency,
      timeoutMs: parsed.service.timeout,
      reserve: parsed.service.reserve,
      account: parsed.service.account,
    },
    bulk: {
      minimum: parsed.bulk.minimum,
      deadlineMs: parsed.bulk.deadline,
      graceMs: parsed.bulk.grace,
    },
    refreshAfterMs: parsed.refreshAfter,
    retryNotFoundAfterMs: parsed.retryNotFoundAfter,
    attempts: parsed.attempts,
    budget: parsed.budget,
    price: parsed.price,
    liveSync: {
      budget: parsed.liveSync.budget ?? parsed.budget,
      importBudget: parsed.liveSync.importBudget ?? parsed.budget,
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
    dashboard: parsed.dashboard,
  }))

/** The schema has seen to it that there is one of them. */
const toFreshness = (
  { column, read = '' }: { readonly column?: string | undefined; readonly read?: string | undefined },
  maxAgeMs: number,
): SourceMapping['freshness'] => (column === undefined ? { read, maxAgeMs } : { column, maxAgeMs })

export type ConfigSchema = ReturnType<typeof createConfigSchema>
