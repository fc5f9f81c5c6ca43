import { z } from 'zod'
import {
  objectOf,
  objectLike,
  countFromZero,
  durationText,
  fraction,
  integerBetween,
  numberFromZero,
  orNull,
  textLike,
} from './primitives.ts'
import type { Price } from '../domain/spend.ts'

const EXPECTED_BUDGET = "a whole number of lookups, such as 10000, or 'unlimited'"
const budgetForms = (error: string) => [countFromZero(error), z.literal('unlimited', { error })] as const
export const lookupBudget = z.union(budgetForms(EXPECTED_BUDGET), { error: EXPECTED_BUDGET })

const EXPECTED_CURRENCY = "the three letters of a currency, such as 'EUR'"
const EXPECTED_PRICE = 'a number of at least 0, such as 0.05'
const amount = numberFromZero(EXPECTED_PRICE)

const currency = textLike(/^[A-Z]{3}$/, EXPECTED_CURRENCY)

const EXPECTED_RUN_BUDGET = `${EXPECTED_BUDGET}, or { amount: 50, currency: 'EUR' }`
/** Of a run: lookups, or money. */
export const runBudget = z.union([...budgetForms(EXPECTED_RUN_BUDGET), objectOf({ amount, currency })], {
  error: EXPECTED_RUN_BUDGET,
})

export const price = objectOf(
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
export const callSettings = objectOf(
  callFields,
  "{ adapter: './services/acme.ts', concurrency: 32 }",
).prefault({})

export const bulkSettings = objectOf(
  {
    minimum: orNull(integerBetween(1, 1_000_000_000)),
    deadline: durationText(1).prefault('6h'),
    grace: durationText(0).prefault('5m'),
  },
  "{ minimum: 50, deadline: '6h' }",
).prefault({})

/** Ages and attempts, of all services where one has none of its own. */
export const refreshFields = {
  refreshAfter: durationText(0),
  retryNotFoundAfter: durationText(0),
  attempts: integerBetween(1, 100),
}

/** Services' names are part of variables, addresses and labels of metrics. `field` would be read as an output. */
const EXPECTED_SERVICE_NAME =
  "a service's name: letters, digits, _ and -, at most 63, the first one a letter, other than 'field'"
export const serviceNameText = textLike(/^(?!field$)[A-Za-z][A-Za-z0-9_-]{0,62}$/, EXPECTED_SERVICE_NAME)

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

/** The services by name. */
export const servicesSchema = z
  .record(serviceNameText, serviceEntry, {
    error: objectLike("{ acme: {}, pdl: { adapter: './services/pdl.ts' } }"),
  })
  .refine((services) => Object.keys(services).length > 0, { error: 'at least one service' })
