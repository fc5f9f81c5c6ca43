/**
 * A service of your own: copy this file, and keep what differs from the defaults. docs/services.md explains each part.
 *
 *     fillrate check                                names mistakes of the description; looks up nothing
 *     fillrate check --call email=ada@example.com   one lookup, which may be billed
 */
import { defineService, type ServiceCase } from 'fillrate'

export default defineService({
  name: 'My Service',

  // Default: FILLRATE_AUTH, or 'bearer'. Also 'basic' and { query: 'api_key' }.
  auth: { header: 'x-api-key' },

  person: {
    // Below FILLRATE_BASE_URL. {email}, {linkedin_url}, {name} and {company} stand for the input, encoded.
    path: '/v1/people/find',
    // Default: POST with { email }, { linkedin_url } or { name, company } as JSON.
    body: (input) => ('email' in input ? { address: input.email } : input),
    // Default: all of email, linkedin_url, name_company. An input that is not listed is a mistake in the configuration.
    // Beside name_company also first_name, last_name and company_domain, for a service that takes them.
    inputs: ['email'],
    // Where the record and its confidence are: { "match": { … }, "score": 87 }.
    record: { wrappers: ['match'], confidence: 'score', confidenceMax: 100 },
    // Only if the status and the record do not say it all. Undefined: read in the usual way.
    read: ({ status, body }) =>
      status === 200 && typeof body === 'object' && body !== null && 'empty' in body
        ? { outcome: 'not_found' }
        : undefined,
  },

  // Many people by one call. Results: 'answer' (here), 'webhook' (describe `webhook`) or 'poll' (describe `poll`).
  bulk: {
    path: '/v1/people/find/bulk',
    size: 25,
    // Default: emails alone. With 'linkedin_url' or 'name_company', `body` gets them as `inputs`.
    inputs: ['email'],
    results: 'answer',
    body: ({ emails }) => ({ addresses: emails }),
    // Each result names its input, by its email or by its `index`; here by its place, which the service documents. What is left out
    // is requested singly.
    // An error in place of results is said as such: calls slow down or stop, and the job is posted again.
    read: ({ status, body }, { emails }) => {
      if (typeof body === 'object' && body !== null && 'throttled' in body)
        return { outcome: 'rate_limited', retryAfterMs: 30_000 }
      if (status !== 200 || !Array.isArray(body)) return undefined
      const results = emails.map((email, n) => ({ request_id: email, data: body[n] as unknown }))
      return { outcome: 'results', delivery: { results } }
    },
  },

  // Many companies by one call, in the same way.
  // companyBulk: …

  // How a job is fetched whose delivery is lost: { path: '/v1/jobs/{job_id}', after: '1m' }.
  // poll: …

  // What a status means, where it is not what HTTP says.
  statuses: { 402: 'out_of_credits' },

  // Default: X-RateLimit-Limit, -Remaining and -Reset, or RateLimit-*, in any of the usual forms.
  // Other names are returned under these:
  rate: {
    headers: (headers) => ({
      'x-ratelimit-limit': headers['x-quota'],
      'x-ratelimit-remaining': headers['x-quota-left'],
      'x-ratelimit-reset': headers['x-quota-reset'],
    }),
  },

  // A lookup costs one credit by default, whatever it finds. `most` is the most that it may cost, `of` what an answer does: 0.5 is half
  // of one. If answers state what they cost, `read` says
  // it: { outcome: 'found', record, confidence, credits }.
  credits: { most: 1, of: (_, record) => (record === null ? 0 : 1) },

  // What outputs may copy.
  fields: { person: { job_title: 'text', mobile_phone: 'text', 'employer.name': 'text' } },
})

/** For testService(service, cases) in any test runner. */
export const cases: readonly ServiceCase[] = [
  {
    name: 'a match',
    input: { email: 'ada@example.com' },
    request: { method: 'POST', path: '/v1/people/find', body: { address: 'ada@example.com' } },
    answer: { body: { match: { job_title: 'Analyst' }, score: 87 } },
    expect: { outcome: 'found', record: { job_title: 'Analyst' }, confidence: 0.87, credits: 1 },
  },
  {
    name: 'two in a call',
    input: { emails: ['ada@example.com', 'bob@example.com'] },
    request: { path: '/v1/people/find/bulk', body: { addresses: ['ada@example.com', 'bob@example.com'] } },
    answer: { body: [{ match: { job_title: 'Analyst' }, score: 87 }, null] },
    expect: {
      outcome: 'accepted',
      results: [{ outcome: 'found', confidence: 0.87 }, { outcome: 'not_found' }],
    },
  },
  {
    name: 'too many calls, in the body of a 200',
    input: { emails: ['ada@example.com', 'bob@example.com'] },
    answer: { body: { throttled: true } },
    expect: { outcome: 'rate_limited' },
  },
  {
    name: 'no match',
    input: { email: 'bob@example.com' },
    answer: { body: { empty: true } },
    expect: { outcome: 'not_found', credits: 0 },
  },
]
