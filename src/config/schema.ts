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
    cron: requiredString('cron text')
      .superRefine(checkCron)
      .describe('Minute, hour, day of month, month, day of week.'),
    timezone: requiredString('a time zone')
      .superRefine(checkTimezone)
      .optional()
      .describe("An IANA time zone. Default: the machine's."),
    sources: z
      .array(z.string({ error: "a source's name" }), { error: 'a list of sources' })
      .min(1, { error: 'at least one source; leave `sources` out for all' })
      .optional()
      .describe('Default: all.'),
    budget: budget
      .optional()
      .describe("Lookups per scheduled run, across restarts after a crash. Default: the configuration's."),
    limit: integerBetween(1, 1_000_000_000).optional().describe('Rows that a run may pick. Default: all.'),
    catchUp: booleanFlag
      .optional()
      .describe('Whether a missed scheduled run is caught up once at the next start. Default: true.'),
  },
  { error: objectLike("{ cron: '0 2 * * *' }") },
)

const EXPECTED_CURRENCY = "the three letters of a currency, such as 'EUR'"
const EXPECTED_PRICE = 'a number of at least 0, such as 0.05'
const amount = z.number({ error: EXPECTED_PRICE }).min(0, { error: EXPECTED_PRICE })

const price = z.strictObject(
  {
    currency: z
      .string({ error: EXPECTED_CURRENCY })
      .regex(/^[A-Z]{3}$/, { error: EXPECTED_CURRENCY })
      .describe('Three letters (ISO 4217).'),
    lookup: z
      .union([amount, z.strictObject({ person: amount, company: amount })], {
        error: `${EXPECTED_PRICE}, or { person: 0.05, company: 0.02 }`,
      })
      .describe('What a lookup costs, or what one of a person and one of a company cost.'),
  },
  { error: objectLike("{ currency: 'EUR', lookup: 0.05 }") },
)

const EXPECTED_URL = "an http or https address, such as 'https://ops.example.com/fillrate'"

const httpUrl = z
  .string({ error: EXPECTED_URL })
  .refine((text) => /^https?:$/.test(URL.parse(text)?.protocol ?? ''), { error: EXPECTED_URL })

const notifyTarget = z.strictObject(
  {
    url: httpUrl.optional().describe('Default: FILLRATE_NOTIFY_URL, for URLs that are secret.'),
    form: oneOfStrings(['json', 'slack'])
      .optional()
      .describe(
        '`json`: a signed JSON body; `slack`: `{ text }`, for Slack and compatible services. Default: json.',
      ),
    on: z
      .array(oneOfStrings(NOTIFICATION_TOPICS), { error: 'a list of topics' })
      .min(1, { error: 'at least one topic; leave `on` out for errors alone' })
      .optional()
      .describe(
        '`error`: troubles that need a person, failed runs among them; `warning`: other troubles; `completed`, `no_matches`: runs. Default: error.',
      ),
  },
  { error: objectLike("{ url: 'https://ops.example.com/fillrate' }") },
)

const EXPECTED_ADAPTER =
  "a service from defineService({ … }), or the path of a module that exports one: './my-service.ts'"

const notifyTargets = z
  .array(notifyTarget, { error: "a list of targets such as { url: 'https://ops.example.com/fillrate' }" })
  .describe('Receivers of notifications, by default of what needs a person, and of its end.')

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
        .refine((sources) => Object.keys(sources).length > 0, { error: 'at least one source' })
        .describe('The mappings, by name.'),
      service: z
        .strictObject(
          {
            concurrency: integerBetween(1, 1024)
              .optional()
              .describe(
                'The maximum number of concurrent calls, over up to a quarter more connections. Default: 32.',
              ),
            timeout: durationText(1).optional().describe('Timeout of one call. Default: 30s.'),
            reserve: fraction(0.9)
              .optional()
              .describe('The share of the rate limit reserved for live sync. Default: 0.1.'),
            account: z
              .string()
              .regex(/^[\w.-]{1,64}$/, {
                error: "a word of letters, digits, '.', '_' and '-', such as 'acme-production'",
              })
              .optional()
              .describe(
                'A name for the account that the rate limit belongs to, where its API key changes: runs with any of its keys share a limit, and a new key continues with what was learned of it. Default: each key has a limit of its own.',
              ),
            adapter: z
              .string({ error: EXPECTED_ADAPTER })
              .optional()
              .describe(
                'A module that exports defineService({ … }) by default, for a service of another interface; its path is relative to this file. Default: the built-in interface.',
              ),
          },
          { error: objectLike("{ concurrency: 32, timeout: '30s' }") },
        )
        .optional(),
      bulk: z
        .strictObject(
          {
            minimum: integerBetween(1, 1_000_000_000)
              .optional()
              .describe(
                'How many email lookups must wait before they are submitted in bulk. Default: 50; half a job of a service that takes fewer.',
              ),
            deadline: durationText(1)
              .optional()
              .describe('A job is given up after this long without a delivery. Default: 6h.'),
            grace: durationText(0)
              .optional()
              .describe(
                'How long a completed job waits for further deliveries before inputs without a result are requested singly; those of a failed one are at once. Default: 5m.',
              ),
          },
          { error: objectLike("{ minimum: 50, deadline: '6h' }") },
        )
        .optional(),
      refreshAfter: durationText(0)
        .optional()
        .describe('A found record is looked up again after this long. Default: 90d.'),
      retryNotFoundAfter: durationText(0)
        .optional()
        .describe('A lookup without a match is repeated after this long. Default: 30d.'),
      attempts: integerBetween(1, 100)
        .optional()
        .describe('The maximum number of attempts of a lookup. Default: 5.'),
      budget: budget
        .optional()
        .describe('The maximum number of lookups of a run. Without it, a run requires --budget.'),
      price: price
        .optional()
        .describe(
          'What the service charges. Plans, reports and the dashboard then show money beside lookups.',
        ),
      liveSync: z
        .strictObject(
          {
            budget: budget
              .optional()
              .describe('Lookups a day (UTC) for rows that change singly. Default: the budget of a run.'),
            importBudget: budget
              .optional()
              .describe(
                'Lookups a day (UTC) for imports: statements that change more than 100 rows. Default: the budget of a run.',
              ),
          },
          { error: objectLike('{ budget: 1000, importBudget: 5000 }') },
        )
        .optional(),
      schedule: z
        .array(scheduleEntry, { error: "a list of entries such as { cron: '0 2 * * *' }" })
        .optional(),
      keepRecords: durationText(1)
        .optional()
        .describe(
          'Stored results older than this are deleted, and looked up again when needed. Default: kept forever.',
        ),
      keepDeliveries: durationText(1)
        .optional()
        .describe('Deliveries and finished jobs older than this are deleted. Default: 30d.'),
      keepChanges: durationText(1)
        .optional()
        .describe('Changes older than this are deleted and can no longer be undone. Default: kept forever.'),
      notify: notifyTargets.optional(),
      dashboard: z
        .strictObject(
          {
            allowWhere: booleanFlag
              .optional()
              .describe(
                'Whether a run that is started on the dashboard may have a condition in SQL, which runs as the user of DATABASE_URL. Default: false.',
              ),
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
