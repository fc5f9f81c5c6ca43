import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import * as apollo from '../../../examples/services/apollo.ts'
import * as fullEnrich from '../../../examples/services/fullenrich.ts'
import * as peopleDataLabs from '../../../examples/services/people-data-labs.ts'
import type { DeliveryCase, ServiceCase } from '../../../src/actions/service-cases.ts'
import { openServiceStandIn } from '../../../src/actions/service-stand-in.ts'
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
