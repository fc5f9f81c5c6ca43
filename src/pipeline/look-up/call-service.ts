import type { CallEvent } from '../../domain/lookup.ts'
import type { Breaker } from '../../service/breaker.ts'
import type { EnrichmentClient, LookupResponse } from '../../service/client.ts'
import {
  AbortedError,
  CircuitOpenError,
  ConnectionError,
  ForbiddenError,
  KeyOnTrialError,
  MalformedResponseError,
  RateLimitedError,
  ServiceError,
  TimeoutError,
} from '../../service/errors.ts'
import type { PermittedCall } from '../../service/rate-limit/permits.ts'
import { cleanText } from '../../domain/text.ts'
import type { MalformedResponse } from '../../store/complete-lookups.ts'
import type { LeasedLookup } from '../../store/lookup-leases.ts'
import type { CallDeps } from '../deps.ts'

/** One call's outcome, or a reason to stop the whole run, or the job that the service made of a single lookup. */
export type CallOutcome =
  | {
      readonly event: CallEvent
      /** The service refuses us for good. */
      readonly stop: ServiceError | null
      readonly throttled: boolean
      /** An answer that is no record, for people to look at. */
      readonly malformed: Pick<MalformedResponse, 'status' | 'body'> | null
    }
  | { readonly event: null; readonly asyncJobId: string | null }

/** Asks the service one lookup and says what that means for it. Throws only what is no failure of the service. */
export async function callService(
  deps: Pick<CallDeps, 'client' | 'breaker'>,
  lookup: LeasedLookup,
  call: PermittedCall,
  signal: AbortSignal,
): Promise<CallOutcome> {
  try {
    const answer = await deps.breaker.execute(() => send(deps.client, lookup, { call, signal }), lookup)
    switch (answer.outcome) {
      case 'accepted':
        return { event: null, asyncJobId: answer.jobId }
      case 'found':
        return outcome({ type: 'found', record: answer.record, confidence: answer.confidence })
      case 'not_found':
        return outcome({ type: 'not_found' })
    }
  } catch (error) {
    if (error instanceof ServiceError) return outcomeOfError(error, lookup, deps.breaker)
    throw error
  } finally {
    call.end()
  }
}

const outcome = (
  event: CallEvent,
  malformed: Pick<MalformedResponse, 'status' | 'body'> | null = null,
): CallOutcome => ({
  event,
  stop: null,
  throttled: false,
  malformed,
})

function send(
  client: EnrichmentClient,
  lookup: LeasedLookup,
  options: { readonly call: PermittedCall; readonly signal: AbortSignal },
): Promise<LookupResponse> {
  const { input } = lookup
  switch (lookup.kind) {
    case 'email':
      return client.enrichPerson({ email: input['email'] ?? '' }, options)
    case 'linkedin_url':
      return client.enrichPerson({ linkedinUrl: input['linkedin_url'] ?? '' }, options)
    case 'name_company':
      return client.enrichPerson({ name: input['name'] ?? '', company: input['company'] ?? '' }, options)
    case 'domain':
      return client.enrichCompany({ domain: input['domain'] ?? '' }, options)
  }
}

function outcomeOfError(error: ServiceError, lookup: LeasedLookup, breaker: Breaker): CallOutcome {
  const reason = describeFailure(error)
  switch (error.action) {
    case 'reject':
      return outcome({ type: 'rejected', reason }, malformedResponse(error))
    case 'retry': {
      if (!error.maybeSent) return outcome({ type: 'not_sent', reason })
      // Until it is known that it is the input's, it is no attempt: the key may be locked for all of them.
      if (error instanceof ForbiddenError) {
        const { attempts } = lookup
        const { retryAfterMs, occurrences: tries } = error
        return outcome({ type: 'transient_error', reason, retryAfterMs, attempts, tries, isDown: true })
      }
      const doubt = billingDoubt(error)
      // Calls that were paid for are counted, whosever fault it was: an outage that charges must come to an end.
      const isCounted = doubt === 'lost' || doubt === 'done'
      const fault = {
        reason,
        retryAfterMs: error.retryAfterMs,
        inDoubt: doubt !== 'none',
        isLost: doubt === 'lost',
        isDown: breaker.state !== 'closed' && !isCounted,
      }
      return outcome(
        { type: 'transient_error', ...fault, ...breaker.countAttempts(lookup, isCounted) },
        malformedResponse(error),
      )
    }
    case 'release':
    case 'rotate_key':
    case 'abort_run': {
      // The limiter holds a 429's Retry-After for every call; an open circuit's pause is this lookup's own.
      const isOwnPause = error instanceof CircuitOpenError || error instanceof KeyOnTrialError
      const retryAfterMs = isOwnPause ? error.retryAfterMs : null
      const inDoubt = error instanceof AbortedError && billingDoubt(error) !== 'none'
      return {
        event: { type: 'released', reason, retryAfterMs, inDoubt },
        stop: error.action === 'abort_run' ? error : null,
        throttled: error instanceof RateLimitedError,
        malformed: null,
      }
    }
  }
}

/**
 * Whether a call that is made again may be paid twice. `lost`: it was sent, and no whole answer came. `done`: answered
 * with success, and unreadable. `gateway`: a 5xx of something in between, behind which the service may have worked;
 * its own 500 and 503 say that it did not.
 */
function billingDoubt(error: ServiceError): 'none' | 'lost' | 'done' | 'gateway' {
  const { status } = error
  if (!error.maybeSent) return 'none'
  if (error instanceof TimeoutError || error instanceof ConnectionError || error instanceof AbortedError)
    return status === null || status < 300 ? 'lost' : 'none'
  if (status === null) return 'none'
  if (status < 300) return 'done'
  return status > 500 && status !== 503 ? 'gateway' : 'none'
}

/** Characters of a body that are kept: enough to see what it is. */
const STORED_BODY_CHARS = 8_000

/** What the service says of an input that it refuses, and what it sent in place of a record. A plain fault says nothing. */
function malformedResponse(error: ServiceError): Pick<MalformedResponse, 'status' | 'body'> | null {
  if (error.status === null) return null
  const isMalformed = error instanceof MalformedResponseError
  if (!isMalformed && error.action !== 'reject') return null
  const body = isMalformed ? error.body.toString('utf8', 0, STORED_BODY_CHARS) : error.detail
  return { status: error.status, body: cleanText(body) }
}

/** A failure in a few words that many lookups share, so that failures can be counted by it. */
export function describeFailure(error: ServiceError): string {
  const kind = error.name
    .replace(/Error$/, '')
    .replace(/(?<=[a-z])(?=[A-Z])/g, ' ')
    .toLowerCase()
  return error.status === null ? kind : `${kind} (${error.status})`
}

/**
 * How many calls the circuit breaker and the keys let through now: all, one as a probe, or none. Looked at before anything is
 * leased: an open circuit would otherwise lease and put back every lookup that waits, again and again.
 */
export function allowedByBreaker(
  {
    breaker,
    client,
  }: {
    readonly breaker: Pick<CallDeps['breaker'], 'state' | 'nextProbeAt'>
    readonly client: Pick<CallDeps['client'], 'openCalls'>
  },
  now: number,
): number {
  switch (breaker.state) {
    case 'closed':
      return client.openCalls
    case 'half_open':
      return 0
    case 'open':
      return (breaker.nextProbeAt ?? 0) <= now ? Math.min(1, client.openCalls) : 0
  }
}
