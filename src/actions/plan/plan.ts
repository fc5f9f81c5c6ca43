import type { KnownLimit } from '../../domain/rate-status.ts'
import { defaultBulkMinimum, routeLookups } from '../../domain/route.ts'
import { type DocumentedLimit, leastDurationMs } from '../../domain/service/documented-limit.ts'
import { type BulkCall, byKind, listBulkCalls } from '../../domain/service/service.ts'
import type { Plan, ServicePlan, SourcePlan } from '../../domain/report/plan.ts'
import type { Money } from '../../domain/report/shape.ts'
import * as pauses from '../../store/source-state.ts'
import { ALL_LOOKUP_KINDS, endpointOf, type LookupKind } from '../../domain/identifiers/kind.ts'
import { costOf, roundCredits, sumCosts, toUnits } from '../../domain/spend.ts'
import { createBudget } from '../../pipeline/pick/budget.ts'
import { isFit } from '../../runs/source-health.ts'
import type { Database } from '../../store/open.ts'
import { payWanted, type Account, type PaidLookups, type WantedStep } from './budgets.ts'
import { planSource } from './funnel.ts'
import { LookupEstimate, sumCredits, sumOf, type KindCounts } from './lookup-estimate.ts'
import type { PlannedCalls, PlannedService, PlanOptions } from './report.ts'
import { SourceWalk, type CountedService, type PlannedStep } from './walk.ts'

/**
 * Plans what a run would pick, request and cost, using the same steps as a run: rows are picked for the
 * first service of their source, and followed to those after it. Writes nothing and calls nothing.
 * @param planned the services, in their order
 */
export async function createPlan(
  db: Database,
  planned: readonly PlannedService[],
  options: PlanOptions,
): Promise<Plan> {
  const total = toTotal(options)
  const services = planned.map((service) => ({
    ...service,
    estimate: new LookupEstimate(),
    account: openAccount(service, options),
  }))
  const leftOut = new Map(planned.flatMap((service) => service.leftOut).map((entry) => [entry.source, entry]))
  const names = planned.flatMap(({ sources }) => sources.map(({ name }) => name))
  const paused = await pauses.filterPaused(db, [...new Set([...names, ...leftOut.keys()])].sort())
  const sources: SourcePlan[] = []
  const wanted: WantedStep[] = []
  for (const steps of listSteps(services)) {
    const [first] = steps
    if (first === undefined || paused.includes(first.source.name)) continue
    const walk = new SourceWalk(steps)
    sources.push(await planSource(first, walk, options))
    wanted.push(...walk.wanted)
  }
  const accounts = services.map(({ account }) => account)
  const bounds = payWanted(wanted, accounts, total ?? Infinity)
  const toRequest = byKind((kind) =>
    services.reduce((sum, { estimate }) => sum + estimate.requests.certain[kind], 0),
  )
  const distinct = services.reduce((sum, { estimate }) => sum + estimate.distinct, 0)
  const requested = sumOf(toRequest)
  return {
    sources,
    paused,
    left_out: [...leftOut.values()].filter(({ source }) => !paused.includes(source)),
    lookups: {
      distinct,
      stored: distinct - requested,
      to_request: toRequest,
      requested,
      is_estimate: services.some(({ estimate }) => estimate.isSampled),
    },
    ...costServices(
      services.map((service, n) => ({ ...service, paid: bounds.paid[n] ?? NOTHING_PAID })),
      options,
      requested,
      bounds.max,
    ),
  }
}

/** The services of each source, in its order, as far as the source fits their mapping. */
function listSteps(services: readonly (PlannedService & CountedService)[]): PlannedStep[][] {
  const planned = services.flatMap((service) => service.sources.map((source) => ({ service, source })))
  const bySource = Map.groupBy(
    planned.filter(({ source }) => isFit(source)),
    ({ source }) => source.name,
  )
  const placeOf = ({ source: { mapping } }: PlannedStep): number =>
    mapping.steps.findIndex(({ step }) => step.service === mapping.step.service)
  return [...bySource.values()].map((steps) => steps.toSorted((a, b) => placeOf(a) - placeOf(b)))
}

/** The budget of all services, in what their lookups take of it. */
const toTotal = ({ budget, mixed }: PlanOptions): number | null =>
  mixed === null ? budget : toUnits(mixed.amount, mixed)

