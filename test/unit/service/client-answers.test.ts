import { describe, expect, test } from 'vitest'
import type { BulkEndpoint } from '../../../src/domain/service/adapter.ts'
import type { BulkInput } from '../../../src/domain/service/messages.ts'
import { createService } from '../../../src/domain/service/service.ts'
import { MalformedResponseError } from '../../../src/service/errors.ts'
import { clientOf, recordingObserver, rejection, serve, serveAlways } from './loopback-service.ts'

const person = {
  id: 'p1',
  email: 'ada@example.com',
  title: 'Countess',
  confidence: 0.92,
  unknown: { kept: [1] },
}
const company = { id: 'c1', name: 'Acme', domain: 'acme.example', employee_count: '250', revenue: '1000000' }

describe('requests', () => {
  test("posts each set of inputs under the service's field names", async () => {
    const service = await serveAlways(200, person)
    const client = clientOf(service)
    await client.enrichPerson({ email: 'ada@example.com' })
    await client.enrichPerson({ linkedin_url: 'https://linkedin.com/in/ada' })
    await client.enrichPerson({ name: 'Ada Lovelace', company: 'Acme' })
    expect(service.received.map(({ method, url }) => `${method} ${url}`)).toEqual(
      Array.from({ length: 3 }, () => 'POST /v1/person/enrich'),
    )
    expect(service.received.map(({ body }) => JSON.parse(body))).toEqual([
      { email: 'ada@example.com' },
      { linkedin_url: 'https://linkedin.com/in/ada' },
      { name: 'Ada Lovelace', company: 'Acme' },
    ])
    expect(service.received[0]?.headers).toMatchObject({
      'content-type': 'application/json',
      accept: 'application/json',
      authorization: 'Bearer key-of-the-test',
      'user-agent': 'fillrate',
    })
  })

  test('sends the domain in the query, escaped, without a body', async () => {
    const service = await serveAlways(200, company)
    const answer = await clientOf(service).enrichCompany({ domain: 'acme.example&x=1' })
    expect(answer).toEqual({ outcome: 'found', record: company, confidence: null })
    expect(service.received[0]).toMatchObject({
      method: 'GET',
      url: '/v1/company/enrich?domain=acme.example%26x%3D1',
      body: '',
    })
    expect(service.received[0]?.headers['content-type']).toBeUndefined()
  })

  test('posts the emails and the webhook URL', async () => {
    const service = await serveAlways(202, { job_id: 'j1' })
    const answer = await clientOf(service).submitBulk({
      emails: ['a@x.example', 'b@x.example'],
      webhookUrl: 'http://127.0.0.1:1/webhooks/enrichment/7',
    })
    expect(answer).toEqual({ jobId: 'j1', requestIds: null, raw: { job_id: 'j1' } })
    expect(service.received[0]).toMatchObject({ method: 'POST', url: '/v1/person/bulk' })
    expect(JSON.parse(service.received[0]?.body ?? '')).toEqual({
      emails: ['a@x.example', 'b@x.example'],
      webhook_url: 'http://127.0.0.1:1/webhooks/enrichment/7',
    })
  })

  test.each([
    ['/', '/v1/person/enrich'],
    ['/api/enrich/', '/api/enrich/v1/person/enrich'],
    ['/v1', '/v1/person/enrich'],
    ['/api/v1/', '/api/v1/person/enrich'],
  ])('a base URL with the path %s leads to %s', async (path, url) => {
    const service = await serveAlways(404, {})
    await clientOf({ baseUrl: service.baseUrl + path }).enrichPerson({ email: 'a@x.example' })
    expect(service.received[0]?.url).toBe(url)
  })

  test.each([
    ['bearer', { authorization: 'Bearer k/1+=' }, ''],
    ['x-api-key', { 'x-api-key': 'k/1+=' }, ''],
    ['basic', { authorization: `Basic ${Buffer.from('k/1+=:').toString('base64')}` }, ''],
    ['query', {}, '&api_key=k%2F1%2B%3D'],
  ] as const)('the style %s shows the key in its place only', async (auth, headers, query) => {
    const service = await serveAlways(404, {})
    await clientOf(service, { auth, apiKey: 'k/1+=' }).enrichCompany({ domain: 'x.example' })
    expect(service.received[0]?.url).toBe(`/v1/company/enrich?domain=x.example${query}`)
    expect(service.received[0]?.headers).toMatchObject(headers)
    const shown = ['authorization', 'x-api-key'].filter(
      (name) => service.received[0]?.headers[name] !== undefined,
    )
    expect(shown).toEqual(Object.keys(headers))
  })

  test('sequential calls share one connection', async () => {
    const service = await serveAlways(404, { message: 'no match' })
    const client = clientOf(service, { connections: 1 })
    for (let i = 0; i < 5; i++) await client.enrichPerson({ email: `a${i}@x.example` })
    expect(new Set(service.received.map(({ socket }) => socket.remotePort)).size).toBe(1)
  })

  test('the pool opens no more connections than configured', async () => {
    const service = await serveAlways(404, {})
    const client = clientOf(service, { connections: 3 })
    await Promise.all(Array.from({ length: 30 }, (_, i) => client.enrichPerson({ email: `a${i}@x.example` })))
    expect(service.received).toHaveLength(30)
    expect(new Set(service.received.map(({ socket }) => socket.remotePort)).size).toBeLessThanOrEqual(3)
  })
})

