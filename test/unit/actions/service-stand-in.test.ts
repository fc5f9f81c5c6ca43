import { describe, expect, onTestFinished, test } from 'vitest'
import prospeo, { cases as prospeoCases } from '../../../examples/services/prospeo.ts'
import { fitAnswer } from '../../../src/actions/fit-answer.ts'
import type { ServiceCase } from '../../../src/actions/service-cases.ts'
import { openServiceStandIn } from '../../../src/actions/service-stand-in.ts'
import { parseService } from '../../../src/config/service.ts'
import { defineService, type ServiceDefinition } from '../../../src/domain/service/adapter.ts'
import type { JobInput } from '../../../src/domain/service/messages.ts'
import { EnrichmentClient } from '../../../src/service/client.ts'

const ADA = 'ada@engines.example'
const BOB = 'bob@engines.example'
const OTHERS = ['p@x.example', 'q@x.example', 'r@x.example']
const names = (...emails: readonly string[]) => emails.map((email) => [email])

describe('an answer for other emails', () => {
  const fit = (body: unknown, from = [ADA, BOB], to: readonly string[] = OTHERS): unknown =>
    fitAnswer(body, names(...from), names(...to))

  test('results that name their input inside of an object', () => {
    const of = (email: string, title: string) => ({ input: { email }, contact: { title } })
    expect(fit({ total: 2, results: [of(ADA, 'CEO'), of(BOB, 'CTO')] })).toEqual({
      total: 2,
      results: [of('p@x.example', 'CEO'), of('q@x.example', 'CTO'), of('r@x.example', 'CEO')],
    })
  })

  test('results with a list of emails, whose other addresses stay', () => {
    const of = (email: string) => ({ contact: { emails: [{ value: email }, { value: 'me@home.example' }] } })
    expect(fit([of(ADA), of(BOB)])).toEqual(OTHERS.map(of))
    const texts = (email: string) => ({ emails: [email, 'me@home.example'], tags: ['a', 'b'] })
    expect(fit({ data: [texts(ADA), texts(BOB)] })).toEqual({ data: OTHERS.map(texts) })
  })

  test('one result with a list of one item is one result', () => {
    const of = (email: string) => ({ emails: [email], departments: ['sales'] })
    expect(fit({ results: [of(ADA)] }, [ADA])).toEqual({ results: OTHERS.map(of) })
  })

  test('an input that the case leaves out, and a miss without a name', () => {
    expect(fit([{ email: BOB }])).toEqual([{ email: 'q@x.example' }])
    expect(fit([{ email: ADA, title: 'CEO' }, null])).toEqual([
      { email: 'p@x.example', title: 'CEO' },
      null,
      { email: 'r@x.example', title: 'CEO' },
    ])
  })

  test('results in the order of the inputs, and by email', () => {
    expect(fit({ matches: [{ title: 'CEO' }, null] })).toEqual({
      matches: [{ title: 'CEO' }, null, { title: 'CEO' }],
    })
    expect(fit({ results: { [ADA]: { title: 'CEO' }, [BOB]: null } })).toEqual({
      results: { 'p@x.example': { title: 'CEO' }, 'q@x.example': null, 'r@x.example': { title: 'CEO' } },
    })
  })

  test('a case about other people than the one that submits the job', () => {
    const of = (email: string) => ({ input: { email }, contact: { emails: [{ value: email }] } })
    expect(fit({ results: [of('x@y.example'), of('z@y.example')] })).toEqual({ results: OTHERS.map(of) })
  })
})

async function play(definition: ServiceDefinition, cases: readonly ServiceCase[]) {
  const { service } = parseService({ definition, place: 'service' })
  const standIn = await openServiceStandIn(service!, cases, { host: '127.0.0.1', port: 0 })
  const client = new EnrichmentClient({ baseUrl: standIn.url, apiKey: 'any', service: service! })
  onTestFinished(() => Promise.all([standIn.close(), client.close()]).then(() => {}))
  return client
}

const polled = defineService({
  name: 'Polled',
  person: { path: '/find' },
  bulk: { path: '/jobs' },
  poll: {
    path: '/jobs/{job_id}',
    read: ({ body }) => {
      const { state, people } = body as {
        state: string
        people?: { input: { email: string }; title: string }[]
      }
      if (state !== 'done') return { outcome: 'pending' }
      const results = (people ?? []).map(({ input, title }) => ({ request_id: input.email, data: { title } }))
      return { outcome: 'results', delivery: { status: 'completed', results } }
    },
  },
  fields: { person: { title: 'text' } },
})
const poll = (jobId: string, answer: object): ServiceCase => ({
  name: 'a poll',
  input: { jobId },
  answer: { body: answer },
  expect: { outcome: 'pending' },
})
const submission = (body: object): ServiceCase => ({
  name: 'a job',
  input: { emails: [ADA, BOB] },
  answer: { status: 202, body },
  expect: { outcome: 'accepted' },
})
const done = {
  state: 'done',
  people: [
    { input: { email: ADA }, title: 'CEO' },
    { input: { email: BOB }, title: 'CTO' },
  ],
}

