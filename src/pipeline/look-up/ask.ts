import type { AskEvent } from '../../domain/lookup.ts'
import type { Breaker } from '../../service/breaker.ts'
import type { Answer, EnrichmentClient } from '../../service/client.ts'
import {
  AbortedError,
  CircuitOpenError,
  ConnectionError,
  ForbiddenError,
  KeyOnTrialError,
  MalformedAnswerError,
  RateLimitedError,
  ServiceError,
  TimeoutError,
} from '../../service/errors.ts'
import type { PermittedCall } from '../../service/quota/permits.ts'
import { cleanText } from '../../domain/clean-text.ts'
import type { KeptAnswer } from '../../store/kept-answers.ts'
import type { LeasedLookup } from '../../store/leases.ts'
import type { CallDeps } from '../deps.ts'

/** One call's outcome, or a reason to stop the whole run, or the job that the service made of a single lookup. */
export type Asked =
  | {
      readonly event: AskEvent
      /** The service refuses us for good. */
      readonly stop: ServiceError | null
      readonly throttled: boolean
      /** An answer that is no record, for people to look at. */
      readonly toKeep: Pick<KeptAnswer, 'status' | 'body'> | null
    }
  | { readonly event: null; readonly acceptedAs: string | null }

/** Asks the service one lookup and says what that means for it. Throws only what is no failure of the service. */
export async function ask(
  deps: Pick<CallDeps, 'client' | 'breaker'>,
  lookup: LeasedLookup,
  call: PermittedCall,
  signal: AbortSignal,
): Promise<Asked> {
  try {
    const answer = await deps.breaker.execute(() => send(deps.client, lookup, { call, signal }), lookup)
    switch (answer.outcome) {
      case 'accepted':
        return { event: null, acceptedAs: answer.jobId }
      case 'found':
        return decided({ type: 'found', record: answer.record, confidence: answer.confidence })
      case 'not_found':
        return decided({ type: 'not_found' })
    }
  } catch (error) {
    if (error instanceof ServiceError) return afterFailure(error, lookup, deps.breaker)
    throw error
  } finally {
    call.end()
  }
}

const decided = (event: AskEvent, toKeep: Pick<KeptAnswer, 'status' | 'body'> | null = null): Asked => ({
  event,
  stop: null,
  throttled: false,
  toKeep,
})

function send(
  client: EnrichmentClient,
  lookup: LeasedLookup,
  options: { readonly call: PermittedCall; readonly signal: AbortSignal },
): Promise<Answer> {
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

function afterFailure(error: ServiceError, lookup: LeasedLookup, breaker: Breaker): Asked {
  const reason = describeFailure(error)
  switch (error.remedy) {
    case 'reject':
      return decided({ type: 'rejected', reason }, toKeep(error))
    case 'retry': {
      if (!error.maybeSent) return decided({ type: 'not_sent', reason })
      // Until it is known that it is the input's, it is no attempt: the key may be locked for all of them.
      if (error instanceof ForbiddenError) {
        const { attempts } = lookup
        const { retryAfterMs, times: tries } = error
        return decided({ type: 'transient_error', reason, retryAfterMs, attempts, tries, isDown: true })
      }
      const doubt = doubtOf(error)
      // Calls that were paid for are counted, whosever fault it was: an outage that charges must come to an end.
      const isCounted = doubt === 'lost' || doubt === 'done'
      const fault = {
        reason,
        retryAfterMs: error.retryAfterMs,
        inDoubt: doubt !== 'none',
        isLost: doubt === 'lost',
        isDown: breaker.state !== 'closed' && !isCounted,
      }
      return decided(
        { type: 'transient_error', ...fault, ...breaker.triesOf(lookup, isCounted) },
        toKeep(error),
      )
    }
    case 'release':
    case 'rotate_key':
    case 'abort_run': {
      // The limiter holds a 429's Retry-After for every call; an open circuit's pause is this lookup's own.
      const isOwnPause = error instanceof CircuitOpenError || error instanceof KeyOnTrialError
      const retryAfterMs = isOwnPause ? error.retryAfterMs : null
      const inDoubt = error instanceof AbortedError && doubtOf(error) !== 'none'
      return {
        event: { type: 'released', reason, retryAfterMs, inDoubt },
        stop: error.remedy === 'abort_run' ? error : null,
        throttled: error instanceof RateLimitedError,
        toKeep: null,
      }
    }
  }
}

/**
 * Whether a call that is made again may be paid twice. `lost`: it was sent, and no whole answer came. `done`: answered
 * with success, and unreadable. `gateway`: a 5xx of something in between, behind which the service may have worked;
 * its own 500 and 503 say that it did not.
 */
function doubtOf(error: ServiceError): 'none' | 'lost' | 'done' | 'gateway' {
  const { status } = error
  if (!error.maybeSent) return 'none'
  if (error instanceof TimeoutError || error instanceof ConnectionError || error instanceof AbortedError)
    return status === null || status < 300 ? 'lost' : 'none'
  if (status === null) return 'none'
  if (status < 300) return 'done'
  return status > 500 && status !== 503 ? 'gateway' : 'none'
}

/** Characters of a body that are kept: enough to see what it is. */
const KEPT_BODY = 8_000

/** What the service says of an input that it refuses, and what it sent in place of a record. A plain fault says nothing. */
function toKeep(error: ServiceError): Pick<KeptAnswer, 'status' | 'body'> | null {
  if (error.status === null) return null
  const isMalformed = error instanceof MalformedAnswerError
  if (!isMalformed && error.remedy !== 'reject') return null
  const body = isMalformed ? error.body.toString('utf8', 0, KEPT_BODY) : error.detail
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