describe('a submission of any input', () => {
  const jobs = { results: 'answer', body: ({ inputs }: BulkInput) => ({ inputs }) } as const
  const service = createService({
    name: 'Acme',
    person: { path: '/' },
    company: { path: '/' },
    bulk: { path: '/people', inputs: ['linkedin_url', 'name_company'], ...jobs },
    companyBulk: { path: '/companies', size: 2, ...jobs },
  })

  test('goes to the endpoint of people or of companies, in its order', async () => {
    const answers = await serveAlways(200, { results: [{ index: 0, data: null }] })
    const client = clientOf(answers, { service })
    const people = [
      { name: 'Ada Lovelace', company: 'Engines' },
      { linkedin_url: 'https://www.linkedin.com/in/bob' },
    ]
    expect(await client.submitBulk({ inputs: people, webhookUrl: 'http://127.0.0.1:1/w' })).toMatchObject({
      jobId: null,
    })
    await client.submitBulk({ inputs: [{ domain: 'acme.com' }], webhookUrl: null })
    expect(answers.received.map(({ url, body }) => [url, JSON.parse(body) as unknown])).toEqual([
      ['/people', { inputs: people }],
      ['/companies', { inputs: [{ domain: 'acme.com' }] }],
    ])
  })
})

describe('a single lookup', () => {
  test('404 is not found, whatever its body', async () => {
    for (const body of ['', '{}', { error: 'no match' }, 'nothing here']) {
      const service = await serveAlways(404, body)
      expect(await clientOf(service).enrichPerson({ email: 'a@x.example' })).toEqual({ outcome: 'not_found' })
    }
  })

  test('202 is a job of one, also without an identifier', async () => {
    const named = await serveAlways(202, { data: { job_id: 77 } })
    expect(await clientOf(named).enrichPerson({ email: 'a@x.example' })).toEqual({
      outcome: 'accepted',
      jobId: '77',
    })
    const nameless = await serveAlways(202, '')
    expect(await clientOf(nameless).enrichPerson({ email: 'a@x.example' })).toEqual({
      outcome: 'accepted',
      jobId: null,
    })
  })

  test('a 200 with only a job identifier is accepted for later', async () => {
    const service = await serveAlways(200, { job_id: 'j9', status: 'queued' })
    expect(await clientOf(service).enrichPerson({ email: 'a@x.example' })).toEqual({
      outcome: 'accepted',
      jobId: 'j9',
    })
  })

  test('a record with a byte order mark, split over many chunks, is read completely', async () => {
    const text = `\uFEFF${JSON.stringify({ ...person, name: { full: 'Ådå Løvelace' } })}`
    const bytes = Buffer.from(text)
    const service = await serve((_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      for (let i = 0; i < bytes.length; i += 3) response.write(bytes.subarray(i, i + 3))
      response.end()
    })
    expect(await clientOf(service).enrichPerson({ email: 'ada@example.com' })).toMatchObject({
      outcome: 'found',
      record: { name: { full: 'Ådå Løvelace' } },
    })
  })

  test('removes NUL and lone surrogates from strings, and keeps identifiers beyond 2^53 exact', async () => {
    const service = await serveAlways(
      200,
      '{"id":12345678901234567890,"title":"C\\u0000T\\ud800O 😀","__proto__":{"x":"\\u0000"},"confidence":1}',
    )
    const answer = await clientOf(service).enrichPerson({ email: 'a@x.example' })
    expect(answer).toMatchObject({ outcome: 'found', record: { title: 'CTO 😀' }, confidence: 1 })
    expect(JSON.stringify(answer)).toContain('"id":12345678901234567890')
    expect(({} as { x?: unknown }).x).toBeUndefined()
  })

  test('notifies an observer once that the call was sent and once that it was answered', async () => {
    const service = await serve((_, response) => {
      response.writeEarlyHints({ link: '</x>; rel=preload' })
      response.writeHead(404).end()
    })
    const observer = recordingObserver()
    await clientOf(service).enrichPerson({ email: 'a@x.example' }, { observer })
    expect(observer.events).toEqual(['sent', 'answered 404'])
  })

  test('notifies an observer of the head before the body', async () => {
    let finish: () => void = () => {}
    const service = await serve((_, response) => {
      response.writeHead(200, { 'x-ratelimit-remaining': '41' })
      response.write('{')
      finish = () => response.end('"confidence":1}')
    })
    const answered = new Promise<unknown>((resolve) => {
      const observer = { sent: () => {}, answered: resolve, lost: () => {} }
      void clientOf(service).enrichPerson({ email: 'a@x.example' }, { observer })
    })
    expect(await answered).toMatchObject({ status: 200, headers: { 'x-ratelimit-remaining': '41' } })
    finish()
  })
})

