/**
 * Prospeo: people and companies, one or fifty in a call, with the results and their cost in the answer.
 *
 * Written on 2026-11-26 from stored copies of its documentation (prospeo.io/api-docs) that others keep in their repositories, and from
 * public clients that agree with them; its own pages were not stored. Not tried against the live service. The endpoints before March 2026
 * (/email-finder, /social-url-search) are gone.
 *
 * Not found: the limits of each plan, and how long a person that was looked up stays free of charge (ninety days, or for ever).
 *
 *     FILLRATE_BASE_URL=https://api.prospeo.io
 */
import {
  type BulkReading,
  defineService,
  type JobInput,
  type ServiceAnswer,
  type ServiceCase,
  type ServiceFailure,
  type ServiceReading,
} from 'fillrate'

interface Match {
  readonly identifier?: unknown
  readonly person?: unknown
  readonly company?: unknown
}

type Body = Match & {
  matched?: unknown
  not_matched?: unknown
  invalid_datapoints?: unknown
  total_cost?: unknown
  free_enrichment?: unknown
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** What is not known is left out. */
const toData = (input: JobInput): object => ({
  email: input.email,
  linkedin_url: input.linkedin_url,
  full_name: input.name,
  first_name: input.first_name,
  last_name: input.last_name,
  company_name: input.company,
  company_website: input.company_domain,
})

const INPUTS = ['email', 'linkedin_url', 'name_company', 'first_name', 'last_name', 'company_domain'] as const

/** A mobile number costs ten credits. */
const OPTIONS = { enrich_mobile: false }

/** A value that is not paid is masked, `+1 415-3**-****`. That is no value, nor is the status of an address that there is none of. */
const withoutMasks = (person: object): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(person).filter(
      ([field, value]) =>
        !isRecord(value) || (value['revealed'] !== false && (field !== 'email' || Boolean(value['email']))),
    ),
  )

const toRecord = ({ person, company }: Match): Record<string, unknown> => ({
  ...(isRecord(person) && withoutMasks(person)),
  ...(isRecord(company) && { company }),
})

const readCode = ({ body }: ServiceAnswer): string | null =>
  isRecord(body) && body['error'] === true ? String(body['error_code']) : null

/** What a code means, whatever the status: even an error of the service is a 400. */
function readFailure(answer: ServiceAnswer): ServiceFailure | undefined {
  const code = readCode(answer)
  switch (code) {
    case 'INSUFFICIENT_CREDITS':
      return { outcome: 'out_of_credits' }
    case 'INVALID_API_KEY':
      return { outcome: 'unauthorized' }
    case 'RATE_LIMITED':
      return { outcome: 'rate_limited' }
    case 'INTERNAL_ERROR':
      return { outcome: 'transient', reason: code }
    case 'INVALID_REQUEST':
    case 'INVALID_DATAPOINTS':
      return { outcome: 'rejected', reason: code }
    default:
      return undefined
  }
}

const readOne =
  (kind: 'person' | 'company') =>
  (answer: ServiceAnswer): ServiceReading | undefined => {
    if (readCode(answer) === 'NO_MATCH') return { outcome: 'not_found' }
    const body = (isRecord(answer.body) ? answer.body : {}) as Body
    const found = body[kind]
    if (answer.status !== 200 || !isRecord(found)) return readFailure(answer)
    return {
      outcome: 'found',
      record: kind === 'company' ? found : toRecord(body),
      confidence: null,
      // Found before. Otherwise `credits` says what it cost.
      ...(body.free_enrichment === true && { credits: 0 }),
    }
  }

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

