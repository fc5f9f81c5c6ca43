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
  requiredString,
} from './primitives.ts'
import { BUILT_IN_SERVICE } from '../domain/service/built-in.ts'
import { NOTIFICATION_TOPICS } from '../domain/notification.ts'
import { type ServiceFields, fieldsOf } from './fields.ts'
import { createSourceSchema } from './source-schema.ts'
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
  {
    error: EXPECTED_BUDGET,
  },
)

/** Source names occur in commands, URLs and metric labels. */
const EXPECTED_SOURCE_NAME = "a source's name: letters, digits, _ and -, at most 63, the first one a letter"
const sourceName = z.string().regex(/^[A-Za-z][A-Za-z0-9_-]{0,62}$/, { error: EXPECTED_SOURCE_NAME })

const scheduleEntry = z.strictObject(
  {
    cron: requiredString('cron text').superRefine(checkCron),
    timezone: requiredString('a time zone').superRefine(checkTimezone).optional(),
    sources: z
      .array(z.string({ error: "a source's name" }), { error: 'a list of sources' })
      .min(1, { error: 'at least one source; leave `sources` out for all' })
      .optional(),
    budget: budget.optional(),
    limit: integerBetween(1, 1_000_000_000).optional(),
    catchUp: booleanFlag.optional(),
  },
  { error: objectLike("{ cron: '0 2 * * *' }") },
)

const EXPECTED_CURRENCY = "the three letters of a currency, such as 'EUR'"
const EXPECTED_PRICE = 'a number of at least 0, such as 0.05'
const amount = z.number({ error: EXPECTED_PRICE }).min(0, { error: EXPECTED_PRICE })

const price = z.strictObject(
  {
    currency: z.string({ error: EXPECTED_CURRENCY }).regex(/^[A-Z]{3}$/, { error: EXPECTED_CURRENCY }),
    lookup: z.union([amount, z.strictObject({ person: amount, company: amount })], {
      error: `${EXPECTED_PRICE}, or { person: 0.05, company: 0.02 }`,
    }),
  },
  { error: objectLike("{ currency: 'EUR', lookup: 0.05 }") },
)

const EXPECTED_URL = "an http or https address, such as 'https://ops.example.com/fillrate'"

const httpUrl = z
  .string({ error: EXPECTED_URL })
  .refine((text) => /^https?:$/.test(URL.parse(text)?.protocol ?? ''), { error: EXPECTED_URL })

const notifyTarget = z.strictObject(
  {
    url: httpUrl.optional(),
    form: oneOfStrings(['json', 'slack']).optional(),
    on: z
      .array(oneOfStrings(NOTIFICATION_TOPICS), { error: 'a list of topics' })
      .min(1, { error: 'at least one topic; leave `on` out for errors alone' })
      .optional(),
  },
  { error: objectLike("{ url: 'https://ops.example.com/fillrate' }") },
)

const EXPECTED_ADAPTER =
  "a service from defineService({ … }), or the path of a module that exports one: './my-service.ts'"

const notifyTargets = z.array(notifyTarget, {
  error: "a list of targets such as { url: 'https://ops.example.com/fillrate' }",
})

/**
 * A configuration file: `ConfigInput` in, checked values out. `parse.ts` fills in the defaults.
 * @param fields of the service's records
 */
export const createConfigSchema = (fields: ServiceFields) =>
  z.strictObject(
    {
      $schema: z.string({ error: 'the address of a JSON Schema' }).optional(),
      sources: z
        .record(sourceName, createSourceSchema(fields), {
          error: objectLike("{ contacts: { kind: 'person', … } }"),
        })
        .refine((sources) => Object.keys(sources).length > 0, { error: 'at least one source' }),
      service: z
        .strictObject(
          {
            concurrency: integerBetween(1, 1024).optional(),
            timeout: durationText(1).optional(),
            reserve: fraction(0.9).optional(),
            account: z
              .string()
              .regex(/^[\w.-]{1,64}$/, {
                error: "a word of letters, digits, '.', '_' and '-', such as 'acme-production'",
              })
              .optional(),
            adapter: z.string({ error: EXPECTED_ADAPTER }).optional(),
          },
          { error: objectLike("{ concurrency: 32, timeout: '30s' }") },
        )
        .optional(),
      bulk: z
        .strictObject(
          {
            minimum: integerBetween(1, 1_000_000_000).optional(),
            deadline: durationText(1).optional(),
            grace: durationText(0).optional(),
          },
          { error: objectLike("{ minimum: 50, deadline: '6h' }") },
        )
        .optional(),
      refreshAfter: durationText(0).optional(),
      retryNotFoundAfter: durationText(0).optional(),
      attempts: integerBetween(1, 100).optional(),
      budget: budget.optional(),
      price: price.optional(),
      liveSync: z
        .strictObject(
          {
            budget: budget.optional(),
            importBudget: budget.optional(),
          },
          { error: objectLike('{ budget: 1000, importBudget: 5000 }') },
        )
        .optional(),
      schedule: z
        .array(scheduleEntry, { error: "a list of entries such as { cron: '0 2 * * *' }" })
        .optional(),
      keepRecords: durationText(1).optional(),
      keepDeliveries: durationText(1).optional(),
      keepChanges: durationText(1).optional(),
      notify: notifyTargets.optional(),
      dashboard: z
        .strictObject(
          {
            allowWhere: booleanFlag.optional(),
          },
          { error: objectLike('{ allowWhere: true }') },
        )
        .optional(),
    },
    { error: "an object such as { sources: { contacts: { kind: 'person', … } } }" },
  )

/** For the built-in service. */
export const configSchema = createConfigSchema(fieldsOf(BUILT_IN_SERVICE))

export type ParsedConfig = z.output<typeof configSchema>
