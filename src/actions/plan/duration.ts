import type { KnownLimit } from '../../domain/rate-status.ts'
import { type DocumentedLimit, leastDurationMs } from '../../domain/service/documented-limit.ts'

/** API calls that a run would make within its budget. */
export interface CallCounts {
  readonly person: number
  readonly company: number
  readonly bulk: number
  /** Calls that fetch the results of bulk jobs, at least: one a job, more for one that is not ready. */
  readonly polls: number
  readonly total: number
}

/** How long the calls of a run take. */
export interface PlannedTime {
  readonly limit: number | null
  readonly window_ms: number | null
  /** How long the calls take at the last known limit; null if that is unknown. */
  readonly ms: number | null
  /** The same for `cost.max_lookups`. */
  readonly max_ms: number | null
}

/** Estimates the duration of calls at the last known limit, in milliseconds; null if the limit is unknown. Pure. */
function estimateDurationMs(calls: number, rateLimit: KnownLimit | null): number | null {
  if (rateLimit === null || rateLimit.windowMs === null || rateLimit.limit === 0) return null
  return Math.max(0, Math.ceil(calls / rateLimit.limit) - 1) * rateLimit.windowMs
}

/**
 * How long calls take by the strictest limit that is known, and until the last job can be fetched.
 * @param most the most calls, if all that may be looked up is
 */
export function estimateTime(
  calls: CallCounts,
  most: CallCounts,
  {
    knownLimit,
    documented,
    firstPollMs,
  }: {
    readonly knownLimit: KnownLimit | null
    readonly documented: readonly DocumentedLimit[]
    readonly firstPollMs: number | null
  },
): PlannedTime {
  const estimate = (counts: CallCounts): number | null => {
    const untilPoll = counts.polls === 0 ? 0 : (firstPollMs ?? 0)
    const learnt = estimateDurationMs(counts.total, knownLimit)
    if (documented.length === 0) return learnt === null ? null : Math.max(learnt, untilPoll)
    return Math.max(learnt ?? 0, untilPoll, leastDurationMs(documented, counts))
  }
  const [shortest] = documented.toSorted((a, b) => a.windowMs - b.windowMs)
  return {
    limit: knownLimit?.limit ?? shortest?.calls ?? null,
    window_ms: knownLimit === null ? (shortest?.windowMs ?? null) : knownLimit.windowMs,
    ms: estimate(calls),
    max_ms: estimate(most),
  }
}
