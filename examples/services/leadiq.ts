/**
 * LeadIQ, a GraphQL service: people by email, profile, or name and company, and companies by domain.
 *
 * Written from public documentation as read on 2026-11-26, from stored copies, not tried against the live service:
 * github.com/leadiq/api-samples (ba81a23: address, key, errors, the query of a person) and the schema that the endpoint gave on
 * 2026-08-13, as catalogued by api-evangelist/leadiq. Limits and credits are those of leadiqhelp.zendesk.com, articles
 * 35509840045083 and 32700544948507, as read there. Whether data and errors come together was not found: an error counts.
 *
 *     FILLRATE_BASE_URL=https://api.leadiq.com
 *     FILLRATE_API_KEY=…      the "Secret Base64 API key", as it is
 *
 * A profile costs 0.1 credits, a work email 1, a company 3. What the query selects is billed, so leave out of `PERSON` what is not
 * needed: without `emails` a person costs 0.1.
 */
import {
  defineService,
  type PersonInput,
  type ServiceAnswer,
  type ServiceCase,
  type ServiceReading,
} from 'fillrate'

const PERSON = `query ($input: SearchPeopleInput!) {
  searchPeople(input: $input) {
    totalResults
    results {
      id
      confidence
      name { fullName first last }
      linkedin { linkedinUrl }
      location { city country }
      currentPositions {
        title
        seniority
        function
        companyInfo { name }
        emails { value type status }
      }
    }
  }
}`

const COMPANY = `query ($input: SearchCompanyInput!) {
  searchCompany(input: $input) {
    totalResults
    results { id name domain description industry numberOfEmployees foundedYear linkedinUrl }
  }
}`

type Result = Record<string, unknown>
type Email = { value?: string; status?: string }
type Person = { confidence?: number | null; currentPositions?: ({ emails?: Email[] } | null)[] }
type Reply = {
  data?: Record<string, { results?: Result[] } | null> | null
  errors?: { message?: string; extensions?: { response?: { status?: number } } }[]
}

function toSearch(input: PersonInput): object {
  if ('email' in input) return { email: input.email }
  if ('linkedin_url' in input) return { linkedinUrl: input.linkedin_url }
  if (!('company' in input)) return {}
  const isDomain = /^[^\s.]+(?:\.[^\s.]+)+$/.test(input.company)
  return { fullName: input.name, company: isDomain ? { domain: input.company } : { name: input.company } }
}

/** All is a 200: what went wrong has its status inside. */
function readReply(
  { status, body }: ServiceAnswer,
  search: string,
  toReading: (result: Result) => ServiceReading,
): ServiceReading | undefined {
  if (status !== 200) return undefined
  const { data, errors } = (typeof body === 'object' && body !== null ? body : {}) as Reply
  if (Array.isArray(errors) && errors.length > 0) {
    const [error] = errors
    const code = error?.extensions?.response?.status ?? 0
    if (code === 401) return { outcome: 'unauthorized' }
    if (code === 402) return { outcome: 'out_of_credits' }
    if (code === 429) return { outcome: 'rate_limited' }
    if (code >= 500) return { outcome: 'transient' }
    return { outcome: 'unreadable', reason: error?.message ?? 'an error without a message' }
  }
  const results = data?.[search]?.results
  if (!Array.isArray(results)) return { outcome: 'unreadable', reason: 'no results' }
  const [best] = results
  return best === undefined ? { outcome: 'not_found' } : toReading(best)
}

/** The best first. `Invalid` and `Suppressed` are not to be used. */
const EMAIL_STATUSES = ['Verified', 'VerifiedLikely', 'Unverified']

/** Outputs copy values, not lists of objects: the first position, and the best of all work emails. */
function toPerson(result: Result): ServiceReading {
  const { confidence, currentPositions, ...rest } = result as Person
  const positions = (currentPositions ?? []).filter((position) => position !== null)
  const emails = positions.flatMap((position) => position.emails ?? [])
  const [workEmail = null] = EMAIL_STATUSES.flatMap((status) => emails.filter((one) => one.status === status))
  const { emails: _, ...position } = positions[0] ?? {}
  return {
    outcome: 'found',
    record: { ...rest, position, workEmail },
    confidence: typeof confidence === 'number' ? confidence / 100 : null,
  }
}

