/**
 * Snov.io, its email finder: the email of a person, by name and domain. The person behind an email: `snov.ts`.
 *
 * Written from public documentation as read on 2026-11-26, from stored copies, not tried against the live service: snov.io/api
 * (tokens, the limit), snov.io/knowledgebase/how-to-get-api-credentials. The task, its states and its results are those that
 * four public clients send and read. A task has one person: results name people by name alone, and a row may be left out.
 * The input `company` is a domain: map a column that has one. A name is split at its first space, which is a guess.
 *
 *     FILLRATE_BASE_URL=https://api.snov.io
 *     FILLRATE_API_KEY=USER_ID:SECRET      "API User ID" and "API Secret"
 */
import { defineService, type ServiceCase } from 'fillrate'

type Email = { email?: string; smtp_status?: string }
type Task = {
  status?: string
  data?: { task_hash?: string } | { people?: string; result?: Email[] }[]
}

const toTask = (body: unknown): Task =>
  typeof body === 'object' && body !== null && !Array.isArray(body) ? body : {}

/** Charged, and of use: `not_valid` is neither. */
const STATUSES = ['valid', 'unknown']

function toResult({ data }: Task): { data: { email: string; smtp_status: string } | null; credits: number } {
  const emails = Array.isArray(data)
    ? data.flatMap(({ result }) => (Array.isArray(result) ? result : []))
    : []
  const charged = STATUSES.flatMap((status) => emails.filter((one) => one.smtp_status === status))
  const [{ email, smtp_status = '' } = {}] = charged
  return { data: email === undefined ? null : { email, smtp_status }, credits: charged.length }
}

export default defineService({
  name: 'Snov.io email finder',
  auth: { oauth: { tokenUrl: '/v1/oauth/access_token' } },
  person: {
    path: '/v2/emails-by-domain-by-name/start',
    inputs: ['name_company'],
    body: (input) => {
      if (!('company' in input)) return {}
      const [first = '', ...rest] = input.name.split(' ')
      return { rows: [{ first_name: first, last_name: rest.join(' '), domain: input.company }] }
    },
    record: { confidence: null },
    // Always a task, never a record.
    read: ({ status, body }) => {
      if (status !== 200) return undefined
      const { data } = toTask(body)
      const hash =
        typeof data === 'object' && data !== null && 'task_hash' in data ? data.task_hash : undefined
      return typeof hash === 'string'
        ? { outcome: 'accepted', jobId: hash }
        : { outcome: 'unreadable', reason: 'no identifier of a task' }
    },
  },
  poll: {
    path: '/v2/emails-by-domain-by-name/result',
    query: (jobId) => ({ task_hash: jobId }),
    after: '5s',
    read: ({ status, body }) => {
      if (status !== 200) return undefined
      const task = toTask(body)
      if (task.status === 'in_progress') return { outcome: 'pending' }
      if (task.status === 'not_enough_credits') return { outcome: 'out_of_credits' }
      if (task.status !== 'completed') return { outcome: 'unreadable', reason: 'no state of a task' }
      return { outcome: 'results', delivery: { results: [toResult(task)] } }
    },
  },
  account: {
    path: '/v1/get-balance',
    credits: (body) => Number((body as { data: { balance: string } }).data.balance),
  },
  statuses: { 402: 'out_of_credits' },
  // "limited to 60 requests per minute", for the account and all methods: polls count.
  rate: { limit: '60 per minute' },
  // One for each email that is valid or unknown, which its result shows. A person mostly has one.
  credits: { most: 1, of: (_, record) => (record === null ? 0 : 1) },
  fields: {
    person: {
      email: 'text',
      smtp_status: 'text',
    },
  },
})

const email = { email: 'ada@engines.example', smtp_status: 'valid', is_valid_format: true }

export const cases: readonly ServiceCase[] = [
  {
    name: 'a task',
    input: { name: 'Ada King Lovelace', company: 'engines.example' },
    request: {
      method: 'POST',
      path: '/v2/emails-by-domain-by-name/start',
      body: { rows: [{ first_name: 'Ada', last_name: 'King Lovelace', domain: 'engines.example' }] },
    },
    answer: { body: { data: { task_hash: 'hash-1' } } },
    expect: { outcome: 'accepted', jobId: 'hash-1' },
  },
  {
    name: 'a 200 without a task is no miss',
    input: { name: 'Ada Lovelace', company: 'engines.example' },
    answer: { body: { success: false } },
    expect: { outcome: 'unreadable' },
  },
  {
    name: 'a task that is not ready',
    input: { jobId: 'hash-1' },
    request: {
      method: 'GET',
      path: '/v2/emails-by-domain-by-name/result',
      query: { task_hash: 'hash-1' },
    },
    answer: { body: { status: 'in_progress', data: [] } },
    expect: { outcome: 'pending' },
  },
  {
    name: 'a match',
    input: { jobId: 'hash-1' },
    answer: {
      body: {
        status: 'completed',
        data: [
          { people: 'Ada Lovelace', result: [{ email: 'a@engines.example', smtp_status: 'unknown' }, email] },
        ],
      },
    },
    expect: {
      outcome: 'results',
      results: [
        { outcome: 'found', record: { email: 'ada@engines.example', smtp_status: 'valid' }, credits: 2 },
      ],
    },
  },
  {
    name: 'no match: no email, or none that is valid',
    input: { jobId: 'hash-1' },
    answer: {
      body: {
        status: 'completed',
        data: [
          { people: 'Ada Lovelace', result: [{ email: 'x@engines.example', smtp_status: 'not_valid' }] },
        ],
      },
    },
    expect: { outcome: 'results', results: [{ outcome: 'not_found' }] },
  },
  {
    name: 'no match: the row is left out',
    input: { jobId: 'hash-1' },
    answer: { body: { status: 'completed', data: [] } },
    expect: { outcome: 'results', results: [{ outcome: 'not_found' }] },
  },
  {
    name: 'out of credits, in a 200',
    input: { jobId: 'hash-1' },
    answer: { body: { status: 'not_enough_credits' } },
    expect: { outcome: 'out_of_credits' },
  },
  {
    name: 'too many calls',
    input: { name: 'Ada Lovelace', company: 'engines.example' },
    answer: { status: 429 },
    expect: { outcome: 'rate_limited' },
  },
]
