import { z } from 'zod'
import { cleanText } from '../domain/text.ts'
import { normalizeDomain, normalizeProfileUrl } from '../domain/identifiers/addresses.ts'
import { toJobId } from '../domain/job.ts'
import { firstPresent, isObject, toPlainNumbers, type JsonObject } from '../domain/json.ts'
import type { BulkAcceptance } from '../domain/service/messages.ts'

const identifierSchema = z
  .union([z.string(), z.number()])
  .transform((value) => String(value).trim())
  .pipe(z.string().min(1))

const orderedIdsSchema = z.array(identifierSchema).min(1)

const idMapSchema = z.record(z.string(), identifierSchema).refine((map) => Object.keys(map).length > 0)

const namedItemsSchema = z.array(z.looseObject({})).min(1)

/**
 * Reads the identifiers of the job and of its inputs from a response, wrapped or not, in every common shape; never fails. Strings are cleaned
 * of what Postgres cannot store, as in deliveries.
 */
export function parseBulkResponse(response: unknown): BulkAcceptance {
  const value = cleanText(toPlainNumbers(response))
  if (!isObject(value)) return { jobId: toJobId(value), requestIds: null }
  const wrapped = ['data', 'job', 'batch', 'result']
    .map((field) => firstPresent(value, [field]))
    .filter(isObject)
  const levels = [value, ...wrapped]
  return { jobId: findJobId(levels), requestIds: findRequestIds(levels) }
}

function findJobId(levels: readonly JsonObject[]): string | null {
  // The generic names last: beside a job_id, an id may be that of the request.
  for (const fields of [['job_id', 'jobId', 'batch_id', 'batchId'], ['job', 'batch'], ['id']]) {
    for (const level of levels) {
      const found = toJobId(firstPresent(level, fields))
      if (found !== null) return found
    }
  }
  return null
}

function findRequestIds(levels: readonly JsonObject[]): BulkAcceptance['requestIds'] {
  for (const level of levels) {
    for (const field of ['request_ids', 'requestIds', 'requests', 'results', 'items']) {
      const ids = parseRequestIds(firstPresent(level, [field]))
      if (ids !== null) return ids
    }
  }
  return null
}

function parseRequestIds(value: unknown): BulkAcceptance['requestIds'] {
  const inOrder = orderedIdsSchema.safeParse(value)
  if (inOrder.success) return inOrder.data
  const named = namedItemsSchema.safeParse(value)
  if (named.success) return parseNamedItems(named.data)
  const byKey = idMapSchema.safeParse(value)
  return byKey.success ? keyByInput(Object.entries(byKey.data)) : null
}

function parseNamedItems(items: readonly JsonObject[]): BulkAcceptance['requestIds'] {
  const pairs: Array<[input: string | null, id: string]> = []
  for (const item of items) {
    const itemId = identifierSchema.safeParse(firstPresent(item, ['request_id', 'requestId', 'id']))
    const input = firstPresent(item, ['email', 'linkedin_url', 'domain', 'input'])
    const isNamed = typeof input === 'string' && isInput(input)
    if (itemId.success) pairs.push([isNamed ? input : null, itemId.data])
    // A rejected address has no identifier. An item with neither makes the order of the others meaningless.
    else if (!isNamed) return null
  }
  const named = pairs.filter((pair): pair is [string, string] => pair[0] !== null)
  if (pairs.length === 0) return null
  if (named.length === pairs.length) return Object.fromEntries(named)
  // If only some items name their input, the order does not identify the rest.
  return named.length === 0 && pairs.length === items.length ? pairs.map(([, itemId]) => itemId) : null
}

/** A map from input to identifier, from either direction. */
function keyByInput(entries: Array<[string, string]>): Record<string, string> | null {
  const reversed = entries.map(([key, value]): [string, string] => [value, key])
  // An identifier of the service may look like a domain, and never like an address.
  for (const isNamed of [isEmail, isInput])
    for (const pairs of [entries, reversed])
      if (pairs.every(([name]) => isNamed(name))) return Object.fromEntries(pairs)
  return null
}

const isEmail = (text: string): boolean => text.includes('@')

/** Whether a text may be what a person or a company is looked up by. */
const isInput = (text: string): boolean =>
  isEmail(text) || normalizeProfileUrl(text)?.ok === true || normalizeDomain(text)?.ok === true
