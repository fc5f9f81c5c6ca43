import { z } from 'zod'
import {
  objectOf,
  rejecting,
  objectLike,
  booleanFlag,
  checkCron,
  checkTimezone,
  durationText,
  integerBetween,
  oneOfStrings,
  orNull,
  requiredString,
} from './primitives.ts'
import type { Price, ConfiguredBudget } from '../domain/spend.ts'
import { quoteText } from '../util/text.ts'
import { DEFAULT_TOPICS, NOTIFICATION_FORMS, NOTIFICATION_TOPICS } from '../domain/notification.ts'
import {
  bulkSettings,
  callSettings,
  lookupBudget,
  price,
  refreshFields,
  runBudget,
  servicesSchema,
} from './service-settings-schema.ts'
import { type SchemaServices, createSourceSchema } from './source-schema.ts'

/** Source names occur in commands, URLs and metric labels. */
const EXPECTED_SOURCE_NAME = "a source's name: letters, digits, _ and -, at most 63, the first one a letter"
const sourceName = z.string().regex(/^[A-Za-z][A-Za-z0-9_-]{0,62}$/, { error: EXPECTED_SOURCE_NAME })

const scheduleEntry = objectOf(
  {
    cron: requiredString('cron text').superRefine(checkCron).trim(),
    timezone: orNull(requiredString('a time zone').superRefine(checkTimezone)),
    sources: orNull(
      z
        .array(z.string({ error: "a source's name" }), { error: 'a list of sources' })
        .min(1, { error: 'at least one source; leave `sources` out for all' }),
    ),
    budget: orNull(lookupBudget),
    limit: orNull(integerBetween(1, 1_000_000_000)),
    catchUp: booleanFlag.prefault(true),
  },
  "{ cron: '0 2 * * *' }",
)

const EXPECTED_URL = "an http or https address, such as 'https://ops.example.com/fillrate'"

const httpUrl = z
  .string({ error: EXPECTED_URL })
  .refine((text) => /^https?:$/.test(URL.parse(text)?.protocol ?? ''), { error: EXPECTED_URL })

const notifyTarget = objectOf(
  {
    // `url: process.env.OPS_URL` of a variable that is not set must not mean the default address.
    url: z.exactOptional(httpUrl),
    form: oneOfStrings(NOTIFICATION_FORMS).prefault('json'),
    on: z
      .array(oneOfStrings(NOTIFICATION_TOPICS), { error: 'a list of topics' })
      .min(1, { error: 'at least one topic; leave `on` out for errors alone' })
      .prefault([...DEFAULT_TOPICS]),
  },
  "{ url: 'https://ops.example.com/fillrate' }",
)

const liveSyncSettings = objectOf({ budget: orNull(lookupBudget) }, '{ budget: 1000 }').prefault({})

interface Priced {
  readonly budget: ConfiguredBudget | null
  readonly price: Price | null
}

/** A budget in money needs the price of each service that spends it, in its currency. */
function checkPrices(
  { budget, price, services }: Priced & { readonly services: Readonly<Record<string, Priced>> | null },
  context: z.core.$RefinementCtx,
): void {
  const settings =
    services === null
      ? [{ path: [], budget, price }]
      : Object.entries(services).map(([name, one]) => ({ path: ['services', name], ...one }))
  for (const { path, ...own } of settings)
    for (const [place, one] of new Map([
      ['`budget`', budget],
      [path.length === 0 ? '`budget`' : 'its `budget`', own.budget],
    ])) {
      if (one === null || typeof one !== 'object' || own.price?.currency === one.currency) continue
      rejecting(context)(
        [...path, 'price', ...(own.price === null ? [] : ['currency'])],
        own.price === null ? 'nothing' : quoteText(own.price.currency),
        `a price in ${one.currency}, such as { currency: '${one.currency}', lookup: 0.05 }: ${place} is in ${one.currency}`,
      )
      break
    }
}

/** What a configuration file may hold, with the defaults that follow from no other part. */
export const createInputSchema = (known: SchemaServices) =>
  objectOf(
    {
      $schema: z.string({ error: 'the address of a JSON Schema' }).optional(),
      sources: z
        .record(sourceName, createSourceSchema(known), {
          error: objectLike("{ contacts: { kind: 'person', … } }"),
        })
        .refine((sources) => Object.keys(sources).length > 0, { error: 'at least one source' }),
      service: callSettings,
      services: orNull(servicesSchema),
      bulk: bulkSettings,
      refreshAfter: refreshFields.refreshAfter.prefault('90d'),
      retryNotFoundAfter: refreshFields.retryNotFoundAfter.prefault('30d'),
      attempts: refreshFields.attempts.prefault(5),
      budget: orNull(runBudget),
      price: orNull(price),
      liveSync: liveSyncSettings,
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
    },
    "{ sources: { contacts: { kind: 'person', … } } }",
  ).superRefine(checkPrices)

export type ParsedConfig = z.output<ReturnType<typeof createInputSchema>>
