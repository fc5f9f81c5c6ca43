/**
 * Dropcontact: verified emails of people, and what is known of them. Everything is a job, of one person or of 250.
 *
 * Written from its public documentation as read on 2026-11-26 from stored copies, not tried against the live service:
 * developer.dropcontact.com/en/quickstart, /errors, /credits, /rate-limits and /webhooks. The pages "Input record" and "Enriched
 * record" were not stored: the names of the fields, and that `custom_fields` come back unchanged because results need not keep their order,
 * are from public clients (among them that of n8n).
 *
 * Not found: whether and how a delivery is signed (no client knows a signature), its exact form, and the text of the 403.
 *
 *     FILLRATE_BASE_URL=https://api.dropcontact.com
 *     FILLRATE_WEBHOOK_SECRET=…        a secret of your own: each job then has an address that cannot be guessed
 *     FILLRATE_PUBLIC_URL=https://…    without these two, jobs are fetched, half a minute after their submission
 *
 * A single lookup is a job too, and no cheaper: `bulk: { minimum: 1 }` in the configuration puts all into jobs.
 */
import {
  defineService,
  type DeliveryCase,
  type ServiceAnswer,
  type ServiceCase,
  type ServiceFailure,
} from 'fillrate'

interface Row {
  readonly email?: unknown
  readonly custom_fields?: { readonly place?: unknown }
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const toRow = (input: object): Record<string, unknown> => ({
  ...('email' in input && { email: String(input.email) }),
  ...('linkedin_url' in input && { linkedin: String(input.linkedin_url) }),
  ...('name' in input &&
    'company' in input && { full_name: String(input.name), company: String(input.company) }),
})

/** `language`: of qualifications and descriptions. */
const toBody = (data: readonly object[], webhookUrl: string | null): object => ({
  data,
  language: 'en',
  ...(webhookUrl !== null && { custom_callback_url: webhookUrl }),
})

/** An error in a 200, and a 403: too few credits for all records of the request, or a token that is none. */
function readFailure({ status, body }: ServiceAnswer): ServiceFailure | undefined {
  const { error, reason } = isRecord(body) ? body : {}
  if (status === 403)
    return { outcome: /token|account/i.test(String(reason)) ? 'unauthorized' : 'out_of_credits' }
  return status === 200 && error === true
    ? { outcome: 'transient', reason: 'an error in place of a job' }
    : undefined
}

function readAccepted(
  answer: ServiceAnswer,
): ServiceFailure | { outcome: 'accepted'; jobId: string } | undefined {
  const { request_id: jobId } = isRecord(answer.body) ? answer.body : {}
  const isAccepted = answer.status === 200 && typeof jobId === 'string'
  return readFailure(answer) ?? (isAccepted ? { outcome: 'accepted', jobId } : undefined)
}

/**
 * A row without an email, or with none that is valid, is a miss, whatever else it has. The first email stands beside the list,
 * where a column can hold it.
 */
function toResult({ custom_fields: custom, ...row }: Row): object {
  const all = Array.isArray(row.email) ? (row.email as unknown[]).filter(isRecord) : []
  const first = all.find(({ qualification }) => !String(qualification).startsWith('invalid'))
  const name = typeof custom?.place === 'string' ? { index: Number(custom.place) } : {}
  if (first === undefined) return { ...name, data: null }
  return { ...name, data: { ...row, work_email: first['email'], qualification: first['qualification'] } }
}

const toResults = (rows: readonly unknown[]): object[] => rows.filter(isRecord).map(toResult)

export default defineService({
  name: 'Dropcontact',
  auth: { header: 'x-access-token' },
  person: {
    path: '/v1/enrich/all',
    body: (input) => toBody([toRow(input)], null),
    read: readAccepted,
    record: { wrappers: [], confidence: null },
  },
  bulk: {
    path: '/v1/enrich/all',
    size: 250,
    inputs: ['email', 'linkedin_url', 'name_company'],
    // `custom_fields` come back with the row: the place of its input.
    body: ({ inputs, webhookUrl }) =>
      toBody(
        inputs.map((input, n) => ({ ...toRow(input), custom_fields: { place: String(n) } })),
        webhookUrl,
      ),
    read: readAccepted,
  },
  webhook: {
    // The token in the address is what a delivery is known by.
    signature: 'none',
    // A body without rows ends nothing: the job is fetched then.
    read: ({ request_id: jobId, data }) =>
      Array.isArray(data) ? { jobId, status: 'completed', results: toResults(data) } : { jobId, results: [] },
  },
  poll: {
    path: '/v1/enrich/all/{job_id}',
    // "Try again in 30 seconds": a 200 without success, for an unknown job, too.
    after: '30s',
    read: (answer) => {
      const { success, data } = isRecord(answer.body) ? answer.body : {}
      if (answer.status !== 200 || answer.body === undefined) return undefined
      if (success === true && Array.isArray(data))
        return { outcome: 'results', delivery: { results: toResults(data) } }
      return readFailure(answer) ?? { outcome: 'pending' }
    },
  },
  rate: { limit: '60 per second' },
  // One for a verified email, given back without a result. An email in the request costs its verification, whatever comes of it.
  credits: { most: 1, of: (kind, record) => (record !== null || kind === 'email' ? 1 : 0) },
  fields: {
    person: {
      first_name: 'text',
      last_name: 'text',
      full_name: 'text',
      work_email: 'text',
      qualification: 'text',
      phone: 'text',
      linkedin: 'text',
      job: 'text',
      company: 'text',
      website: 'text',
      industry: 'text',
      nb_employees: 'text',
      country: 'text',
    },
  },
})

const row = {
  first_name: 'Ada',
  last_name: 'Lovelace',
  full_name: 'Ada Lovelace',
  email: [{ email: 'ada@engines.example', qualification: 'nominative@pro' }],
  company: 'Engines',
  website: 'engines.example',
  job: 'Analyst',
}
const record = { ...row, work_email: 'ada@engines.example', qualification: 'nominative@pro' }

/** Not in the order of the request. */
const rows = [
  { company: 'Engines', email: [], custom_fields: { place: '1' } },
  {
    company: 'Engines',
    email: [{ email: 'eve@engines.example', qualification: 'invalid@invalid' }],
    custom_fields: { place: '2' },
  },
  { ...row, custom_fields: { place: '0' } },
]
const results = [
  { index: 1, outcome: 'not_found' },
  { index: 2, outcome: 'not_found' },
  { index: 0, outcome: 'found', record },
] as const

export const cases: readonly (ServiceCase | DeliveryCase)[] = [
  {
    name: 'a job',
    input: { emails: ['ada@engines.example', 'bob@engines.example'] },
    request: {
      method: 'POST',
      path: '/v1/enrich/all',
      headers: { 'x-access-token': 'test-key' },
      body: {
        data: [
          { email: 'ada@engines.example', custom_fields: { place: '0' } },
          { email: 'bob@engines.example', custom_fields: { place: '1' } },
        ],
        custom_callback_url: 'https://fillrate.example/webhooks/enrichment/1',
      },
    },
    answer: { body: { credits_left: 15_277, request_id: 'r-1', error: false, success: true } },
    expect: { outcome: 'accepted', jobId: 'r-1' },
  },
  {
    name: 'a job of one, by name and company',
    input: { name: 'Ada Lovelace', company: 'Engines' },
    request: { path: '/v1/enrich/all', body: { data: [{ full_name: 'Ada Lovelace', company: 'Engines' }] } },
    answer: { body: { credits_left: 15_276, request_id: 'r-2', error: false, success: true } },
    expect: { outcome: 'accepted', jobId: 'r-2' },
  },
  {
    name: 'a job of one, by profile',
    input: { linkedin_url: 'https://www.linkedin.com/in/ada' },
    request: { body: { data: [{ linkedin: 'https://www.linkedin.com/in/ada' }] } },
    answer: { body: { credits_left: 15_275, request_id: 'r-3', error: false, success: true } },
    expect: { outcome: 'accepted', jobId: 'r-3' },
  },
  {
    name: 'a job that is not ready, which is a 200',
    input: { jobId: 'r-1' },
    request: { method: 'GET', path: '/v1/enrich/all/r-1' },
    answer: {
      body: { error: false, success: false, reason: 'Request not ready yet, try again in 30 seconds' },
    },
    expect: { outcome: 'pending' },
  },
  {
    name: 'a match and a miss',
    input: {
      jobId: 'r-1',
      inputs: { emails: ['ada@engines.example', 'bob@engines.example', 'eve@engines.example'] },
    },
    answer: { body: { error: false, success: true, credits_left: 7, data: rows } },
    expect: { outcome: 'results', results },
  },
  {
    name: 'too many records',
    input: { emails: ['ada@engines.example'] },
    answer: {
      status: 400,
      body: {
        error: true,
        success: false,
        reason: 'Too many records, you can only submit up to 250 records',
      },
    },
    expect: { outcome: 'rejected' },
  },
  {
    name: 'too few credits for all of them',
    input: { emails: ['ada@engines.example', 'bob@engines.example'] },
    answer: { status: 403, body: { error: true, success: false, reason: 'Not enough credits' } },
    expect: { outcome: 'out_of_credits' },
  },
  {
    name: 'a token that is none',
    input: { emails: ['ada@engines.example'] },
    answer: { status: 403, body: { error: true, success: false, reason: 'Invalid token' } },
    expect: { outcome: 'unauthorized' },
  },
  {
    name: 'too many calls',
    input: { emails: ['ada@engines.example'] },
    answer: { status: 429, body: { error: true, success: false, reason: 'Too many requests' } },
    expect: { outcome: 'rate_limited' },
  },
  {
    name: 'an error in a 200',
    input: { emails: ['ada@engines.example'] },
    answer: { body: { error: true, success: false, reason: 'Internal error' } },
    expect: { outcome: 'transient' },
  },
  {
    name: 'a delivery',
    delivery: { body: { error: false, success: true, data: rows } },
    expect: { status: 'completed', results },
  },
  {
    name: 'a delivery without rows, which ends nothing',
    delivery: { body: { success: false } },
    expect: { status: null, results: [] },
  },
]
