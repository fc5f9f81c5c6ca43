import { retryDelayMs } from './backoff.ts'

/**
 *     pending ──lease──▶ leased ──▶ found | not_found | rejected | failed
 *        │ ▲                │
 *        │ └─ put back, tried again (after not_before)
 *        └──submit──▶ submitted ──▶ found | not_found
 *                        └─ no result: pending, from now on asked singly; failed when its attempts are used up
 *
 * A final state becomes `pending` again when it is due and a row still wants it.
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

/** The states in which a lookup has its answer, for now. */
export type AnsweredState = 'found' | 'not_found' | 'rejected' | 'failed'

/** When an answer is asked for again, in milliseconds after it came. */
export interface FreshnessPolicy {
  readonly refreshAfterMs: number
  readonly retryNotFoundAfterMs: number
}

/** How a try ended. `fault`: the service's (5xx, time-out, lost connection, an unreadable 200), worth another try. */
export type CallEvent =
  | { readonly type: 'found'; readonly record: unknown; readonly confidence: number | null }
  | { readonly type: 'not_found' }
  | { readonly type: 'rejected'; readonly reason: string }
  | ({ readonly type: 'transient_error'; readonly retryAfterMs: number | null } & FaultDetails)
  /** Nothing was decided and nothing is counted: a 429, a refused key, an open circuit, an interrupt before the answer. */
  | {
      readonly type: 'released'
      readonly reason: string
      readonly retryAfterMs: number | null
      readonly inDoubt?: boolean
    }
  /** No connection was made: certainly not asked, and never an attempt. */
  | { readonly type: 'not_sent'; readonly reason: string }

interface FaultDetails {
  readonly reason: string
  /** The service may have worked on it, and may charge for it, though no answer of use came. */
  readonly inDoubt?: boolean
  /** No answer came at all: tried again fewer times, and later. */
  readonly isLost?: boolean
  /** Faults that are proved to be the input's own, with this one; without it, each try is. */
  readonly attempts?: number
  /** All tries that failed, with this one. */
  readonly tries?: number
  /** The service fails every call: that is no reason to fail a lookup. */
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
  /** Calls that may have been paid for and gave no answer: 0 or 1, of this try. */
  readonly unconfirmedCalls?: number
}

/** Tries of a lookup whose answers are lost on the way, at most: each of them may have to be paid for. */
const MAX_LOST_ATTEMPTS = 3

/** A lookup that used up its attempts is tried again by the next night's run, not by this one. */
export const RETRY_FAILED_AFTER_MS = 20 * 3_600_000

/**
 * What becomes of a leased lookup after one try.
 * @param attempts tries made before this one
 * @param limit tries allowed
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
      const most = isLost ? Math.min(MAX_LOST_ATTEMPTS, rules.attempts) : rules.attempts
      if (tries >= most && !event.isDown) {
        const reason = `${event.reason} (${tries} ${tries === 1 ? 'try' : 'tries'})`
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

/** What a result in a delivery makes of its lookup. */
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
  dueAfterMs: number | null,
  answer?: { readonly record: unknown; readonly confidence: number | null },
): LookupFields {
  return {
    state,
    reason,
    attempts,
    notBefore: null,
    resolvedAt: new Date(now),
    refreshAt: dueAfterMs === null ? null : new Date(now + dueAfterMs),
    record: answer?.record ?? null,
    confidence: answer?.confidence ?? null,
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