/** The account of a service: as a run charges its lookups. */
function openAccount(
  { deps, budget: own }: Pick<PlannedService, 'deps' | 'budget'>,
  options: PlanOptions,
): Account {
  const { credits } = deps.adapter
  const budget = createBudget({ credits, price: deps.policy.price, own }, options)
  const most = byKind((kind) => budget.charge({ kind }))
  const least = Math.min(...Object.values(credits.least))
  return {
    budget: budget.ownLimit ?? Infinity,
    most,
    least: credits.isFlat ? most : byKind(() => least),
  }
}

type PaidService = PlannedService & CountedService & { readonly paid: PaidLookups }
const NOTHING_PAID: PaidLookups = { certain: byKind(() => 0), max: 0 }

interface CostedService extends ServicePlan {
  readonly credits: number
  readonly calls: Plan['calls']
  readonly time: Plan['time']
}

/**
 * What the services cost within the budgets, each and together.
 * @param requested certain lookups of all, whatever budgets pay
 * @param max the most lookups of all
 */
export function costServices(
  services: readonly PaidService[],
  options: PlanOptions,
  requested: number,
  max: number,
): Pick<Plan, 'calls' | 'cost' | 'time' | 'services'> {
  const { budget, mixed } = options
  const total = toTotal(options) ?? Infinity
  const costed = services.map((service) => costService(service, options, total))
  const sum = (of: (service: CostedService) => number): number =>
    roundCredits(costed.reduce((all, service) => all + of(service), 0))
  const calls = (name: keyof Plan['calls']): number => sum((service) => service.calls[name])
  const lookups = sum((service) => service.lookups.certain)
  const prices = services.map(({ deps }) => deps.policy.price)
  const highest = Math.max(0, ...prices.flatMap((price) => (price ? [price.person, price.company] : [])))
  const most = sumCosts(costed.map((service) => service.max_amount))
  const slowest = costed.toSorted((a, b) => (b.time.max_ms ?? 0) - (a.time.max_ms ?? 0))[0]?.time
  const longest = (of: (time: Plan['time']) => number | null): number | null => {
    const known = costed.flatMap(({ time }) => of(time) ?? [])
    return known.length < costed.length ? null : Math.max(...known)
  }
  const isFlat = services.every(({ deps }) => deps.adapter.credits.isFlat)
  const mostCredits = sum(({ credits }) => credits)
  return {
    calls: {
      person: calls('person'),
      company: calls('company'),
      bulk: calls('bulk'),
      total: calls('total'),
    },
    cost: {
      lookups,
      max_lookups: max,
      ...(!isFlat && { max_credits: mixed === null ? Math.min(total, mostCredits) : mostCredits }),
      max_amount: mixed === null ? limitCost(most, total, highest) : limitCost(most, mixed.amount, 1),
      budget,
      beyond_budget: requested - lookups,
    },
    time: {
      limit: slowest?.limit ?? null,
      window_ms: slowest?.window_ms ?? null,
      ms: longest((time) => time.ms),
      max_ms: longest((time) => time.max_ms),
    },
    ...(services.some(({ name }) => name !== null) && {
      services: costed.map(({ service, lookups, max_amount }) => ({ service, lookups, max_amount })),
    }),
  }
}

/** What credits cost within a budget of them. */
const limitCost = (cost: Money | null, credits: number, price: number): Money | null =>
  cost === null || credits === Infinity
    ? cost
    : { ...cost, amount: Math.min(cost.amount, roundCredits(credits * price)) }

