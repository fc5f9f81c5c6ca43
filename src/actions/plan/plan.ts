import type { LookupKind } from '../../domain/identifiers/kind.ts'
import { JOB_SIZE } from '../../domain/job.ts'
import type { KnownLimit } from '../../domain/rate-status.ts'
import { routeEmails, type RouteOption } from '../../domain/route.ts'
import type { Deps } from '../../pipeline/deps.ts'
import type { DiffRow } from '../../pipeline/preview.ts'
import { sampleEvenly, type RandomSample } from '../../pipeline/random-sample.ts'
import type { Source } from '../../sources/source.ts'
import * as pauses from '../../store/paused-sources.ts'
import { readMatchRate } from '../../store/run-progress.ts'
import { planSource, type FunnelOptions, type SourcePlan } from './funnel.ts'
import { LookupEstimate } from './lookup-estimate.ts'

export type { SourcePlan } from './funnel.ts'

export interface PlanOptions extends Omit<FunnelOptions, 'sample'> {
  readonly sources: readonly Source[]
  readonly route: RouteOption
  readonly bulkPossible: boolean
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
    readonly budget: number | null
    /** Lookups beyond the budget, of the rows that the plan read. */
    readonly beyond_budget: number
    /** Share of lookups with a match so far; null before the first. */
    readonly match_rate: number | null
    readonly expected_found: number | null
    /** Most likely range of matches. */
    readonly found_range: CountRange | null
  }
  readonly time: {
    readonly limit: number | null
    readonly window_ms: number | null
    /** How long the calls take at the last known limit; null if that is unknown. */
    readonly ms: number | null
    /** The same for `cost.most`. */
    readonly max_ms: number | null
  }
  readonly sample?: readonly DiffRow[]
}

/** Plans what a run would pick, request and cost, using the same steps as a run. Writes nothing and calls nothing. */
export async function createPlan(
  deps: Pick<Deps, 'db' | 'policy' | 'service' | 'random'>,
  options: PlanOptions,
): Promise<Plan> {
  const { knownLimit, sample = null } = options
  const estimate = new LookupEstimate()
  const sources: SourcePlan[] = []
  const samples: RandomSample<DiffRow>[] = []
  const requests: Record<LookupKind, number>[] = []
  const paused = await pauses.filterPaused(
    deps.db,
    options.sources.map((source) => source.name),
  )
  for (const source of options.sources.filter(({ name }) => !paused.includes(name))) {
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
  const cost = Math.min(requested, budget)
  const calls = estimateCalls(countPayable(requests, budget), options, deps.policy.bulkMinimum)
  const matchRate = history.requested === 0 ? null : history.found / history.requested
  return {
    sources,
    paused,
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
      max_lookups: Math.min(maxRequests, budget),
      budget: options.budget,
      beyond_budget: requested - cost,
      match_rate: matchRate,
      expected_found: matchRate === null ? null : Math.round(cost * matchRate),
      found_range: estimateMatches(cost, history),
    },
    time: {
      limit: knownLimit?.limit ?? null,
      window_ms: knownLimit?.windowMs ?? null,
      ms: estimateDurationMs(calls.total, knownLimit),
      // Fallbacks after a miss are single calls.
      max_ms: estimateDurationMs(calls.total + Math.min(maxRequests, budget) - cost, knownLimit),
    },
    ...(sample !== null && { sample: sampleEvenly(samples, sample) }),
  }
}

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
 */
export function countPayable(
  requests: readonly Readonly<Record<LookupKind, number>>[],
  budget: number,
): Record<LookupKind, number> {
  const totals = requests.map((counts) => Object.values(counts).reduce((sum, count) => sum + count, 0))
  const paid = totals.map(() => 0)
  let left = budget
  for (const isShared of [true, false])
    for (const [n, total] of totals.entries()) {
      const share = isShared ? Math.ceil(left / (totals.length - n)) : left
      const added = Math.min(share, total - (paid[n] ?? 0))
      paid[n] = (paid[n] ?? 0) + added
      left -= added
    }
  const payable = { email: 0, linkedin_url: 0, name_company: 0, domain: 0 }
  for (const [n, counts] of requests.entries()) {
    let [open, openPaid] = [totals[n] ?? 0, paid[n] ?? 0]
    mapKinds(counts, (count, kind) => {
      const part = open === 0 ? 0 : Math.round((count * openPaid) / open)
      open -= count
      openPaid -= part
      return (payable[kind] += part)
    })
  }
  return payable
}

/** API calls that a run would make within its budget. */
export interface CallCounts {
  readonly person: number
  readonly company: number
  readonly bulk: number
  readonly total: number
}

/** Estimates calls by route, as a run would make them. Pure. */
export function estimateCalls(
  toAsk: Readonly<Record<LookupKind, number>>,
  options: { readonly route: RouteOption; readonly bulkPossible: boolean },
  minimum: number,
): CallCounts {
  const { bulkFrom, singly } = routeEmails({
    option: options.route,
    bulkPossible: options.bulkPossible,
    picking: false,
    minimum,
  })
  const remainder = toAsk.email % JOB_SIZE
  const full = (toAsk.email - remainder) / JOB_SIZE
  const inBulk = bulkFrom === null ? 0 : full + (remainder >= Math.min(bulkFrom, JOB_SIZE) ? 1 : 0)
  const emails = bulkFrom === null ? toAsk.email : Math.max(0, toAsk.email - inBulk * JOB_SIZE)
  const person = toAsk.linkedin_url + toAsk.name_company + (singly === 'never' ? 0 : emails)
  return { person, company: toAsk.domain, bulk: inBulk, total: person + toAsk.domain + inBulk }
}

/** Estimates the duration of calls at the last known limit, in milliseconds; null if the limit is unknown. Pure. */
export function estimateDurationMs(calls: number, rateLimit: KnownLimit | null): number | null {
  if (rateLimit === null || rateLimit.windowMs === null || rateLimit.limit === 0) return null
  return Math.max(0, Math.ceil(calls / rateLimit.limit) - 1) * rateLimit.windowMs
}

export interface CountRange {
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
