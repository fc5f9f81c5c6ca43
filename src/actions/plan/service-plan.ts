import { ALL_LOOKUP_KINDS, type LookupKind } from '../../domain/identifiers/kind.ts'
import { listBulkCalls } from '../../domain/service/service.ts'
import {
  costOf,
  type MixedBudget,
  type Price,
  resolveSourceBudgets,
  roundCredits,
  shareOfHighest,
  type SingleEndpoint,
  type SourceBudget,
  sumCosts,
  toUnits,
} from '../../domain/spend.ts'
import type { Deps } from '../../pipeline/deps.ts'
import { limitChains, type StepEstimate, type WantedChain } from './budgets.ts'
import { type CallCounts, estimateTime, type PlannedTime } from './duration.ts'
import { estimateCalls, NO_LOOKUPS, sumCredits } from './estimates.ts'
import type { Plan, PlanOptions, ServicePlan } from './report.ts'
import type { PlannedStep } from './onward.ts'

/** A service, with what its plan depends on. */
export interface PlannedParty {
  readonly name: string
  readonly deps: Pick<Deps, 'db' | 'policy' | 'service' | 'random' | 'adapter'>
  readonly options: PlanOptions
  /** Its own budget. */
  readonly budget: number | null
}

/** A source with its services by their place among the parties, and what they were read to be requested with. */
export interface PlannedChain {
  readonly parties: readonly number[]
  readonly steps: readonly PlannedStep[]
  /** The source's own budget; null: none. */
  readonly budget: SourceBudget | null
  readonly kind: SingleEndpoint
}

/**
 * What each service would be requested with, over all sources. Pure.
 * @param total the most lookups of all services together; null: no limit
 * @param mixed that budget in money, if its lookups have several prices
 */
export function planServices(
  parties: readonly PlannedParty[],
  chains: readonly PlannedChain[],
  total: number | null,
  mixed: MixedBudget | null,
): ServicePlan[] {
  const limit = mixed === null ? total : total && toUnits(mixed.amount, mixed)
  const wanted: WantedChain[] = []
  const byKind = parties.map(() => ({ ...NO_LOOKUPS }))
  for (const { parties: order, steps, budget, kind } of chains) {
    const ofSource = resolveSourceBudgets([{ name: '', budget }], limit).get('') ?? Infinity
    wanted.push({
      parties: order,
      steps,
      budget: ofSource,
      charges:
        mixed === null
          ? []
          : order.map((n) => shareOfHighest(parties[n]?.deps.policy.price ?? null, mixed)?.[kind] ?? 1),
    })
    for (const [place, party] of order.entries()) {
      const kinds = byKind[party]
      for (const kind of ALL_LOOKUP_KINDS) if (kinds) kinds[kind] += steps[place]?.byKind[kind] ?? 0
    }
  }
  const limited = limitChains(wanted, {
    parties: parties.map(({ budget, deps }) => (budget ?? Infinity) / mostOf(deps.adapter.credits.most)),
    total: limit ?? Infinity,
  })
  return parties.map((party, n) => {
    const own = wanted.flatMap(({ parties: order }, chain) => limited[chain]?.[order.indexOf(n)] ?? [])
    const lookups = own.reduce(addEstimates, { certain: 0, max: 0 })
    return toServicePlan(party, lookups, byKind[n] ?? NO_LOOKUPS)
  })
}

const mostOf = (credits: Readonly<Record<LookupKind, number>>): number =>
  Math.max(1, ...Object.values(credits))

const addEstimates = (a: StepEstimate, b: StepEstimate): StepEstimate => ({
  certain: a.certain + b.certain,
  max: a.max + b.max,
})

