import type { CallCost, CallEvent } from '../../domain/lookup.ts'
import type { CompanyInput, PersonInput } from '../../domain/service/adapter.ts'
import { statusFacts } from '../../domain/service/status.ts'
import { cleanText } from '../../domain/text.ts'
import type { Breaker } from '../../service/breaker.ts'
import type { EnrichmentClient, LookupResponse } from '../../service/client.ts'
import {
  AbortedError,
  ConnectionError,
  ForbiddenError,
  MalformedResponseError,
  RateLimitedError,
  ServiceError,
  TimeoutError,
  TokenUnavailableError,
  UnprocessableError,
} from '../../service/errors.ts'
import { FIRST_BAN_PAUSE } from '../../service/rate-limit/cooldown.ts'
import type { PermittedCall } from '../../service/rate-limit/permits.ts'
import type { CallOptions, EndedCall } from '../../service/transport.ts'
import type { LeasedLookup, MalformedResponse } from '../../store/lookup-leases.ts'
import type { Log } from '../../util/log.ts'
import type { CallDeps } from '../deps.ts'

/**
 * Outcome of one call: an event for the lookup, possibly with an error that stops the run, or a job that the service
 * created for a single lookup.
 */
export type CallOutcome =
  | {
      readonly event: CallEvent
      /** The service rejects the key or the client for good. */
      readonly stop: ServiceError | null
      /** Missing: nothing was sent. */
      readonly cost?: CallCost
      /** A response that is no record, stored for inspection. */
      readonly malformed: Pick<MalformedResponse, 'status' | 'body'> | null
    }
  | { readonly event: null; readonly asyncJobId: string | null }

/** Requests one lookup and classifies the response. Throws only errors that are not the service's. */
export async function callService(
  deps: Pick<CallDeps, 'client' | 'breaker' | 'log'>,
  lookup: LeasedLookup,
  observer: PermittedCall,
  signal: AbortSignal,
): Promise<CallOutcome> {
  try {
    const response = await deps.breaker.execute(
      () =>
        send(deps.client, lookup, {
          observer,
          signal,
          onEnd: (call) => logCall(deps.log, call, { lookup: lookup.id }),
        }),
      lookup,
    )
    switch (response.outcome) {
      case 'accepted':
        return { event: null, asyncJobId: response.jobId }
      case 'found':
        return outcome('billed', {
          type: 'found',
          record: response.record,
          confidence: response.confidence,
          credits: response.credits ?? null,
        })
      case 'not_found':
        return outcome('billed', { type: 'not_found', credits: response.credits ?? null })
    }
  } catch (error) {
    if (error instanceof ServiceError) return outcomeOfError(error, lookup, deps.breaker, observer)
    throw error
  } finally {
    observer.end()
  }
}

/** Logs a call at debug: whom it was for by identifier only, because an address is personal data. */
export function logCall(
  log: Pick<Log, 'debug'>,
  { endpoint, status, durationMs }: EndedCall,
  subject: { readonly lookup: number } | { readonly job: string },
): void {
  const hasFailed = status === null || (status >= 400 && status !== 404)
  log.debug(
    {
      event: hasFailed ? 'call_failed' : 'call_ended',
      endpoint,
      status,
      duration_ms: Math.round(durationMs),
      ...subject,
    },
    hasFailed ? 'call failed' : 'call ended',
  )
}

const outcome = (
  cost: CallCost | null,
  event: CallEvent,
  malformed: Pick<MalformedResponse, 'status' | 'body'> | null = null,
  stop: ServiceError | null = null,
): CallOutcome => ({ event, stop, ...(cost !== null && { cost }), malformed })

function send(
  client: EnrichmentClient,
  { kind, input }: LeasedLookup,
  options: CallOptions,
): Promise<LookupResponse> {
  return kind === 'domain'
    ? client.enrichCompany(input as CompanyInput, options)
    : client.enrichPerson(input as PersonInput, options)
}

/** How long an input that the limit has refused twice waits: another one shows whose fault it is. */
const AFTER_REFUSAL_MS = 10_000
/** How much longer than all calls the input of a ban waits: another one probes whether it is over, or this one is blocked. */
const AFTER_BAN_MS = 10_000