/** @param total the budget of all services */
function costService(
  { name, deps, estimate, account, paid, ...service }: PaidService,
  { route }: PlanOptions,
  total: number,
): CostedService {
  const { adapter, policy } = deps
  const { credits } = adapter
  const { price } = policy
  const { certain } = paid
  const { certain: wanted, possible } = estimate.requests
  const priceOf = (kind: LookupKind): number => price?.[endpointOf(kind)] ?? 1
  const worth = byKind((kind) => credits.most[kind] * priceOf(kind))
  // With certain ones that are paid only if others cost less than they may.
  const optional = byKind((kind) => Math.max(0, wanted[kind] - certain[kind]) + possible[kind])
  const more = takeDearest(optional, Math.min(paid.max - sumOf(certain), sumOf(optional)), worth)
  const most = byKind((kind) => certain[kind] + more[kind])
  const callsFor = (counts: KindCounts): Plan['calls'] =>
    estimateCalls(counts, { ...service, route, bulkCalls: listBulkCalls(adapter) }, policy.bulk.minimum)
  const calls = callsFor(certain)
  const reserved = sumCredits(most, credits.most)
  const limit = credits.isFlat ? Infinity : Math.min(account.budget, total)
  const dearest = Math.max(...ALL_LOOKUP_KINDS.map((kind) => (most[kind] > 0 ? priceOf(kind) : 0)))
  return {
    service: name ?? '',
    lookups: { certain: sumOf(certain), max: sumOf(most) },
    calls,
    max_amount: limitCost(costOf(reserved, price), limit, dearest),
    time: estimateTime(calls, callsFor(most), { ...service, documented: adapter.rateLimits }),
    credits: Math.min(reserved.all, limit),
  }
}

/** Some of these lookups, so that no others are worth more. */
function takeDearest(counts: KindCounts, some: number, worth: KindCounts): KindCounts {
  const taken = byKind(() => 0)
  let left = some
  for (const kind of ALL_LOOKUP_KINDS.toSorted((a, b) => worth[b] - worth[a])) {
    taken[kind] = Math.min(left, counts[kind])
    left -= taken[kind]
  }
  return taken
}

/**
 * Estimates calls by route, as a run would make them. Pure.
 * @param minimum null: that of each endpoint
 */
export function estimateCalls(
  toAsk: KindCounts,
  options: PlannedCalls & {
    readonly bulkCalls: readonly Pick<BulkCall, 'kinds' | 'size' | 'results' | 'needsWebhook'>[]
  },
  minimum: number | null,
): Plan['calls'] {
  const { route, usesWebhook, bulkCalls } = options
  let [person, company] = [toAsk.email + toAsk.linkedin_url + toAsk.name_company, toAsk.domain]
  let bulk = 0
  for (const { kinds, size, results, needsWebhook } of bulkCalls) {
    const { bulkFrom, singly } = routeLookups({
      option: route,
      bulkPossible: usesWebhook || !needsWebhook,
      picking: false,
      minimum: minimum ?? defaultBulkMinimum({ size, results }),
      size,
    })
    if (bulkFrom === null) continue
    const waiting = kinds.reduce((sum, kind) => sum + toAsk[kind], 0)
    const full = Math.floor(waiting / size)
    const jobs = waiting < bulkFrom ? 0 : full + (waiting % size >= Math.min(bulkFrom, size) ? 1 : 0)
    const notSingly = singly === 'never' ? waiting : Math.min(waiting, jobs * size)
    if (kinds.includes('domain')) company -= notSingly
    else person -= notSingly
    bulk += jobs
  }
  return { person, company, bulk, total: person + company + bulk }
}

interface KnownTimes {
  readonly knownLimit: KnownLimit | null
  readonly documented: readonly DocumentedLimit[]
}

/** Estimates the duration of calls at the last known limit, in milliseconds; null if the limit is unknown. Pure. */
function estimateDurationMs(calls: number, rateLimit: KnownLimit | null): number | null {
  if (rateLimit === null || rateLimit.windowMs === null || rateLimit.limit === 0) return null
  return Math.max(0, Math.ceil(calls / rateLimit.limit) - 1) * rateLimit.windowMs
}

/**
 * How long calls take by the strictest limit that is known. Jobs take longer than their calls.
 * @param most the most calls, if all that may be looked up is
 */
export function estimateTime(
  calls: Plan['calls'],
  most: Plan['calls'],
  { knownLimit, documented }: KnownTimes,
): Plan['time'] {
  const estimate = (counts: Plan['calls']): number | null => {
    const learnt = estimateDurationMs(counts.total, knownLimit)
    if (documented.length === 0) return learnt
    return Math.max(learnt ?? 0, leastDurationMs(documented, counts))
  }
  const [shortest] = documented.toSorted((a, b) => a.windowMs - b.windowMs)
  return {
    limit: knownLimit?.limit ?? shortest?.calls ?? null,
    window_ms: knownLimit === null ? (shortest?.windowMs ?? null) : knownLimit.windowMs,
    ms: estimate(calls),
    max_ms: estimate(most),
  }
}
