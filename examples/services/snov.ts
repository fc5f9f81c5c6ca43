/**
 * Snov.io: the person behind an email. Emails by name and domain: `snov-finder.ts`.
 *
 * Written from public documentation as read on 2026-11-26, from stored copies, not tried against the live service: snov.io/api
 * (tokens, the limit), snov.io/knowledgebase/how-to-get-api-credentials. The stored page has nothing of this method but its name:
 * request, record and miss are those that public clients send and read, and the credit is the one that they quote.
 * The status of a call too many, and of an account without credits, are not documented: 429 and 402 are expected.
 *
 *     FILLRATE_BASE_URL=https://api.snov.io
 *     FILLRATE_API_KEY=USER_ID:SECRET      "API User ID" and "API Secret"
 */
import { defineService, type ServiceCase } from 'fillrate'

type Profile = {
  success?: boolean
  errors?: unknown
  currentJobs?: unknown
  social?: { type?: string; link?: string }[]
  [field: string]: unknown
}

const isProfile = (body: unknown): body is Profile =>
  typeof body === 'object' && body !== null && !Array.isArray(body)

export default defineService({
  name: 'Snov.io',
  auth: { oauth: { tokenUrl: '/v1/oauth/access_token' } },
  person: {
    path: '/v1/get-profile-by-email',
    form: true,
    inputs: ['email'],
    // The record is the body itself, without a confidence.
    record: { wrappers: [], confidence: null },
    read: ({ status, body }) => {
      if (status !== 200 || !isProfile(body)) return undefined
      const { success, errors, currentJobs, social, ...profile } = body
      if (success === false && errors === undefined) return { outcome: 'not_found' }
      if (success !== true) return { outcome: 'unreadable', reason: 'neither a profile nor a miss' }
      const [job] = Array.isArray(currentJobs) ? (currentJobs as unknown[]) : []
      const linkedIn = Array.isArray(social)
        ? social.find((one) => String(one.type).toLowerCase() === 'linkedin')
        : undefined
      // Lists are of objects, which outputs cannot copy: the first job, and the profile.
      return {
        outcome: 'found',
        record: { ...profile, currentJob: job ?? null, linkedIn: linkedIn?.link ?? null },
        confidence: null,
      }
    },
  },
  account: {
    path: '/v1/get-balance',
    credits: (body) => Number((body as { data: { balance: string } }).data.balance),
  },
  statuses: { 402: 'out_of_credits' },
  // "limited to 60 requests per minute", for the account and all methods. No header tells what is left.
  rate: { limit: '60 per minute' },
  // Nothing is charged where nothing is found.
  credits: { most: 1, of: (_, record) => (record === null ? 0 : 1) },
  fields: {
    person: {
      id: 'number',
      name: 'text',
      firstName: 'text',
      lastName: 'text',
      country: 'text',
      locality: 'text',
      linkedIn: 'text',
      'currentJob.position': 'text',
      'currentJob.companyName': 'text',
      'currentJob.site': 'text',
    },
  },
})

const body = {
  success: true,
  id: 42,
  name: 'Ada Lovelace',
  firstName: 'Ada',
  lastName: 'Lovelace',
  country: 'United Kingdom',
  social: [{ type: 'linkedIn', link: 'https://www.linkedin.com/in/ada' }],
  currentJobs: [{ companyName: 'Engines', position: 'Analyst', site: 'https://engines.example' }],
}

export const cases: readonly ServiceCase[] = [
  {
    name: 'a match',
    input: { email: 'ada@engines.example' },
    request: {
      method: 'POST',
      path: '/v1/get-profile-by-email',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: { email: 'ada@engines.example' },
    },
    answer: { body },
    expect: {
      outcome: 'found',
      record: {
        firstName: 'Ada',
        linkedIn: 'https://www.linkedin.com/in/ada',
        currentJob: { position: 'Analyst', companyName: 'Engines' },
      },
      confidence: null,
      credits: 1,
    },
  },
  {
    name: 'no match',
    input: { email: 'nobody@engines.example' },
    answer: { body: { success: false } },
    expect: { outcome: 'not_found', credits: 0 },
  },
  {
    name: 'no match: nothing but an employer',
    input: { email: 'ada@engines.example' },
    answer: { body: { success: true, name: '', currentJobs: [{ companyName: 'Engines' }] } },
    expect: { outcome: 'not_found' },
  },
  {
    name: 'a wrong request',
    input: { email: 'ada@engines.example' },
    answer: { status: 400, body: { success: false, errors: ['The email field is required.'] } },
    expect: { outcome: 'rejected' },
  },
  {
    name: 'an error in a 200 is no miss',
    input: { email: 'ada@engines.example' },
    answer: { body: { success: false, errors: ['Server error'] } },
    expect: { outcome: 'unreadable' },
  },
  {
    name: 'too many calls',
    input: { email: 'ada@engines.example' },
    answer: { status: 429 },
    expect: { outcome: 'rate_limited' },
  },
  {
    name: 'out of credits',
    input: { email: 'ada@engines.example' },
    answer: { status: 402, body: { success: false } },
    expect: { outcome: 'out_of_credits' },
  },
]
