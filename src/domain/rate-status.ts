import { formatCount, formatDuration } from '../util/text.ts'
import type { DocumentedLimit } from './service/documented-limit.ts'
import type { CalledEndpoint } from './spend.ts'

/** What was known last of the rate limit of a key: a plan reckons with it. */
export interface KnownLimit {
  readonly limit: number
  /** Null while the length of the window is unknown. */
  readonly windowMs: number | null
  /** Milliseconds since the epoch. */
  readonly observedAt: number
}

/**
 * The status of the rate limit, as the limiter reports it. The leader stores it every few seconds under this shape, and
 * other processes, reports and the dashboard read it back.
 */
export interface RateStatus {
  /** The state of the rate-limit model; docs/rate.md describes them. */
  readonly state: string
  readonly limit: number | null
  /** Null while unknown. */
  readonly windowMs: number | null
  /** Calls counted against the limit since the limiter started. */
  readonly used: number
  /** Calls that the limit would have permitted while there was work; null while unlimited or unknown. */
  readonly permitted: number | null
  /** `used` of `permitted`, 0 to 1. */
  readonly utilisation: number | null
  readonly windowUsed: number
  /** Milliseconds since the epoch. */
  readonly nextWindowAt: number | null
  /** The same from now, in milliseconds; null if past or unknown. */
  readonly nextWindowInMs: number | null
  /** Why calls are waiting, in words; null if they are not. */
  readonly stallReason: string | null
  /** How long nothing was granted although calls are waiting, in milliseconds; null if none is waiting. */
  readonly stalledForMs?: number | null
  /** 429 responses. */
  readonly throttled: number
  /** Another client seems to use the same key. */
  readonly sharedKey: boolean
  /** What the description states of the limit and the service does not grant; absent or null: nothing. */
  readonly overstated?: OverstatedLimit | null
  /** What refusals have shown of a limit that neither headers nor the description state; absent or null: nothing. */
  readonly learnt?: UnstatedUsage | null
  /** Reported by another process, the leader. */
  readonly isRemote?: boolean
}

/** At most this number of calls in any span of this length. */
export interface LearntLimit {
  readonly calls: number
  readonly windowMs: number
}

interface UnstatedUsage extends LearntLimit {
  /** Headers state another limit. */
  readonly isBeside: boolean
}

/** A stated limit that is too high, with about how many calls of it the service grants. */
export interface OverstatedLimit extends DocumentedLimit {
  readonly granted: number
}

/** What a leader has met that the next one of its scope cannot see yet. */
export interface PreviousLeader {
  /** The service has banned the key: a 403 is no fault of the key. */
  readonly wasBanned?: boolean
  /** Another client was proven to use the key, a moment ago. */
  readonly wasShared?: boolean
  readonly learnt?: UnstatedUsage | null
}

/** The latest status that a leader reported. */
export interface StoredRateStatus extends RateStatus {
  readonly reportedAt: Date
  /** Whether the leader that reported it still holds its lease. */
  readonly isLive: boolean
}

/**
 * Why calls have stopped. `unreachable`: no connection could be opened, or no response came in time; `failing`: the service answers
 * with errors; `out_of_credits`: it says that the account has none left.
 */
export type CircuitCause = 'unreachable' | 'failing' | 'out_of_credits'

/** An open circuit, as stored for the next leader. */
export interface CircuitSnapshot {
  /** Time until the next probe, in milliseconds. */
  readonly probeInMs: number
  /** The pause before that probe, in milliseconds; doubled if it fails. */
  readonly backoffMs: number
  /** What the last failed call met: `connection refused`, `HTTP 503`. Null: unknown. */
  readonly reason: string | null
  readonly cause: CircuitCause
}

/** What was called within one window, as the next leader reads it: how long ago, in milliseconds, and how many calls. */
export interface WindowUsage {
  readonly windowMs: number
  readonly endpoint: CalledEndpoint | null
  readonly calls: readonly (readonly [ageMs: number, calls: number])[]
}

/** What refusals have shown of a limit that the description states higher, with the calls of the shortest one that it states. */
export interface LearntUsage {
  readonly endpoint: CalledEndpoint | null
  readonly calls: number
  readonly windowMs: number
  readonly stated: number
}

/** The usage of all windows, and calls that may have been made since. */
export interface LimitUsage {
  readonly windows: readonly WindowUsage[]
  /** What the next leader need not learn anew. */
  readonly learnt?: readonly LearntUsage[]
  /** Calls that may be made without another note. The next leader takes them for made, just now. */
  readonly reserved: number
}

/**
 * For how many milliseconds limits may be exhausted, by endpoint; `all`: a limit of all endpoints. Endpoints without an entry
 * have calls left.
 */
export type ExhaustedFor = { readonly [Endpoint in CalledEndpoint | 'all']?: number }

/** What is to be done about a limit that is stated too high. */
export const CHANGE_LIMIT = 'change `rate.limit` of the service, unless another client uses the key'

/** `stated 600 calls in 1 min, the service grants about 100`. */
export const formatOverstated = (
  calls: number,
  windowMs: number,
  { endpoint, granted }: Pick<OverstatedLimit, 'endpoint' | 'granted'>,
): string =>
  `stated ${formatLimit(calls, windowMs)}${endpoint === null ? '' : ` for ${endpoint}`}, the service grants about ${formatCount(granted)}`

/** `200 calls in 2 s`, or `200 calls per window`. */
export function formatLimit(limit: number, windowMs: number | null): string {
  const calls = `${formatCount(limit)} ${limit === 1 ? 'call' : 'calls'}`
  return windowMs === null ? `${calls} per window` : `${calls} in ${formatDuration(windowMs)}`
}
