import { isUtf8 } from 'node:buffer'
import { cleanText } from '../domain/text.ts'
import { toJobId } from '../domain/job.ts'
import { hash } from 'node:crypto'
import { firstPresent, isObject, parseJson, toIdentifier, type JsonObject } from '../domain/json.ts'
import { withStatedCredits, type Service } from '../domain/service/service.ts'
import type { JobInputs, ServiceDelivery, StatedCredits } from '../domain/service/messages.ts'
import { readInBandStatus } from '../domain/in-band-status.ts'

/** A delivery of a job's results, its strings cleaned of what Postgres cannot store. */
export type WebhookEvent = {
  /** Identifies the delivery; repeated deliveries have the same one. */
  eventId: string
  /** The service's identifier of the job; null if the delivery has none. */
  jobId: string | null
  /** `completed` or `failed` in lower case, any other status as received; null if there is none. */
  status: 'completed' | 'failed' | (string & {}) | null
  results: ResultItem[]
  /** What the service says that the whole job has cost. */
  credits?: number | null
}

type ParsedEvent =
  | { ok: true; event: WebhookEvent }
  /** The reason holds no personal data; `eventId` is set if it could be read. */
  | { ok: false; reason: string; eventId: string | null }

/** The identifier becomes a database key, and an index entry holds about 2,700 bytes. */
const MAX_EVENT_ID_LENGTH = 512

/** A job has at most 100 inputs; far more is an attack on memory, or not ours. */
const MAX_RESULTS = 10_000

/** What a delivery says besides its results. */
type ParsedEnvelope =
  | {
      ok: true
      eventId: string
      jobId: string | null
      status: WebhookEvent['status']
      results: unknown[]
      /** What the service's own reader has stated; null: nothing. */
      stated: StatedCredits | null
    }
  | Exclude<ParsedEvent, { ok: true }>

/**
 * Parses the body of a delivery, in linear time. Unknown fields are kept in each result's `raw`, numbers are accepted as
 * identifiers (exactly, also beyond 2^53), and missing or null results are an empty list. A body that cannot be read or
 * has no usable `event_id` is not ok.
 * @param body text has been bytes in UTF-8
 */
export function parseEvent(body: Buffer | string): ParsedEvent {
  const envelope = parseEnvelope(body)
  if (!envelope.ok) return envelope
  const { eventId, jobId, status, results, stated } = envelope
  const items = results.map(parseResultItem)
  if (stated === null) return { ok: true, event: { eventId, jobId, status, results: items } }
  const costed = items.map((item, n) => ({ ...item, credits: stated.results[n] ?? null }))
  return { ok: true, event: { eventId, jobId, status, results: costed, credits: stated.job } }
}

/** The same without reading the results: whether they can be read does not depend on what is in them. */
export function parseEnvelope(body: Buffer | string): ParsedEnvelope {
  if (typeof body !== 'string' && !isUtf8(body)) return unreadableEvent('the body is not UTF-8')
  const json = typeof body === 'string' ? body : body.toString('utf8')
  const parsed = parseJson(json)
  if (!parsed.ok) return unreadableEvent(`the body is ${parsed.reason}`)
  if (!isObject(parsed.value)) return unreadableEvent('the body is JSON, but not an object')

  const eventId = toIdentifier(firstPresent(parsed.value, ['event_id', 'eventId']))
  if (eventId === null) return unreadableEvent('there is no event_id')
  if (eventId.length > MAX_EVENT_ID_LENGTH)
    return unreadableEvent(`the event_id is longer than ${MAX_EVENT_ID_LENGTH} characters`)
  // Cleaning could make it equal to another event's identifier, which would then be dropped as a duplicate.
  if (cleanText(eventId) !== eventId) return unreadableEvent('the event_id holds a NUL or half a character')

  const value = json.includes('\\u') ? cleanText(parsed.value) : parsed.value
  const results = toResultList(firstPresent(value, ['results']))
  if (results === null) return unreadableEvent('results is not a list', eventId)
  if (results.length > MAX_RESULTS)
    return unreadableEvent(`there are more than ${MAX_RESULTS} results`, eventId)
  const jobId = toJobId(firstPresent(value, ['job_id', 'jobId']))
  const stated = parseStated(value[STATED_FIELD])
  return { ok: true, eventId, jobId, status: parseStatus(value['status']), results, stated }
}

/** No service's own field: only what its reader has stated is written here. */
const STATED_FIELD = 'fillrate_credits'

function parseStated(value: unknown): StatedCredits | null {
  if (!isObject(value) || !Array.isArray(value['results'])) return null
  const toNumber = (credits: unknown): number | null => (typeof credits === 'number' ? credits : null)
  return { job: toNumber(value['job']), results: value['results'].map(toNumber) }
}

/**
 * Reads a delivery with the service's own reader, which puts it under our own names. Null: the service uses them itself, or the
 * body is nothing that it could read.
 * @throws what the reader throws
 */
export function readOwnDelivery(
  body: Buffer,
  read: Service['readDelivery'],
  job: JobInputs | null,
): ServiceDelivery | null {
  if (read === null || !isUtf8(body)) return null
  const parsed = parseJson(body.toString('utf8'))
  if (!parsed.ok || !isObject(parsed.value)) return null
  const delivery = read(parsed.value, job)
  return isObject(delivery) ? withStatedCredits(delivery) : delivery
}