export default defineService({
  name: 'LeadIQ',
  // The key is encoded already.
  auth: { header: 'authorization', prefix: 'Basic ' },
  person: {
    path: '/graphql',
    body: (input) => ({ query: PERSON, variables: { input: { ...toSearch(input), limit: 1 } } }),
    record: { confidence: null },
    read: (answer) => readReply(answer, 'searchPeople', toPerson),
  },
  company: {
    method: 'POST',
    path: '/graphql',
    body: ({ domain }) => ({ query: COMPANY, variables: { input: { domain } } }),
    read: (answer) =>
      readReply(answer, 'searchCompany', (company) => ({
        outcome: 'found',
        record: company,
        confidence: null,
      })),
  },
  // The guide lists it as a status, too.
  statuses: { 402: 'out_of_credits' },
  // For the key. No header tells what is left.
  rate: { limit: '60 per minute' },
  // What was unlocked within a year is free: that is not counted.
  credits: {
    most: (kind) => (kind === 'domain' ? 3 : 1.1),
    of: (kind, record) => {
      if (record === null) return 0
      if (kind === 'domain') return 3
      return record['workEmail'] ? 1.1 : 0.1
    },
  },
  fields: {
    person: {
      id: 'text',
      'name.fullName': 'text',
      'name.first': 'text',
      'name.last': 'text',
      'linkedin.linkedinUrl': 'text',
      'position.title': 'text',
      'position.seniority': 'text',
      'position.function': 'text',
      'position.companyInfo.name': 'text',
      'workEmail.value': 'text',
      'workEmail.status': 'text',
      'location.city': 'text',
      'location.country': 'text',
    },
    company: {
      id: 'text',
      name: 'text',
      domain: 'text',
      description: 'text',
      industry: 'text',
      numberOfEmployees: 'number',
      foundedYear: 'number',
      linkedinUrl: 'text',
    },
  },
})

const position = { title: 'Analyst', seniority: 'Manager', companyInfo: { name: 'Engines' } }
const person = {
  id: 'p1',
  name: { fullName: 'Ada Lovelace' },
  confidence: 92,
  currentPositions: [
    {
      ...position,
      emails: [
        { value: 'old@engines.example', type: 'WorkEmail', status: 'Invalid' },
        { value: 'ada@engines.example', type: 'WorkEmail', status: 'Verified' },
      ],
    },
  ],
}
const error = (status: number, message: string): object => ({
  errors: [{ message, extensions: { response: { status } } }],
})

export const cases: readonly ServiceCase[] = [
  {
    name: 'a match',
    input: { email: 'ada@engines.example' },
    request: {
      method: 'POST',
      path: '/graphql',
      headers: { authorization: 'Basic test-key' },
      body: { query: PERSON, variables: { input: { email: 'ada@engines.example', limit: 1 } } },
    },
    answer: { body: { data: { searchPeople: { totalResults: 1, results: [person] } } } },
    expect: {
      outcome: 'found',
      record: { id: 'p1', position, workEmail: { value: 'ada@engines.example', status: 'Verified' } },
      confidence: 0.92,
      credits: 1.1,
    },
  },
  {
    name: 'by name and company, without an email',
    input: { name: 'Ada Lovelace', company: 'Engines' },
    request: { body: { variables: { input: { fullName: 'Ada Lovelace', company: { name: 'Engines' } } } } },
    answer: { body: { data: { searchPeople: { results: [{ ...person, currentPositions: [] }] } } } },
    expect: { outcome: 'found', record: { id: 'p1', workEmail: null }, credits: 0.1 },
  },
  {
    name: 'by profile',
    input: { linkedin_url: 'https://www.linkedin.com/in/ada' },
    request: { body: { variables: { input: { linkedinUrl: 'https://www.linkedin.com/in/ada' } } } },
    answer: { body: { data: { searchPeople: { results: [person] } } } },
    expect: { outcome: 'found' },
  },
  {
    name: 'no match: nothing but an employer',
    input: { email: 'nobody@engines.example' },
    answer: {
      body: {
        data: {
          searchPeople: {
            results: [{ name: null, currentPositions: [{ title: null, companyInfo: { name: 'Engines' } }] }],
          },
        },
      },
    },
    expect: { outcome: 'not_found', credits: 0 },
  },
  {
    name: 'no match',
    input: { email: 'nobody@engines.example' },
    answer: { body: { data: { searchPeople: { totalResults: 0, results: [] } } } },
    expect: { outcome: 'not_found', credits: 0 },
  },
  {
    name: 'too many calls, in a 200',
    input: { email: 'ada@engines.example' },
    answer: { body: error(429, 'Too many requests') },
    expect: { outcome: 'rate_limited' },
  },
  {
    name: 'out of credits, in a 200',
    input: { email: 'ada@engines.example' },
    answer: { body: error(402, 'Insufficient credits') },
    expect: { outcome: 'out_of_credits' },
  },
  {
    name: 'a wrong key, in a 200',
    input: { email: 'ada@engines.example' },
    answer: { body: error(401, 'Invalid API key') },
    expect: { outcome: 'unauthorized' },
  },
  {
    name: 'an outage, in a 200',
    input: { email: 'ada@engines.example' },
    answer: { body: error(500, 'Internal error') },
    expect: { outcome: 'transient' },
  },
  {
    name: 'a query that it does not understand',
    input: { email: 'ada@engines.example' },
    answer: { body: { data: null, errors: [{ message: 'Cannot query field', extensions: {} }] } },
    expect: { outcome: 'unreadable' },
  },
  {
    name: 'a company',
    input: { domain: 'engines.example' },
    request: {
      method: 'POST',
      path: '/graphql',
      body: { query: COMPANY, variables: { input: { domain: 'engines.example' } } },
    },
    answer: {
      body: { data: { searchCompany: { results: [{ id: 'c1', name: 'Engines', industry: 'Machinery' }] } } },
    },
    expect: { outcome: 'found', record: { industry: 'Machinery' }, credits: 3 },
  },
]
