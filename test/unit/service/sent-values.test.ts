import { describe, expect, test } from 'vitest'
import { createSecretMask } from '../../../src/cli/secret-mask.ts'
import { readEnvironment, checkClient } from '../../../src/config/environment.ts'
import { parseService } from '../../../src/config/service-schema.ts'
import {
  type BulkEndpoint,
  defineService,
  type ServiceDefinition,
} from '../../../src/domain/service/adapter.ts'
import { MalformedResponseError, UnprocessableError } from '../../../src/service/errors.ts'
import { clientOf, rejection, serve, serveAlways } from './loopback-service.ts'

const parse = (definition: Partial<ServiceDefinition>) =>
  parseService({
    definition: defineService({ name: 'Acme Data', person: { path: '/people' }, ...definition }),
    place: 'service',
  })
const describeService = (definition: Partial<ServiceDefinition>) => parse(definition).service!

describe('headers', () => {
  const service = describeService({ headers: { 'x-app-id': 'app-secret-1', 'x-version': '2' } })

  test('are sent with every call', async () => {
    const { baseUrl, received } = await serve((_, response) => response.writeHead(404).end())
    const client = clientOf({ baseUrl }, { service })
    await client.enrichPerson({ email: 'ada@x.example' })
    expect(received.map(({ headers }) => headers)).toMatchObject([
      { 'x-app-id': 'app-secret-1', 'x-version': '2' },
    ])
  })

  test('take the place of those that every call has, and no header is sent twice', async () => {
    const { baseUrl, received } = await serve((_, response) => response.writeHead(404).end())
    const own = describeService({
      headers: { Accept: 'text/json', 'Content-Type': 'application/vnd.acme+json' },
    })
    await clientOf({ baseUrl }, { service: own }).enrichPerson({ email: 'ada@x.example' })
    expect(received.map(({ headers }) => [headers['accept'], headers['content-type']])).toEqual([
      ['text/json', 'application/vnd.acme+json'],
    ])
  })

  test.each<[string, string, Partial<ServiceDefinition>]>([
    ['Authorization', 'bearer', {}],
    ['authorization', 'x-api-key', { auth: 'basic' }],
    ['X-Api-Key', 'x-api-key', {}],
    ['x-key', 'bearer', { auth: { header: 'X-Key' } }],
  ])('may not be the one that sends the key: %s beside %s and %j', (name, style, definition) => {
    const check = (headers: Record<string, string>) =>
      checkClient(
        describeService({ ...definition, headers }),
        readEnvironment({ FILLRATE_AUTH: style, FILLRATE_API_KEY: 'key-123456' }),
      ).map(({ place }) => place)
    expect(check({ [name]: 'Basic YTpi' })).toEqual([`headers.${name}`])
    expect(check({ 'x-app-id': '1' })).toEqual([])
  })

  test('are masked in every text where a variable holds them, also if the description is read later', () => {
    const mask = createSecretMask({ ACME_APP_ID: ' app-secret-1 ', LATE_SECRET: 'late-secret-1' })
    const text = 'app-secret-1 of tenant-1 and late-secret-1'
    expect(mask(text)).toBe('*** of tenant-1 and late-secret-1')
    describeService({ headers: { 'x-late': 'late-secret-1', 'x-tenant': 'tenant-1' } })
    expect(mask(text)).toBe('*** of tenant-1 and ***')
  })

  test('are in no body that an error keeps', async () => {
    const body = JSON.stringify({ error: 'app-secret-1 may not', of: 'ada@x.example' })
    const refused = clientOf(await serveAlways(422, body), { service })
    const { detail } = await rejection(refused.enrichPerson({ email: 'a@x.example' }), UnprocessableError)
    expect(detail).toBe('{"error":"*** may not","of":"ada@x.example"}')
    const unreadable = clientOf(await serveAlways(200, 'app-secret-1 ö'), { service })
    const error = await rejection(unreadable.enrichPerson({ email: 'a@x.example' }), MalformedResponseError)
    expect(error.body.toString()).toBe('*** ö')
  })

  test('the secret of an OAuth client is masked without its id, too', () => {
    const mask = createSecretMask({ FILLRATE_API_KEY: 'acme-crm:s3cret-1' })
    expect(mask('acme-crm has s3cret-1, or acme-crm:s3cret-1')).toBe('acme-crm has ***, or ***')
  })
})

