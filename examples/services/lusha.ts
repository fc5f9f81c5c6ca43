/**
 * Lusha, version 3 of its API: people and companies, one or a hundred in a call, with the results and the credits in the answer.
 *
 * Written from its public documentation as read on 2026-11-26 from stored copies, not tried against the live service:
 * docs.lusha.com/enrichment/search-and-enrich-contacts, /enrichment/overview, /api-reference/overview, /faq/billing,
 * /apis/v2/openapi/section/rate-limiting and /error-codes, and /user-guide/lushas-api/all-there-is-to-know-about-lushas-api (limits
 * of the plans). What a record holds, the form of a miss, the names of the headers and what a call costs are from a probe of the
 * live service that a user published, of 2026-07-30: github.com/AusGTM/lightning-visuals-n8n, docs/LUSHA-V3-CONTRACT.md.
 *
 * Not found: the bodies of 402 and 429, how a company is missed (read as a person's miss is), and the scale of the confidence of an email.
 *
 *     FILLRATE_BASE_URL=https://api.lusha.com
 */
import {
  type BulkReading,
  defineService,
  type ServiceAnswer,
  type ServiceCase,
  type ServiceFailure,
  type ServiceReading,
} from 'fillrate'

interface Body {
  readonly results?: unknown
  readonly billing?: { readonly creditsCharged?: unknown }
}