test.each([
  ['a text', { id: 'j-1' }, 'j-1'],
  ['a number', { id: 17, status: 'queued' }, '17'],
  ['inside of an object', { job: { id: 'j-1' } }, 'j-1'],
])('the polls of each job are played in their order, its identifier %s', async (_, accepted, id) => {
  const client = await play(polled, [
    submission(accepted),
    poll(id, { state: 'queued' }),
    poll(id, { state: 'running' }),
    poll(id, done),
  ])
  const submit = async (emails: readonly string[]): Promise<string> => {
    const { jobId } = await client.submitBulk({ emails, webhookUrl: null })
    expect(jobId).not.toBeNull()
    return jobId!
  }
  const first = await submit(OTHERS)
  const second = await submit([ADA])
  expect(second).not.toBe(first)
  const outcomes = async (job: string): Promise<string[]> => {
    const seen: string[] = []
    for (let n = 0; n < 3; n++) seen.push((await client.fetchJob({ jobId: job, emails: [] })).outcome)
    return seen
  }
  expect(await outcomes(first)).toEqual(['pending', 'pending', 'results'])
  // Another job begins anew, and the results of the first one stay.
  expect(await outcomes(second)).toEqual(['pending', 'pending', 'results'])
  expect(await client.fetchJob({ jobId: first, emails: OTHERS })).toMatchObject({
    delivery: { results: OTHERS.map((email) => ({ request_id: email })) },
  })
  // As the cases have it.
  expect(await outcomes(id)).toEqual(['pending', 'pending', 'results'])
})

test('results that name their input by the identifier that the acceptance gave', async () => {
  const client = await play({ ...polled, poll: { path: '/jobs/{job_id}' } }, [
    submission({ job_id: 'j-1', request_ids: ['r1', 'r2'] }),
    poll('j-1', {
      job_id: 'j-1',
      status: 'completed',
      results: [
        { request_id: 'r1', data: { title: 'CEO' } },
        { request_id: 'r2', data: null },
      ],
    }),
  ])
  const { jobId, requestIds } = await client.submitBulk({ emails: OTHERS, webhookUrl: null })
  expect(new Set(requestIds as string[]).size).toBe(OTHERS.length)
  expect(await client.fetchJob({ jobId: jobId!, emails: OTHERS })).toMatchObject({
    outcome: 'results',
    delivery: { jobId, results: (requestIds as string[]).map((id) => ({ request_id: id })) },
  })
})

const byNumber = defineService({
  name: 'By number',
  person: { path: '/find' },
  company: { path: '/company' },
  bulk: {
    path: '/people',
    inputs: ['email', 'name_company'],
    size: 5,
    results: 'answer',
    body: ({ inputs }) => ({ people: inputs.map((input, id) => ({ type: 'person', id, ...input })) }),
    read: ({ body }) => {
      const { found } = body as { found: { request: { id: number }; title?: string }[] }
      const results = found.map(({ request: { id }, ...data }) => ({ index: id, data }))
      return { outcome: 'results', delivery: { results } }
    },
  },
  companyBulk: {
    path: '/companies',
    results: 'answer',
    body: ({ inputs }) => ({ domains: inputs.map(({ domain }) => domain) }),
  },
  fields: { person: { title: 'text' }, company: { industry: 'text' } },
})

