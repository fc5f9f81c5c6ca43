/**
 * People Data Labs, person and company enrichment.
 *
 * Written from its public documentation as read on 2026-11-22: docs.peopledatalabs.com/docs/reference-person-enrichment-api,
 * /docs/bulk-enrichment-api, /docs/usage-limits and /docs/errors. Not tried against the live service. Each field of a record
 * was looked up on the same day: those of a person in /docs/fields (Person Schema), /docs/example-record and the types of the
 * official client (peopledatalabs-js, src/types/common-types.ts); those of a company in /docs/company-schema,
 * /docs/example-company-record and the same types.
 *
 *     FILLRATE_BASE_URL=https://api.peopledatalabs.com
 */
import { defineService, type ServiceAnswer, type ServiceCase } from 'fillrate'

type Item = { status?: number; likelihood?: number; data?: unknown }

/** `{'minute': 100, 'month': 9000}`: the limit with the least left in a minute is what calls run into. */
function readMinute(value: string | string[] | undefined): string | undefined {
  const text = String(value ?? '')
  const minute = /['"]?minute['"]?\s*:\s*(\d+)/.exec(text)?.[1]
  return minute ?? (/^\d+$/.test(text) ? text : undefined)
}

/** Reset is a time in ISO 8601, sometimes without its zone, which is UTC. */
function readReset(value: string | string[] | undefined): string | undefined {
  const text = /\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d/.exec(String(value ?? ''))?.[0]
  return text === undefined ? undefined : `${text.replace(' ', 'T')}Z`
}

const toParams = (input: object): Record<string, string> => ({
  ...('email' in input && { email: String(input.email) }),
  ...('linkedin_url' in input && { profile: String(input.linkedin_url) }),
  ...('name' in input && 'company' in input && { name: String(input.name), company: String(input.company) }),
})

/** Where a plan does not include a field, it is `true` or `false`: whether there is a value. That is no value. */
const withoutMasks = (data: object): Record<string, unknown> =>
  Object.fromEntries(Object.entries(data).filter(([, value]) => typeof value !== 'boolean'))

const isRecord = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export default defineService({
  name: 'People Data Labs',
  auth: { header: 'x-api-key' },
  person: {
    method: 'GET',
    path: '/v5/person/enrich',
    query: toParams,
    record: { wrappers: ['data'], confidence: 'likelihood', confidenceMax: 10 },
    read: ({ status, body }) => {
      const { data, likelihood } = (isRecord(body) ? body : {}) as Item
      if (status !== 200 || !isRecord(data) || typeof likelihood !== 'number') return undefined
      return { outcome: 'found', record: withoutMasks(data), confidence: likelihood / 10 }
    },
  },
  company: {
    method: 'GET',
    path: '/v5/company/enrich',
    query: ({ domain }) => ({ website: domain }),
    // A company is the body itself, with its likelihood beside its fields.
    record: { wrappers: [], confidence: 'likelihood', confidenceMax: 10 },
  },
  bulk: {
    path: '/v5/person/bulk',
    size: 100,
    results: 'answer',
    body: ({ emails }) => ({
      requests: emails.map((email) => ({ metadata: { email }, params: { email } })),
    }),
    read: ({ body }) => {
      if (!Array.isArray(body)) return undefined
      const results = (body as (Item & { metadata?: { email?: string } })[]).map((item) => ({
        request_id: item.metadata?.email,
        // A status of its own: 404 is a miss, and anything else but 200 is not an answer.
        ...(item.status === 200 || item.status === 404
          ? {
              data:
                item.status === 200 && isRecord(item.data)
                  ? { data: withoutMasks(item.data), likelihood: item.likelihood }
                  : null,
            }
          : { error: { code: item.status ?? 500 } }),
      }))
      return { outcome: 'results', delivery: { results } }
    },
  },
  // 402: the credits of the account are used up.
  statuses: { 402: 'out_of_credits' },
  rate: {
    headers: (headers: ServiceAnswer['headers']) => ({
      'x-ratelimit-limit': readMinute(headers['x-ratelimit-limit']),
      'x-ratelimit-remaining': readMinute(headers['x-ratelimit-remaining']),
      'x-ratelimit-reset': readReset(headers['x-ratelimit-reset']),
    }),
  },
  // "We charge per match."
  credits: { most: 1, of: (_, record) => (record === null ? 0 : 1) },
  fields: {
    person: {
      id: 'text',
      full_name: 'text',
      first_name: 'text',
      last_name: 'text',
      work_email: 'text',
      mobile_phone: 'text',
      linkedin_url: 'text',
      job_title: 'text',
      job_title_role: 'text',
      job_title_levels: 'list',
      job_company_name: 'text',
      job_company_website: 'text',
      job_company_industry: 'text',
      job_company_size: 'text',
      location_name: 'text',
      location_country: 'text',
      skills: 'list',
    },
    company: {
      id: 'text',
      name: 'text',
      display_name: 'text',
      website: 'text',
      industry: 'text',
      size: 'text',
      employee_count: 'number',
      founded: 'number',
      linkedin_url: 'text',
      'location.name': 'text',
      'location.country': 'text',
      tags: 'list',
    },
  },
})

const person = {
  id: 'p1',
  full_name: 'ada lovelace',
  job_title: 'analyst',
  job_company_name: 'analytical engines',
}

export const cases: readonly ServiceCase[] = [
  {
    name: 'a match',
    input: { email: 'ada@engines.example' },
    request: {
      method: 'GET',
      path: '/v5/person/enrich',
      query: { email: 'ada@engines.example' },
      headers: { 'x-api-key': 'test-key' },
    },
    answer: {
      headers: {
        'x-ratelimit-limit': "{'minute': 100}",
        'x-ratelimit-remaining': "{'minute': 99}",
        'x-ratelimit-reset': '2026-11-22T16:30:00',
      },
      body: { status: 200, likelihood: 8, data: person },
    },
    expect: { outcome: 'found', record: person, confidence: 0.8, credits: 1 },
  },
  {
    name: 'a plan without contact fields, which are masked',
    input: { email: 'ada@engines.example' },
    answer: {
      body: { status: 200, likelihood: 8, data: { ...person, work_email: true, mobile_phone: false } },
    },
    expect: { outcome: 'found', record: { ...person, work_email: undefined, mobile_phone: undefined } },
  },
  {
    name: 'by profile',
    input: { linkedin_url: 'https://www.linkedin.com/in/ada' },
    request: { query: { profile: 'https://www.linkedin.com/in/ada' } },
    answer: { body: { status: 200, likelihood: 10, data: person } },
    expect: { outcome: 'found', confidence: 1 },
  },
  {
    name: 'no match: nothing but masks and an employer',
    input: { email: 'ada@engines.example' },
    answer: {
      body: {
        status: 200,
        likelihood: 3,
        data: { work_email: true, mobile_phone: false, job_company_name: 'analytical engines' },
      },
    },
    expect: { outcome: 'not_found', credits: 0 },
  },
  {
    name: 'no match',
    input: { name: 'Ada Lovelace', company: 'Engines' },
    request: { query: { name: 'Ada Lovelace', company: 'Engines' } },
    answer: {
      status: 404,
      body: {
        status: 404,
        error: { type: 'not_found', message: 'No records were found matching your request' },
      },
    },
    expect: { outcome: 'not_found', credits: 0 },
  },
  {
    name: 'an invalid input',
    input: { email: 'nobody' },
    answer: {
      status: 400,
      body: { status: 400, error: { type: 'invalid_request_error', message: 'invalid' } },
    },
    expect: { outcome: 'rejected' },
  },
  {
    name: 'no credits left',
    input: { email: 'ada@engines.example' },
    answer: {
      status: 402,
      body: { status: 402, error: { type: 'payment_required', message: 'limit reached' } },
    },
    expect: { outcome: 'out_of_credits' },
  },
  {
    name: 'too many calls',
    input: { email: 'ada@engines.example' },
    answer: { status: 429, headers: { 'retry-after': '30' }, body: { status: 429 } },
    expect: { outcome: 'rate_limited' },
  },
  {
    name: 'a company',
    input: { domain: 'engines.example' },
    request: { method: 'GET', path: '/v5/company/enrich', query: { website: 'engines.example' } },
    answer: {
      body: {
        status: 200,
        likelihood: 6,
        name: 'engines',
        industry: 'machinery',
        website: 'engines.example',
      },
    },
    expect: { outcome: 'found', record: { industry: 'machinery' }, confidence: 0.6 },
  },
  {
    name: 'a bulk call, with the results in the answer',
    input: { emails: ['ada@engines.example', 'bob@engines.example', 'cyd@engines.example'] },
    request: {
      method: 'POST',
      path: '/v5/person/bulk',
      body: {
        requests: [
          { params: { email: 'ada@engines.example' } },
          { params: { email: 'bob@engines.example' } },
          { params: { email: 'cyd@engines.example' } },
        ],
      },
    },
    answer: {
      body: [
        { status: 200, likelihood: 9, data: person, metadata: { email: 'ada@engines.example' } },
        { status: 404, metadata: { email: 'bob@engines.example' } },
        { status: 500, metadata: { email: 'cyd@engines.example' } },
      ],
    },
    expect: {
      outcome: 'accepted',
      results: [
        { requestId: 'ada@engines.example', outcome: 'found', record: person, confidence: 0.9 },
        { requestId: 'bob@engines.example', outcome: 'not_found' },
        { requestId: 'cyd@engines.example', outcome: 'unreadable' },
      ],
    },
  },
]
