/**
 * FullEnrich, its reverse email lookup: the person and company behind an address, by webhook.
 *
 * Written from its public documentation as read on 2026-11-22: docs.fullenrich.com/api/v2/contact/reverse/email/bulk/post,
 * …/bulk/get, /api/v2/general/webhooks, /api/v2/general/ratelimit and /credit. Not tried against the live service. The
 * profile's fields are those of its published OpenAPI document, as catalogued by api-evangelist/fullenrich (2026-08-14). Seen
 * besides in /api/v2/general/data-dictionary on 2026-11-22: names, location and the professional network's URL; seen only in
 * programs of others: title, seniority, and the company's name and domain; the rest of the employment in the catalogue alone.
 *
 *     FILLRATE_BASE_URL=https://app.fullenrich.com
 *     FILLRATE_API_KEY=…
 *     FILLRATE_WEBHOOK_SECRET=…        the same key: it signs the deliveries
 *     FILLRATE_PUBLIC_URL=https://…    without these two, jobs are fetched, some seconds after their results are there
 *
 * A single lookup is a job too, and no cheaper: `bulk: { minimum: 1 }` in the configuration puts all into jobs of 100.
 */
import { defineService, type DeliveryCase, type ServiceCase } from 'fillrate'

type Contact = {
  input?: { email?: string }
  custom?: { email?: string }
  contact?: unknown
  profile?: unknown
}

const STATUSES: Readonly<Record<string, string>> = {
  FINISHED: 'completed',
  // What was not looked up is not a miss, so the job counts as failed.
  CANCELED: 'failed',
  CREDITS_INSUFFICIENT: 'failed',
}

const toData = (emails: readonly string[]): unknown[] => emails.map((email) => ({ email, custom: { email } }))

export default defineService({
  name: 'FullEnrich',
  auth: 'bearer',
  person: {
    path: '/api/v2/contact/reverse/email/bulk',
    inputs: ['email'],
    body: (input) => ({ name: 'fillrate', data: 'email' in input ? toData([input.email]) : [] }),
    // Always a job, never a record.
    read: ({ status, body }) => (status === 200 ? { outcome: 'accepted', jobId: readId(body) } : undefined),
    record: { wrappers: ['profile', 'contact'], confidence: null },
  },
  bulk: {
    path: '/api/v2/contact/reverse/email/bulk',
    size: 100,
    body: ({ emails, webhookUrl }) => ({
      name: 'fillrate',
      ...(webhookUrl !== null && { webhook_url: webhookUrl }),
      data: toData(emails),
    }),
    read: ({ status, body }) => (status === 200 ? { outcome: 'accepted', jobId: readId(body) } : undefined),
  },
  webhook: {
    signature: { header: 'x-signature-sha1', algorithm: 'sha1', encoding: 'hex' },
    read: (body) => ({
      jobId: body['id'],
      status: STATUSES[String(body['status'])] ?? body['status'],
      results: (Array.isArray(body['data']) ? (body['data'] as Contact[]) : []).map((one) => ({
        request_id: one.custom?.email ?? one.input?.email,
        data: one.profile ?? one.contact ?? null,
      })),
    }),
  },
  // The body of a delivery, with a status such as IN_PROGRESS until the job is over.
  poll: { path: '/api/v2/contact/reverse/email/bulk/{job_id}' },
  account: {
    path: '/api/v1/account/credits',
    credits: (body) => (body as { balance: number }).balance,
  },
  statuses: { 402: 'out_of_credits' },
  // "60 API calls per minute" for the account and all endpoints; no header tells what is left.
  rate: { limit: '60 per minute' },
  // One credit if somebody is found behind the address.
  credits: { most: 1, of: (_, record) => (record === null ? 0 : 1) },
  fields: {
    person: {
      id: 'text',
      full_name: 'text',
      first_name: 'text',
      last_name: 'text',
      headline: 'text',
      description: 'text',
      'location.city': 'text',
      'location.region': 'text',
      'location.country': 'text',
      'social_profiles.professional_network.url': 'text',
      skills: 'list',
      'employment.current.title': 'text',
      'employment.current.seniority': 'text',
      'employment.current.company.name': 'text',
      'employment.current.company.domain': 'text',
      'employment.current.company.industry': 'text',
      'employment.current.company.headcount': 'number',
    },
  },
})

