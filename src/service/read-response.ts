import { isTerminalStatus } from '../domain/job.ts'
import { firstPresent, isObject, type JsonObject } from '../domain/json.ts'
import { readInBandStatus } from '../domain/in-band-status.ts'
import {
  isFailure,
  OUTCOMES,
  type AwaitedJob,
  type JobProgress,
  type ServiceAnswer,
  type ServiceDelivery,
  type ServiceFailure,
} from '../domain/service/messages.ts'
import { tellsOfPerson } from '../domain/record.ts'
import { areCredits, withStatedCredits, type Service } from '../domain/service/service.ts'
import { applyMeaning } from '../domain/service/head.ts'
import { classifyStatus, pollOutcome } from '../domain/service/status.ts'
import type { CalledEndpoint } from '../domain/spend.ts'
import { cleanText } from '../domain/text.ts'
import type { HttpExchange } from './exchange.ts'
import { parseBulkResponse } from './bulk-response.ts'
import { MalformedResponseError, UnavailableError, UnprocessableError, type ServiceError } from './errors.ts'
import { toErrorDetails, parseResponseBody, statusError, transportError } from './response-errors.ts'
import type { RawResponse } from './transport.ts'

/** What the service's own reader makes of a response. */
export type OwnReading = { readonly outcome: string } | ServiceFailure

/**
 * What the service's own reader makes of a complete response; null: it leaves it to the usual way. One that fails makes a
 * success unreadable; what else it gets has a status that says enough.
 */
export function readOwn<Reading extends OwnReading>(
  read: (answer: ServiceAnswer) => Reading | undefined,
  kind: CalledEndpoint,
  { head, failure, body }: HttpExchange,
): Reading | ServiceFailure | null {
  if (failure !== null || head === null) return null
  const { status, headers } = head
  const parsed = parseResponseBody(body)
  try {
    const reading = read({ status, headers, body: parsed.ok ? parsed.value : undefined }) ?? null
    return reading === null ? null : checkReading(reading, kind)
  } catch (error) {
    if (status >= 300) return null
    const kind = error instanceof Error ? error.name : 'an exception'
    return { outcome: 'unreadable', reason: `what the service's reader fails on (${kind})` }
  }
}

/**
 * A reading as it is used from here on: with what its results are said to cost. A description in JavaScript is checked by no compiler.
 * @throws TypeError
 */
function checkReading<Reading extends OwnReading>(reading: Reading, kind: CalledEndpoint): Reading {
  const { outcome, record, delivery, cursor, credits } = reading as Readonly<Record<string, unknown>>
  const hasResults = outcome === 'results' || outcome === 'more'
  const isComplete =
    (OUTCOMES[kind] as readonly unknown[]).includes(outcome) &&
    (outcome !== 'found' || isObject(record)) &&
    (!hasResults || isObject(delivery)) &&
    (outcome !== 'more' || isCursor(cursor)) &&
    areCredits(credits)
  if (!isComplete) throw new TypeError('no reading')
  // An employer was found, and the person was not.
  if (kind === 'person' && outcome === 'found' && !tellsOfPerson(record as JsonObject))
    return { outcome: 'not_found', credits } as { readonly outcome: string } as Reading
  return hasResults ? { ...reading, delivery: withStatedCredits(delivery as ServiceDelivery) } : reading
}

/** It is stored as text. */
const isCursor = (value: unknown): boolean =>
  typeof value === 'string' && value !== '' && cleanText(value) === value

/** The head of a response, with the status of what the body says in place of an answer. */
export const withMeaning = (head: HttpExchange['head'], reading: OwnReading | null): HttpExchange['head'] =>
  head === null || reading === null || !isFailure(reading) || reading.outcome === 'unreadable'
    ? head
    : applyMeaning(head, reading)

/** The error for what a body says in place of an answer. The status of the head says it, too, by now. */
export function failureError(reading: ServiceFailure, response: RawResponse): ServiceError {
  const details = toErrorDetails(response.exchange, response.context)
  switch (reading.outcome) {
    case 'unreadable':
      // Whole: once the description is mended, it shows what was paid for.
      return toMalformedResponse(reading.reason, response, true)
    case 'rejected':
      return new UnprocessableError(reading.reason ?? 'the service does not accept this input', {
        ...details,
        credits: reading.credits ?? null,
      })
    case 'transient':
      return new UnavailableError(reading.reason ?? 'the service is temporarily unavailable', details)
    case 'unauthorized':
    case 'rate_limited':
    case 'out_of_credits':
      return statusError(response.exchange, response.context)
  }
}

/** Reads the answer to a poll as the delivery that did not come. */
export function readJob(
  readDelivery: Service['readDelivery'],
  response: RawResponse,
  job: AwaitedJob,
): JobProgress {
  const outcome = pollOutcome(response.exchange.head.status)
  if (outcome !== 'body') return { outcome }
  const body = parseSuccessBody(response)
  if (!isObject(body)) return { outcome: 'pending' }
  let delivery: ServiceDelivery
  try {
    const own = readDelivery?.(body, job)
    delivery = own
      ? withStatedCredits(own)
      : {
          jobId: firstPresent(body, ['job_id', 'jobId']),
          status: body['status'],
          results: body['results'],
        }
  } catch {
    // A mistake in the description. The job can be fetched again.
    throw toMalformedResponse("what the service's reader of deliveries fails on", response)
  }
  const jobStatus = typeof delivery.status === 'string' ? delivery.status.trim().toLowerCase() : null
  return isTerminalStatus(jobStatus) ? { outcome: 'results', delivery } : { outcome: 'pending' }
}

/** The results in an answer: a list, alone or as `results`. */
export const readAnsweredResults = (value: unknown): ServiceDelivery => ({
  results: isObject(value) ? firstPresent(value, ['results', 'data']) : value,
})

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
  throw toMalformedResponse(
    encoding === undefined ? parsed.reason : 'a content encoding that was not requested',
    response,
  )
}

/** The job of a lookup that was queued with status 200. */
export function asyncJobId(value: unknown): string | null {
  if (!isObject(value) || readInBandStatus(value)?.isPending === false) return null
  return parseBulkResponse({ job_id: firstPresent(value, ['job_id', 'jobId']) }).jobId
}

export const toMalformedResponse = (
  reason: string,
  { exchange, context }: RawResponse,
  isKept = false,
): ServiceError =>
  new MalformedResponseError(`the service answered ${exchange.head.status} with ${reason}`, {
    ...toErrorDetails(exchange, context),
    body: context.mask(exchange.body),
    isKept,
  })

/**
 * A reader of jobs that is believed as to failures alone where the status is one: a reader that looks only for results finds
 * none in an error, and the job would be over without any.
 */
export const unlessRefused =
  <Reading extends OwnReading>(read: (answer: ServiceAnswer) => Reading | undefined) =>
  (answer: ServiceAnswer): Reading | undefined => {
    const reading = read(answer)
    const isBelieved = answer.status < 400 || reading === undefined || isFailure(reading)
    return isBelieved || !['accepted', 'results', 'more'].includes(reading.outcome) ? reading : undefined
  }

/** Nothing follows an answer, so it ends the job; a miss of one that is not complete would be no miss. */
export const toAnswered = ({ status = 'completed', ...delivery }: ServiceDelivery): ServiceDelivery => ({
  ...delivery,
  status: status === 'completed' ? status : 'failed',
})
