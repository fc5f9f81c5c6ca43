/**
 * Icypeas, email search: the address of a person by name and company, in jobs of a thousand or of one, whose rows are fetched page by page.
 *
 * Written from its public documentation as read on 2026-11-26 from stored copies, not tried against the live service:
 * api-doc.icypeas.com/overview, /how-it-works, /fetch-results/search-item, /reference/get-results, /reference/bulk-search,
 * /pagination, /errors and /rate-limits. Not found there: where a body has the names of its errors. The list of states, and what a certainty is worth, are from a
 * program of others that quotes /how-works/search_statuses and /how-works/certainties. Its webhooks are left out: what they sign is the
 * address, and not the body.
 *
 *     FILLRATE_BASE_URL=https://app.icypeas.com/api
 *
 * A profile by email is another endpoint with other limits: icypeas-profiles.ts.
 */
import {
  defineService,
  type JobReading,
  type ServiceAnswer,
  type ServiceCase,
  type ServiceFailure,
} from 'fillrate'

interface Item {
  readonly order?: unknown
  readonly status?: unknown
  readonly results?: {
    readonly emails?: readonly { readonly email?: unknown; readonly certainty?: unknown }[]
  }
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Icypeas takes first and last name apart; one of them may be empty. A guess: the first word, and the rest. */
function splitName(name: string): { firstname: string; lastname: string } {
  const [firstname = '', ...rest] = name.split(' ')
  return { firstname, lastname: rest.join(' ') }
}

/** The rows of a page. */
const PAGE = 100

/** The identifier of many searches, beside those of single ones. */
const FILE = 'file:'

/** An error in a 200: a field that is wrong, an unpaid subscription, or another one. */
function readFailure({ status, body }: ServiceAnswer): ServiceFailure | undefined {
  if (status !== 200 || !isRecord(body) || body['success'] !== false) return undefined
  if (Array.isArray(body['validationErrors'])) return { outcome: 'rejected', reason: 'validationErrors' }
  return JSON.stringify(body).includes('UnpaidSubscriptionError')
    ? { outcome: 'out_of_credits', reason: 'UnpaidSubscriptionError' }
    : { outcome: 'transient', reason: 'success: false' }
}

const AWAITED: ReadonlySet<unknown> = new Set(['NONE', 'SCHEDULED', 'IN_PROGRESS'])
const FOUND: ReadonlySet<unknown> = new Set(['FOUND', 'DEBITED'])
/** A search that the data do not allow has no match. */
const MISSED: ReadonlySet<unknown> = new Set(['NOT_FOUND', 'DEBITED_NOT_FOUND', 'BAD_INPUT'])

/** How many of a hundred addresses do not bounce. `sure` has no number, and lies between its neighbours. */
const CONFIDENCE: Readonly<Record<string, number>> = {
  ultra_sure: 0.99,
  very_sure: 0.99,
  sure: 0.95,
  probable: 0.95,
}

/** "In the same order as your `data` array", with their places. */
function toResult({ order, status, results }: Item): object {
  const { emails = [], ...person } = results ?? {}
  const index = { index: order }
  const [first] = emails
  if (FOUND.has(status) && first !== undefined)
    return { ...index, data: { ...person, ...first, confidence: CONFIDENCE[String(first.certainty)] ?? 0 } }
  // What was not searched is no miss: without credits (INSUFFICIENT_FUNDS) or given up (ABORTED).
  return { ...index, ...(MISSED.has(status) ? { data: null } : { error: { code: status } }) }
}

function readItems(
  answer: ServiceAnswer,
  { jobId, cursor }: { readonly jobId: string; readonly cursor: string | null },
): JobReading | undefined {
  const { items, sorts } = isRecord(answer.body) ? answer.body : {}
  if (answer.status !== 200 || !Array.isArray(items)) {
    const isGone = JSON.stringify(answer.body ?? null).includes('SearchNotFoundError')
    return isGone ? { outcome: 'gone' } : readFailure(answer)
  }
  const rows = items as readonly Item[]
  const isBegun = cursor !== null || rows.length > 0
  if (!isBegun || rows.some(({ status }) => AWAITED.has(status))) return { outcome: 'pending' }
  // It is over for good: the same search must be made again. Of many, those that were made are read.
  if (!jobId.startsWith(FILE) && rows[0]?.status === 'INSUFFICIENT_FUNDS') return { outcome: 'unpaid' }
  const delivery = { results: rows.map(toResult) }
  // The next page begins after the last of `sorts`.
  const next: unknown = Array.isArray(sorts) ? sorts.at(-1) : undefined
  return rows.length === PAGE && next !== undefined
    ? { outcome: 'more', delivery, cursor: JSON.stringify(next) }
    : { outcome: 'results', delivery }
}

export default defineService({
  name: 'Icypeas',
  // The key alone, without `Bearer`.
  auth: { header: 'authorization' },
  person: {
    path: '/email-search',
    inputs: ['name_company'],
    body: (input) =>
      'company' in input
        ? { ...splitName(input.name), domainOrCompany: input.company }
        : { domainOrCompany: '' },
    read: (answer) => {
      const { item } = isRecord(answer.body) ? answer.body : {}
      const id = isRecord(item) ? item['_id'] : undefined
      return typeof id === 'string' ? { outcome: 'accepted', jobId: id } : readFailure(answer)
    },
    record: { wrappers: [] },
  },
  bulk: {
    path: '/bulk-search',
    // Of 5,000.
    size: 1_000,
    inputs: ['name_company'],
    body: ({ inputs }) => ({
      task: 'email-search',
      name: 'fillrate',
      data: inputs.map(({ name = '', company = '' }) => {
        const { firstname, lastname } = splitName(name)
        return [firstname, lastname, company]
      }),
    }),
    read: (answer) => {
      const { file } = isRecord(answer.body) ? answer.body : {}
      return typeof file === 'string' ? { outcome: 'accepted', jobId: FILE + file } : readFailure(answer)
    },
  },
  // "Wait at least 3 seconds between two reads"; a search takes some.
  poll: {
    method: 'POST',
    path: '/bulk-single-searchs/read',
    body: (jobId, cursor) =>
      jobId.startsWith(FILE)
        ? {
            mode: 'bulk',
            file: jobId.slice(FILE.length),
            limit: PAGE,
            ...(cursor !== null && { next: true, sorts: JSON.parse(cursor) as unknown }),
          }
        : { id: jobId },
    after: '5s',
    read: readItems,
  },
  // A single search takes one read at least, and so do a hundred of many. No header says what is left.
  rate: { limit: { person: '10 per second', bulk: '1 per second', poll: '30 per minute' } },
  // "1 credit only when an email is found."
  credits: { most: 1, of: (_, record) => (record === null ? 0 : 1) },
  fields: {
    person: {
      firstname: 'text',
      lastname: 'text',
      fullname: 'text',
      gender: 'text',
      email: 'text',
      certainty: 'text',
      mxProvider: 'text',
      phones: 'list',
    },
  },
})

const ada = { firstname: 'Ada', lastname: 'Lovelace', fullname: 'Ada Lovelace' }
const found = {
  _id: 's-1',
  status: 'DEBITED',
  order: 0,
  results: {
    ...ada,
    gender: 'UNKNOWN',
    emails: [{ email: 'ada@engines.example', certainty: 'ultra_sure', mxProvider: 'google' }],
    phones: [],
  },
}
const itemsOf = (...items: readonly object[]): object => ({ success: true, items })

export const cases: readonly ServiceCase[] = [
  {
    name: 'a search',
    input: { name: 'Ada Lovelace', company: 'engines.example' },
    request: {
      method: 'POST',
      path: '/email-search',
      headers: { authorization: 'test-key' },
      body: { firstname: 'Ada', lastname: 'Lovelace', domainOrCompany: 'engines.example' },
    },
    answer: { body: { success: true, item: { _id: 's-1', status: 'NONE' } } },
    expect: { outcome: 'accepted', jobId: 's-1' },
  },
  {
    name: 'a search that is not over',
    input: { jobId: 's-1' },
    request: { method: 'POST', path: '/bulk-single-searchs/read', body: { id: 's-1' } },
    answer: { body: itemsOf({ _id: 's-1', status: 'IN_PROGRESS' }) },
    expect: { outcome: 'pending' },
  },
  {
    name: 'a match',
    input: { jobId: 's-1' },
    answer: { body: itemsOf(found) },
    expect: {
      outcome: 'results',
      results: [
        {
          outcome: 'found',
          record: { ...ada, email: 'ada@engines.example', certainty: 'ultra_sure' },
          confidence: 0.99,
        },
      ],
    },
  },
  {
    name: 'no match',
    input: { jobId: 's-2' },
    answer: { body: itemsOf({ _id: 's-2', status: 'DEBITED_NOT_FOUND' }) },
    expect: { outcome: 'results', results: [{ outcome: 'not_found' }] },
  },
  {
    name: 'a search that was given up',
    input: { jobId: 's-3' },
    answer: { body: itemsOf({ _id: 's-3', status: 'ABORTED' }) },
    expect: { outcome: 'results', results: [{ outcome: 'unreadable' }] },
  },
  {
    name: 'a search that ended without credits',
    input: { jobId: 's-4' },
    answer: { body: itemsOf({ _id: 's-4', status: 'INSUFFICIENT_FUNDS' }) },
    expect: { outcome: 'unpaid' },
  },
  {
    name: 'a search that it does not have',
    input: { jobId: 's-5' },
    answer: { body: { success: false, error: 'SearchNotFoundError' } },
    expect: { outcome: 'gone' },
  },
  {
    name: 'a field that is wrong, in a 200',
    input: { name: 'Ada', company: '-' },
    request: { body: { firstname: 'Ada', lastname: '', domainOrCompany: '-' } },
    answer: {
      body: { success: false, validationErrors: [{ field: 'domainOrCompany', type: 'invalid' }] },
    },
    expect: { outcome: 'rejected' },
  },
  {
    name: 'two searches in a job',
    input: {
      inputs: [
        { name: 'Ada King Lovelace', company: 'engines.example' },
        { name: 'Bob', company: 'Engines' },
      ],
    },
    request: {
      method: 'POST',
      path: '/bulk-search',
      body: {
        task: 'email-search',
        data: [
          ['Ada', 'King Lovelace', 'engines.example'],
          ['Bob', '', 'Engines'],
        ],
      },
    },
    answer: { body: { success: true, status: 'in_progress', file: 'f-1' } },
    expect: { outcome: 'accepted', jobId: 'file:f-1' },
  },
  {
    name: 'the rows of a job, one of them without credits',
    input: { jobId: 'file:f-1' },
    request: {
      path: '/bulk-single-searchs/read',
      body: { mode: 'bulk', file: 'f-1', limit: 100 },
    },
    answer: {
      body: itemsOf(found, { _id: 's-6', order: 1, status: 'INSUFFICIENT_FUNDS' }),
    },
    expect: {
      outcome: 'results',
      results: [
        { index: 0, outcome: 'found' },
        { index: 1, outcome: 'unreadable' },
      ],
    },
  },
  {
    name: 'an unpaid subscription',
    input: { name: 'Ada Lovelace', company: 'Engines' },
    answer: { body: { success: false, error: 'UnpaidSubscriptionError' } },
    expect: { outcome: 'out_of_credits' },
  },
  {
    name: 'another error in a 200',
    input: { name: 'Ada Lovelace', company: 'Engines' },
    answer: { body: { success: false } },
    expect: { outcome: 'transient' },
  },
  {
    name: 'too many calls',
    input: { jobId: 's-1' },
    answer: { status: 429, body: 'You have exceeded the max number of requests per minute.' },
    expect: { outcome: 'rate_limited' },
  },
]