/** Each result names its input by the identifier that it was sent with, its place. */
const readMany =
  (kind: 'person' | 'company') =>
  (answer: ServiceAnswer): BulkReading | undefined => {
    const body = (isRecord(answer.body) ? answer.body : {}) as Body
    if (answer.status !== 200 || !Array.isArray(body.matched)) return readFailure(answer)
    const results = [
      ...(body.matched as Match[]).map((one) => ({
        index: Number(one.identifier),
        data: kind === 'company' ? one.company : toRecord(one),
      })),
      ...listOf(body.not_matched).map((identifier) => ({ index: Number(identifier), data: null })),
      // Requested singly, which says what is wrong with it.
      ...listOf(body.invalid_datapoints).map((identifier) => ({
        index: Number(identifier),
        error: { code: 'INVALID_DATAPOINTS' },
      })),
    ]
    const { total_cost: cost } = body
    return {
      outcome: 'results',
      delivery: { results, ...(typeof cost === 'number' && { credits: cost }) },
    }
  }

export default defineService({
  name: 'Prospeo',
  auth: { header: 'x-key' },
  person: {
    path: '/enrich-person',
    inputs: INPUTS,
    body: (input) => ({ ...OPTIONS, data: toData(input) }),
    record: { wrappers: [], confidence: null },
    read: readOne('person'),
  },
  company: {
    method: 'POST',
    path: '/enrich-company',
    body: ({ domain }) => ({ data: { company_website: domain } }),
    record: { wrappers: ['company'], confidence: null },
    read: readOne('company'),
  },
  bulk: {
    path: '/bulk-enrich-person',
    size: 50,
    inputs: INPUTS,
    results: 'answer',
    body: ({ inputs }) => ({
      ...OPTIONS,
      data: inputs.map((input, n) => ({ identifier: String(n), ...toData(input) })),
    }),
    read: readMany('person'),
  },
  companyBulk: {
    path: '/bulk-enrich-company',
    size: 50,
    results: 'answer',
    body: ({ inputs }) => ({
      data: inputs.map(({ domain }, n) => ({ identifier: String(n), company_website: domain })),
    }),
    read: readMany('company'),
  },
  // The minute and the day, on every answer; the one with the least left counts. The header of the second has no count.
  // "This endpoint is free to use."
  account: {
    path: '/account-information',
    credits: (body) => (body as { response: { remaining_credits: number } }).response.remaining_credits,
  },
  rate: {
    headers: (headers: ServiceAnswer['headers']) => {
      const windows = ['minute', 'daily']
        .map((window) => [
          headers[`x-${window}-rate-limit`],
          headers[`x-${window}-request-left`],
          headers[`x-${window}-reset-seconds`],
        ])
        .filter((window) => window.every((value) => value !== undefined))
      const join = (at: number): string | undefined =>
        windows.map((window) => String(window[at])).join(', ') || undefined
      return { 'x-ratelimit-limit': join(0), 'x-ratelimit-remaining': join(1), 'x-ratelimit-reset': join(2) }
    },
  },
  // The most. What was found before is free, and the answer says so.
  credits: { most: 1, of: (_, record) => (record === null ? 0 : 1) },
  fields: {
    person: {
      person_id: 'text',
      full_name: 'text',
      linkedin_url: 'text',
      current_job_title: 'text',
      headline: 'text',
      'email.email': 'text',
      'email.status': 'text',
      'mobile.mobile': 'text',
      'location.country': 'text',
      'location.state': 'text',
      'location.city': 'text',
      skills: 'list',
      'company.name': 'text',
      'company.website': 'text',
      'company.domain': 'text',
      'company.industry': 'text',
      'company.employee_count': 'number',
      'company.employee_range': 'text',
      'company.linkedin_url': 'text',
    },
    company: {
      company_id: 'text',
      name: 'text',
      website: 'text',
      domain: 'text',
      description: 'text',
      industry: 'text',
      employee_count: 'number',
      employee_range: 'text',
      founded: 'number',
      linkedin_url: 'text',
      'revenue_range.min': 'number',
      'revenue_range.max': 'number',
      'location.country': 'text',
      'location.city': 'text',
    },
  },
})

