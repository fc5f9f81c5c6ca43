import { isTerminalStatus } from '../domain/job.ts'
import { firstPresent, isObject } from '../domain/json.ts'
import { readInBandStatus } from '../domain/in-band-status.ts'
import type { JobReading, ServiceAnswer, ServiceDelivery } from '../domain/service/messages.ts'
import type { ServiceReading } from '../domain/service/adapter.ts'
import { STATUS_OF } from '../domain/service/head.ts'
import { classifyStatus, pollOutcome } from '../domain/service/status.ts'
import type { HttpExchange } from './exchange.ts'
import type { BulkCall, PollCall, Service } from '../domain/service/service.ts'
import { parseBulkResponse } from './bulk-response.ts'
import { MalformedResponseError, ServiceError } from './errors.ts'
import { parseResponseBody } from './request-bodies.ts'
import { errorDetails, statusError, transportError } from './response-errors.ts'
import type { RawResponse } from './transport.ts'

/** What the service's own reader makes of a complete response; null: it leaves it to the usual way. */
export function readOwn<Reading>(
  read: (answer: ServiceAnswer) => Reading | undefined,
  { head, failure, body }: HttpExchange,
): Reading | null {
  if (failure !== null || head === null) return null
  const { status, headers } = head
  const parsed = parseResponseBody(body)
  return read({ status, headers, body: parsed.ok ? parsed.value : undefined }) ?? null
}

/** The head of a response; its status is replaced by what the body says about the key, the limit or the service's state. */
export function withMeaning(
  head: HttpExchange['head'],
  reading: ServiceReading | null,
): HttpExchange['head'] {
  if (head === null || reading === null) return head
  switch (reading.outcome) {
    case 'unauthorized':
    case 'transient':
      return { ...head, status: STATUS_OF[reading.outcome] }
    case 'rate_limited':
    case 'banned': {
      const { outcome, retryAfterMs } = reading
      const wait =
        retryAfterMs === undefined ? {} : { 'retry-after': String(Math.ceil(retryAfterMs / 1_000)) }
      const headers = { ...head.headers, ...wait }
      return { ...head, status: STATUS_OF[outcome], headers, isBan: outcome === 'banned' }
    }
    default:
      return head
  }
}

/** Reads the answer to a poll, by default as the delivery that did not come. */
export function readJob(
  service: { readonly poll: PollCall; readonly readDelivery: Service['readDelivery'] },
  response: RawResponse,
): JobReading {
  const readSafely = <Reading>(read: () => Reading): Reading => {
    try {
      return read()
    } catch (error) {
      if (error instanceof ServiceError) throw error
      // A mistake in the adapter. The job can be fetched again.
      throw malformedResponseError("what the service's reader of jobs fails on", response)
    }
  }
  const { poll, readDelivery } = service
  const { read } = poll
  const own = read === null ? null : readSafely(() => readOwn(read, response.exchange))
  if (own !== null) return own
  const outcome = pollOutcome(response.exchange.head.status)
  if (outcome !== 'body') return { outcome }
  const body = parseSuccessBody(response)
  if (!isObject(body)) return { outcome: 'pending' }
  const delivery = readSafely(
    () =>
      readDelivery?.(body) ?? {
        jobId: firstPresent(body, ['job_id', 'jobId']),
        status: body['status'],
        results: body['results'],
      },
  )
  const jobStatus = typeof delivery.status === 'string' ? delivery.status.trim().toLowerCase() : null
  return isTerminalStatus(jobStatus) ? { outcome: 'results', delivery } : { outcome: 'pending' }
}

/**
 * The results in an answer; by default a list, alone or as `results`. Nothing follows an answer, so it ends the job, and
 * its identifier is none of a delivery. Null: the service's own reader threw.
 */
export function readAnsweredResults(
  { readResults }: BulkCall,
  value: unknown,
  emails: readonly string[],
): ServiceDelivery | null {
  if (readResults === null)
    return {
      status: 'completed',
      results: isObject(value) ? firstPresent(value, ['results', 'data']) : value,
    }
  try {
    const { jobId, status = 'completed', results } = readResults(value, emails)
    return { jobId, status: status === 'completed' ? status : 'failed', results }
  } catch {
    return null
  }
}

/** Whether an answer to a job holds an error, or nothing, in place of its results. */
export function holdsNoResults(value: unknown): boolean {
  const results = isObject(value) ? firstPresent(value, ['results', 'data']) : value
  if (Array.isArray(results)) return results.length === 0
  // Results under another name are kept: they may be paid for.
  if (isObject(value) && results === undefined) return readInBandStatus(value) !== null
  return !isObject(results)
}

/** The JSON of a complete success response; throws for any other. */
export function parseSuccessBody(response: RawResponse): unknown {
  const { head, failure, body } = response.exchange
  if (classifyStatus(head.status) !== 'answered') throw statusError(response.exchange, response.context)
  if (failure !== null) throw transportError(failure, response.exchange, response.context)
  const parsed = parseResponseBody(body)
  if (parsed.ok) return parsed.value
  const encoding = head.headers['content-encoding']
  throw malformedResponseError(
    encoding === undefined ? parsed.reason : 'a content encoding that was not requested',
    response,
  )
}

/** The job of a lookup that was queued with status 200. */
export function asyncJobId(value: unknown): string | null {
  if (!isObject(value) || readInBandStatus(value)?.isPending === false) return null
  return parseBulkResponse({ job_id: firstPresent(value, ['job_id', 'jobId']) }).jobId
}

export const malformedResponseError = (reason: string, { exchange, context }: RawResponse): ServiceError =>
  new MalformedResponseError(`the service answered ${exchange.head.status} with ${reason}`, {
    ...errorDetails(exchange, context),
    body: context.mask(exchange.body),
  })
