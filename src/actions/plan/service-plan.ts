import { ALL_LOOKUP_KINDS, type LookupKind } from '../../domain/identifiers/kind.ts'
import { listBulkCalls } from '../../domain/service/service.ts'
import {
  costOf,
  type MixedBudget,
  resolveSourceBudgets,
  shareOfHighest,
  type SingleEndpoint,
  type SourceBudget,
  sumCosts,
  toUnits,
} from '../../domain/spend.ts'
import type { Deps } from '../../pipeline/deps.ts'
import { limitChains, type WantedChain } from './budgets.ts'
import { type AnswersSoFar, estimateSteps, type StepEstimate, toAnswerShares } from './chain.ts'
import { type CallCounts, estimateTime, type PlannedTime } from './duration.ts'
import { estimateCalls, estimateMatches, NO_LOOKUPS, sumCredits } from './estimates.ts'
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
  readonly when: readonly ('miss' | 'blank' | null)[]
  readonly history: readonly AnswersSoFar[]
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
  const found = parties.map(() => ({ found: 0, rows: 0 }))
  for (const { parties: order, steps, when, history, budget, kind } of chains) {
    const shares = order.map((_, place) => toAnswerShares(history, place, when[place] ?? null))
    const ofSource = resolveSourceBudgets([{ name: '', budget }], limit).get('') ?? Infinity
    wanted.push({
      parties: order,
      steps: estimateSteps(steps, shares, when),
      budget: ofSource,
      charges:
        mixed === null
          ? []
          : order.map((n) => shareOfHighest(parties[n]?.deps.policy.price ?? null, mixed)?.[kind] ?? 1),
    })
    for (const [place, party] of order.entries()) {
      const [kinds, so] = [byKind[party], found[party]]
      for (const kind of ALL_LOOKUP_KINDS) if (kinds) kinds[kind] += steps[place]?.byKind[kind] ?? 0
      const share = shares[place]
      if (so && share) {
        so.found += share.found * share.observations
        so.rows += share.observations
      }
    }
  }
  const limited = limitChains(wanted, {
    parties: parties.map(({ budget, deps }) => (budget ?? Infinity) / mostOf(deps.adapter.credits.most)),
    total: limit ?? Infinity,
  })
  return parties.map((party, n) => {
    const own = wanted.flatMap(({ parties: order }, chain) => limited[chain]?.[order.indexOf(n)] ?? [])
    const lookups = own.reduce(addEstimates, { certain: 0, likely: 0, max: 0 })
    return toServicePlan(party, lookups, byKind[n] ?? NO_LOOKUPS, found[n])
  })
}

const mostOf = (credits: Readonly<Record<LookupKind, number>>): number =>
  Math.max(1, ...Object.values(credits))

const addEstimates = (a: StepEstimate, b: StepEstimate): StepEstimate => ({
  certain: a.certain + b.certain,
  likely: a.likely === null || b.likely === null ? null : a.likely + b.likely,
  max: a.max + b.max,
})

function toServicePlan(
  { name, deps, options, budget }: PlannedParty,
  lookups: StepEstimate,
  byKind: Readonly<Record<LookupKind, number>>,
  found: { readonly found: number; readonly rows: number } | undefined,
): ServicePlan {
  const { adapter, policy } = deps
  const expected = shareKinds(byKind, lookups.likely ?? lookups.certain)
  const most = shareKinds(byKind, lookups.max)
  const calls = estimateCalls(expected, { ...options, bulkCalls: listBulkCalls(adapter) }, policy.bulkMinimum)
  return {
    service: name,
    lookups,
    found:
      found === undefined || found.rows === 0 ? null : { share: found.found / found.rows, rows: found.rows },
    calls,
    cost: {
      amount: costOf(sumCredits(expected, adapter.credits.least), policy.price),
      max_amount: costOf(sumCredits(most, adapter.credits.most), policy.price),
      budget,
    },
    time: estimateTime(calls, lookups.max - (lookups.likely ?? lookups.certain), {
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

/** The sums of several services' plans, in the fields of a plan of one. Pure. */
export function sumServicePlans(
  services: readonly ServicePlan[],
  budget: number | null,
  mixed: MixedBudget | null,
): Pick<Plan, 'calls' | 'cost' | 'time'> {
  const sum = (of: (service: ServicePlan) => number): number =>
    services.reduce((total, service) => total + of(service), 0)
  const calls = (name: keyof CallCounts): number => sum((service) => service.calls[name])
  const expected = ({ likely, certain }: ServicePlan['lookups']): number => likely ?? certain
  const lookups = sum((service) => expected(service.lookups))
  const known = services.flatMap(({ found, lookups: of }) => (found === null ? [] : { ...found, of }))
  const rows = known.reduce((total, one) => total + one.rows, 0)
  const found = Math.round(known.reduce((total, { share, of }) => total + share * expected(of), 0))
  const isKnown = known.length === services.length && lookups > 0
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
      lookups,
      max_lookups: Math.min(
        mixed === null ? (budget ?? Infinity) : Infinity,
        sum((service) => service.lookups.max),
      ),
      amount: sumCosts(services.map(({ cost }) => cost.amount)),
      max_amount: sumCosts(services.map(({ cost }) => cost.max_amount)),
      budget,
      beyond_budget: 0,
      match_rate: isKnown ? found / lookups : null,
      expected_found: isKnown ? found : null,
      found_range: isKnown
        ? estimateMatches(lookups, { found: (rows * found) / lookups, requested: rows })
        : null,
    },
    time: {
      limit: slowest?.limit ?? null,
      window_ms: slowest?.window_ms ?? null,
      ms: longest((time) => time.ms),
      max_ms: longest((time) => time.max_ms),
    },
  }
}
