import { z } from 'zod'
import {
  checkCron,
  checkTimezone,
  countFromZero,
  durationText,
  fraction,
  integerBetween,
  listOf,
  numberFromZero,
  objectLike,
  objectOf,
  oneOfStrings,
  orNull,
  rejecting,
  requiredString,
  textLike,
  textThat,
} from './primitives.ts'
import { CONDITION_SEVERITIES } from '../domain/condition.ts'
import { DEFAULT_TOPICS, NOTIFICATION_FORMS } from '../domain/notification.ts'
import type { Price } from '../domain/spend.ts'
import { didYouMean, oneOf, quoteText, toVariable } from '../util/text.ts'
import { createSourceSchema, serviceNameText, type SchemaServices } from './source-schema.ts'

const EXPECTED_BUDGET = "a whole number of lookups, such as 10000, or 'unlimited'"
const budgetForms = (error: string) => [countFromZero(error), z.literal('unlimited', { error })] as const
export const lookupBudgetForm = z.union(budgetForms(EXPECTED_BUDGET), { error: EXPECTED_BUDGET })

const EXPECTED_CURRENCY = "the three letters of a currency, such as 'EUR'"
const EXPECTED_PRICE = 'a number of at least 0, such as 0.05'
const amount = numberFromZero(EXPECTED_PRICE)

const currency = textLike(/^[A-Z]{3}$/, EXPECTED_CURRENCY)

const EXPECTED_RUN_BUDGET = `${EXPECTED_BUDGET}, or { amount: 50, currency: 'EUR' }`
/** Of a run: lookups, or money. */
const runBudget = z.union([...budgetForms(EXPECTED_RUN_BUDGET), objectOf({ amount, currency })], {
  error: EXPECTED_RUN_BUDGET,
})

const price = objectOf(
  {
    currency,
    lookup: z.union([amount, objectOf({ person: amount, company: amount })], {
      error: `${EXPECTED_PRICE}, or { person: 0.05, company: 0.02 }`,
    }),
  },
  "{ currency: 'EUR', lookup: 0.05 }",
).transform(({ currency, lookup }): Price => {
  const { person, company } = typeof lookup === 'number' ? { person: lookup, company: lookup } : lookup
  return { currency, person, company }
})

const EXPECTED_ADAPTER =
  "a service from defineService({ … }), or the path of a module that exports one: './my-service.ts'"

const callFields = {
  concurrency: integerBetween(1, 1024).prefault(32),
  timeout: durationText(1).prefault('30s'),
  reserve: fraction(0.9).prefault(0.1),
  account: orNull(
    z.string().regex(/^[\w.-]{1,64}$/, {
      error: "a word of letters, digits, '.', '_' and '-', such as 'acme-production'",
    }),
  ),
  adapter: z.string({ error: EXPECTED_ADAPTER }).optional(),
}

/** How the only service is called. */
const callSettings = objectOf(callFields, "{ adapter: './services/acme.ts', concurrency: 32 }").prefault({})

const bulkSettings = objectOf(
  {
    minimum: orNull(integerBetween(1, 1_000_000_000)),
    deadline: durationText(1).prefault('6h'),
    grace: durationText(0).prefault('5m'),
  },
  "{ minimum: 50, deadline: '6h' }",
).prefault({})

/** Ages and attempts, of all services where one has none of its own. */
const refreshFields = {
  refreshAfter: durationText(0),
  retryNotFoundAfter: durationText(0),
  attempts: integerBetween(1, 100),
}

/** One of several services: how it is called, and what it may cost. */
const serviceEntry = objectOf(
  {
    ...callFields,
    bulk: bulkSettings,
    price: orNull(price),
    budget: orNull(runBudget),
    refreshAfter: orNull(refreshFields.refreshAfter),
    retryNotFoundAfter: orNull(refreshFields.retryNotFoundAfter),
    attempts: orNull(refreshFields.attempts),
  },
  "{ adapter: './services/pdl.ts', budget: 2000 }",
)

/** The services by name: one at least, which is found before (`load.ts`). */
const servicesSchema = z.record(serviceNameText, serviceEntry).superRefine(checkVariableNames)

