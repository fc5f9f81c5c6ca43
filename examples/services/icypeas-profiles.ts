/**
 * Icypeas, reverse email lookup: the address of a person's profile by email, one or fifty in a call.
 *
 * Written on 2026-11-26 from stored copies, not tried against the live service: api-doc.icypeas.com/rate-limits and /errors, and a copy
 * of the page of the two endpoints in a repository of others. No result names its email, and the page's example keeps the order of the
 * request: this is believed. Not found: the body that a single lookup is answered with (read here as one result of a call of
 * many), and what a profile costs ("you only pay for results": one credit here).
 *
 *     FILLRATE_BASE_URL=https://app.icypeas.com/api
 */
import {
  defineService,
  type ServiceAnswer,
  type ServiceCase,
  type ServiceFailure,
  type ServiceReading,
} from 'fillrate'

interface Result {
  readonly status?: unknown
  readonly result?: unknown
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** An error in a 200: a field that is wrong, an unpaid subscription, or another one. */
function readFailure({ status, body }: ServiceAnswer): ServiceFailure | undefined {
  if (status !== 200 || !isRecord(body) || body['success'] !== false) return undefined
  if (Array.isArray(body['validationErrors'])) return { outcome: 'rejected', reason: 'validationErrors' }
  return JSON.stringify(body).includes('UnpaidSubscriptionError')
    ? { outcome: 'out_of_credits', reason: 'UnpaidSubscriptionError' }
    : { outcome: 'transient', reason: 'success: false' }
}

function readOne({ status, result }: Result): ServiceReading {
  if (status === 'FOUND' && typeof result === 'string' && result !== '')
    return { outcome: 'found', record: { profile: result }, confidence: null }
  if (status === 'NOT_FOUND') return { outcome: 'not_found' }
  return status === 'INSUFFICIENT_FUNDS'
    ? { outcome: 'out_of_credits' }
    : { outcome: 'unreadable', reason: 'a result in no state that is documented' }
}

const toResult = (reading: ServiceReading): object => {
  if (reading.outcome === 'found') return { data: reading.record }
  return reading.outcome === 'not_found' ? { data: null } : { error: { code: reading.outcome } }
}

export default defineService({
  name: 'Icypeas profiles',
  // The key alone, without `Bearer`.
  auth: { header: 'authorization' },
  person: {
    path: '/reverse-email-lookup',
    inputs: ['email'],
    record: { wrappers: [], confidence: null },
    read: (answer) => {
      const { data } = isRecord(answer.body) ? answer.body : {}
      const result: unknown = Array.isArray(data) ? data[0] : (data ?? answer.body)
      if (answer.status !== 200) return undefined
      return readFailure(answer) ?? (isRecord(result) ? readOne(result) : undefined)
    },
  },
  // From two emails on. No result names its own: the order alone does.
  bulk: {
    path: '/reverse-email-lookups',
    size: 50,
    results: 'answer',
    ordered: true,
    body: ({ emails }) => ({ data: emails }),
    read: (answer) => {
      const { data } = isRecord(answer.body) ? answer.body : {}
      if (answer.status !== 200 || !Array.isArray(data)) return readFailure(answer)
      const readings = (data as Result[]).map(readOne)
      if (readings.length > 0 && readings.every(({ outcome }) => outcome === 'out_of_credits'))
        return { outcome: 'out_of_credits' }
      return { outcome: 'results', delivery: { results: readings.map(toResult) } }
    },
  },
  // No header says what is left.
  rate: { limit: { person: '20 per second', bulk: '15 per second' } },
  credits: { most: 1, of: (_, record) => (record === null ? 0 : 1) },
  fields: { person: { profile: 'text' } },
})

const profile = 'https://www.linkedin.com/in/ada'
const found = { searchId: 'R1', status: 'FOUND', result: profile }
const missing = { searchId: 'R2', status: 'NOT_FOUND', result: '' }

export const cases: readonly ServiceCase[] = [
  {
    name: 'a match',
    input: { email: 'ada@engines.example' },
    request: {
      method: 'POST',
      path: '/reverse-email-lookup',
      headers: { authorization: 'test-key' },
      body: { email: 'ada@engines.example' },
    },
    answer: { body: { success: true, data: found } },
    expect: { outcome: 'found', record: { profile }, confidence: null, credits: 1 },
  },
  {
    name: 'no match',
    input: { email: 'bob@engines.example' },
    answer: { body: { success: true, data: missing } },
    expect: { outcome: 'not_found', credits: 0 },
  },
  {
    name: 'three in a call, in their order',
    input: { emails: ['ada@engines.example', 'bob@engines.example', 'cyd@engines.example'] },
    request: {
      method: 'POST',
      path: '/reverse-email-lookups',
      body: { data: ['ada@engines.example', 'bob@engines.example', 'cyd@engines.example'] },
    },
    answer: {
      body: {
        success: true,
        data: [found, missing, { searchId: 'R3', status: 'INSUFFICIENT_FUNDS', result: '' }],
      },
    },
    expect: {
      outcome: 'accepted',
      results: [
        { outcome: 'found', record: { profile } },
        { outcome: 'not_found' },
        { outcome: 'unreadable' },
      ],
    },
  },
  {
    name: 'no credits left',
    input: { emails: ['ada@engines.example', 'bob@engines.example'] },
    answer: {
      body: {
        success: true,
        data: [
          { searchId: 'R4', status: 'INSUFFICIENT_FUNDS', result: '' },
          { searchId: 'R5', status: 'INSUFFICIENT_FUNDS', result: '' },
        ],
      },
    },
    expect: { outcome: 'out_of_credits' },
  },
  {
    name: 'fewer emails than it takes in a call',
    input: { emails: ['ada@engines.example'] },
    answer: { body: { success: false, validationErrors: [{ field: 'data', type: 'min' }] } },
    expect: { outcome: 'rejected' },
  },
  {
    name: 'an error in a 200',
    input: { email: 'ada@engines.example' },
    answer: { body: { success: false } },
    expect: { outcome: 'transient' },
  },
  {
    name: 'too many calls',
    input: { emails: ['ada@engines.example', 'bob@engines.example'] },
    answer: { status: 429, body: 'You have exceeded the max number of requests per minute.' },
    expect: { outcome: 'rate_limited' },
  },
  {
    name: 'a wrong key',
    input: { email: 'ada@engines.example' },
    answer: { status: 401, body: 'Unauthorized access.' },
    expect: { outcome: 'unauthorized' },
  },
]
