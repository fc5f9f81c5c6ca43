import { isUtf8 } from 'node:buffer'
import { cleanText } from '../domain/clean-text.ts'
import { jobIdentifier } from '../domain/job.ts'
import { firstOf, identifier, isObject, parseJson } from '../domain/json.ts'
import type { JsonObject } from '../domain/json.ts'
import { readItem } from './result.ts'
import type { ResultItem } from './result.ts'

/** One delivery of a job's results, as the service sent it, its strings freed of what cannot be stored. */
export type WebhookEvent = {
  /** Identifies the delivery; the same when it is repeated. */
  eventId: string
  /** The service's name for the job; null when the delivery has none. */
  jobId: string | null
  /** In lower case where it is one of the two that are known, else as it came; null when there is none. */
  status: 'completed' | 'failed' | (string & {}) | null
  results: ResultItem[]
}

export type ParsedEvent =
  | { ok: true; event: WebhookEvent }
  /** The reason holds no personal data. The event's identifier is there where it could still be read. */
  | { ok: false; reason: string; eventId: string | null }

/** An identifier becomes a key in the database, whose indexes hold no more than about 2,700 bytes. */
const longestId = 512

/** A job has at most 100; far more is an attack on the memory, or nothing of ours. */
const mostResults = 10_000

/**
 * Reads a delivery's body, in linear time. Unknown fields are kept in each result's `raw`, numbers are taken
 * for identifiers (exactly, also beyond 2^53), and missing or null results are an empty list. What has no
 * usable `event_id`, or cannot be read at all, is not ok.
 */
export function parseEvent(body: Buffer): ParsedEvent {
  if (!isUtf8(body)) return unreadable('the body is not UTF-8')
  const json = body.toString('utf8')
  const parsed = parseJson(json)
  if (!parsed.ok) return unreadable(`the body is ${parsed.reason}`)
  if (!isObject(parsed.value)) return unreadable('the body is JSON, but no object')

  const eventId = identifier(firstOf(parsed.value, ['event_id', 'eventId']))
  if (eventId === null) return unreadable('there is no event_id')
  if (eventId.length > longestId) return unreadable(`the event_id is longer than ${longestId} characters`)
  // Cleaned it could be the same as another event's, which would then be dropped as a repetition.
  if (cleanText(eventId) !== eventId) return unreadable('the event_id holds a NUL or half a character')

  const value = json.includes('\\u') ? cleanText(parsed.value) : parsed.value
  const results = listOf(firstOf(value, ['results']))
  if (results === null) return unreadable('results is no list', eventId)
  if (results.length > mostResults) return unreadable(`there are more than ${mostResults} results`, eventId)
  const jobId = jobIdentifier(firstOf(value, ['job_id', 'jobId']))
  return {
    ok: true,
    event: { eventId, jobId, status: statusOf(value['status']), results: results.map(readItem) },
  }
}

const unreadable = (reason: string, eventId: string | null = null): ParsedEvent => ({
  ok: false,
  reason,
  eventId,
})

/** The results as a list; a map from request identifier to result is one too. */
function listOf(results: unknown): unknown[] | null {
  if (results === undefined) return []
  if (Array.isArray(results)) return results
  if (!isObject(results)) return null
  return Object.entries(results).map(([requestId, result]) => itemOf(requestId, result))
}

function itemOf(requestId: string, result: unknown): JsonObject {
  const isItem = isObject(result) && firstOf(result, ['request_id', 'data']) !== undefined
  return isItem ? { request_id: requestId, ...result } : { request_id: requestId, data: result }
}

function statusOf(status: unknown): WebhookEvent['status'] {
  if (typeof status !== 'string') return null
  const lower = status.trim().toLowerCase()
  return lower === 'completed' || lower === 'failed' ? lower : status
}