function outcomeOfError(
  error: ServiceError,
  lookup: LeasedLookup,
  breaker: Breaker,
  { banMs = 0 }: PermittedCall,
): CallOutcome {
  const reason = describeFailure(error)
  switch (error instanceof MalformedResponseError ? 'retry' : error.action) {
    case 'reject':
      return outcome(
        error instanceof UnprocessableError ? 'billed' : 'unbilled',
        { type: 'rejected', reason, credits: error instanceof UnprocessableError ? error.credits : null },
        malformedResponse(error),
      )
    case 'retry': {
      if (!error.maybeSent) return outcome(null, { type: 'not_sent', reason })
      const doubt = billingDoubt(error)
      // Calls that may be billed count as attempts, no matter who is at fault: otherwise an outage that bills would never
      // end. So does a 403: a second input that gets one rejects the key, and one that is alone must end, too.
      const isCounted = doubt === 'lost' || doubt === 'done' || error instanceof ForbiddenError
      const details = {
        reason,
        retryAfterMs: error.retryAfterMs,
        inDoubt: doubt !== 'none',
        isLost: doubt === 'lost',
        isDown: breaker.state !== 'closed' && !isCounted,
      }
      return outcome(
        'retried',
        { type: 'transient_error', ...details, ...breaker.countAttempts(lookup, isCounted) },
        malformedResponse(error),
        error.action === 'abort_run' ? error : null,
      )
    }
    case 'release':
    case 'abort_run': {
      // The limiter applies a 429's Retry-After to every call; any other pause is this lookup's own.
      const isLimit = error instanceof RateLimitedError
      const refusal = isLimit ? breaker.judgeRefusal(lookup) : null
      if (refusal === 'input')
        return outcome('throttled', {
          type: 'transient_error',
          reason,
          retryAfterMs: error.retryAfterMs,
          inDoubt: false,
          ...breaker.countAttempts(lookup, true),
        })
      const ownMs = error.action === 'release' && !isLimit ? error.retryAfterMs : null
      const isUnstatedBan = isLimit && error.status === 403 && error.retryAfterMs === null
      const againMs = refusal === 'again' ? AFTER_REFUSAL_MS : ownMs
      const retryAfterMs = isUnstatedBan ? Math.max(banMs, FIRST_BAN_PAUSE) + AFTER_BAN_MS : againMs
      const inDoubt = error instanceof AbortedError && billingDoubt(error) !== 'none'
      return {
        event: { type: 'released', reason, retryAfterMs, inDoubt },
        stop: error.action === 'abort_run' ? error : null,
        ...(error.maybeSent && { cost: isLimit ? 'throttled' : 'unbilled' }),
        malformed: null,
      }
    }
  }
}

/**
 * Whether repeating the call may be billed twice.
 * - `lost`: sent, without a complete response
 * - `done`: answered with success, but unreadable
 * - `gateway`: a 5xx of a gateway behind which the service may have worked. The service's own 500 and 503 say that it
 *   has not.
 */
function billingDoubt(error: ServiceError): 'none' | 'lost' | 'done' | 'gateway' {
  const { status } = error
  if (!error.maybeSent) return 'none'
  if (error instanceof TimeoutError || error instanceof ConnectionError || error instanceof AbortedError)
    return status === null || statusFacts(status).workDone === 'yes' ? 'lost' : 'none'
  if (status === null) return 'none'
  const done = statusFacts(status).workDone
  return done === 'yes' ? 'done' : done === 'maybe' ? 'gateway' : 'none'
}

/** Characters of a body that are stored: enough to recognise it. */
const STORED_BODY_CHARS = 2_000

/**
 * The body to store: why the service rejects an input, or what it sent in place of a record. Plain server errors are
 * not stored.
 */
function malformedResponse(error: ServiceError): Pick<MalformedResponse, 'status' | 'body'> | null {
  if (error.status === null) return null
  const isMalformed = error instanceof MalformedResponseError
  if (!isMalformed && error.action !== 'reject') return null
  const body = isMalformed ? error.body.toString('utf8', 0, STORED_BODY_CHARS) : error.detail
  return { status: error.status, body: cleanText(body) }
}

/** Describes an error in a few words, the same for many lookups, so that failures can be counted by reason. */
export function describeFailure(error: ServiceError): string {
  if (error instanceof ConnectionError || error instanceof TokenUnavailableError) return error.reason
  const kind = error.name
    .replace(/Error$/, '')
    .replace(/(?<=[a-z])(?=[A-Z])/g, ' ')
    .toLowerCase()
  return error.status === null ? kind : `${kind} (${error.status})`
}

/**
 * How many calls the circuit breaker and the key allow now: all, one probe, or none. Checked before leasing: an open
 * circuit would otherwise lease and release every waiting lookup again and again.
 */
export function allowedByBreaker(
  {
    breaker,
    client,
  }: {
    readonly breaker: Pick<CallDeps['breaker'], 'state' | 'nextProbeAt'>
    readonly client: Pick<CallDeps['client'], 'callsAllowedByKey'>
  },
  now: number,
): number {
  switch (breaker.state) {
    case 'closed':
      return client.callsAllowedByKey
    case 'half_open':
      return 0
    case 'open':
      return (breaker.nextProbeAt ?? 0) <= now ? Math.min(1, client.callsAllowedByKey) : 0
  }
}