const person = {
  person_id: 'p1',
  full_name: 'Ada Lovelace',
  current_job_title: 'Analyst',
  email: { status: 'VERIFIED', revealed: true, email: 'ada@engines.example' },
}
const mobile = { status: 'VERIFIED', revealed: false, mobile: '+1 415-3**-****' }
const company = { company_id: 'c1', name: 'Engines', domain: 'engines.example', employee_count: 12 }

const errorOf = (error_code: string): { status: number; body: object } => ({
  status: 400,
  body: { error: true, error_code },
})

export const cases: readonly ServiceCase[] = [
  {
    name: 'a match, with a masked number',
    input: { email: 'ada@engines.example' },
    request: {
      method: 'POST',
      path: '/enrich-person',
      headers: { 'x-key': 'test-key' },
      body: { enrich_mobile: false, data: { email: 'ada@engines.example' } },
    },
    answer: {
      headers: {
        'x-second-rate-limit': '5',
        'x-minute-rate-limit': '100',
        'x-minute-request-left': '99',
        'x-minute-reset-seconds': '60',
        'x-daily-rate-limit': '5000',
        'x-daily-request-left': '4999',
        'x-daily-reset-seconds': '3600',
      },
      body: { error: false, free_enrichment: false, person: { ...person, mobile }, company },
    },
    expect: {
      outcome: 'found',
      record: { ...person, company, mobile: undefined },
      confidence: null,
      credits: 1,
    },
  },
  {
    name: 'no match: nothing but masks and an employer',
    input: { email: 'ada@engines.example' },
    answer: {
      body: {
        error: false,
        free_enrichment: false,
        person: { email: { status: 'UNAVAILABLE', revealed: true, email: null }, mobile },
        company,
      },
    },
    expect: { outcome: 'not_found' },
  },
  {
    name: 'by name and company',
    input: { name: 'Ada Lovelace', company: 'Engines' },
    request: { body: { data: { full_name: 'Ada Lovelace', company_name: 'Engines' } } },
    answer: { body: { error: false, free_enrichment: false, person, company: null } },
    expect: { outcome: 'found', record: { ...person, company: undefined } },
  },
  {
    name: 'by a name in its parts and a domain',
    input: {
      name: 'Ada Lovelace',
      first_name: 'Ada',
      last_name: 'Lovelace',
      company_domain: 'engines.example',
    },
    request: {
      body: {
        data: {
          full_name: 'Ada Lovelace',
          first_name: 'Ada',
          last_name: 'Lovelace',
          company_website: 'engines.example',
        },
      },
    },
    answer: { body: { error: false, free_enrichment: false, person, company } },
    expect: { outcome: 'found', record: { ...person, company } },
  },
  {
    name: 'by profile',
    input: { linkedin_url: 'https://www.linkedin.com/in/ada' },
    request: { body: { data: { linkedin_url: 'https://www.linkedin.com/in/ada' } } },
    answer: { body: { error: false, free_enrichment: false, person, company } },
    expect: { outcome: 'found' },
  },
  {
    name: 'no match, which is a 400',
    input: { email: 'bob@engines.example' },
    answer: errorOf('NO_MATCH'),
    expect: { outcome: 'not_found', credits: 0 },
  },
  {
    name: 'an input that it does not accept',
    input: { email: 'nobody' },
    answer: errorOf('INVALID_DATAPOINTS'),
    expect: { outcome: 'rejected' },
  },
  {
    name: 'no credits left',
    input: { email: 'ada@engines.example' },
    answer: errorOf('INSUFFICIENT_CREDITS'),
    expect: { outcome: 'out_of_credits' },
  },
  {
    name: 'too many calls',
    input: { email: 'ada@engines.example' },
    answer: { status: 429, body: { error: true, error_code: 'RATE_LIMITED' } },
    expect: { outcome: 'rate_limited' },
  },
  {
    name: 'a wrong key',
    input: { email: 'ada@engines.example' },
    answer: { status: 401, body: { error: true, error_code: 'INVALID_API_KEY' } },
    expect: { outcome: 'unauthorized' },
  },
  {
    name: 'an error of the service, which is a 400, too',
    input: { email: 'ada@engines.example' },
    answer: errorOf('INTERNAL_ERROR'),
    expect: { outcome: 'transient' },
  },
  {
    name: 'an error in a 200',
    input: { domain: 'engines.example' },
    answer: { body: { error: true, error_code: 'INTERNAL_ERROR' } },
    expect: { outcome: 'transient' },
  },
  {
    name: 'a company',
    input: { domain: 'engines.example' },
    request: {
      method: 'POST',
      path: '/enrich-company',
      body: { data: { company_website: 'engines.example' } },
    },
    answer: { body: { error: false, free_enrichment: false, company } },
    expect: { outcome: 'found', record: company, credits: 1 },
  },
  {
    name: 'three in a call',
    input: { emails: ['ada@engines.example', 'bob@engines.example', 'nobody'] },
    request: {
      method: 'POST',
      path: '/bulk-enrich-person',
      body: {
        enrich_mobile: false,
        data: [
          { identifier: '0', email: 'ada@engines.example' },
          { identifier: '1', email: 'bob@engines.example' },
          { identifier: '2', email: 'nobody' },
        ],
      },
    },
    answer: {
      body: {
        error: false,
        total_cost: 1,
        matched: [{ identifier: '0', person: { ...person, mobile }, company }],
        not_matched: ['1'],
        invalid_datapoints: ['2'],
      },
    },
    expect: {
      outcome: 'accepted',
      credits: 1,
      results: [
        { index: 0, outcome: 'found', record: { ...person, mobile: undefined } },
        { index: 1, outcome: 'not_found' },
        { index: 2, outcome: 'unreadable' },
      ],
    },
  },
  {
    name: 'people by what is known of each, one of whom was found before',
    input: {
      inputs: [
        { name: 'Ada Lovelace', company: 'Engines', company_domain: 'engines.example' },
        { linkedin_url: 'https://www.linkedin.com/in/bob' },
      ],
    },
    request: {
      body: {
        data: [
          {
            identifier: '0',
            full_name: 'Ada Lovelace',
            company_name: 'Engines',
            company_website: 'engines.example',
          },
          { identifier: '1', linkedin_url: 'https://www.linkedin.com/in/bob' },
        ],
      },
    },
    answer: {
      body: {
        error: false,
        total_cost: 1,
        matched: [
          { identifier: '1', person, company },
          { identifier: '0', person, company },
        ],
        not_matched: [],
        invalid_datapoints: [],
      },
    },
    expect: {
      outcome: 'accepted',
      credits: 1,
      results: [
        { index: 1, outcome: 'found' },
        { index: 0, outcome: 'found' },
      ],
    },
  },
  {
    name: 'two companies in a call',
    input: { inputs: [{ domain: 'engines.example' }, { domain: 'nowhere.example' }] },
    request: {
      path: '/bulk-enrich-company',
      body: {
        data: [
          { identifier: '0', company_website: 'engines.example' },
          { identifier: '1', company_website: 'nowhere.example' },
        ],
      },
    },
    answer: {
      body: { error: false, total_cost: 1, matched: [{ identifier: '0', company }], not_matched: ['1'] },
    },
    expect: {
      outcome: 'accepted',
      credits: 1,
      results: [
        { index: 0, outcome: 'found', record: company },
        { index: 1, outcome: 'not_found' },
      ],
    },
  },
  {
    name: 'a person that was found before, free of charge',
    input: { email: 'ada@engines.example' },
    answer: { body: { error: false, free_enrichment: true, person, company } },
    expect: { outcome: 'found', credits: 0 },
  },
  {
    name: 'a bulk call without credits, which sends nothing singly',
    input: { emails: ['ada@engines.example', 'bob@engines.example'] },
    answer: errorOf('INSUFFICIENT_CREDITS'),
    expect: { outcome: 'out_of_credits' },
  },
]
