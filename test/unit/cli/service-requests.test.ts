import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import * as apollo from '../../../examples/services/apollo.ts'
import * as fullEnrich from '../../../examples/services/fullenrich.ts'
import * as peopleDataLabs from '../../../examples/services/people-data-labs.ts'
import { type DeliveryCase, type ServiceCase, testService } from '../../../src/actions/service-cases.ts'
import { openServiceStandIn } from '../../../src/actions/service-stand-in.ts'
import { describeUnsigned } from '../../../src/cli/check/bulk.ts'
import { checkApiKey } from '../../../src/cli/check/service.ts'
import { describeRequests, makeOneCall, parseCallInput } from '../../../src/cli/check/service-requests.ts'
import type { Finding } from '../../../src/cli/check/finding.ts'
import { parseService } from '../../../src/config/service.ts'
import { readEnvironment } from '../../../src/config/environment.ts'
import { defineService, type ServiceDefinition } from '../../../src/domain/service/adapter.ts'
import type { BulkInput } from '../../../src/domain/service/messages.ts'
import { checkBulkAvailability } from '../../../src/actions/bulk-availability.ts'
import { EnrichmentClient } from '../../../src/service/client.ts'

const { service } = parseService({
  definition: defineService({
    name: 'Acme Data',
    auth: { query: 'api_key' },
    person: { path: '/people', inputs: ['email'] },
    credits: { hit: 1, fields: { phone: 8 } },
    fields: { person: { title: 'text', phone: 'text' } },
  }),
  place: 'service',
})

const environmentFor = (baseUrl: string) =>
  readEnvironment({ FILLRATE_BASE_URL: baseUrl, FILLRATE_API_KEY: 'sk-secret' })

test('shows what each endpoint would be sent, without the key', () => {
  const shown = [...describeRequests(service!, environmentFor('https://api.acme.example'))]
  expect(shown.map(({ name, text, todo }) => [name, text, todo])).toEqual([
    ['by email', 'POST https://api.acme.example/people?api_key=•••', '{"email":"ada@example.com"}'],
  ])
  expect(JSON.stringify(shown)).not.toContain('secret')
})

