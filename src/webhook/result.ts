import { firstOf, identifier, isObject } from '../domain/json.ts'
import type { JsonObject } from '../domain/json.ts'
import { readCompany, readPerson } from '../domain/record.ts'
import { verdictOf } from '../domain/verdict.ts'

/** One item of a delivery's results. */
export type ResultItem = {
  /** What ties it to its input; null when it has none. */
  requestId: string | null
  /** What it holds about the input. Null when it holds nothing. */
  data: unknown
  /** The item as it came. */
  raw: unknown
}

export type ResultReading = {
  found: boolean
  /** The record, out of its wrapper; null unless found. */
  record: JsonObject | null
  /** 0 to 1; null unless found, and for a company. */
  confidence: number | null
  /** The email that the result itself names, as it came; also when nothing was found. */
  email: string | null
  /**
   * Why the result says neither found nor not found: it reports an error of the service, and its input is to be
   * asked again. Null otherwise.
   */
  fault: string | null
}

/** Never fails: an item that is no object has no identifier and no data, and stays whole in `raw`. */
export function readItem(raw: unknown): ResultItem {
  if (!isObject(raw)) return { requestId: null, data: null, raw }
  const requestId = identifier(firstOf(raw, ['request_id', 'requestId']))
  // An item that reports an error is read whole, so that empty data beside it is not taken for a miss.
  if (verdictOf(raw) !== null || Object.hasOwn(raw, 'confidence')) return { requestId, data: raw, raw }
  return { requestId, data: firstOf(raw, ['data', 'person', 'result', 'record']) ?? null, raw }
}

/**
 * Reads a result about a person or a company. Null, empty or, for a person, without confidence is not found.
 * @param kind of what was requested: a company read as a person would be a miss
 */
export function readResult(data: unknown, kind: 'person' | 'company' = 'person'): ResultReading {
  // The data is the inside of a wrapper already, where nothing means that there was no match.
  const reading = kind === 'person' ? readPerson({ data }) : readCompany({ data })
  const none = { found: false, record: null, confidence: null, email: emailIn(data, 0), fault: null }
  if (reading.outcome === 'not_found') return none
  if (reading.outcome === 'unreadable') return { ...none, fault: reading.reason }
  const { record, confidence } = reading
  return { found: true, record, confidence, email: emailIn(record, 0) ?? none.email, fault: null }
}

function emailIn(data: unknown, depth: number): string | null {
  if (!isObject(data) || depth > 3) return null
  const email = firstOf(data, ['email'])
  if (typeof email === 'string' && email.includes('@')) return email
  return emailIn(firstOf(data, ['data', 'person', 'result', 'record']), depth + 1)
}
