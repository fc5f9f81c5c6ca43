import { expect, test } from 'vitest'
import { type ServiceCase, testService } from '../../../src/actions/service-cases.ts'
import { defineService } from '../../../src/domain/service/adapter.ts'
import type { ServiceAnswer } from '../../../src/domain/service/messages.ts'

interface Page {
  readonly rows?: readonly { readonly id: string; readonly person: object | null; readonly cost?: number }[]
  readonly next?: string
  readonly total?: number
}

const readPage = ({ body }: ServiceAnswer) => {
  const { rows, next, total } = (body ?? {}) as Page
  const results = rows?.map(({ id, person, cost }) => ({ request_id: id, data: person, credits: cost }))
  return results && { next, delivery: { results, credits: total } }
}

/** Says with each answer what it cost, and brings the results of jobs in pages. */
const service = defineService({
  name: 'Stating',
  person: {
    path: '/person',
    record: { confidence: null },
    read: ({ status, body }) => {
      const { person, cost } = (body ?? {}) as { person?: Record<string, string> | null; cost?: number }
      if (status === 422) return { outcome: 'rejected', credits: cost }
      if (person === undefined) return undefined
      return person === null
        ? { outcome: 'not_found', credits: cost }
        : { outcome: 'found', record: person, confidence: 1, credits: cost }
    },
  },
  bulk: {
    path: '/bulk',
    results: 'answer',
    read: (answer) => {
      const page = readPage(answer)
      return page && { outcome: 'results', delivery: page.delivery }
    },
  },
  webhook: {
    signature: { header: 'x-signature' },
    read: (body) => ({ jobId: body['id'], results: body['results'], credits: body['cost'] as number }),
  },
  poll: {
    path: '/jobs/{job_id}/{cursor}',
    query: (jobId, cursor) => ({ job: jobId, after: cursor ?? undefined }),
    read: (answer, { cursor }) => {
      const page = readPage(answer)
      if (page === undefined) return undefined
      if (page.next === undefined) return { outcome: 'results', delivery: page.delivery }
      return {
        outcome: 'more',
        delivery: page.delivery,
        cursor: `${page.next} after ${cursor ?? 'the start'}`,
      }
    },
  },
  credits: { most: 2, of: (_, record) => (record === null ? 0.5 : 2) },
  fields: { person: { title: 'text' } },
})
const email = 'ada@x.example'
const analyst = { title: 'analyst' }
const single = (name: string, answer: ServiceCase['answer'], expected: ServiceCase['expect']) =>
  ({ name, input: { email }, answer, expect: expected }) as ServiceCase

test('what an answer states is its cost, and what the description says where it states nothing', async () => {
  const inputs = { emails: [email, 'bob@x.example'] }
  const rows = [
    { id: email, person: analyst, cost: 0.1 },
    { id: 'bob@x.example', person: null },
  ]
  const cases = testService(service, [
    single('a match', { body: { person: analyst, cost: 0.3 } }, { outcome: 'found', credits: 0.3 }),
    single('one that states nothing', { body: { person: analyst } }, { outcome: 'found', credits: 2 }),
    single('free', { body: { person: null, cost: 0 } }, { outcome: 'not_found', credits: 0 }),
    single('a miss', { status: 404, body: {} }, { outcome: 'not_found', credits: 0.5 }),
    {
      name: 'a call of two',
      input: inputs,
      answer: { body: { rows, total: 1.2 } },
      expect: {
        outcome: 'accepted',
        credits: 1.2,
        results: [{ outcome: 'found', credits: 0.1 }, { outcome: 'not_found' }],
      },
    },
    {
      name: 'a first page',
      input: { jobId: 'j', inputs },
      request: { path: '/jobs/j/', query: { job: 'j' } },
      answer: { body: { rows: rows.slice(0, 1), next: 'p2' } },
      expect: {
        outcome: 'more',
        cursor: 'p2 after the start',
        results: [{ outcome: 'found', credits: 0.1 }],
      },
    },
    {
      name: 'a last page',
      input: { jobId: 'j', inputs, cursor: 'p 2' },
      request: { path: '/jobs/j/p%202', query: { job: 'j', after: 'p 2' } },
      answer: { body: { rows: rows.slice(1), total: 0.1 } },
      expect: { outcome: 'results', credits: 0.1, results: [{ outcome: 'not_found' }] },
    },
    {
      name: 'a delivery',
      delivery: { body: { id: 'j', cost: 4, results: [{ request_id: email, data: analyst, credits: 4 }] } },
      expect: { jobId: 'j', credits: 4, results: [{ outcome: 'found', credits: 4 }] },
    },
  ])
  await expect(cases).resolves.toBeUndefined()
})

test.each([
  ['no number', '3'],
  ['less than nothing', -0.5],
])('an answer that costs %s is a mistake of the reader: it is unreadable, and in doubt', async (_, cost) => {
  const rows = [{ id: email, person: analyst, cost }]
  const bulk = { emails: [email] }
  const cases = [
    { name: 'single', input: { email }, answer: { body: { person: analyst, cost } } },
    { name: 'bulk', input: bulk, answer: { body: { rows } } },
    { name: 'job', input: bulk, answer: { body: { rows: [], total: cost } } },
    { name: 'poll', input: { jobId: 'j' }, answer: { body: { rows } } },
  ]
  const expected = { outcome: 'unreadable' } as const
  const tried = testService(
    service,
    cases.map((one) => ({ ...one, expect: expected })),
  )
  await expect(tried).resolves.toBeUndefined()
})

test('a page without a cursor is unreadable', async () => {
  const tried = testService(
    {
      ...service,
      poll: {
        path: '/jobs/{job_id}',
        read: () => ({ outcome: 'more', delivery: { results: [] }, cursor: '' }),
      },
    },
    [{ name: 'poll', input: { jobId: 'j' }, answer: { body: {} }, expect: { outcome: 'unreadable' } }],
  )
  await expect(tried).resolves.toBeUndefined()
})

test('without a reader, a field `credits` is what is left of an account, or anything else', async () => {
  const results = [{ request_id: email, data: analyst, credits: 480 }]
  const plain = defineService({
    name: 'Plain',
    person: { path: '/person', record: { confidence: null } },
    bulk: { path: '/bulk', results: 'answer' },
    webhook: { signature: { header: 'x-signature' } },
    poll: { path: '/jobs/{job_id}' },
    fields: { person: { title: 'text' } },
  })
  const body = { event_id: 'e', job_id: 'j', status: 'completed', credits: 480, results }
  const none = { credits: undefined, results: [{ outcome: 'found', credits: undefined }] }
  const cases = [
    { name: 'bulk', input: { emails: [email] }, answer: { body }, expect: { outcome: 'accepted', ...none } },
    { name: 'poll', input: { jobId: 'j' }, answer: { body }, expect: { outcome: 'results', ...none } },
    { name: 'delivery', delivery: { body }, expect: { jobId: 'j', ...none } },
  ]
  await expect(testService(plain, cases as unknown as ServiceCase[])).resolves.toBeUndefined()
})