describe('bodies as forms', () => {
  const answer = { request_id: 'r', job_id: 'j1', data: null }
  const sent = async (
    definition: Partial<ServiceDefinition>,
    call: (client: ReturnType<typeof clientOf>) => Promise<unknown>,
  ) => {
    const service = await serve((_, response) =>
      response.writeHead(202, { 'content-type': 'application/json' }).end(JSON.stringify(answer)),
    )
    await call(clientOf(service, { service: describeService(definition) }))
    return service.received.map(({ method, headers, body }) => [method, headers['content-type'], body])
  }
  const FORM = 'application/x-www-form-urlencoded'

  test('a person by the default body, and by one of its own', async () => {
    const byDefault = { person: { path: '/people', form: true } }
    expect(
      await sent(byDefault, (client) => client.enrichPerson({ name: 'Zoë & Co', company: 'A=B' })),
    ).toEqual([['POST', FORM, 'name=Zo%C3%AB+%26+Co&company=A%3DB']])
    const own = {
      person: {
        path: '/people',
        form: true,
        body: (input: object) => ({
          ...input,
          fields: ['title', 'phone'],
          deep: true,
          n: 3,
          not: undefined,
          nor: null,
        }),
      },
    }
    expect(await sent(own, (client) => client.enrichPerson({ email: 'ada+1@x.example' }))).toEqual([
      ['POST', FORM, 'email=ada%2B1%40x.example&fields=title&fields=phone&deep=true&n=3'],
    ])
  })

  test('a company', async () => {
    const company = { path: '/companies', method: 'POST' as const, form: true }
    expect(await sent({ company }, (client) => client.enrichCompany({ domain: 'acme.example' }))).toEqual([
      ['POST', FORM, 'domain=acme.example'],
    ])
  })

  test('a bulk job: each email is a field', async () => {
    const bulk: BulkEndpoint = { path: '/bulk', form: true }
    const input = { emails: ['a@x.example', 'b@x.example'], webhookUrl: 'https://crm.example/w/1' }
    const webhook = { signature: { header: 'x-signature' } }
    expect(await sent({ bulk, webhook }, (client) => client.submitBulk(input))).toEqual([
      [
        'POST',
        FORM,
        'emails=a%40x.example&emails=b%40x.example&webhook_url=https%3A%2F%2Fcrm.example%2Fw%2F1',
      ],
    ])
  })

  test('a poll', async () => {
    const poll = { path: '/jobs', method: 'POST' as const, form: true, body: (job: string) => ({ job }) }
    expect(await sent({ poll }, (client) => client.fetchJob({ jobId: 'j/1', emails: [] }))).toEqual([
      ['POST', FORM, 'job=j%2F1'],
    ])
  })

  test.each([
    [{ filters: { a: 1 } }, '`filters` holds an object'],
    [{ lists: [['a']] }, '`lists` holds a list in a list'],
    ['email=a', 'made of an object'],
  ])('cannot hold %j', async (body, expected) => {
    const service = describeService({ person: { path: '/people', form: true, body: () => body } })
    const client = clientOf(await serveAlways(404), { service })
    await expect(client.enrichPerson({ email: 'a@x.example' })).rejects.toThrow(expected)
  })

  test('without it JSON is sent', async () => {
    expect(await sent({}, (client) => client.enrichPerson({ email: 'a@x.example' }))).toEqual([
      ['POST', 'application/json', '{"email":"a@x.example"}'],
    ])
  })
})

test('a call is reported by what it requests, where several endpoints have one path', async () => {
  const graphql = { path: '/graphql', method: 'POST' } as const
  const service = describeService({
    person: graphql,
    company: graphql,
    bulk: { path: '/graphql', results: 'poll' },
    poll: { ...graphql, body: (job) => ({ job }) },
  })
  const kinds: unknown[] = []
  const { baseUrl } = await serve((_, response) => response.writeHead(202).end('{"job_id":"1"}'))
  const client = clientOf({ baseUrl }, { service, onCallEnd: ({ kind }) => kinds.push(kind) })
  await client.enrichPerson({ email: 'ada@x.example' })
  await client.enrichCompany({ domain: 'x.example' })
  await client.submitBulk({ emails: ['ada@x.example'], webhookUrl: null })
  await client.fetchJob({ jobId: '1', emails: ['ada@x.example'] })
  expect(kinds).toEqual(['person', 'company', 'bulk', 'poll'])
})

describe('mistakes in a description', () => {
  const oauth = (tokenUrl: string) => ({ auth: { oauth: { tokenUrl } } })

  test.each<[string, object, string]>([
    ['auth.oauth.tokenUrl', oauth('http://auth.example/token'), 'an https address'],
    ['auth.oauth.tokenUrl', oauth('oauth/token'), 'an https address'],
    ['auth.oauth.tokenUrl', oauth('//auth.example/token'), 'an https address'],
    ['auth.oauth.tokenUrl', oauth('https://id:hush@auth.example/token'), 'an https address'],
    ['headers.x-app', { headers: { 'x-app': 3 } }, 'a text that a header can hold'],
    ['headers.x-app', { headers: { 'x-app': undefined } }, 'a variable that is set'],
    ['headers.x-app', { headers: { 'x-app': 'hush\n' } }, 'a text that a header can hold'],
  ])('%s: %j', (place, definition, expected) => {
    const { service, problems } = parse(definition as Partial<ServiceDefinition>)
    expect(service).toBeNull()
    const problem = problems.find((one) => one.place.startsWith(`service.${place}`))
    expect(problem?.expected).toContain(expected)
    expect(JSON.stringify(problems)).not.toContain('hush')
  })

  test.each(['https://auth.example/token', 'http://127.0.0.1:9/token', 'http://[::1]/t', '/oauth/token?v=2'])(
    'the tokenUrl %s is none',
    (tokenUrl) => {
      expect(parse(oauth(tokenUrl)).problems).toEqual([])
    },
  )

  test.each([
    ['only-hush', 'a key without an id or a secret (not shown)'],
    [':hush', 'a key without an id or a secret (not shown)'],
    ['hush:', 'a key without an id or a secret (not shown)'],
  ])('the client %s, and a base URL without TLS, are mistakes of the environment', (key, client) => {
    const service = describeService(oauth('/oauth/token'))
    const env = { FILLRATE_API_KEY: key, FILLRATE_BASE_URL: 'http://api.acme.example' }
    const problems = checkClient(service, readEnvironment(env))
    expect(problems.map(({ place, found }) => [place, found])).toEqual([
      ['FILLRATE_API_KEY', client],
      ['FILLRATE_BASE_URL', 'http://api.acme.example, without TLS'],
    ])
    expect(JSON.stringify(problems)).not.toContain('hush')
  })
})