test('makes one call and says how each part of the answer is understood', async () => {
  const urls: string[] = []
  const server = createServer((request, response) => {
    urls.push(request.url ?? '')
    response.end(JSON.stringify({ title: 'CEO', phone: '+47', confidence: 0.5, twitter: 'x' }))
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  const found: Finding[] = []
  for await (const one of makeOneCall(service!, environmentFor(`http://127.0.0.1:${port}`), {
    email: 'a@x.example',
  }))
    found.push(one)
  expect(urls).toEqual(['/people?api_key=sk-secret'])
  expect(found.map(({ name, text, todo }) => [name, text, todo])).toEqual([
    ['call', 'found', 'confidence: 0.5\ncredits: 9'],
    ['record', '2 of 2 fields', 'title: "CEO"\nphone: "+47"'],
    ['not described', 'confidence, twitter', null],
  ])
})

test('a call whose record has no confidence says so, with the nearest field', async () => {
  const server = createServer((_, response) => {
    response.end(JSON.stringify({ title: 'CEO', likelihood: 8 }))
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  const found: Finding[] = []
  for await (const one of makeOneCall(service!, environmentFor(`http://127.0.0.1:${port}`), {
    email: 'a@x.example',
  }))
    found.push(one)
  expect(found.map(({ name, text }) => `${name}: ${text}`)).toEqual([
    'call: not found',
    'confidence: 1 problem',
  ])
  expect(found[1]?.problems[0]).toMatchObject({
    place: 'service.person.record.confidence',
    todo: "Did you mean 'likelihood'?",
  })
})

test('reads an input in the words of a lookup', () => {
  expect(parseCallInput(['name=Ada Lovelace', 'company=Engines'])).toEqual({
    name: 'Ada Lovelace',
    company: 'Engines',
  })
  expect(parseCallInput(['linkedin_url=https://x.example?a=b'])).toEqual({
    linkedinUrl: 'https://x.example?a=b',
  })
  expect(parseCallInput(['name=Ada Lovelace'])).toBeNull()
})

test('a stand-in answers bulk calls of any emails, and the polls of their jobs', async () => {
  const play = async (module: {
    default: ServiceDefinition
    cases: readonly (ServiceCase | DeliveryCase)[]
  }) => {
    const { service: played } = parseService({ definition: module.default, place: 'service' })
    const standIn = await openServiceStandIn(played!, module.cases, { host: '127.0.0.1', port: 0 })
    const client = new EnrichmentClient({ baseUrl: standIn.url, apiKey: 'any', service: played! })
    onTestFinished(() => Promise.all([standIn.close(), client.close()]).then(() => {}))
    return client
  }
  const emails = ['p', 'q', 'r', 's'].map((name) => `${name}@x.example`)
  const answered = await (await play(peopleDataLabs)).submitBulk({ emails, webhookUrl: null })
  expect(answered.delivery?.results).toMatchObject([
    { request_id: emails[0], data: { likelihood: 9 } },
    { request_id: emails[1], data: null },
    { request_id: emails[2], error: { code: 500 } },
    { request_id: emails[3], data: { likelihood: 9 } },
  ])
  const inOrder = await (await play(apollo)).submitBulk({ emails, webhookUrl: null })
  expect(inOrder.delivery?.results).toHaveLength(4)

  const jobs = await play(fullEnrich)
  const { jobId } = await jobs.submitBulk({ emails, webhookUrl: null })
  const other = await jobs.submitBulk({ emails: ['other@x.example'], webhookUrl: null })
  expect(other.jobId).not.toBe(jobId)
  expect(await jobs.fetchJob({ jobId: jobId!, emails })).toEqual({ outcome: 'pending' })
  expect(await jobs.fetchJob({ jobId: jobId!, emails })).toMatchObject({
    outcome: 'results',
    delivery: { jobId, results: emails.map((email) => ({ request_id: email })) },
  })
})

test('a stand-in refuses a call of more emails than the service takes', async () => {
  const { service: small } = parseService({
    definition: { ...apollo.default, bulk: { ...apollo.default.bulk, size: 2 } },
    place: '',
  })
  const standIn = await openServiceStandIn(small!, apollo.cases, { host: '127.0.0.1', port: 0 })
  onTestFinished(() => standIn.close())
  const details = ['a', 'b', 'c'].map((name) => ({ email: `${name}@x.example` }))
  const { status } = await fetch(`${standIn.url}/api/v1/people/bulk_match`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ details }),
  })
  expect(status).toBe(422)
})

test('shows a bulk call and a poll, and warns of a body that leaves out the webhook', () => {
  const definition = {
    ...fullEnrich.default,
    bulk: { path: '/bulk', body: ({ emails }: BulkInput) => ({ emails }) },
  }
  const { service: silent } = parseService({ definition, place: 'service' })
  const shown = [...describeRequests(silent!, environmentFor('https://x.example'))]
  expect(shown.map(({ name, text }) => `${name}: ${text}`)).toEqual([
    'by email: POST https://x.example/api/v2/contact/reverse/email/bulk',
    'bulk: POST https://x.example/bulk',
    'bulk: `bulk.body` leaves out the address of the webhook',
    'a job: GET https://x.example/api/v2/contact/reverse/email/bulk/JOB',
  ])
  const bulkOf = (one: ServiceDefinition) =>
    checkBulkAvailability(
      environmentFor('https://x.example'),
      parseService({ definition: one, place: '' }).service!,
    )
  expect(bulkOf(peopleDataLabs.default)).toMatchObject({ isPossible: true, usesWebhook: false, todo: null })
  // Without a public URL its jobs are fetched.
  expect(bulkOf(fullEnrich.default)).toMatchObject({
    isPossible: true,
    usesWebhook: false,
    todo: expect.stringContaining('FILLRATE_PUBLIC_URL'),
  })
})

test('a stand-in plays the cases of a service', async () => {
  const standIn = await openServiceStandIn(
    service!,
    [
      {
        name: 'a match',
        input: { email: 'a@x.example' },
        answer: { body: { title: 'CEO', confidence: 1 } },
        expect: { outcome: 'found' },
      },
      {
        name: 'no match',
        input: { email: 'b@x.example' },
        answer: { status: 404 },
        expect: { outcome: 'not_found' },
      },
    ],
    { host: '127.0.0.1', port: 0 },
  )
  onTestFinished(() => standIn.close())
  const outcomes: string[] = []
  for (const email of ['a@x.example', 'c@x.example'])
    for await (const { name, text } of makeOneCall(service!, environmentFor(standIn.url), { email }))
      if (name === 'call') outcomes.push(text)
  expect(outcomes).toEqual(['found', 'not found'])
})

describe('a service with a client of OAuth, second secrets and deliveries without a signature', () => {
  const acme = parseService({
    definition: defineService({
      name: 'Acme Data',
      auth: { oauth: { tokenUrl: '/oauth/token', scope: 'people', credentials: 'body' } },
      headers: { 'x-app-id': { env: 'ACME_APP_ID' }, 'x-version': '2' },
      query: { tenant: { env: 'ACME_TENANT' } },
      person: { path: '/people', inputs: ['email'], form: true },
      bulk: { path: '/bulk', form: true },
      webhook: { signature: 'none' },
    }),
    place: 'service',
  }).service!
  const environment = (changes: NodeJS.ProcessEnv = {}) =>
    readEnvironment({
      FILLRATE_BASE_URL: 'https://api.acme.example',
      FILLRATE_API_KEY: 'id-1:hush',
      ACME_APP_ID: 'hush',
      ACME_TENANT: 'hush',
      FILLRATE_PUBLIC_URL: 'https://crm.example',
      FILLRATE_WEBHOOK_SECRET: 'hush-of-the-addresses-1',
      ...changes,
    })

  test('is shown with every secret masked', () => {
    const shown = [...describeRequests(acme, environment())]
    const headers = 'authorization: Bearer •••\nx-app-id: •••\nx-version: 2'
    expect(shown.map(({ name, text, todo }) => [name, text, todo])).toEqual([
      [
        'token',
        'POST https://api.acme.example/oauth/token',
        'grant_type=client_credentials&scope=people&client_id=•••&client_secret=•••',
      ],
      ['by email', 'POST https://api.acme.example/people?tenant=•••', `${headers}\nemail=ada%40example.com`],
      [
        'bulk',
        'POST https://api.acme.example/bulk?tenant=•••',
        `${headers}\nemails=ada%40example.com&emails=bob%40example.com&webhook_url=https%3A%2F%2Ffillrate.example%2Fwebhooks%2Fenrichment%2FJOB%2FTOKEN`,
      ],
    ])
    expect(JSON.stringify(shown)).not.toContain('hush')
  })

  test('in the header the client is masked, too', () => {
    const { service: other } = parseService({
      definition: {
        name: 'Other',
        auth: { oauth: { tokenUrl: 'https://auth.example/token' } },
        person: { path: '/p' },
      },
      place: 'service',
    })
    const [token] = [...describeRequests(other!, environment())]
    expect([token?.text, token?.todo]).toEqual([
      'POST https://auth.example/token',
      'authorization: Basic •••\ngrant_type=client_credentials',
    ])
  })

  test('its deliveries are said to be worth what their addresses are', () => {
    const finding = describeUnsigned(environment(), acme)
    expect([finding?.verdict, finding?.text]).toEqual([
      'warning',
      'deliveries are not signed: the address of its job proves one',
    ])
    expect(finding?.todo?.split('\n')).toHaveLength(2)
    const worse = { FILLRATE_PUBLIC_URL: 'http://crm.example', FILLRATE_WEBHOOK_SECRET: 'short' }
    const todo = describeUnsigned(environment(worse), acme)?.todo ?? ''
    expect(todo.split('\n')).toHaveLength(4)
    expect(todo).toMatch(/Use https in FILLRATE_PUBLIC_URL[\s\S]*FILLRATE_WEBHOOK_SECRET is short/)
    expect(describeUnsigned(environment(), service!)).toBeNull()
    // None arrives.
    expect(describeUnsigned(environment({ FILLRATE_WEBHOOK_SECRET: '' }), acme)).toBeNull()
    expect(checkBulkAvailability(environment({ FILLRATE_WEBHOOK_SECRET: '' }), acme).todo).toMatch(
      /a secret of your own/,
    )
  })

  test('its client is proved by a token, without a billed call', async () => {
    const answers = [200, 401, 503].map((status) => ({
      status,
      body: JSON.stringify(
        status === 200 ? { access_token: 'hush', token_type: 'bearer' } : { error: 'hush' },
      ),
    }))
    const paths: string[] = []
    const server = createServer((request, response) => {
      paths.push(request.url ?? '')
      const { status, body } = answers[paths.length - 1]!
      response.writeHead(status, { 'content-type': 'application/json' }).end(body)
    })
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const { port } = server.address() as AddressInfo
    const given = environment({ FILLRATE_BASE_URL: `http://127.0.0.1:${port}` })
    const findings = [
      await checkApiKey(given, acme),
      await checkApiKey(given, acme),
      await checkApiKey(given, acme),
    ]
    const found = findings.map(({ verdict, text, problems }) => [
      verdict,
      problems[0]?.place ?? text,
      problems[0]?.found,
    ])
    expect(found).toEqual([
      ['ok', '1 client, for which the token endpoint issues a token', undefined],
      ['error', 'FILLRATE_API_KEY', `token endpoint 127.0.0.1:${port}: HTTP 401`],
      ['error', 'auth.oauth.tokenUrl', `token endpoint 127.0.0.1:${port}: HTTP 503`],
    ])
    expect(paths).toEqual(['/oauth/token', '/oauth/token', '/oauth/token'])
    expect(JSON.stringify(findings)).not.toContain('hush')
  })
})

test('cases of a service with a client of OAuth, a variable and forms need none of them', async () => {
  const definition = defineService({
    name: 'Acme Data',
    auth: { oauth: { tokenUrl: '/oauth/token?tenant=1' } },
    headers: { 'x-app-id': { env: 'ACME_NOT_SET' } },
    person: { path: '/people', form: true, body: (input) => ({ ...input, fields: ['title', 'phone'] }) },
  })
  const cases: ServiceCase[] = [
    {
      name: 'a miss',
      input: { email: 'ada@example.com' },
      request: { body: { email: 'ada@example.com', fields: ['title', 'phone'] } },
      answer: { status: 404 },
      expect: { outcome: 'not_found' },
    },
  ]
  await testService(definition, cases)
  const { service: played } = parseService({ definition, place: 'service' })
  const standIn = await openServiceStandIn(played!, cases, { host: '127.0.0.1', port: 0 })
  onTestFinished(() => standIn.close())
  const client = new EnrichmentClient({
    baseUrl: standIn.url,
    apiKey: 'id:secret',
    service: played!,
    variables: { ACME_NOT_SET: 'x' },
  })
  expect(await client.enrichPerson({ email: 'ada@example.com' })).toEqual({ outcome: 'not_found' })
  await client.close()
})
