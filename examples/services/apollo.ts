/**
 * Apollo, people enrichment: single, and ten in a call with the results in the answer.
 *
 * Written from its public documentation as read on 2026-11-22: docs.apollo.io/reference/people-enrichment,
 * /reference/bulk-people-enrichment and /docs/enrich-people-data. Not tried against the live service. The names of
 * the rate headers are not on these pages: they are those that public clients of Apollo read. Phone numbers are left
 * out: Apollo delivers them by a webhook that it does not sign. Its pages have no list of a person's fields that could be read:
 * these are the ones that public clients of Apollo declare, found on 2026-11-22.
 *
 *     FILLRATE_BASE_URL=https://api.apollo.io
 */
import { defineService, type ServiceAnswer, type ServiceCase } from 'fillrate'

const first = (value: string | string[] | undefined): string | undefined =>
  typeof value === 'string' ? value : value?.[0]

/** What is known of a person, in Apollo's names. */
const toDetails = (input: object): Record<string, string> => ({
  ...('email' in input && { email: String(input.email) }),
  ...('linkedin_url' in input && { linkedin_url: String(input.linkedin_url) }),
  ...('name' in input && 'company' in input
    ? { name: String(input.name), organization_name: String(input.company) }
    : {}),
})

export default defineService({
  name: 'Apollo',
  auth: { header: 'x-api-key' },
  headers: { 'cache-control': 'no-cache' },
  person: {
    method: 'POST',
    path: '/api/v1/people/match',
    query: toDetails,
    body: () => ({}),
    // Apollo sends no confidence.
    record: { wrappers: ['person'], confidence: null },
    read: ({ status, body }) => {
      if (status !== 200 || typeof body !== 'object' || body === null || !('person' in body)) return undefined
      const record = toRecord(body.person)
      return record === null ? { outcome: 'not_found' } : { outcome: 'found', record, confidence: null }
    },
  },
  bulk: {
    path: '/api/v1/people/bulk_match',
    size: 10,
    results: 'answer',
    body: ({ emails }) => ({ details: emails.map((email) => ({ email })) }),
    // In the order of the inputs, null where nothing matched. Where one person's own address says otherwise, the order of the whole
    // answer is worth nothing.
    ordered: true,
    read: ({ status, body }, { emails }) => {
      const matches = readMatches(body)
      if (status !== 200 || matches?.length !== emails.length) return undefined
      return { outcome: 'results', delivery: { results: matches.map((one) => ({ data: toRecord(one) })) } }
    },
  },
  // By the minute; hours and days are limits of their own, answered with 429. No header says when a minute ends: with the
  // limit of your plan (`limit: '200 per minute'`) no call is tried too early.
  rate: {
    headers: (headers: ServiceAnswer['headers']) => ({
      'x-ratelimit-limit': first(headers['x-rate-limit-minute']),
      'x-ratelimit-remaining': first(headers['x-minute-requests-left']),
    }),
  },
  // "Credits are charged only if credit-consuming data is found."
  credits: { most: 1, of: (_, record) => (record === null ? 0 : 1) },
  fields: {
    person: {
      id: 'text',
      first_name: 'text',
      last_name: 'text',
      name: 'text',
      title: 'text',
      headline: 'text',
      seniority: 'text',
      departments: 'list',
      email: 'text',
      linkedin_url: 'text',
      city: 'text',
      state: 'text',
      country: 'text',
      'organization.id': 'text',
      'organization.name': 'text',
      'organization.website_url': 'text',
      'organization.primary_domain': 'text',
      'organization.industry': 'text',
      'organization.estimated_num_employees': 'number',
    },
  },
})

/** Null for nobody: a stub has neither an id nor a name. An address that is not unlocked is a placeholder. */
function toRecord(person: unknown): Record<string, unknown> | null {
  if (typeof person !== 'object' || person === null) return null
  const { email, ...record } = person as Record<string, unknown>
  if (!record['id'] && !record['name']) return null
  const isPlaceholder = typeof email === 'string' && email.startsWith('email_not_unlocked@')
  return isPlaceholder || email === undefined ? record : { ...record, email }
}

function readMatches(body: unknown): unknown[] | null {
  const matches = typeof body === 'object' && body !== null && 'matches' in body ? body.matches : null
  return Array.isArray(matches) ? matches : null
}

const person = { id: 'a1', name: 'Ada Lovelace', title: 'Analyst', organization: { name: 'Engines' } }

export const cases: readonly ServiceCase[] = [
  {
    name: 'a match',
    input: { email: 'ada@engines.example' },
    request: {
      method: 'POST',
      path: '/api/v1/people/match',
      query: { email: 'ada@engines.example' },
      headers: { 'x-api-key': 'test-key', 'cache-control': 'no-cache' },
    },
    answer: { body: { person } },
    expect: { outcome: 'found', record: person, confidence: null, credits: 1 },
  },
  {
    name: 'no match',
    input: { name: 'Ada Lovelace', company: 'Engines' },
    request: { query: { name: 'Ada Lovelace', organization_name: 'Engines' } },
    answer: { body: { person: null } },
    expect: { outcome: 'not_found', credits: 0 },
  },
  {
    name: 'no match: a stub without an id or a name',
    input: { email: 'ada@engines.example' },
    answer: {
      body: {
        person: { id: null, name: null, email: 'ada@engines.example', organization: { name: 'Engines' } },
      },
    },
    expect: { outcome: 'not_found', credits: 0 },
  },
  {
    name: 'a placeholder, which is no address',
    input: { email: 'ada@engines.example' },
    answer: { body: { person: { ...person, email: 'email_not_unlocked@domain.com' } } },
    expect: { outcome: 'found', record: { ...person, email: undefined } },
  },
  {
    name: 'a wrong key',
    input: { email: 'ada@engines.example' },
    answer: { status: 401, body: { error: 'Invalid access credentials.' } },
    expect: { outcome: 'unauthorized' },
  },
  {
    name: 'ten in a call',
    input: { emails: ['ada@engines.example', 'bob@engines.example'] },
    request: {
      path: '/api/v1/people/bulk_match',
      body: { details: [{ email: 'ada@engines.example' }, { email: 'bob@engines.example' }] },
    },
    answer: { body: { status: 'success', total_requested_enrichments: 2, matches: [person, null] } },
    expect: {
      outcome: 'accepted',
      results: [{ outcome: 'found', record: person }, { outcome: 'not_found' }],
    },
  },
]