describe('a submission', () => {
  const input = { emails: ['a@x.example'], webhookUrl: 'http://127.0.0.1:1/w' }

  test('a 202 with an unreadable or incomplete body is a job without an identifier', async () => {
    const strange = await serveAlways(202, '<html>')
    expect(await clientOf(strange).submitBulk(input)).toEqual({ jobId: null, requestIds: null, raw: null })
    const broken = await serve((_, response) => {
      response.writeHead(202, { 'content-length': '100' })
      response.write('{"job_id"', () => response.destroy())
    })
    expect(await clientOf(broken).submitBulk(input)).toEqual({ jobId: null, requestIds: null, raw: null })
  })

  test('results in the answer are read in the order of the emails; what cannot be read is kept', async () => {
    const answers = await serveAlways(200, { people: [person, null] })
    const submit = (bulk: Partial<BulkEndpoint>) => {
      const definition = { path: '/bulk', size: 2, results: 'answer', ...bulk } as const
      const service = createService({ name: 'Acme', person: { path: '/' }, bulk: definition })
      return clientOf(answers, { service }).submitBulk({
        emails: ['a@x.example', 'b@x.example'],
        webhookUrl: null,
      })
    }
    const named = await submit({
      read: ({ body }, { emails }) => ({
        outcome: 'results',
        delivery: {
          results: emails.map((email, n) => ({
            request_id: email,
            data: (body as { people: unknown[] }).people[n],
          })),
        },
      }),
    })
    expect(named.delivery).toEqual({
      status: 'completed',
      results: [
        { request_id: 'a@x.example', data: person },
        { request_id: 'b@x.example', data: null },
      ],
    })
    // A miss of an answer that is not complete would be no miss.
    const partial = await submit({
      read: () => ({ outcome: 'results', delivery: { status: 'partial', results: [] } }),
    })
    expect(partial.delivery).toMatchObject({ status: 'failed' })
    const read = (): never => {
      throw new TypeError('a mistake in the service')
    }
    const broken = await rejection(submit({ read }), MalformedResponseError)
    expect(JSON.parse(broken.body.toString())).toEqual({ people: [person, null] })
    expect(broken).toMatchObject({ status: 200, action: 'retry' })
  })

  test('a poll is read as the delivery that did not come', async () => {
    const definition = { name: 'Acme', person: { path: '/' }, poll: { path: '/jobs/{job_id}' } } as const
    const fetchJob = async (status: number, body: unknown) => {
      const jobs = await serveAlways(status, body)
      const reading = await clientOf(jobs, { service: createService(definition) }).fetchJob({
        jobId: 'a/1',
        emails: [],
      })
      expect(jobs.received[0]).toMatchObject({ method: 'GET', url: '/jobs/a%2F1' })
      return reading
    }
    const results = [{ request_id: 'a@x.example', data: person }]
    expect(await fetchJob(200, { status: 'Completed', results })).toEqual({
      outcome: 'results',
      delivery: { status: 'Completed', results },
    })
    expect(await fetchJob(200, { status: 'running', results })).toEqual({ outcome: 'pending' })
    for (const status of [202, 404, 409]) expect(await fetchJob(status, {})).toEqual({ outcome: 'pending' })
    expect(await fetchJob(410, {})).toEqual({ outcome: 'gone' })
    await expect(fetchJob(503, {})).rejects.toMatchObject({ action: 'retry' })
    const read = (): never => {
      throw new TypeError('a mistake in the service')
    }
    const broken = createService({ ...definition, poll: { ...definition.poll, read } })
    const jobs = await serveAlways(200, {})
    const fetched = clientOf(jobs, { service: broken }).fetchJob({ jobId: '1', emails: [] })
    await expect(fetched).rejects.toMatchObject({
      status: 200,
      action: 'retry',
    })
  })

  test('a 200 with a job identifier is an accepted job', async () => {
    const service = await serveAlways(200, { id: 5 })
    expect(await clientOf(service).submitBulk(input)).toEqual({
      jobId: '5',
      requestIds: null,
      raw: { id: 5 },
    })
  })
})
