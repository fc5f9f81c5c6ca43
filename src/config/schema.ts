import { z } from 'zod'
import {
  EXPECTED_DURATION,
  booleanFlag,
  checkCron,
  checkTimezone,
  fraction,
  integerBetween,
  objectLike,
  parseDuration,
  requiredString,
} from './primitives.ts'
import { notifySchema } from './notify-schema.ts'
import { sourceSchema } from './source-schema.ts'

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

/** Source names are typed in commands, and stand in addresses and in the labels of metrics. */
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
      .describe('IANA name. Default: the zone of the machine.'),
    sources: z
      .array(z.string({ error: "a source's name" }), { error: 'a list of sources' })
      .min(1, { error: 'at least one source; leave `sources` out for all' })
      .optional()
      .describe('Default: all.'),
    budget: budget
      .optional()
      .describe("Lookups of each time, however often a crash begins it again. Default: the configuration's."),
    limit: integerBetween(1, 1_000_000_000).optional().describe('Rows that one run may pick. Default: all.'),
    catchUp: booleanFlag
      .optional()
      .describe('Whether a missed tick is run once at the next start. Default: true.'),
  },
  { error: objectLike("{ cron: '0 2 * * *' }") },
)

/** What a configuration file holds: `ConfigInput` in, and checked values out. Every default is filled in by `resolve.ts`. */
export const configSchema = z.strictObject(
  {
    $schema: z.string({ error: 'the address of a JSON Schema' }).optional(),
    sources: z
      .record(sourceName, sourceSchema, { error: objectLike("{ contacts: { kind: 'person', … } }") })
      .refine((sources) => Object.keys(sources).length > 0, { error: 'at least one source' })
      .describe('The mappings, by name.'),
    service: z
      .strictObject(
        {
          concurrency: integerBetween(1, 1024).optional().describe('Calls under way at once. Default: 32.'),
          timeout: durationText(1).optional().describe('For one call. Default: 30s.'),
          reserve: fraction(0.9)
            .optional()
            .describe('The share of the quota that is kept for what is urgent. Default: 0.1.'),
        },
        { error: objectLike("{ concurrency: 32, timeout: '30s' }") },
      )
      .optional(),
    bulk: z
      .strictObject(
        {
          minimum: integerBetween(1, 1_000_000_000)
            .optional()
            .describe('Lookups by email that must wait before they go in bulk. Default: 50.'),
          deadline: durationText(1)
            .optional()
            .describe('After this long without a delivery a job is given up. Default: 6h.'),
          grace: durationText(0)
            .optional()
            .describe(
              'When a job is over and some inputs have no result, they are requested singly after this long without a further delivery. Default: 5m.',
            ),
        },
        { error: objectLike("{ minimum: 50, deadline: '6h' }") },
      )
      .optional(),
    refreshAfter: durationText(0)
      .optional()
      .describe('After this long a found record is asked for again. Default: 90d.'),
    retryNotFoundAfter: durationText(0)
      .optional()
      .describe('After this long a lookup that found nothing is asked again. Default: 30d.'),
    attempts: integerBetween(1, 100)
      .optional()
      .describe('Tries of one lookup before it is failed. Default: 5.'),
    budget: budget
      .optional()
      .describe('Lookups that one run may ask. Without it a run must be given --budget.'),
    schedule: z.array(scheduleEntry, { error: "a list of entries such as { cron: '0 2 * * *' }" }).optional(),
    keepRecords: durationText(1)
      .optional()
      .describe('Stored answers older than this are deleted, and asked again when wanted. Default: kept.'),
    keepDeliveries: durationText(1)
      .optional()
      .describe('Deliveries and ended jobs older than this are deleted. Default: 30d.'),
    keepChanges: durationText(1)
      .optional()
      .describe('Changes older than this are deleted, and can then not be undone. Default: kept.'),
    notify: notifySchema.optional(),
  },
  { error: "an object such as { sources: { contacts: { kind: 'person', … } } }" },
)

export type ParsedConfig = z.output<typeof configSchema>
