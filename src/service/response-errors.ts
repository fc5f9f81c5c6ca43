import { isUtf8 } from 'node:buffer'
import {
  AbortedError,
  BadRequestError,
  ConnectionError,
  MalformedResponseError,
  RateLimitedError,
  ServerError,
  TimeoutError,
  UnavailableError,
  UnexpectedStatusError,
  UnprocessableError,
} from './errors.ts'
import type { ErrorDetails, ServiceError } from './errors.ts'
import type { TransportFailure, HttpExchange, ResponseHeaders } from './exchange.ts'
import { parseHttpDate, parseRetryAfter } from './rate-limit/headers.ts'

/** What a failure is told against. */
export type ErrorContext = { endpoint: string; origin: string; timeoutMs: number; now: number }

/** What of an answer goes into every error about it. */
export function errorDetails(
  { head, body }: HttpExchange,
  context: ErrorContext,
): ErrorDetails & { status: number } {
  const headers = head?.headers ?? {}
  const date = headers['date']
  const serverNow = typeof date === 'string' ? parseHttpDate(date) : null
  return {
    endpoint: context.endpoint,
    status: head?.status ?? 0,
    retryAfterMs: parseRetryAfter(headers['retry-after'], serverNow ?? context.now),
    detail: bodyExcerpt(body),
  }
}

/** The error for an exchange whose answer did not come, or not whole. */
export function transportError(
  broken: TransportFailure,
  exchanged: HttpExchange,
  context: ErrorContext,
): ServiceError {
  const { head, wasSent, body } = exchanged
  const facts = {
    endpoint: context.endpoint,
    status: head?.status ?? null,
    maybeSent: wasSent,
    detail: bodyExcerpt(body),
    cause: redactParserError(broken.cause),
  }
  const where = wasSent
    ? head === null
      ? 'no answer came'
      : 'the answer broke off'
    : 'the request was not sent'
  switch (broken.kind) {
    case 'timeout':
      return new TimeoutError(
        `${where} within ${context.timeoutMs} ms. Raise the time-out if the service is slow by nature`,
        facts,
      )
    case 'aborted':
      return new AbortedError(`aborted by the caller; ${where}`, { ...facts, cause: broken.cause })
    case 'too_large':
      return new MalformedResponseError('the answer is larger than any record or job', { ...facts, body })
    case 'connection': {
      const what = wasSent ? 'the connection was lost' : 'no connection'
      const code = toErrorCode(broken.cause)
      return new ConnectionError(
        `${what} (${code}); ${where}. Is the service up, and is FILLRATE_BASE_URL (${context.origin}) right?`,
        facts,
      )
    }
  }
}

/**
 * The error for a status that is no success. 401, 403 and 404 are not read here: what they mean depends on the
 * keys and the endpoint.
 */
export function statusError(exchanged: HttpExchange, context: ErrorContext): ServiceError {
  const facts = errorDetails(exchanged, context)
  const { status } = facts
  if (status === 429 || status === 403) {
    const until = facts.retryAfterMs == null ? 'without saying for how long' : `for ${facts.retryAfterMs} ms`
    return new RateLimitedError(`the service limits the rate (${status}), ${until}`, facts)
  }
  if (status === 400) return new BadRequestError('the service cannot read the request (400)', facts)
  if (status === 422) return new UnprocessableError('the service does not take this input (422)', facts)
  if (status === 503) return new UnavailableError('the service is unavailable for now (503)', facts)
  if (status >= 500) return new ServerError(`the service failed (${status})`, facts)
  if (status >= 300 && status < 400) {
    const advice = `redirects are not followed, so that the key goes nowhere else. Set FILLRATE_BASE_URL (${context.origin})`
    return new UnexpectedStatusError(`redirected (${status}); ${advice} to the final address`, {
      ...facts,
      remedy: 'abort_run',
    })
  }
  if (status === 402) {
    return new UnexpectedStatusError(
      'the service asks for payment (402): see to the credits of its account',
      {
        ...facts,
        remedy: 'abort_run',
      },
    )
  }
  if (status === 404 || status === 405) {
    return new UnexpectedStatusError(
      `the service has no such endpoint (${status}). Is FILLRATE_BASE_URL (${context.origin}) right?`,
      { ...facts, remedy: 'abort_run' },
    )
  }
  // 408 and 425 ask to come again; other 4xx are not retried (interface document, Errors 1).
  const remedy = status < 300 || status === 408 || status === 425 ? 'retry' : 'reject'
  return new UnexpectedStatusError(`an unexpected status (${status})`, { ...facts, remedy })
}

/** Some services answer a 403 for the rate limit; they say so in the headers or in words. */
export function isRateLimitResponse(headers: ResponseHeaders, body: Buffer): boolean {
  if (headers['retry-after'] !== undefined) return true
  if (REMAINING_HEADERS.some((name) => Number(headers[name] ?? Number.NaN) === 0)) return true
  return /rate[\s_-]?limit|too many requests/i.test(bodyExcerpt(body))
}

/**
 * Whether a 404 comes from something that does not know the endpoint (a wrong base address, a proxy without
 * a service behind it) and not from a service that knows no match. Taken for a miss, it would write off a
 * whole table for a month. Only an answer without rate-limit headers can be one.
 */
export function isMissingRoute(headers: ResponseHeaders, body: Buffer): boolean {
  if (
    [...REMAINING_HEADERS, 'x-ratelimit-limit', 'x-ratelimit-reset'].some(
      (name) => headers[name] !== undefined,
    )
  ) {
    return false
  }
  if (isHtml(headers, body)) return true
  return /page not found|cannot (?:get|post) \/|route .{0,200}not found|default backend|(?:no[\s_-]such|unknown)[\s_-](?:route|endpoint|path)/i.test(
    bodyExcerpt(body),
  )
}

/** A page for people: no answer of the service, but of something before it. */
export const isHtml = (headers: ResponseHeaders, body: Buffer): boolean =>
  /text\/html/i.test(String(headers['content-type'] ?? '')) ||
  /^\s*<(?:!doctype|html)/i.test(bodyExcerpt(body))

const REMAINING_HEADERS = ['x-ratelimit-remaining', 'x-rate-limit-remaining', 'ratelimit-remaining']

const bodyExcerpt = (body: Buffer): string => {
  const start = body.subarray(0, 500)
  return start.toString(isUtf8(start) ? 'utf8' : 'latin1')
}

function toErrorCode(cause: unknown): string {
  if (!(cause instanceof Error)) return 'unknown reason'
  if (cause instanceof AggregateError && cause.errors.length > 0 && !('code' in cause))
    return toErrorCode(cause.errors[0])
  return 'code' in cause && typeof cause.code === 'string' ? cause.code : cause.name
}

/** An HTTP parser's error carries the bytes it could not parse, which may be a record; a log would print them. */
function redactParserError(cause: unknown): unknown {
  if (!(cause instanceof Error) || !('data' in cause)) return cause
  return Object.assign(new Error(cause.message), { name: cause.name, code: toErrorCode(cause) })
}
