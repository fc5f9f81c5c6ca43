import type { SourceMapping, SourceStep } from '../domain/mapping.ts'
import { type Price, toLookupBudget, type ConfiguredBudget } from '../domain/spend.ts'
import {
  toOutputMapping,
  type ParsedSource,
  type SchemaServices,
  createSourceSchema,
} from './source-schema.ts'
import { type ConfiguredService, listTaken, listTurns, outputFor } from './turns.ts'
import { z } from 'zod'
import {
  objectOf,
  rejecting,
  objectLike,
  checkCron,
  checkTimezone,
  durationText,
  listOf,
  oneOfStrings,
  orNull,
  requiredString,
  textLike,
  textThat,
} from './primitives.ts'
import { quoteText } from '../util/text.ts'
import { CONDITION_SEVERITIES } from '../domain/condition.ts'
import { DEFAULT_TOPICS, NOTIFICATION_FORMS } from '../domain/notification.ts'
import {
  bulkSettings,
  callSettings,
  lookupBudget,
  price,
  refreshFields,
  runBudget,
  servicesSchema,
} from './service-settings-schema.ts'

/**
 * The configuration with the defaults that follow from another part: its services with their settings,
 * its sources with their steps.
 */
function resolveConfig(parsed: ParsedConfig, configured: readonly ConfiguredService[]) {
  const all = configured.map((one) => resolveService(parsed, one))
  const prices = all.map(({ price }) => price)
  const sources = Object.fromEntries(
    Object.entries(parsed.sources).map(([name, source]) => [name, resolveSource(name, source, all)] as const),
  )
  const names = new Set(Object.values(sources).flatMap(({ steps }) => steps.map(({ turn }) => turn.service)))
  return {
    sources,
    // One that serves no source is not called, and needs no key.
    services: all.filter(({ name }) => names.has(name)),
    serviceNames: configured.flatMap(({ name }) => name ?? []) as readonly string[],
    budget: parsed.budget,
    liveSync: { budget: parsed.liveSync.budget ?? toLookupBudget(parsed.budget, prices) },
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
  }
}

/** A service with its settings. One that has a name has its own; the only one has them at the top of the configuration. */
function resolveService(parsed: ParsedConfig, configured: ConfiguredService) {
  const { bulk, ...own } = parsed.services?.[configured.name ?? ''] ?? { ...parsed, ...parsed.service }
  return {
    ...configured,
    concurrency: own.concurrency,
    timeoutMs: own.timeout,
    reserve: own.reserve,
    account: own.account,
    bulk: { minimum: bulk.minimum, deadlineMs: bulk.deadline, graceMs: bulk.grace },
    refreshAfterMs: own.refreshAfter ?? parsed.refreshAfter,
    retryNotFoundAfterMs: own.retryNotFoundAfter ?? parsed.retryNotFoundAfter,
    attempts: own.attempts ?? parsed.attempts,
    budget: own.budget ?? parsed.budget,
    price: own.price,
  }
}

/** A source with its steps; as a whole it has the outputs of all of them, each column as the first of them fills it. */
function resolveSource(
  name: string,
  source: ParsedSource,
  services: readonly ReturnType<typeof resolveService>[],
): SourceMapping {
  const { services: _, freshness, minConfidence, outputs, ...rest } = source
  const turns = listTurns(source, services)
  const steps = turns.map((own, index): SourceStep => {
    const next = turns[index + 1]
    const taken = listTaken(source, own)
    return {
      turn: {
        service: own.name,
        services: turns.flatMap((one) => one.name ?? []),
        isFirst: index === 0,
        next: next === undefined || next.name === null ? null : { service: next.name, when: next.when },
        takes: own.name === null || taken.length === Object.keys(source.inputs).length ? null : taken,
        details: own.adapter[source.kind]?.details ?? [],
      },
      shapes: own.adapter.shapes[source.kind],
      minConfidence: own.minConfidence ?? minConfidence,
      freshness: freshness && { ...freshness, maxAgeMs: own.refreshAfterMs },
      outputs: Object.entries(outputs).flatMap(([column, output]) => {
        const filling = outputFor(output, own.name ?? '')
        return filling === null ? [] : [toOutputMapping(column, filling)]
      }),
    }
  })
  const [first] = steps
  if (first === undefined) throw new Error(`source ${name} has one service at least`)
  const columns = new Map(
    steps.flatMap((step) => step.outputs.map((output) => [output.column, output] as const)).toReversed(),
  )
  const ofAll = Object.keys(outputs).flatMap((column) => columns.get(column) ?? [])
  return { name, ...rest, ...first, outputs: ofAll, steps }
}

/**
 * A configuration file: `ConfigInput` in; out, checked and with every default, what the program works with.
 * @param options.isOpen it may name any service, as the JSON Schema of editors has it
 */
export const createConfigSchema = (
  services: readonly ConfiguredService[],
  { isOpen }: { readonly isOpen: boolean } = { isOpen: false },
) => createInputSchema({ services, isOpen }).transform((parsed) => resolveConfig(parsed, services))

export type ConfigSchema = ReturnType<typeof createConfigSchema>

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
    budget: orNull(lookupBudget),
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
const createInputSchema = (known: SchemaServices) =>
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

type ParsedConfig = z.output<ReturnType<typeof createInputSchema>>