interface Item {
  readonly clientReferenceId?: unknown
  readonly error?: { readonly code?: unknown }
  readonly emails?: unknown
  readonly phones?: unknown
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Lusha takes first and last name apart. A guess: the first word, and the rest. */
function splitName(name: string): { firstName: string; lastName: string } {
  const [firstName = '', ...rest] = name.split(' ')
  return { firstName, lastName: rest.join(' ') }
}

/** A property that Lusha does not know is refused. */
const toContact = (input: object): Record<string, string> => ({
  ...('email' in input && { email: String(input.email) }),
  ...('linkedin_url' in input && { linkedinUrl: String(input.linkedin_url) }),
  ...('name' in input &&
    'company' in input && { ...splitName(String(input.name)), companyName: String(input.company) }),
})

/** Left out, both emails and phones are revealed, and billed: a phone costs five credits. */
const toBody = (contacts: readonly object[]): object => ({ contacts, reveal: ['emails'] })

const toResponse = (body: unknown): Body => (isRecord(body) ? body : {})

const listItems = ({ status, body }: ServiceAnswer): Item[] | null => {
  const { results } = toResponse(body)
  return status === 200 && Array.isArray(results) ? (results as Item[]) : null
}

/** What a call has cost, of all inputs together. */
function readCredits({ body }: ServiceAnswer): { credits?: number } {
  const charged = toResponse(body).billing?.creditsCharged
  return typeof charged === 'number' ? { credits: charged } : {}
}

/** A key of the wrong length is answered 400, which would be the input's fault. */
const readFailure = ({ status, body }: ServiceAnswer): ServiceFailure | undefined =>
  status === 400 && isRecord(body) && /api key/i.test(String(body['message']))
    ? { outcome: 'unauthorized' }
    : undefined

/** The lists stay. What a column can hold stands beside them: the first email, and the first phone. */
function toRecord(item: Item): Record<string, unknown> {
  const { clientReferenceId: _, ...record } = item
  return {
    ...record,
    ...firstOf(item.emails, 'email', 'work_email'),
    ...firstOf(item.phones, 'number', 'phone'),
  }
}

function firstOf(list: unknown, from: string, to: string): Record<string, unknown> {
  const first: unknown = Array.isArray(list) ? list[0] : undefined
  return isRecord(first) && first[from] !== undefined ? { [to]: first[from] } : {}
}

function readOne(answer: ServiceAnswer): ServiceReading | undefined {
  const items = listItems(answer)
  if (items === null) return readFailure(answer)
  const [item] = items
  if (!isRecord(item)) return { outcome: 'unreadable', reason: 'no result' }
  const { error } = item as Item
  const credits = readCredits(answer)
  if (error === undefined) return { outcome: 'found', record: toRecord(item), confidence: null, ...credits }
  const code = String(error.code)
  if (code === 'NOT_FOUND') return { outcome: 'not_found', ...credits }
  return code === 'COMPLIANCE_RESTRICTED'
    ? { outcome: 'rejected', reason: code, ...credits }
    : { outcome: 'transient', reason: code }
}

/** Each result has the reference that its input was sent with, its place. */
function readMany(answer: ServiceAnswer): BulkReading | undefined {
  const items = listItems(answer)
  if (items === null) return readFailure(answer)
  // An error other than a miss is none of an answer: its input is requested singly, and the reason read there.
  const results = items.map((item) => ({
    ...(typeof item.clientReferenceId === 'string' && { index: Number(item.clientReferenceId) }),
    ...(item.error === undefined
      ? { data: toRecord(item) }
      : item.error.code === 'NOT_FOUND'
        ? { data: null }
        : { error: { code: item.error.code } }),
  }))
  return { outcome: 'results', delivery: { results, ...readCredits(answer) } }
}

export default defineService({
  name: 'Lusha',
  auth: { header: 'api_key' },
  person: {
    path: '/v3/contacts/search-and-enrich',
    body: (input) => toBody([toContact(input)]),
    record: { wrappers: [], confidence: null },
    read: readOne,
  },
  company: {
    method: 'POST',
    path: '/v3/companies/search-and-enrich',
    body: ({ domain }) => ({ companies: [{ domain }] }),
    record: { wrappers: [], confidence: null },
    read: readOne,
  },
  bulk: {
    path: '/v3/contacts/search-and-enrich',
    size: 100,
    inputs: ['email', 'linkedin_url', 'name_company'],
    results: 'answer',
    body: ({ inputs }) =>
      toBody(inputs.map((input, n) => ({ ...toContact(input), clientReferenceId: String(n) }))),
    read: readMany,
  },
  companyBulk: {
    path: '/v3/companies/search-and-enrich',
    size: 100,
    results: 'answer',
    body: ({ inputs }) => ({
      companies: inputs.map(({ domain }, n) => ({ domain, clientReferenceId: String(n) })),
    }),
    read: readMany,
  },
  // 499 is a timeout of the service, which version 2 documents.
  // Five calls a minute, without a credit.
  account: {
    path: '/v3/account/usage',
    credits: (body) => (body as { credits: { remaining: number } }).credits.remaining,
  },
  statuses: { 402: 'out_of_credits', 499: 'transient' },
  // Three windows, on every answer; the one with the least left counts. No header says when one ends: with the limits of your
  // plan (`limit: ['50 per minute', '150 per hour', '1500 per day']`) no call is tried too early.
  rate: {
    headers: (headers: ServiceAnswer['headers']) => {
      const windows = [
        [headers['x-rate-limit-minute'], headers['x-minute-requests-left']],
        [headers['x-rate-limit-hourly'], headers['x-hourly-requests-left']],
        [headers['x-rate-limit-daily'], headers['x-daily-requests-left']],
      ].filter((window) => window.every((value) => value !== undefined))
      return {
        'x-ratelimit-limit': windows.map(([limit]) => String(limit)).join(', ') || undefined,
        'x-ratelimit-remaining': windows.map(([, left]) => String(left)).join(', ') || undefined,
      }
    },
  },
  // The most: a person is one for the search and one for the emails, a company was two. Each answer says what it was.
  credits: { most: 2, of: (_, record) => (record === null ? 0 : 2) },
  fields: {
    person: {
      id: 'text',
      firstName: 'text',
      lastName: 'text',
      fullName: 'text',
      'jobTitle.title': 'text',
      'jobTitle.departments': 'list',
      'jobTitle.seniority': 'text',
      'jobTitle.startDate': 'text',
      'company.id': 'text',
      'company.name': 'text',
      'company.domain': 'text',
      'company.industry': 'text',
      'location.country': 'text',
      'location.countryIso2': 'text',
      'location.city': 'text',
      'socialLinks.linkedin': 'text',
      work_email: 'text',
      phone: 'text',
    },
    company: {
      id: 'text',
      name: 'text',
      domain: 'text',
      emailDomain: 'text',
      homepageUrl: 'text',
      companyType: 'text',
      yearFounded: 'number',
      'employeeCount.exact': 'number',
      'employeeCount.min': 'number',
      'employeeCount.max': 'number',
      industry: 'text',
      subIndustry: 'text',
      'location.city': 'text',
      'location.state': 'text',
      'location.country': 'text',
      'revenueRange.min': 'number',
      'revenueRange.max': 'number',
      'socialLinks.linkedin': 'text',
    },
  },
})

const person = {
  id: 'v1.a',
  fullName: 'Ada Lovelace',
  jobTitle: { title: 'Analyst', departments: ['Other'], seniority: 'Director' },
  company: { id: 'v1.e', name: 'Engines', domain: 'engines.example' },
  partialProfile: false,
  emails: [{ email: 'ada@engines.example', type: 'work', confidence: null }],
}

const answerOf = (results: readonly object[], creditsCharged: number): object => ({
  requestId: '5f0c1b0e-7d0a-4a51-9a3e-1f6a0d2b9c77',
  results,
  billing: { creditsCharged, resultsReturned: results.length },
})

const missing = { error: { code: 'NOT_FOUND', message: 'Contact not found' } }

export const cases: readonly ServiceCase[] = [
  {
    name: 'a match',
    input: { email: 'ada@engines.example' },
    request: {
      method: 'POST',
      path: '/v3/contacts/search-and-enrich',
      headers: { api_key: 'test-key' },
      body: { contacts: [{ email: 'ada@engines.example' }], reveal: ['emails'] },
    },
    answer: {
      headers: {
        'x-rate-limit-minute': '50',
        'x-minute-requests-left': '49',
        'x-rate-limit-daily': '1500',
        'x-daily-requests-left': '1499',
      },
      body: answerOf([person], 1),
    },
    expect: {
      outcome: 'found',
      record: { ...person, work_email: 'ada@engines.example' },
      confidence: null,
      credits: 1,
    },
  },
  {
    name: 'by name and company',
    input: { name: 'Ada King Lovelace', company: 'Engines' },
    request: {
      body: { contacts: [{ firstName: 'Ada', lastName: 'King Lovelace', companyName: 'Engines' }] },
    },
    answer: { body: answerOf([person], 1) },
    expect: { outcome: 'found' },
  },
  {
    name: 'by profile',
    input: { linkedin_url: 'https://www.linkedin.com/in/ada' },
    request: { body: { contacts: [{ linkedinUrl: 'https://www.linkedin.com/in/ada' }] } },
    answer: { body: answerOf([person], 1) },
    expect: { outcome: 'found' },
  },
  {
    name: 'no match',
    input: { email: 'bob@engines.example' },
    answer: { body: answerOf([missing], 0) },
    expect: { outcome: 'not_found', credits: 0 },
  },
  {
    name: 'a person that may not be looked up',
    input: { email: 'cyd@engines.example' },
    answer: { body: answerOf([{ error: { code: 'COMPLIANCE_RESTRICTED' } }], 0) },
    expect: { outcome: 'rejected' },
  },
  {
    name: 'an error in a 200',
    input: { email: 'ada@engines.example' },
    answer: { body: answerOf([{ error: { code: 'ENRICH_FAILED' } }], 0) },
    expect: { outcome: 'transient' },
  },
  {
    name: 'too many calls',
    input: { email: 'ada@engines.example' },
    answer: {
      status: 429,
      headers: { 'x-rate-limit-minute': '50', 'x-minute-requests-left': '0' },
      body: { statusCode: 429 },
    },
    expect: { outcome: 'rate_limited' },
  },
  {
    name: 'no credits left',
    input: { email: 'ada@engines.example' },
    answer: { status: 402, body: { statusCode: 402 } },
    expect: { outcome: 'out_of_credits' },
  },
  {
    name: 'a key of the wrong length',
    input: { email: 'ada@engines.example' },
    answer: { status: 400, body: { name: 'BadRequest', message: 'Invalid API key format', code: 400 } },
    expect: { outcome: 'unauthorized' },
  },
  {
    name: 'a request that it does not accept',
    input: { email: 'nobody' },
    answer: {
      status: 400,
      body: { name: 'BadRequest', message: 'contacts.0.email must be an email', code: 400, errors: {} },
    },
    expect: { outcome: 'rejected' },
  },
  {
    name: 'a company',
    input: { domain: 'engines.example' },
    request: {
      method: 'POST',
      path: '/v3/companies/search-and-enrich',
      body: { companies: [{ domain: 'engines.example' }] },
    },
    answer: {
      body: answerOf(
        [{ id: 'v1.e', name: 'Engines', domain: 'www.engines.example', employeeCount: { exact: 191 } }],
        2,
      ),
    },
    expect: { outcome: 'found', record: { employeeCount: { exact: 191 } }, credits: 2 },
  },
  {
    name: 'three in a call',
    input: { emails: ['ada@engines.example', 'bob@engines.example', 'cyd@engines.example'] },
    request: {
      path: '/v3/contacts/search-and-enrich',
      body: {
        contacts: [
          { email: 'ada@engines.example', clientReferenceId: '0' },
          { email: 'bob@engines.example', clientReferenceId: '1' },
          { email: 'cyd@engines.example', clientReferenceId: '2' },
        ],
      },
    },
    answer: {
      body: answerOf(
        [
          { ...person, clientReferenceId: '0' },
          { ...missing, clientReferenceId: '1' },
          { error: { code: 'ENRICH_FAILED' }, clientReferenceId: '2' },
        ],
        1,
      ),
    },
    expect: {
      outcome: 'accepted',
      credits: 1,
      results: [
        { index: 0, outcome: 'found', record: person },
        { index: 1, outcome: 'not_found' },
        { index: 2, outcome: 'unreadable' },
      ],
    },
  },
  {
    name: 'people by what is known of each',
    input: {
      inputs: [
        { linkedin_url: 'https://www.linkedin.com/in/ada' },
        { name: 'Bob Babbage', company: 'Engines' },
      ],
    },
    request: {
      body: {
        contacts: [
          { linkedinUrl: 'https://www.linkedin.com/in/ada', clientReferenceId: '0' },
          { firstName: 'Bob', lastName: 'Babbage', companyName: 'Engines', clientReferenceId: '1' },
        ],
      },
    },
    answer: {
      body: answerOf(
        [
          { ...missing, clientReferenceId: '1' },
          { ...person, clientReferenceId: '0' },
        ],
        2,
      ),
    },
    expect: {
      outcome: 'accepted',
      credits: 2,
      results: [
        { index: 1, outcome: 'not_found' },
        { index: 0, outcome: 'found' },
      ],
    },
  },
  {
    name: 'two companies in a call',
    input: { inputs: [{ domain: 'engines.example' }, { domain: 'nowhere.example' }] },
    request: {
      path: '/v3/companies/search-and-enrich',
      body: {
        companies: [
          { domain: 'engines.example', clientReferenceId: '0' },
          { domain: 'nowhere.example', clientReferenceId: '1' },
        ],
      },
    },
    answer: {
      body: answerOf(
        [
          { id: 'v1.e', name: 'Engines', domain: 'www.engines.example', clientReferenceId: '0' },
          { ...missing, clientReferenceId: '1' },
        ],
        2,
      ),
    },
    expect: {
      outcome: 'accepted',
      credits: 2,
      results: [
        { index: 0, outcome: 'found', record: { name: 'Engines' } },
        { index: 1, outcome: 'not_found' },
      ],
    },
  },
]
