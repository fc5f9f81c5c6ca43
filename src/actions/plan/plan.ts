import type { LookupKind } from '../../domain/identifiers/kind.ts'
import type { KnownLimit } from '../../domain/rate-status.ts'
import { defaultBulkMinimum, routeLookups } from '../../domain/route.ts'
import type { RunSpec } from '../../domain/run.ts'
import { type BulkCall, listBulkCalls } from '../../domain/service/service.ts'
import { costOf, type Money, resolveSourceBudgets, roundCredits } from '../../domain/spend.ts'
import type { Deps } from '../../pipeline/deps.ts'
import type { DiffRow } from '../../pipeline/preview.ts'
import { sampleEvenly, type RandomSample } from '../../pipeline/random-sample.ts'
import { isFit, type LeftOutSource } from '../../runs/source-health.ts'
import type { Source } from '../../sources/source-model.ts'
import * as pauses from '../../store/paused-sources.ts'
import { readMatchRate } from '../../store/run-progress.ts'
import { type CallCounts, estimateTime, type PlannedTime } from './duration.ts'
import { pluralize } from '../../util/format.ts'
import { planSource, type FunnelOptions, type SourcePlan } from './funnel.ts'
import { LookupEstimate } from './lookup-estimate.ts'

export type { SourcePlan } from './funnel.ts'

interface PlanOptions extends Omit<FunnelOptions, 'sample'>, Pick<RunSpec, 'route'> {
  readonly sources: readonly Source[]
  /** Sources that are left out because they are broken. */
  readonly leftOut: readonly LeftOutSource[]
  /** Deliveries arrive. */
  readonly usesWebhook: boolean
  /** From the submission of a bulk job to its first poll. Null: no job is fetched. */
  readonly firstPollMs: number | null
  readonly knownLimit: KnownLimit | null
  /** Number of rows to show before and after, out of those whose records are already stored; null: none. */
  readonly sample?: number | null
}

/**
 * What a run would request and cost.
 * @example
 * const { calls, cost, time } = await fillrate.plan()
 */
export interface Plan {
  readonly sources: readonly SourcePlan[]
  /** Sources that a run would skip because they are paused. */
  readonly paused: readonly string[]
  /** Sources that do not fit their tables: a run leaves them out. */
  readonly left_out: readonly LeftOutSource[]
  readonly lookups: {
    /** Distinct lookups of all sources together. */
    readonly distinct: number
    /** Already answered and fresh, or requested by another run now: free. */
    readonly stored: number
    readonly to_request: Readonly<Record<LookupKind, number>>
    readonly requested: number
    /** There are more than fit into memory: the numbers are estimates, within half a percent. */
    readonly is_estimate: boolean
  }
  readonly calls: CallCounts
  readonly cost: {
    /** Lookups that would be requested, within the budget. */
    readonly lookups: number
    /** The same, if every row of a cascade reaches its last identifier. */
    readonly max_lookups: number
    /** What these cost, only where a lookup does not cost one credit: the least, and the most, which a run reserves. */
    readonly credits?: CountRange
    /** What these cost; null without a price. Of credits, the least and the most. */
    readonly amount: Money | null
    readonly max_amount: Money | null
    readonly budget: number | null
    /** Lookups beyond the budget, of the rows that the plan read. */
    readonly beyond_budget: number
    /** Share of lookups with a match so far; null before the first. */
    readonly match_rate: number | null
    readonly expected_found: number | null
    /** Most likely range of matches. */
    readonly found_range: CountRange | null
  }
  readonly time: PlannedTime
  readonly sample?: readonly DiffRow[]
}

