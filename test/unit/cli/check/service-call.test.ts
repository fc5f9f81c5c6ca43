import { expect, onTestFinished, test } from 'vitest'
import { testService, type ServiceCase } from '../../../../src/actions/service-cases.ts'
import { makeOneCall, parseCall } from '../../../../src/cli/check/service.ts'
import type { CliCommand } from '../../../../src/cli/command.ts'
import { checkCommand } from '../../../../src/cli/commands/check.ts'
import type { Finding } from '../../../../src/cli/check/finding.ts'
import { parseService } from '../../../../src/config/service-schema.ts'
import { readEnvironment } from '../../../../src/config/environment.ts'
import { defineService } from '../../../../src/domain/service/adapter.ts'
import { answerJson, startLoopback } from '../../../support/loopback.ts'

const { service } = parseService({
  definition: defineService({
    name: 'Acme Data',
    auth: { query: 'api_key' },
    person: { path: '/people', inputs: ['email'] },
    credits: { most: 9, of: (_, record) => (record?.['phone'] ? 9 : 1) },
    fields: { person: { title: 'text', phone: 'text' } },
  }),
  place: 'service',
})

const environmentFor = (baseUrl: string) =>
  readEnvironment({ FILLRATE_BASE_URL: baseUrl, FILLRATE_API_KEY: 'sk-secret' })

test('makes one call and says how each part of the answer is understood', async () => {
  const { url, received, close } = await startLoopback((_, response) =>
    answerJson(response, 200, { title: 'CEO', phone: '+47', confidence: 0.5, twitter: 'x' }),
  )
  onTestFinished(close)
  const found: Finding[] = []
  for await (const one of makeOneCall(service!, environmentFor(url), { email: 'a@x.example' }))
    found.push(one)
  expect(received.map((one) => one.url)).toEqual(['/people?api_key=sk-secret'])
  expect(found.map(({ name, text, todo }) => [name, text, todo])).toEqual([
    ['call', 'found', 'confidence: 0.5\ncredits: 9'],
    ['record', '2 of 2 fields', 'title: "CEO"\nphone: "+47"'],
    ['not described', 'confidence, twitter', null],
  ])
})

test('reads an input in the words of a lookup, and the service that is asked', () => {
  const parse = (texts: readonly string[]) => parseCall(checkCommand as unknown as CliCommand, texts)
  expect(parse(['name=Ada Lovelace', 'company=Engines'])).toEqual({
    input: { name: 'Ada Lovelace', company: 'Engines' },
    service: null,
  })
  expect(parse(['service=acme', 'linkedin_url=https://x.example?a=b'])).toEqual({
    input: { linkedin_url: 'https://x.example?a=b' },
    service: 'acme',
  })
  expect(() => parse(['name=Ada Lovelace'])).toThrow('--call needs an input')
})

test('cases of a service with a client of OAuth and forms need no client', async () => {
  const definition = defineService({
    name: 'Acme Data',
    auth: { oauth: { tokenUrl: '/oauth/token?tenant=1' } },
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
  await expect(testService(definition, cases)).resolves.toBeUndefined()
})