/** Names that differ in a case or a sign only have the same variables. */
function checkVariableNames(
  services: Readonly<Record<string, unknown>>,
  context: z.core.$RefinementCtx,
): void {
  const taken = new Map<string, string>()
  for (const name of Object.keys(services)) {
    const prefix = toVariable(name, '')
    const twin = taken.get(prefix)
    taken.set(prefix, twin ?? name)
    if (twin !== undefined)
      rejecting(context)(
        [name],
        `a name with the variables of ${twin}, ${prefix}…`,
        'a name of its own in capitals, too',
      )
  }
}

/** Source names occur in commands, URLs and metric labels. */
const EXPECTED_SOURCE_NAME = "a source's name: letters, digits, _ and -, at most 63, the first one a letter"
const sourceName = textLike(/^[A-Za-z][A-Za-z0-9_-]{0,62}$/, EXPECTED_SOURCE_NAME)

const scheduleEntry = objectOf(
  {
    cron: requiredString('cron text').superRefine(checkCron).trim(),
    timezone: orNull(requiredString('a time zone').superRefine(checkTimezone)),
    sources: orNull(
      listOf(
        z.string({ error: "a source's name" }),
        'a list of sources',
        'at least one source; leave `sources` out for all',
      ),
    ),
    budget: orNull(lookupBudgetForm),
  },
  "{ cron: '0 2 * * *' }",
)

const EXPECTED_URL = "an http or https address, such as 'https://ops.example.com/fillrate'"

const httpUrl = textThat((text) => /^https?:$/.test(URL.parse(text)?.protocol ?? ''), EXPECTED_URL)

const notifyTarget = objectOf(
  {
    // `url: process.env.OPS_URL` of a variable that is not set must not mean the default address.
    url: z.exactOptional(httpUrl),
    form: oneOfStrings(NOTIFICATION_FORMS).prefault('json'),
    on: listOf(
      oneOfStrings(CONDITION_SEVERITIES),
      'a list of topics',
      'at least one topic; leave `on` out for errors alone',
    ).prefault([...DEFAULT_TOPICS]),
  },
  "{ url: 'https://ops.example.com/fillrate' }",
)

const liveSyncSettings = objectOf({ budget: orNull(lookupBudgetForm) }, '{ budget: 1000 }').prefault({})

const configShape = (known: SchemaServices) =>
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
  )

/** A configuration file whose fields are right, each for itself, with the defaults that follow from no other part. */
export type ParsedConfig = z.output<ReturnType<typeof configShape>>

/** A budget in money needs the price of each service that spends it, in its currency. */
function checkPrices({ budget, price, services }: ParsedConfig, context: z.core.$RefinementCtx): void {
  const settings =
    services === null
      ? [{ path: [], budget, price }]
      : Object.entries(services).map(([name, service]) => ({ path: ['services', name], ...service }))
  for (const { path, ...own } of settings)
    for (const [place, amount] of new Map([
      ['`budget`', budget],
      [path.length === 0 ? '`budget`' : 'its `budget`', own.budget],
    ])) {
      if (amount === null || typeof amount !== 'object' || own.price?.currency === amount.currency) continue
      rejecting(context)(
        [...path, 'price', ...(own.price === null ? [] : ['currency'])],
        own.price === null ? 'nothing' : quoteText(own.price.currency),
        `a price in ${amount.currency}, such as { currency: '${amount.currency}', lookup: 0.05 }: ${place} is in ${amount.currency}`,
      )
      break
    }
}

/** A schedule runs unattended: a missing source or budget would be noticed only the next morning. */
function checkSchedule({ sources, schedule, budget }: ParsedConfig, context: z.core.$RefinementCtx): void {
  const reject = rejecting(context)
  const names = Object.keys(sources)
  for (const [index, entry] of schedule.entries()) {
    for (const [position, name] of (entry.sources ?? []).entries())
      if (!names.includes(name))
        reject(
          ['schedule', index, 'sources', position],
          undefined,
          `a source of this configuration: ${oneOf(names)}`,
          didYouMean(name, names),
        )
    if (entry.budget === null && budget === null)
      reject(
        ['schedule', index, 'budget'],
        'nothing, and no budget for all runs either',
        EXPECTED_BUDGET,
        'Add `budget` here or at the top level of the configuration: a run requires one.',
      )
  }
}

/** What a configuration file may hold, as `ConfigInput` describes it, including the checks between its parts. */
export const createConfigSchema = (known: SchemaServices) =>
  configShape(known).superRefine((parsed, context) => {
    checkPrices(parsed, context)
    checkSchedule(parsed, context)
  })