/** Plans what a run would pick, request and cost, using the same steps as a run. Writes nothing and calls nothing. */
export async function createPlan(
  deps: Pick<Deps, 'db' | 'policy' | 'service' | 'random' | 'adapter'>,
  options: PlanOptions,
): Promise<Plan> {
  const { knownLimit, sample = null } = options
  const estimate = new LookupEstimate()
  const sources: SourcePlan[] = []
  const samples: RandomSample<DiffRow>[] = []
  const requests: Record<LookupKind, number>[] = []
  const names = [...options.sources.map(({ name }) => name), ...options.leftOut.map(({ source }) => source)]
  const paused = await pauses.filterPaused(deps.db, [...new Set(names)].sort())
  for (const source of options.sources.filter((one) => isFit(one) && !paused.includes(one.name))) {
    const before = estimate.countsByKind()
    const planned = await planSource(deps, source, { ...options, sample: sample ?? 0 }, estimate)
    sources.push(planned.funnel)
    samples.push(planned.sample)
    requests.push(mapKinds(estimate.countsByKind(), (count, kind) => Math.max(0, count - before[kind])))
  }

  const { distinct, requests: requested, maxRequests } = estimate
  const byKind = estimate.countsByKind()
  const history = await readMatchRate(deps.db, deps.service)
  const budget = options.budget ?? Number.POSITIVE_INFINITY
  const sourceBudgets = resolveSourceBudgets(
    options.sources.map(({ mapping }) => mapping),
    options.budget,
  )
  const limits = sources.map(({ source }) => sourceBudgets.get(source) ?? Number.POSITIVE_INFINITY)
  const { credits } = deps.adapter
  const payable = countPayable(requests, budget, limits, credits.most)
  const cost = sumOf(payable)
  // Fallbacks of a source that has used up its own budget are not paid.
  const hasSpentSource = sourceBudgets.size > 0 && cost < requested
  // A lookup that costs less than its maximum leaves credits for others.
  const leastEach = Math.min(...Object.values(credits.least))
  const maxCost = hasSpentSource
    ? cost
    : Math.min(maxRequests, leastEach === 0 ? Infinity : Math.floor(roundCredits(budget / leastEach)))
  const calls = estimateCalls(
    payable,
    { ...options, bulkCalls: listBulkCalls(deps.adapter) },
    deps.policy.bulkMinimum,
  )
  const { price } = deps.policy
  const least = sumCredits(payable, credits.least)
  // Only people have further identifiers.
  const fallbacks = { ...NO_LOOKUPS, email: maxCost - cost }
  const mostPaid = sumCredits(payable, credits.most)
  const mostOfFallbacks = sumCredits(fallbacks, credits.most)
  const most = {
    all: Math.min(budget, roundCredits(mostPaid.all + mostOfFallbacks.all)),
    person: Math.min(
      roundCredits(budget - mostPaid.company),
      roundCredits(mostPaid.person + mostOfFallbacks.person),
    ),
    company: mostPaid.company,
  }
  const matchRate = history.requested === 0 ? null : history.found / history.requested
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
      match_rate: matchRate,
      expected_found: matchRate === null ? null : Math.round(cost * matchRate),
      found_range: estimateMatches(cost, history),
    },
    time: estimateTime(calls, maxCost - cost, {
      knownLimit,
      documented: deps.adapter.rateLimits,
      firstPollMs: options.firstPollMs,
    }),
    ...(sample !== null && { sample: sampleEvenly(samples, sample) }),
  }
}

const NO_LOOKUPS: Readonly<Record<LookupKind, number>> = {
  email: 0,
  linkedin_url: 0,
  name_company: 0,
  domain: 0,
}

/** What lookups cost, at a cost for each kind. */
function sumCredits(
  counts: Readonly<Record<LookupKind, number>>,
  each: Readonly<Record<LookupKind, number>>,
): { readonly all: number; readonly person: number; readonly company: number } {
  const all = roundCredits(sumOf(mapKinds(counts, (count, kind) => count * each[kind])))
  const company = roundCredits(counts.domain * each.domain)
  return { all, person: roundCredits(all - company), company }
}

const sumOf = (counts: Readonly<Record<LookupKind, number>>): number =>
  Object.values(counts).reduce((sum, count) => sum + count, 0)

const mapKinds = (
  counts: Readonly<Record<LookupKind, number>>,
  toCount: (count: number, kind: LookupKind) => number,
): Record<LookupKind, number> => ({
  email: toCount(counts.email, 'email'),
  linkedin_url: toCount(counts.linkedin_url, 'linkedin_url'),
  name_company: toCount(counts.name_company, 'name_company'),
  domain: toCount(counts.domain, 'domain'),
})

/**
 * The lookups that a budget pays, by kind: sources share it as in a run, and within a source the kinds are taken in
 * proportion. Pure.
 * @param requests lookups of each source
 * @param budget credits, as `limits`
 * @param limits the most that each source may use
 * @param credits the most that a lookup of a kind may cost. Default: 1
 */
