import { describe, expect, test } from 'vitest'
import { readInBandStatus } from '../../../src/domain/in-band-status.ts'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import { defineService } from '../../../src/domain/service/adapter.ts'
import { createService } from '../../../src/domain/service/service.ts'
import { parseEvent, parseResult } from '../../../src/webhook/event.ts'
import type { JsonObject } from '../../../src/domain/json.ts'

const adapter = createService(
  defineService({
    name: 'adapter',
    person: { path: '/people', record: { confidence: null, wrappers: ['profile'] } },
    company: { path: '/companies', record: { wrappers: ['organization'] } },
  }),
)

/** Of an outage, a limit, a job that is not done: never a miss. */
const FAULTS: readonly JsonObject[] = [
  { found: false, error: 'timeout' },
  { found: false, error: { code: 503 } },
  { found: false, code: 500 },
  { found: false, status: 502 },
  { found: false, status: 'error' },
  { found: false, status: 'pending' },
  { found: false, message: 'Service temporarily unavailable' },
  { matched: false, errors: ['upstream'] },
  { match: false, http_status: 429 },
  { found: 'false', error_message: 'deadline exceeded' },
  { success: true, found: false, error: 'quota exceeded' },
  { success: false, found: false, error: 'internal' },
  { code: 500 },
  { code: '503' },
  { code: 429 },
  { code: 402, message: 'no data' },
  { statusCode: 500 },
  { http_status: 504 },
  { httpCode: 500 },
  { response_code: 500 },
  { status: 202 },
  { status: 'pending' },
  { status: 'Processing' },
  { status: 'in_progress' },
  { state: 'queued' },
  { status: 'retrying' },
  { status: 'not ready' },
  { status: 'timeout' },
  { status: 'timed_out' },
  { status: 'cancelled' },
  { status: 'skipped' },
  { status: 'throttled' },
  { outcome: 'error' },
  { error: 'timeout' },
  { error: true },
  { error: { type: 'internal' } },
  { errorMessage: 'upstream' },
  { error_code: 'E1001' },
  { exception: 'java.net.SocketTimeoutException' },
  { message: 'please retry later' },
]
/** Those say that nobody is known. */
const MISSES: readonly JsonObject[] = [
  { found: false },
  { found: false, error: null },
  { found: false, error: 'not found' },
  { found: false, code: 404 },
  { found: false, code: 200, status: 'ok' },
  { found: false, error: { code: 404, message: 'Person not found' } },
  { found: false, message: 'We could not locate this person' },
  { matched: false, success: true, errors: [] },
  { success: false, message: 'No match found' },
  { code: 404 },
  { status: 404 },
  { status: 'not_found' },
  { error: 'no_match' },
  { status: 'completed' },
  { status: 'success', code: 200, error_code: 0 },
  {},
]

/** Where a result of a delivery may say it. */
const places: readonly (readonly [where: string, toItem: (says: JsonObject) => JsonObject])[] = [
  ['beside empty data', (says) => ({ request_id: 'a@x.example', data: null, ...says })],
  ['without data', (says) => ({ request_id: 'a@x.example', ...says })],
  ['in its data', (says) => ({ request_id: 'a@x.example', data: says })],
  ['beside the address', (says) => ({ request_id: 'a@x.example', email: 'a@x.example', ...says })],
  [
    'in its data, beside the address',
    (says) => ({ request_id: 'a@x.example', data: { email: 'a@x.example', ...says } }),
  ],
  ['beside a confidence of 0', (says) => ({ request_id: 'a@x.example', data: { confidence: 0, ...says } })],
]
const outcomeOf = (item: JsonObject, kind: 'person' | 'company', service: typeof adapter): string => {
  const parsed = parseEvent(
    Buffer.from(JSON.stringify({ event_id: 'e', status: 'completed', results: [item] })),
  )
  if (!parsed.ok) throw new Error(parsed.reason)
  const [result] = parsed.event.results
  const { found, fault } = parseResult(
    kind === 'company' ? (result?.data ?? result?.raw) : result?.data,
    kind,
    service,
  )
  return fault !== null ? 'fault' : found ? 'found' : 'miss'
}

describe.each([
  ['the built-in service', BUILT_IN_SERVICE],
  ['an adapter', adapter],
])('%s', (_, service) => {
  describe.each(places)('%s', (_where, toItem) => {
    test.each(FAULTS)('%j is asked again', (says) => {
      expect(outcomeOf(toItem(says), 'person', service)).toBe('fault')
    })
  })
  describe.each(places.filter(([where]) => !where.includes('address')))('%s', (_where, toItem) => {
    test.each(FAULTS)('%j about a company is asked again', (says) => {
      expect(outcomeOf(toItem(says), 'company', service)).toBe('fault')
    })
  })
  describe.each(places.slice(0, 3))('%s', (_where, toItem) => {
    test.each(MISSES)('%j is a miss', (says) => {
      expect(outcomeOf(toItem(says), 'person', service)).toBe('miss')
    })
  })
  test.each(FAULTS)('a single answer %j is neither a record nor a miss', (says) => {
    expect(service.readers.person(says).outcome).toBe('unreadable')
    expect(service.readers.company({ ...says, domain: 'x.example' }).outcome).toBe('unreadable')
  })
})

test.each([{ status: 'queued' }, { status: 202 }, { found: false, state: 'processing' }])(
  '%j is pending',
  (says) => {
    expect(readInBandStatus(says)).toMatchObject({ isPending: true })
  },
)
test.each([{ status: 'failed' }, { error: 'timeout' }, { found: false }])('%j is not pending', (says) => {
  expect(readInBandStatus(says)).toMatchObject({ isPending: false })
})

test.each<JsonObject>([
  { status: 'active', code: 541, state: 'CA', type: 'limited' },
  { status: 'pending', code: 503 },
  { message: 'Time is limited' },
])('a record that has %j too is a record', (fields) => {
  expect(BUILT_IN_SERVICE.readers.person({ title: 'CTO', confidence: 0.9, ...fields }).outcome).toBe('found')
  expect(BUILT_IN_SERVICE.readers.company({ industry: 'Software', ...fields }).outcome).toBe('found')
})
