import { isUtf8 } from 'node:buffer'
import { type ParsedJson, parseJson } from '../domain/json.ts'
import { cleanText } from '../domain/text.ts'
import {
  AbortedError,
  BadRequestError,
  ConnectionError,
  MalformedResponseError,
  OutOfCreditsError,
  RateLimitedError,
  ServerError,
  TimeoutError,
  UnavailableError,
  UnexpectedStatusError,
  UnprocessableError,
} from './errors.ts'
import type { ErrorDetails, ServiceError } from './errors.ts'
import type { TransportFailure, HttpExchange, ResponseHeaders } from './exchange.ts'
import { classifyStatus } from '../domain/service/status.ts'
import { parseHttpDate, parseRetryAfter } from './rate-limit/headers.ts'

/** The call that an error is about. */
export type ErrorContext = {
  endpoint: string
  origin: string
  timeoutMs: number
  now: number
  /** Removes what authenticated the call from the body of its answer. */
  mask: (body: Buffer) => Buffer
}

/** Facts about a response for the error that reports it. */
export function toErrorDetails(
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
    detail: bodyExcerpt(context.mask(body)),
  }
}

/** The error for an exchange without a complete response. */
export function transportError(
  failure: TransportFailure,
  { head, wasSent, body: received }: HttpExchange,
  context: ErrorContext,
): ServiceError {
  const body = context.mask(received)
  const details = {
    endpoint: context.endpoint,
    status: head?.status ?? null,
    maybeSent: wasSent,
    detail: bodyExcerpt(body),
    cause: redactParserError(failure.cause),
  }
  const stage = wasSent
    ? head === null
      ? 'no response'
      : 'the response was cut off'
    : 'the request was not sent'
  switch (failure.kind) {
    case 'timeout':
      return new TimeoutError(
        `timed out after ${context.timeoutMs} ms (${stage}). Raise the timeout if the service is slow by nature`,
        details,
      )
    case 'aborted':
      return new AbortedError(`aborted; ${stage}`, { ...details, cause: failure.cause })
    case 'too_large':
      return new MalformedResponseError('the response is larger than any record or job', { ...details, body })
    case 'connection': {
      const host = URL.parse(context.origin)?.host ?? context.origin
      const what = wasSent ? `lost the connection to ${host}` : `could not connect to ${host}`
      const reason = `${what} (${toErrorCode(failure.cause)})`
      return new ConnectionError(
        `${reason}; ${stage}. Is the service up, and is FILLRATE_BASE_URL (${context.origin}) right?`,
        { ...details, reason },
      )
    }
  }
}

/**
 * The error for a status that is not a success. 401, 403 and 404 are not handled here: their meaning depends on the
 * keys and the endpoint.
 */
export function statusError(completed: HttpExchange, context: ErrorContext): ServiceError {
  const details = toErrorDetails(completed, context)
  const { status } = details
  if (completed.head?.isOutOfCredits === true) return new OutOfCreditsError(OUT_OF_CREDITS, details)
  const unexpected = (action: UnexpectedStatusError['action'], what = 'unexpected status'): ServiceError =>
    new UnexpectedStatusError(`${what} (${status})`, { ...details, action })
  const statusClass = classifyStatus(status)
  switch (statusClass) {
    case 'rate_limited':
    case 'forbidden': {
      const retry = details.retryAfterMs == null ? 'no Retry-After' : `retry after ${details.retryAfterMs} ms`
      return new RateLimitedError(`rate limited (${status}), ${retry}`, details)
    }
    case 'rejected':
      return status === 400
        ? new BadRequestError('the service cannot read the request (400)', details)
        : new UnprocessableError(`the service does not accept this input (${status})`, details)
    case 'refused':
      return unexpected('reject')
    case 'busy':
      return unexpected('retry', 'not processed, to be sent again')
    case 'answered':
    case 'accepted':
    case 'unreadable':
    case 'unauthorized':
      return unexpected('retry')
    case 'failed':
    case 'gateway':
      return new ServerError(`the service failed (${status})`, details)
    case 'unavailable':
      return new UnavailableError(`the service is temporarily unavailable (${status})`, details)
    case 'no_match':
    case 'setting':
    case 'unsupported':
      return new UnexpectedStatusError(settingMessage(status, context.origin), {
        ...details,
        action: 'abort_run',
        ofInput: statusClass === 'unsupported' ? 'reject' : 'retry',
      })
  }
}

export const OUT_OF_CREDITS = 'the service says that the account has no credits left'

/** Why every request gets this status. */
function settingMessage(status: number, origin: string): string {
  const baseUrl = `FILLRATE_BASE_URL (${origin})`
  if (status < 400)
    return `redirected (${status}); redirects are not followed, so that the key is sent nowhere else. Set ${baseUrl} to the final address`
  if (status === 402) return 'payment required (402): check the credits of your account'
  if (status === 407)
    return 'the proxy requires a user and password (407): set them in HTTPS_PROXY or HTTP_PROXY'
  if (status === 404 || status === 405)
    return `the service has no such endpoint (${status}). Is ${baseUrl} right?`
  return `the service does not accept such requests (${status}). Are ${baseUrl} and the description of the service right?`
}

/** Whether a 403 is a rate limit, as some services send it; its headers or its text say so. */
export function isRateLimitResponse(headers: ResponseHeaders, body: Buffer): boolean {
  if (headers['retry-after'] !== undefined) return true
  if (REMAINING_HEADERS.some((name) => Number(headers[name] ?? Number.NaN) === 0)) return true
  return /rate[\s_-]?limit|too many requests/i.test(bodyExcerpt(body))
}

/**
 * Whether a 404 means that the endpoint does not exist (wrong base URL, a proxy without its backend), as opposed to no
 * match. Read as a miss, it would mark a whole table as not found for a month. A response with rate-limit headers is
 * never a missing route.
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

/** Whether the body is a web page, which comes from something in front of the service. */
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

/** An HTTP parser error carries the bytes that it could not parse, possibly a record, which a log would print. */
function redactParserError(cause: unknown): unknown {
  if (!(cause instanceof Error) || !('data' in cause)) return cause
  return Object.assign(new Error(cause.message), { name: cause.name, code: toErrorCode(cause) })
}

/** Parses the JSON of a response, its strings cleaned of what Postgres cannot store. */
export function parseResponseBody(bytes: Buffer): ParsedJson {
  if (!isUtf8(bytes)) return { ok: false, reason: 'not UTF-8' }
  const json = bytes.toString('utf8')
  const parsed = parseJson(json)
  if (!parsed.ok) return parsed
  // NUL and lone surrogates occur in JSON only as escapes, so most texts need no cleaning.
  return { ok: true, value: json.includes('\\u') ? cleanText(parsed.value) : parsed.value }
}