export function countPayable(
  requests: readonly Readonly<Record<LookupKind, number>>[],
  budget: number,
  limits: readonly number[] = [],
  credits: Readonly<Record<LookupKind, number>> = mapKinds(NO_LOOKUPS, () => 1),
): Record<LookupKind, number> {
  const totals = requests.map((counts) => sumCredits(counts, credits).all)
  const paid = totals.map(() => 0)
  let left = budget
  for (const isShared of [true, false])
    for (const [n, total] of totals.entries()) {
      const share = isShared ? Math.ceil(roundCredits(left / (totals.length - n))) : left
      const limit = limits[n] ?? Number.POSITIVE_INFINITY
      const added = roundCredits(Math.min(share, left, Math.min(total, limit) - (paid[n] ?? 0)))
      paid[n] = roundCredits((paid[n] ?? 0) + added)
      left = roundCredits(left - added)
    }
  const payable = { ...NO_LOOKUPS }
  for (const [n, counts] of requests.entries()) {
    let [open, openPaid] = [totals[n] ?? 0, paid[n] ?? 0]
    mapKinds(counts, (count, kind) => {
      const each = credits[kind]
      // What costs nothing is always paid, and no part of a lookup is.
      const isFree = each === 0 || open === 0
      const part = isFree
        ? count
        : Math.min(Math.round((count * openPaid) / open), Math.floor(roundCredits(openPaid / each)))
      open = roundCredits(open - count * each)
      openPaid = roundCredits(openPaid - part * each)
      return (payable[kind] += part)
    })
  }
  return payable
}

/**
 * Estimates calls by route, as a run would make them. Pure.
 * @param minimum null: that of each endpoint
 */
export function estimateCalls(
  toAsk: Readonly<Record<LookupKind, number>>,
  options: Pick<PlanOptions, 'route' | 'usesWebhook' | 'firstPollMs'> & {
    readonly bulkCalls: readonly Pick<BulkCall, 'kinds' | 'size' | 'results' | 'needsWebhook'>[]
  },
  minimum: number | null,
): CallCounts {
  const { route, usesWebhook, firstPollMs, bulkCalls } = options
  let [person, company] = [toAsk.email + toAsk.linkedin_url + toAsk.name_company, toAsk.domain]
  let [bulk, polls] = [0, 0]
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
    const isFetched = results !== 'answer' && !(usesWebhook && results === 'webhook')
    if (isFetched && firstPollMs !== null) polls += jobs
  }
  return { person, company, bulk, polls, total: person + company + bulk + polls }
}

interface CountRange {
  readonly min: number
  readonly max: number
}

/** For a 95% interval. */
const Z_95 = 1.96

/**
 * Estimates how many lookups will find a match, from those decided so far: Wilson's interval for the share, widened
 * for the chance in the new lookups. Wide with few data; null with none. Pure.
 */
export function estimateMatches(
  lookups: number,
  history: { readonly found: number; readonly requested: number },
): CountRange | null {
  if (history.requested === 0) return null
  if (lookups === 0) return { min: 0, max: 0 }
  const share = history.found / history.requested
  const n = 1 / (1 / history.requested + 1 / lookups)
  const middle = (share + Z_95 ** 2 / (2 * n)) / (1 + Z_95 ** 2 / n)
  const halfWidth =
    (Z_95 / (1 + Z_95 ** 2 / n)) * Math.sqrt((share * (1 - share)) / n + Z_95 ** 2 / (4 * n ** 2))
  return {
    min: Math.max(0, Math.floor(lookups * (middle - halfWidth))),
    max: Math.min(lookups, Math.ceil(lookups * (middle + halfWidth))),
  }
}

/** The lookups that the budget leaves: of the rows that the plan read, which may have stopped at the budget. Null: none. */
export function describeBeyondBudget({ cost, sources }: Pick<Plan, 'cost' | 'sources'>): string | null {
  if (cost.beyond_budget === 0) return null
  const atLeast = sources.some((source) => source.stopped_at === 'budget') ? 'at least ' : ''
  return `${atLeast}${pluralize(cost.beyond_budget, 'lookup')}`
}