function readId(body: unknown): string | null {
  const id = typeof body === 'object' && body !== null && 'enrichment_id' in body ? body.enrichment_id : null
  return typeof id === 'string' ? id : null
}

const profile = {
  first_name: 'Ada',
  last_name: 'Lovelace',
  employment: { current: { title: 'Analyst', company: { name: 'Engines' } } },
}

export const cases: readonly (ServiceCase | DeliveryCase)[] = [
  {
    name: 'a job',
    input: { emails: ['ada@engines.example', 'bob@engines.example'] },
    request: {
      method: 'POST',
      path: '/api/v2/contact/reverse/email/bulk',
      headers: { authorization: 'Bearer test-key' },
      body: { data: [{ email: 'ada@engines.example' }, { email: 'bob@engines.example' }] },
    },
    answer: { body: { enrichment_id: 'e-1' } },
    expect: { outcome: 'accepted', jobId: 'e-1' },
  },
  {
    name: 'an address that it does not accept',
    input: { emails: ['nobody'] },
    answer: { status: 400, body: { code: 'error.reverse.email.invalid', message: 'Email is invalid' } },
    expect: { outcome: 'rejected' },
  },
  {
    name: 'too many calls',
    input: { emails: ['ada@engines.example'] },
    answer: { status: 429, body: { code: 'error.rate_limit' } },
    expect: { outcome: 'rate_limited' },
  },
  {
    name: 'a job that is not ready',
    input: { jobId: 'e-1' },
    request: { method: 'GET', path: '/api/v2/contact/reverse/email/bulk/e-1' },
    answer: { body: { id: 'e-1', name: 'fillrate', status: 'IN_PROGRESS', data: [] } },
    expect: { outcome: 'pending' },
  },
  {
    name: 'a job whose delivery was lost',
    input: { jobId: 'e-1' },
    answer: {
      body: {
        id: 'e-1',
        name: 'fillrate',
        status: 'FINISHED',
        data: [
          { input: { email: 'ada@engines.example' }, custom: { email: 'ada@engines.example' }, profile },
          { input: { email: 'bob@engines.example' }, custom: { email: 'bob@engines.example' } },
        ],
      },
    },
    expect: {
      outcome: 'results',
      results: [
        { requestId: 'ada@engines.example', outcome: 'found', record: profile },
        { requestId: 'bob@engines.example', outcome: 'not_found' },
      ],
    },
  },
  {
    name: 'a delivery',
    delivery: {
      body: {
        id: 'e-1',
        name: 'fillrate',
        status: 'FINISHED',
        data: [
          { input: { email: 'ada@engines.example' }, custom: { email: 'ada@engines.example' }, profile },
          { input: { email: 'bob@engines.example' }, custom: { email: 'bob@engines.example' } },
        ],
      },
    },
    expect: {
      jobId: 'e-1',
      status: 'completed',
      results: [
        { requestId: 'ada@engines.example', outcome: 'found', record: profile, confidence: 1 },
        { requestId: 'bob@engines.example', outcome: 'not_found' },
      ],
    },
  },
  {
    name: 'a delivery without credits',
    delivery: { body: { id: 'e-2', status: 'CREDITS_INSUFFICIENT', data: [] } },
    expect: { jobId: 'e-2', status: 'failed', results: [] },
  },
  {
    name: 'a delivery that somebody else signed',
    delivery: { body: { id: 'e-1' }, headers: { 'X-Signature-SHA1': '0'.repeat(40) } },
    expect: { signature: 'invalid' },
  },
  {
    name: 'no match: nothing but an employer',
    delivery: {
      body: {
        id: 'e-1',
        status: 'FINISHED',
        data: [
          {
            custom: { email: 'eve@engines.example' },
            profile: {
              first_name: '',
              employment: { current: { title: null, company: { name: 'Engines' } } },
            },
          },
        ],
      },
    },
    expect: { results: [{ requestId: 'eve@engines.example', outcome: 'not_found' }] },
  },
]
