import type { LookupKind } from '../../domain/identifiers/kind.ts'
import { listBulkCalls } from '../../domain/service/service.ts'
import { costOf, resolveSourceBudgets, roundCredits, shareOfHighest, toUnits } from '../../domain/spend.ts'
import type { Deps } from '../../pipeline/deps.ts'
import { isFit } from '../../runs/source-health.ts'
import * as pauses from '../../store/paused-sources.ts'
import { type CallCounts, estimateTime } from './duration.ts'
import { countPayable, estimateCalls, mapKinds, NO_LOOKUPS, sumCredits, sumOf } from './estimates.ts'
import { planSource, type SourcePlan } from './funnel.ts'
import { LookupEstimate } from './lookup-estimate.ts'
import type { Plan, PlanOptions } from './report.ts'

export type { Plan } from './report.ts'
export type { SourcePlan } from './funnel.ts'

const addSingleCalls = (calls: CallCounts, more: number): CallCounts => ({
  ...calls,
  person: calls.person + more,
  total: calls.total + more,
})

/** Plans what a run would pick, request and cost, using the same steps as a run. Writes nothing and calls nothing. */
export async function createPlan(
  deps: Pick<Deps, 'db' | 'policy' | 'service' | 'random' | 'adapter'>,
  options: PlanOptions,
): Promise<Plan> {
  const { knownLimit } = options
  const estimate = new LookupEstimate()
  const sources: SourcePlan[] = []
  const requests: Record<LookupKind, number>[] = []
  const names = [...options.sources.map(({ name }) => name), ...options.leftOut.map(({ source }) => source)]
  const paused = await pauses.filterPaused(deps.db, [...new Set(names)].sort())
  for (const source of options.sources.filter((one) => isFit(one) && !paused.includes(one.name))) {
    const before = estimate.countsByKind()
    sources.push(await planSource(deps, source, options, estimate))
    requests.push(mapKinds(estimate.countsByKind(), (count, kind) => Math.max(0, count - before[kind])))
  }

  const { distinct, requests: requested, maxRequests } = estimate
  const byKind = estimate.countsByKind()
  const { credits } = deps.adapter
  const { price } = deps.policy
  const { mixed = null } = options
  const weights = mixed === null || !credits.isFlat ? null : shareOfHighest(price, mixed)
  const charges =
    weights === null
      ? credits.most
      : mapKinds(NO_LOOKUPS, (_, kind) => weights[kind === 'domain' ? 'company' : 'person'])
  const limit = mixed === null ? options.budget : toUnits(mixed.amount, mixed)
  const budget = limit ?? Number.POSITIVE_INFINITY
  const sourceBudgets = resolveSourceBudgets(
    options.sources.map(({ mapping }) => mapping),
    limit,
  )
  const limits = sources.map(({ source }) => sourceBudgets.get(source) ?? Number.POSITIVE_INFINITY)
  const payable = countPayable(requests, budget, limits, charges)
  const cost = sumOf(payable)
  // Fallbacks of a source that has used up its own budget are not paid.
  const hasSpentSource = sourceBudgets.size > 0 && cost < requested
  // A lookup that costs less than its maximum leaves credits for others.
  const leastEach = Math.min(...Object.values(credits.least))
  const mostLookups =
    weights === null
      ? leastEach === 0
        ? Infinity
        : Math.floor(roundCredits(budget / leastEach))
      : cost + Math.floor(roundCredits((budget - sumCredits(payable, charges).all) / charges.email))
  const maxCost = hasSpentSource ? cost : Math.min(maxRequests, mostLookups)
  const calls = estimateCalls(
    payable,
    { ...options, bulkCalls: listBulkCalls(deps.adapter) },
    deps.policy.bulkMinimum,
  )
  const least = sumCredits(payable, credits.least)
  // Only people have further identifiers.
  const fallbacks = { ...NO_LOOKUPS, email: maxCost - cost }
  const mostPaid = sumCredits(payable, credits.most)
  const mostOfFallbacks = sumCredits(fallbacks, credits.most)
  const mostAll = mixed === null ? budget : Number.POSITIVE_INFINITY
  const most = {
    all: Math.min(mostAll, roundCredits(mostPaid.all + mostOfFallbacks.all)),
    person: Math.min(
      roundCredits(mostAll - mostPaid.company),
      roundCredits(mostPaid.person + mostOfFallbacks.person),
    ),
    company: mostPaid.company,
  }
  return {
    sources,
    paused,
    left_out: options.leftOut.filter(({ source }) => !paused.includes(source)),
    lookups: {
      distinct,
      stored: distinct - requested,
      to_request: byKind,
      requested,
      is_estimate: estimate.isSampled,
    },
    calls,
    cost: {
      lookups: cost,
      max_lookups: maxCost,
      ...(!credits.isFlat && { credits: { min: least.all, max: most.all } }),
      amount: costOf(least, price),
      max_amount: costOf(most, price),
      budget: options.budget,
      beyond_budget: requested - cost,
    },
    // Fallbacks follow a miss, one by one.
    time: estimateTime(calls, addSingleCalls(calls, maxCost - cost), {
      knownLimit,
      documented: deps.adapter.rateLimits,
      firstPollMs: options.firstPollMs,
    }),
  }
}
