/**
 * Hunter: the email of a person, by name and company or by profile (Email Finder), and a company by its domain.
 *
 * Written from public documentation as read on 2026-11-26, from stored copies, not tried against the live service:
 * hunter.io/api-documentation/v2 (key, statuses, the form of errors) and help.hunter.io/en/articles/1911617 (credits: one for
 * each email found, none without one). Parameters and fields are those of its OpenAPI documents, and the limits those of its
 * pages, as catalogued by api-evangelist/hunter (2026-08-13). That an email of null is a miss is what public clients test for.
 * What a company costs was not found: it counts as one credit. People by email (`/v2/people/find`) are left out for the same reason.
 *
 *     FILLRATE_BASE_URL=https://api.hunter.io
 */
import { defineService, type ServiceAnswer, type ServiceCase, type ServiceFailure } from 'fillrate'

/** A company is one text here: a word with a dot is taken for its domain. */
const toCompany = (text: string): { domain: string } | { company: string } =>
  /^[^\s.]+(?:\.[^\s.]+)+$/.test(text) ? { domain: text } : { company: text }

/** `https://www.linkedin.com/in/ada` → `ada`, decoded: a query is encoded again. */
const toHandle = (url: string): string => {
  const handle = /\/in\/([^/?#]+)/.exec(url)?.[1] ?? url
  // `decodeURIComponent` throws for a percent sign that encodes nothing.
  return new URLSearchParams(`handle=${handle}`).get('handle') ?? handle
}

type Envelope = {
  data?: { email?: string | null } | null
  errors?: { code?: number; details?: string }[]
}

const toEnvelope = (body: unknown): Envelope =>
  typeof body === 'object' && body !== null && !Array.isArray(body) ? body : {}

/** Errors have their status in the body, too. In a 200 it counts. */
function readError({ status, body }: ServiceAnswer): ServiceFailure | undefined {
  const { errors } = toEnvelope(body)
  if (status >= 300 || !Array.isArray(errors)) return undefined
  const [{ code = 0, details } = {}] = errors
  if (code === 401) return { outcome: 'unauthorized' }
  if (code === 403) return { outcome: 'rate_limited' }
  if (code === 429) return { outcome: 'out_of_credits' }
  if (code >= 500) return { outcome: 'transient' }
  return { outcome: 'unreadable', reason: details ?? 'an error without a code' }
}

export default defineService({
  name: 'Hunter',
  auth: { header: 'x-api-key' },
  person: {
    method: 'GET',
    path: '/v2/email-finder',
    inputs: ['linkedin_url', 'name_company'],
    query: (input) =>
      'linkedin_url' in input
        ? { linkedin_handle: toHandle(input.linkedin_url) }
        : 'company' in input
          ? { full_name: input.name, ...toCompany(input.company) }
          : {},
    record: { wrappers: ['data'], confidence: 'score', confidenceMax: 100 },
    read: (answer) => {
      const { data } = toEnvelope(answer.body)
      if (answer.status === 200 && data && !data.email) return { outcome: 'not_found' }
      return readError(answer)
    },
  },
  company: {
    method: 'GET',
    path: '/v2/companies/find',
    query: ({ domain }) => ({ domain }),
    record: { wrappers: ['data'] },
    read: readError,
  },
  // Free. What it counts as available is not said to be what is left.
  account: { path: '/v2/account' },
  statuses: {
    // "You have reached the rate limit", and "your usage limit", which are the credits. 451: the person asked not to be processed.
    403: 'rate_limited',
    429: 'out_of_credits',
    451: 'rejected',
  },
  // Each endpoint counts for itself. No header tells what is left.
  rate: {
    limit: {
      person: ['15 per second', '500 per minute'],
      company: ['15 per second', '500 per minute'],
    },
  },
  credits: { most: 1, of: (_, record) => (record === null ? 0 : 1) },
  fields: {
    person: {
      email: 'text',
      first_name: 'text',
      last_name: 'text',
      position: 'text',
      company: 'text',
      domain: 'text',
      phone_number: 'text',
      linkedin_url: 'text',
      twitter: 'text',
      score: 'number',
      'verification.status': 'text',
      'verification.date': 'text',
    },
    company: {
      name: 'text',
      legalName: 'text',
      domain: 'text',
      description: 'text',
      'category.sector': 'text',
      'category.industryGroup': 'text',
      'category.industry': 'text',
      'metrics.employees': 'text',
      foundedYear: 'number',
      location: 'text',
      'geo.city': 'text',
      'geo.country': 'text',
      phone: 'text',
      'linkedin.handle': 'text',
      tags: 'list',
      tech: 'list',
    },
  },
})

const person = {
  first_name: 'Ada',
  last_name: 'Lovelace',
  email: 'ada@engines.example',
  position: 'Analyst',
  company: 'Engines',
  score: 97,
  verification: { status: 'valid', date: '2026-01-15' },
}
const company = { name: 'Engines', domain: 'engines.example', category: { industry: 'Machinery' } }

export const cases: readonly ServiceCase[] = [
  {
    name: 'a match, by name and company',
    input: { name: 'Ada Lovelace', company: 'Analytical Engines' },
    request: {
      method: 'GET',
      path: '/v2/email-finder',
      query: { full_name: 'Ada Lovelace', company: 'Analytical Engines' },
      headers: { 'x-api-key': 'test-key' },
    },
    answer: { body: { data: person, meta: { params: {} } } },
    expect: { outcome: 'found', record: person, confidence: 0.97, credits: 1 },
  },
  {
    name: 'by name and domain',
    input: { name: 'Ada Lovelace', company: 'engines.example' },
    request: { query: { full_name: 'Ada Lovelace', domain: 'engines.example' } },
    answer: { body: { data: person } },
    expect: { outcome: 'found' },
  },
  {
    name: 'by profile',
    input: { linkedin_url: 'https://www.linkedin.com/in/ada-lovelace' },
    request: { query: { linkedin_handle: 'ada-lovelace' } },
    answer: { body: { data: person } },
    expect: { outcome: 'found' },
  },
  {
    name: 'no match: an employer, and no email at all',
    input: { name: 'Ada Lovelace', company: 'Engines' },
    answer: { body: { data: { company: 'Engines', score: 40 } } },
    expect: { outcome: 'not_found', credits: 0 },
  },
  {
    name: 'no match: a person without an email',
    input: { name: 'Ada Lovelace', company: 'Engines' },
    answer: { body: { data: { ...person, email: null, score: null } } },
    expect: { outcome: 'not_found', credits: 0 },
  },
  {
    name: 'too many calls: 403, which is no refused key',
    input: { name: 'Ada Lovelace', company: 'Engines' },
    answer: {
      status: 403,
      body: { errors: [{ id: 'rate', code: 403, details: 'You have reached the rate limit' }] },
    },
    expect: { outcome: 'rate_limited' },
  },
  {
    name: 'out of credits: 429, which is no limit of the rate',
    input: { name: 'Ada Lovelace', company: 'Engines' },
    answer: {
      status: 429,
      body: { errors: [{ id: 'usage', code: 429, details: 'You have reached your usage limit.' }] },
    },
    expect: { outcome: 'out_of_credits' },
  },
  {
    name: 'a person who asked not to be processed',
    input: { name: 'Ada Lovelace', company: 'Engines' },
    answer: { status: 451, body: { errors: [{ id: 'claimed', code: 451 }] } },
    expect: { outcome: 'rejected' },
  },
  {
    name: 'a wrong key',
    input: { name: 'Ada Lovelace', company: 'Engines' },
    answer: {
      status: 401,
      body: { errors: [{ id: 'auth', code: 401, details: 'No valid API key was provided' }] },
    },
    expect: { outcome: 'unauthorized' },
  },
  {
    name: 'an error in a 200',
    input: { name: 'Ada Lovelace', company: 'Engines' },
    answer: { body: { errors: [{ id: 'internal', code: 500 }] } },
    expect: { outcome: 'transient' },
  },
  {
    name: 'a company',
    input: { domain: 'engines.example' },
    request: { method: 'GET', path: '/v2/companies/find', query: { domain: 'engines.example' } },
    answer: { body: { data: company } },
    expect: { outcome: 'found', record: company },
  },
  {
    name: 'no company',
    input: { domain: 'nobody.example' },
    answer: {
      status: 404,
      body: {
        errors: [{ id: 'not_found', code: 404, details: "The requested resource couldn't be found." }],
      },
    },
    expect: { outcome: 'not_found' },
  },
]
