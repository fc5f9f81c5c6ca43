import { type BilledEndpoint, CALLED_ENDPOINTS, type CalledEndpoint } from '../spend.ts'
import type { ServiceAnswer } from './messages.ts'

/** How a call's answer tells the limit. */
export interface RateDefinition {
  /**
   * Returns the headers' values under the usual names (`x-ratelimit-limit`, `x-ratelimit-remaining`, `x-ratelimit-reset`,
   * `retry-after`), in any of the usual forms.
   * @example
   * const headers: RateDefinition['headers'] = (all) => ({ 'x-ratelimit-remaining': all['x-quota-left'] })
   */
  readonly headers?: (headers: ServiceAnswer['headers']) => ServiceAnswer['headers']
  /**
   * Limits that no header need state, `60 per minute`: for all calls together or by endpoint, kept from the first
   * call on. Where headers state a limit too, the stricter one holds. Polls count against the limit of `bulk`,
   * unless `poll` has one.
   * @example
   * const limit: RateDefinition['limit'] = ['100 per minute', '5000 per day', '50000 per month']
   * @example
   * const byEndpoint: RateDefinition['limit'] = { person: '60 per minute', bulk: '5 per minute', poll: '15 per minute' }
   */
  readonly limit?: DocumentedLimitTexts | { readonly [Endpoint in CalledEndpoint]?: DocumentedLimitTexts }
}

type DocumentedLimitTexts = string | readonly string[]

/** A limit that the service documents and that need not be in any header: this many calls in any window of that length. */
export interface DocumentedLimit {
  readonly calls: number
  readonly windowMs: number
  /** Only calls of this endpoint count. Null: all. */
  readonly endpoint: CalledEndpoint | null
}

const DAY_MS = 86_400_000

const UNIT_MS: Readonly<Record<string, number>> = {
  second: 1_000,
  minute: 60_000,
  hour: 3_600_000,
  day: DAY_MS,
  // The longest: no month has more calls than its limit.
  month: 31 * DAY_MS,
}

/**
 * Reads one limit; null for anything else than `60 per minute` and the like.
 * @example
 * parseRateLimit('10 per 2 seconds') // { calls: 10, windowMs: 2000 }
 */
export function parseRateLimit(text: string): Omit<DocumentedLimit, 'endpoint'> | null {
  const match = /^\s*(\d{1,9})\s+(?:per|a|an)\s+(?:(\d{1,4})\s+)?(second|minute|hour|day|month)s?\s*$/.exec(
    text,
  )
  const windowMs = Number(match?.[2] ?? 1) * (UNIT_MS[match?.[3] ?? ''] ?? 0)
  const calls = Number(match?.[1] ?? 0)
  return calls > 0 && windowMs > 0 ? { calls, windowMs } : null
}

/** Reads `rate.limit`: a text or several, for all calls or by endpoint. It must be valid: the configuration checks it. */
export function readDocumentedLimits(limit: RateDefinition['limit']): readonly DocumentedLimit[] {
  if (limit === undefined) return []
  const read = (texts: string | readonly string[], endpoint: CalledEndpoint | null): DocumentedLimit[] =>
    [texts].flat().flatMap((text) => {
      const parsed = parseRateLimit(text)
      return parsed === null ? [] : [{ ...parsed, endpoint }]
    })
  if (typeof limit === 'string' || isList(limit)) return read(limit, null)
  return CALLED_ENDPOINTS.flatMap((endpoint) => read(limit[endpoint] ?? [], endpoint))
}

const isList = (value: object): value is readonly string[] => Array.isArray(value)

/** Which endpoint's limits polls count against: their own, or those of bulk calls if they have none. */
export const pollsCountAs = (limits: readonly Pick<DocumentedLimit, 'endpoint'>[]): 'poll' | 'bulk' =>
  limits.some(({ endpoint }) => endpoint === 'poll') ? 'poll' : 'bulk'

/** How long calls take at the least within these limits, in milliseconds: each window is used up at its start. */
export function leastDurationMs(
  limits: readonly DocumentedLimit[],
  calls: Readonly<Record<BilledEndpoint, number>>,
): number {
  const byEndpoint: Record<CalledEndpoint, number> = { ...calls, poll: 0 }
  const total = calls.person + calls.company + calls.bulk
  const durations = limits.map((limit) => {
    const counted = limit.endpoint === null ? total : byEndpoint[limit.endpoint]
    return Math.max(0, Math.ceil(counted / limit.calls) - 1) * limit.windowMs
  })
  return Math.max(0, ...durations)
}