function toServicePlan(
  { name, deps, options, budget }: PlannedParty,
  lookups: StepEstimate,
  byKind: Readonly<Record<LookupKind, number>>,
): ServicePlan {
  const { adapter, policy } = deps
  const expected = shareKinds(byKind, lookups.certain)
  const most = shareKinds(byKind, lookups.max)
  const callsFor = (counts: typeof expected): CallCounts =>
    estimateCalls(counts, { ...options, bulkCalls: listBulkCalls(adapter) }, policy.bulkMinimum)
  const calls = callsFor(expected)
  return {
    service: name,
    lookups,
    calls,
    cost: {
      amount: costOf(sumCredits(expected, adapter.credits.least), policy.price),
      max_amount: costOf(sumCredits(most, adapter.credits.most), policy.price),
      budget,
    },
    time: estimateTime(calls, callsFor(most), {
      knownLimit: options.knownLimit,
      documented: adapter.rateLimits,
      firstPollMs: options.firstPollMs,
    }),
  }
}

/** A number of lookups, of the kinds in proportion. */
function shareKinds(
  byKind: Readonly<Record<LookupKind, number>>,
  lookups: number,
): Record<LookupKind, number> {
  const shared = { ...NO_LOOKUPS }
  let [open, left] = [ALL_LOOKUP_KINDS.reduce((sum, kind) => sum + byKind[kind], 0), lookups]
  for (const kind of ALL_LOOKUP_KINDS) {
    const part = open === 0 ? 0 : Math.round((left * byKind[kind]) / open)
    shared[kind] = part
    open -= byKind[kind]
    left -= part
  }
  return shared
}

/**
 * The most that a shared budget pays, over all services: the most of each one assumes that the others need little of it. Pure.
 * @param prices of the services
 */
function boundByBudget(
  prices: readonly (Price | null)[],
  budget: number | null,
  mixed: MixedBudget | null,
): { readonly lookups: number; readonly amount: number } {
  if (mixed !== null) {
    const shares = prices.flatMap((price) => Object.values(shareOfHighest(price, mixed) ?? { none: 0 }))
    const least = Math.min(...shares)
    const lookups = least > 0 ? Math.floor(toUnits(mixed.amount, mixed) / least) : Infinity
    return { lookups, amount: mixed.amount }
  }
  const dearest = Math.max(0, ...prices.flatMap((price) => (price ? [price.person, price.company] : [])))
  return { lookups: budget ?? Infinity, amount: budget === null ? Infinity : roundCredits(budget * dearest) }
}

/** The sums of several services' plans, in the fields of a plan of one. Pure. */
export function sumServicePlans(
  services: readonly ServicePlan[],
  prices: readonly (Price | null)[],
  budget: number | null,
  mixed: MixedBudget | null,
): Pick<Plan, 'calls' | 'cost' | 'time'> {
  const sum = (of: (service: ServicePlan) => number): number =>
    services.reduce((total, service) => total + of(service), 0)
  const calls = (name: keyof CallCounts): number => sum((service) => service.calls[name])
  const bound = boundByBudget(prices, budget, mixed)
  const most = sumCosts(services.map(({ cost }) => cost.max_amount))
  const slowest = services.toSorted((a, b) => (b.time.max_ms ?? 0) - (a.time.max_ms ?? 0))[0]?.time
  const longest = (of: (time: PlannedTime) => number | null): number | null =>
    services.every(({ time }) => of(time) !== null)
      ? Math.max(...services.map(({ time }) => of(time) ?? 0))
      : null
  return {
    calls: {
      person: calls('person'),
      company: calls('company'),
      bulk: calls('bulk'),
      polls: calls('polls'),
      total: calls('total'),
    },
    cost: {
      lookups: sum((service) => service.lookups.certain),
      max_lookups: Math.min(
        bound.lookups,
        sum((service) => service.lookups.max),
      ),
      amount: sumCosts(services.map(({ cost }) => cost.amount)),
      max_amount: most && { ...most, amount: Math.min(most.amount, bound.amount) },
      budget,
      beyond_budget: 0,
    },
    time: {
      limit: slowest?.limit ?? null,
      window_ms: slowest?.window_ms ?? null,
      ms: longest((time) => time.ms),
      max_ms: longest((time) => time.max_ms),
    },
  }
}
