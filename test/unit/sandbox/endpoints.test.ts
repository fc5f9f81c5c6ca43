import { describe, expect, it } from 'vitest'
import { bulk, call, company, emailsFrom, idle, person, sandboxWith, startReceiver } from './support.ts'

const all = { notFoundShare: 0, missingShare: 0 }
const anyRecord = { confidence: expect.any(Number), last_updated: expect.any(String), id: expect.any(String) }

describe('enrich a person', () => {
  it('answers 200 with a record for an email', async () => {
    const response = await person(await sandboxWith(all), 'Anna.Berg@Acme.com')
    expect(response.status).toBe(200)
    expect(response.headers['content-type']).toBe('application/json')
    expect(response.json()).toMatchObject({
      ...anyRecord,
      email: 'anna.berg@acme.com',
      name: { full: 'Anna Berg', first: 'Anna', last: 'Berg' },
      company: { name: 'Acme', domain: 'acme.com' },
      phone: expect.stringMatching(/^\+[1-9]\d{7,14}$/),
      linkedin: expect.stringMatching(/^https:\/\/www\.linkedin\.com\/in\//),
    })
  })

  it('answers 200 with a record for a name with a company', async () => {
    const body = { name: ' Anna  Berg ', company: 'Acme' }
    const response = await call(await sandboxWith(all), '/v1/person/enrich', { body })
    expect(response.status).toBe(200)
    expect(response.json()).toMatchObject({
      ...anyRecord,
      name: { full: 'Anna Berg' },
      company: { name: 'Acme' },
    })
  })

  it('answers 404 if nothing matches', async () => {
    const response = await person(await sandboxWith({ notFoundShare: 1 }), 'a@acme.com')
    expect(response.status).toBe(404)
    expect(response.json()).toMatchObject({ error: { code: 'not_found' } })
  })

  it.each([
    ['no JSON', { text: '{"email":' }],
    ['no object', { text: '["a@acme.com"]' }],
    ['an empty body', { text: '' }],
    ['a number for an email', { body: { email: 7 } }],
  ] as const)('answers 400 to %s', async (_, options) => {
    const response = await call(await sandboxWith(all), '/v1/person/enrich', options)
    expect(response.status).toBe(400)
    expect(response.json()).toMatchObject({
      error: { code: expect.any(String), message: expect.any(String) },
    })
  })

  it.each([
    {},
    { email: '' },
    { email: 'anna' },
    { email: 'a@acme.com, b@acme.com' },
    { linkedin_url: 'anna-berg' },
    { name: 'Anna Berg' },
  ])('answers 422 to %j', async (body) => {
    const response = await call(await sandboxWith(all), '/v1/person/enrich', { body })
    expect(response.status).toBe(422)
    expect(response.json()).toMatchObject({ error: { code: 'invalid_request' } })
  })
})

describe('the short path', () => {
  it('answers with the same record as the long path, and takes an email only', async () => {
    const sandbox = await sandboxWith(all)
    const short = await call(sandbox, '/v1/person', { body: { email: 'anna.berg@acme.com' } })
    expect(short.status).toBe(200)
    expect(short.text).toBe((await person(sandbox, 'anna.berg@acme.com')).text)
    const other = await call(sandbox, '/v1/person', { body: { name: 'Anna Berg', company: 'Acme' } })
    expect(other.status).toBe(422)
  })
})

describe('enrich a company', () => {
  it('answers 200 with every field of a company, in its type', async () => {
    const response = await company(await sandboxWith(all), ' WWW.Acme-Tools.com ')
    expect(response.status).toBe(200)
    const record = response.json()
    expect(record).toMatchObject({
      name: 'Acme Tools',
      domain: 'acme-tools.com',
      technologies: expect.any(Array),
    })
  })

  it('answers 404 and 422', async () => {
    const sandbox = await sandboxWith({ notFoundShare: 1 })
    expect((await company(sandbox, 'acme.com')).status).toBe(404)
    for (const wrong of ['', 'acme', 'https://acme.com', 'a@acme.com', '10.0.0.1', '-.com']) {
      expect((await company(sandbox, wrong)).status).toBe(422)
    }
    expect((await call(sandbox, '/v1/company/enrich')).status).toBe(422)
  })
})

describe('people in bulk', () => {
  it('also answers one request_id per email, in order, if configured', async () => {
    const receiver = await startReceiver()
    const sandbox = await sandboxWith({ ...all, acceptedShape: 'job_id+request_ids' })
    const emails = emailsFrom(5)
    const { request_ids: ids } = (await bulk(sandbox, emails, receiver.url)).json()

    await idle(sandbox)
    const results = receiver.received[0]?.event.results ?? []
    expect(results.map((result) => result.request_id)).toEqual(ids)
    expect(results.map((result) => result.data?.email)).toEqual(emails)
  })

  it('answers 422 to invalid input, saying what is wrong, and 400 to what it cannot read', async () => {
    const sandbox = await sandboxWith(all)
    const webhook_url = 'http://127.0.0.1:9/hook'
    for (const [status, message, body] of [
      [422, '0 entries', { emails: [], webhook_url }],
      [422, '101 entries; 1 to 100', { emails: emailsFrom(101), webhook_url }],
      [422, 'emails[1]', { emails: ['a@acme.com', 'b', 'c'], webhook_url }],
      [422, 'webhook_url is hook', { emails: ['a@acme.com'], webhook_url: 'hook' }],
      [400, 'webhook_url', { emails: ['a@acme.com'] }],
      [400, 'emails', { emails: [1], webhook_url }],
    ] as const) {
      const response = await call(sandbox, '/v1/person/bulk', { body })
      expect([response.status, response.text]).toEqual([status, expect.stringContaining(message)])
    }
    expect(sandbox.stats().jobs.accepted).toBe(0)
  })

  it.each([
    'http://example.com/hook',
    'http://10.0.0.1/',
    'http://127.0.0.1.example.com/',
    'http://0.0.0.0/',
    'https://127.0.0.1/hook',
  ])('refuses to deliver to another machine, or over another protocol: %s', async (url) => {
    const response = await bulk(await sandboxWith(all), ['a@acme.com'], url)
    expect(response.status).toBe(422)
    expect(response.text).toContain('over http: and to this machine only')
  })
})

describe('keys', () => {
  it.each([{}, { authorization: 'Bearer key-two' }, { authorization: 'key-one' }])(
    'are missing or invalid in %j, before anything else about a call',
    async (headers) => {
      const sandbox = await sandboxWith({ limit: 10 })
      const response = await call(sandbox, '/v1/person/enrich', { text: '{', headers })
      expect(response.status).toBe(401)
      expect(response.json()).toMatchObject({ error: { code: 'unauthorized' } })
      expect(response.headers['x-ratelimit-limit']).toBeUndefined()
      expect(response.text).not.toContain('key-')
    },
  )

  it('can be several, and be revoked while it runs', async () => {
    const sandbox = await sandboxWith({ keys: ['old', 'new'], notFoundShare: 0 })
    const options = { body: { email: 'a@acme.com' } }
    const status = async (key: string) =>
      (
        await call(sandbox, '/v1/person/enrich', {
          ...options,
          headers: { authorization: `Bearer ${key}` },
        })
      ).status
    expect([await status('old'), await status('new')]).toEqual([200, 200])
    sandbox.configure({ keys: ['new'] })
    expect([await status('old'), await status('new')]).toEqual([401, 200])
  })
})