test('a job of any input gets the answer of a case, by the number that was sent for each, and companies theirs', async () => {
  const [ada, bob] = [{ email: ADA }, { name: 'Bob Babbage', company: 'Engines' }]
  const found = [
    { request: { id: 1 }, title: 'CTO', employer: 'Engines' },
    { request: { id: 0 }, title: 'CEO', email: ADA },
  ]
  const client = await play(byNumber, [
    {
      name: 'two people',
      input: { inputs: [ada, bob] },
      answer: { body: { count: 2, found } },
      expect: {
        outcome: 'accepted',
        results: [
          { index: 0, outcome: 'found' },
          { index: 1, outcome: 'found' },
        ],
      },
    },
    {
      name: 'two companies',
      input: { inputs: [{ domain: 'acme.com' }, { domain: 'beta.com' }] },
      answer: { body: { results: [{ domain: 'acme.com', industry: 'machinery' }] } },
      expect: { outcome: 'accepted' },
    },
  ])
  const submit = async (inputs: readonly JobInput[]) =>
    (await client.submitBulk({ inputs, webhookUrl: null })).delivery?.results
  expect(await submit([ada, bob])).toMatchObject([{ index: 0 }, { index: 1, data: { title: 'CTO' } }])
  // Each like the one of the case that was sent in the same form.
  const cy = { name: 'Cy Clone', company: 'Storms' }
  expect(await submit([cy, { email: 'p@x.example' }, { name: 'Di', company: 'Storms' }])).toEqual([
    { index: 0, data: { title: 'CTO', employer: 'Storms' } },
    { index: 1, data: { title: 'CEO', email: 'p@x.example' } },
    { index: 2, data: { title: 'CTO', employer: 'Storms' } },
  ])
  const six = Array.from({ length: 6 }, () => cy)
  await expect(client.submitBulk({ inputs: six, webhookUrl: null })).rejects.toThrow(TypeError)
  expect(await submit([{ domain: 'gamma.com' }, { domain: 'delta.com' }, { domain: 'eps.com' }])).toEqual([
    { domain: 'gamma.com', industry: 'machinery' },
    { domain: 'eps.com', industry: 'machinery' },
  ])
})

test('what is known of each person together, singly and in a job', async () => {
  const client = await play(prospeo, prospeoCases as readonly ServiceCase[])
  const ada = {
    email: ADA,
    linkedinUrl: 'https://www.linkedin.com/in/ada',
    name: 'Ada Lovelace',
    company: 'Engines',
  }
  expect(await client.enrichPerson(ada)).toMatchObject({ outcome: 'found' })
  const inputs = ['p', 'q', 'r', 's'].map((name) => ({ ...ada, email: `${name}@x.example`, name }))
  const { delivery } = await client.submitBulk({ inputs, webhookUrl: null })
  const results = delivery?.results as { index: number; data: object | null }[]
  expect(results.map(({ index }) => index).toSorted()).toEqual([0, 1, 2, 3])
  expect(results.some(({ data }) => data !== null)).toBe(true)
})

test('a lookup that is answered with a job, for any email', async () => {
  const client = await play(polled, [
    {
      name: 'a job of one',
      input: { email: ADA },
      answer: { status: 202, body: { job_id: 'one' } },
      expect: { outcome: 'accepted' },
    },
    poll('one', { state: 'queued' }),
    poll('one', { state: 'done', people: [{ input: { email: ADA }, title: 'CEO' }] }),
  ])
  for (const email of [ADA, 'p@x.example', ADA]) {
    const answer = await client.enrichPerson({ email })
    const jobId = 'jobId' in answer ? answer.jobId! : ''
    expect(await client.fetchJob({ jobId, emails: [email] })).toEqual({ outcome: 'pending' })
    expect(await client.fetchJob({ jobId, emails: [email] })).toMatchObject({
      delivery: { results: [{ request_id: email, data: { title: 'CEO' } }] },
    })
  }
})

test('each page of the results of a job has its own cases', async () => {
  const paged: ServiceDefinition = {
    ...polled,
    poll: {
      path: '/jobs/{job_id}',
      query: (_, cursor) => ({ after: cursor ?? undefined }),
      read: ({ body }) => {
        const { rows, next } = body as { rows?: object[]; next?: string }
        if (rows === undefined) return { outcome: 'pending' }
        const delivery = { results: rows }
        return next === undefined
          ? { outcome: 'results', delivery }
          : { outcome: 'more', delivery, cursor: next }
      },
    },
  }
  const page = (cursor: string | undefined, body: unknown): ServiceCase => ({
    name: 'a page',
    input: { jobId: 'j-1', ...(cursor !== undefined && { cursor }) },
    answer: { body },
    expect: { outcome: 'results' },
  })
  const client = await play(paged, [
    page(undefined, { state: 'running' }),
    page(undefined, { rows: [{ request_id: ADA, data: {} }], next: 'p2' }),
    page('p2', { rows: [{ request_id: BOB, data: {} }] }),
  ])
  const fetch = (cursor: string | null) => client.fetchJob({ jobId: 'j-1', emails: [ADA, BOB], cursor })
  expect(await fetch(null)).toEqual({ outcome: 'pending' })
  expect(await fetch(null)).toMatchObject({
    outcome: 'more',
    cursor: 'p2',
    delivery: { results: [{ request_id: ADA }] },
  })
  expect(await fetch('p2')).toMatchObject({
    outcome: 'results',
    delivery: { results: [{ request_id: BOB }] },
  })
})