/**
 * The body of a delivery in the form that is stored, so that every later step reads one form: unchanged, unless the service's
 * own reader made something of it. Without an identifier the same bytes are the same delivery.
 */
export const normalizeDelivery = (body: Buffer, read: ServiceDelivery | null): Buffer =>
  read === null ? body : writeDelivery(read, `sha256:${hash('sha256', body)}`)

/** A delivery in the form that is stored. */
export const writeDelivery = (delivery: ServiceDelivery, eventId: string): Buffer =>
  Buffer.from(
    JSON.stringify({
      event_id: delivery.eventId ?? eventId,
      job_id: delivery.jobId,
      status: delivery.status,
      results: delivery.results,
      [STATED_FIELD]: delivery.stated,
    }),
  )

/**
 * The pages of a job's results as one delivery, in their order, with the status and the identifier of the last one.
 * @param pages in the form that is stored
 */
export function joinPages(pages: readonly string[]): ServiceDelivery {
  const read = pages.flatMap((page) => {
    const envelope = parseEnvelope(page)
    return envelope.ok ? [envelope] : []
  })
  const last = read.at(-1)
  const stated: StatedCredits = {
    job: read.findLast((page) => (page.stated?.job ?? null) !== null)?.stated?.job ?? null,
    results: read.flatMap((page) => page.results.map((_, n) => page.stated?.results[n] ?? null)),
  }
  return {
    jobId: last?.jobId ?? undefined,
    status: last?.status ?? undefined,
    results: read.flatMap(({ results }) => results),
    ...(read.some((page) => page.stated !== null) && { stated }),
  }
}

const unreadableEvent = (
  reason: string,
  eventId: string | null = null,
): Exclude<ParsedEvent, { ok: true }> => ({
  ok: false,
  reason,
  eventId,
})

/** The results as a list; a map from request identifier to result is converted. */
function toResultList(results: unknown): unknown[] | null {
  if (results === undefined) return []
  if (Array.isArray(results)) return results
  if (!isObject(results)) return null
  return Object.entries(results).map(([requestId, result]) => toResultObject(requestId, result))
}

function toResultObject(requestId: string, result: unknown): JsonObject {
  const isItem = isObject(result) && firstPresent(result, ['request_id', 'data']) !== undefined
  return isItem ? { request_id: requestId, ...result } : { request_id: requestId, data: result }
}

function parseStatus(status: unknown): WebhookEvent['status'] {
  if (typeof status !== 'string') return null
  const lower = status.trim().toLowerCase()
  return lower === 'completed' || lower === 'failed' ? lower : status
}

/** One result of a delivery. */
export type ResultItem = {
  /** Identifies its input; null if it has none. */
  requestId: string | null
  /** The place of its input in the job, where a description's reader gives it. */
  index: number | null
  /** What it reports about the input; null if nothing. */
  data: unknown
  /** The item as received. */
  raw: unknown
  /** What the service says that it cost. */
  credits?: number | null
}

export type ParsedResult = {
  found: boolean
  /** The record without its wrapper; null unless found. */
  record: JsonObject | null
  /** 0 to 1; null unless found, and for a company. */
  confidence: number | null
  /** The email in the result, as received; may be set if nothing was found. */
  email: string | null
  /**
   * Set if the result is neither found nor not found: it reports an error of the service, and its input must be
   * requested again.
   */
  fault: string | null
}

/** Never fails: an item that is not an object has neither identifier nor data, and is kept in `raw`. */
function parseResultItem(raw: unknown): ResultItem {
  if (!isObject(raw)) return { requestId: null, index: null, data: null, raw }
  const requestId = toIdentifier(firstPresent(raw, ['request_id', 'requestId']))
  const index = typeof raw['index'] === 'number' ? raw['index'] : null
  // An item that reports an error is read as a whole, so that empty data beside the error is not a miss.
  if (readInBandStatus(raw) !== null || Object.hasOwn(raw, 'confidence'))
    return { requestId, index, data: raw, raw }
  return { requestId, index, data: firstPresent(raw, ['data', 'person', 'result', 'record']) ?? null, raw }
}

/**
 * Reads a result about a person or a company. Null, empty or (for a person) without confidence means not found.
 * @param kind of the request: a company read as a person would be a miss
 */
export function parseResult(
  data: unknown,
  kind: 'person' | 'company',
  { readers }: Pick<Service, 'readers'>,
): ParsedResult {
  // The data comes out of a wrapper, where empty means no match.
  const reading = readers[kind]({ data })
  const none = { found: false, record: null, confidence: null, email: findEmail(data, 0), fault: null }
  if (reading.outcome === 'not_found') return none
  if (reading.outcome === 'unreadable') return { ...none, fault: reading.reason }
  const { record, confidence } = reading
  return { found: true, record, confidence, email: findEmail(record, 0) ?? none.email, fault: null }
}

function findEmail(data: unknown, depth: number): string | null {
  if (!isObject(data) || depth > 3) return null
  const email = firstPresent(data, ['email'])
  if (typeof email === 'string' && email.includes('@')) return email
  return findEmail(firstPresent(data, ['data', 'person', 'result', 'record']), depth + 1)
}
