import type { CallCounts, PlannedTime } from '../../domain/report/plan.ts'
import type { KnownLimit } from '../../domain/rate-status.ts'
import { defaultBulkMinimum, routeLookups } from '../../domain/route.ts'
import type { RunSpec } from '../../domain/run.ts'
import { type DocumentedLimit, leastDurationMs } from '../../domain/service/documented-limit.ts'
import type { BulkCall } from '../../domain/service/service.ts'
import type { KindCounts } from './lookup-estimate.ts'

/** What decides by which calls lookups are requested. */
export interface PlannedCalls extends Pick<RunSpec, 'route'> {
  /** Deliveries arrive. */
  readonly usesWebhook: boolean
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
): CallCounts {
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
  calls: CallCounts,
  most: CallCounts,
  { knownLimit, documented }: KnownTimes,
): PlannedTime {
  const estimate = (counts: CallCounts): number | null => {
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
