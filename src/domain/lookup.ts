import { retryDelayMs } from './backoff.ts'

/**
 *     pending ──lease──▶ leased ──▶ found | not_found | rejected | failed
 *        │ ▲                │
 *        │ └─ released or retried (after not_before)
 *        └──submit──▶ submitted ──▶ found | not_found
 *                        └─ no result: pending, sync only from now on; failed when its attempts are used up
 *
 * A final state becomes `pending` again when it is due for a refresh and a row still needs it.
 */
export const Lookup = {
  pending: 'pending',
  leased: 'leased',
  submitted: 'submitted',
  found: 'found',
  notFound: 'not_found',
  rejected: 'rejected',
  failed: 'failed',
} as const
export type LookupState = (typeof Lookup)[keyof typeof Lookup]

/** The states of a lookup with a result, until it is refreshed. */
export type AnsweredState = 'found' | 'not_found' | 'rejected' | 'failed'

/** How long results stay fresh, in milliseconds. */
export interface FreshnessPolicy {
  readonly refreshAfterMs: number
  readonly retryNotFoundAfterMs: number
}

/** The result of a call. `transient_error`: a fault of the service (5xx, timeout, lost connection, malformed 200). */
export type CallEvent =
  | ({ readonly type: 'found'; readonly record: unknown; readonly confidence: number | null } & StatedCost)
  | ({ readonly type: 'not_found' } & StatedCost)
  | ({ readonly type: 'rejected'; readonly reason: string } & StatedCost)
  | ({ readonly type: 'transient_error'; readonly retryAfterMs: number | null } & FaultDetails)
  /** Undecided and not counted as an attempt: a 429, a rejected key, an open circuit, an interrupt before the response. */
  | {
      readonly type: 'released'
      readonly reason: string
      readonly retryAfterMs: number | null
      readonly inDoubt?: boolean
    }
  /** No connection: certainly not requested, and never an attempt. */
  | { readonly type: 'not_sent'; readonly reason: string }

interface StatedCost {
  /** What it cost, if the service says it. */
  readonly credits?: number | null
}

interface FaultDetails {
  readonly reason: string
  /** The service may have processed and billed it, although no usable response arrived. */
  readonly inDoubt?: boolean
  /** No response at all: retried fewer times, and later. */
  readonly isLost?: boolean
  /** Failed calls attributed to the input, including this one; by default, all of them. */
  readonly attempts?: number
  /** All failed calls, including this one. */
  readonly tries?: number
  /** The service fails every call, which is no reason to fail a lookup. */
  readonly isDown?: boolean
}

/** The fields that a transition persists. */
export interface LookupFields {
  readonly state: LookupState
  readonly reason: string | null
  readonly attempts: number
  readonly notBefore: Date | null
  readonly resolvedAt: Date | null
  readonly refreshAt: Date | null
  readonly record: unknown
  readonly confidence: number | null
  /** Calls that may have been billed without a response: 0 or 1 for this call. */
  readonly unconfirmedCalls?: number
}

/**
 * What a call that reached the service costs:
 * - `billed`: the service answered the lookup: found, not found, or 422
 * - `unbilled`: an answer to no lookup, such as 400 or 401
 * - `retried`: a fault of the service; if its answer was lost, it counts as in doubt besides
 * - `throttled`: 429
 */
export type CallCost = 'billed' | 'unbilled' | 'retried' | 'throttled'

/** The maximum number of attempts whose responses are lost: each may be billed. */
const MAX_LOST_ATTEMPTS = 3

/** A lookup that used up its attempts is retried by the next nightly run, not by this one. */
export const RETRY_FAILED_AFTER_MS = 20 * 3_600_000

/**
 * The state of a leased lookup after a call.
 * @param lookup with its attempts before this call
 * @param rules with the maximum number of attempts
 */
export function afterCall(
  lookup: { readonly attempts: number },
  event: CallEvent,
  rules: FreshnessPolicy & { readonly attempts: number },
  now: number,
  random: number,
): LookupFields {
  switch (event.type) {
    case 'found':
      return answeredFields('found', null, lookup.attempts + 1, now, rules.refreshAfterMs, event)
    case 'not_found':
      return answeredFields('not_found', null, lookup.attempts + 1, now, rules.retryNotFoundAfterMs)
    case 'rejected':
      return answeredFields('rejected', event.reason, lookup.attempts + 1, now, null)
    case 'transient_error': {
      const { tries = lookup.attempts + 1, attempts = tries, isLost = false } = event
      const unconfirmedCalls = event.inDoubt ? 1 : 0
      const maxAttempts = isLost ? Math.min(MAX_LOST_ATTEMPTS, rules.attempts) : rules.attempts
      if (tries >= maxAttempts && !event.isDown) {
        const reason = `${event.reason}, ${tries} ${tries === 1 ? 'attempt' : 'attempts'}`
        return { ...answeredFields('failed', reason, tries, now, RETRY_FAILED_AFTER_MS), unconfirmedCalls }
      }
      const delayMs = retryDelayMs(tries, { retryAfterMs: event.retryAfterMs, random, isLost })
      return { ...pendingFields(event.reason, attempts, now + delayMs), unconfirmedCalls }
    }
    case 'released': {
      const notBefore = event.retryAfterMs ? now + event.retryAfterMs : null
      return {
        ...pendingFields(event.reason, lookup.attempts, notBefore),
        unconfirmedCalls: event.inDoubt ? 1 : 0,
      }
    }
    case 'not_sent':
      return pendingFields(
        event.reason,
        lookup.attempts,
        now + retryDelayMs(1, { retryAfterMs: null, random }),
      )
  }
}

/** The state of a lookup after a result in a delivery. */
export function afterResult(
  event: Extract<CallEvent, { type: 'found' | 'not_found' }>,
  rules: FreshnessPolicy,
  now: number,
): LookupFields {
  return event.type === 'found'
    ? answeredFields('found', null, 1, now, rules.refreshAfterMs, event)
    : answeredFields('not_found', null, 1, now, rules.retryNotFoundAfterMs)
}

function answeredFields(
  state: AnsweredState,
  reason: string | null,
  attempts: number,
  now: number,
  refreshAfterMs: number | null,
  result?: { readonly record: unknown; readonly confidence: number | null },
): LookupFields {
  return {
    state,
    reason,
    attempts,
    notBefore: null,
    resolvedAt: new Date(now),
    refreshAt: refreshAfterMs === null ? null : new Date(now + refreshAfterMs),
    record: result?.record ?? null,
    confidence: result?.confidence ?? null,
  }
}

function pendingFields(reason: string, attempts: number, notBefore: number | null): LookupFields {
  return {
    state: 'pending',
    reason,
    attempts,
    notBefore: notBefore === null ? null : new Date(notBefore),
    resolvedAt: null,
    refreshAt: null,
    record: null,
    confidence: null,
  }
}
