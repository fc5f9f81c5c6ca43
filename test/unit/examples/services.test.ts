import { globSync } from 'node:fs'
import { resolve } from 'node:path'
import { expect, test } from 'vitest'
import { callAccount } from '../../../src/actions/actions.ts'
import { testService, type DeliveryCase, type ServiceCase } from '../../../src/actions/service-cases.ts'
import { readEnvironment } from '../../../src/config/environment.ts'
import { parseService } from '../../../src/config/service-schema.ts'
import { parseConfig } from '../../../src/config/load.ts'
import { ConfigProblems } from '../../../src/config/problems.ts'
import { defineConfig } from '../../../src/config/define.ts'
import { defineService, type ServiceDefinition } from '../../../src/domain/service/adapter.ts'
import type { JobInputs } from '../../../src/domain/service/messages.ts'
import { createService } from '../../../src/domain/service/service.ts'
import { answerJson } from '../../support/loopback.ts'
import { serve } from '../service/loopback-service.ts'

interface ServiceModule {
  readonly default: unknown
  readonly cases: readonly (ServiceCase | DeliveryCase)[]
}

const EXAMPLES = globSync('examples/services/*.ts').toSorted()

test.each(EXAMPLES)('%s has no mistake, and its cases come out as they say', async (file) => {
  const { default: definition, cases } = (await import(resolve(file))) as ServiceModule
  expect(parseService({ definition, place: file }).problems).toEqual([])
  await testService(definition as ServiceDefinition, cases)
})

/** The first ones, which were written before there was an outcome for each. */
const EARLIER = /template|apollo|fullenrich|people-data-labs/

test.each(EXAMPLES.filter((file) => !EARLIER.test(file)))(
  '%s has cases for a match, a miss, too many calls and no credits',
  async (file) => {
    const { cases } = (await import(resolve(file))) as ServiceModule
    const outcomes = new Set(
      cases.flatMap(({ expect: expected }) => [
        ...('outcome' in expected ? [expected.outcome] : []),
        ...('results' in expected ? (expected.results ?? []).map(({ outcome }) => outcome) : []),
      ]),
    )
    const needed = ['found', 'not_found', 'rate_limited', 'out_of_credits'] as const
    expect(needed.filter((outcome) => !outcomes.has(outcome))).toEqual([])
  },
)

test.each<[string, string, unknown, number | null]>([
  ['fullenrich', '/api/v1/account/credits', { balance: 120 }, 120],
  ['hunter', '/v2/account', { data: { plan_name: 'Free' } }, null],
  ['lusha', '/v3/account/usage', { credits: { total: 1000, used: 150, remaining: 850 } }, 850],
  ['prospeo', '/account-information', { error: false, response: { remaining_credits: 99 } }, 99],
  ['prospeo', '/account-information', { error: false }, null],
  ['snov', '/v1/get-balance', { success: true, data: { balance: '25000.50' } }, 25_000.5],
  ['snov-finder', '/v1/get-balance', { success: true, data: { balance: '0.00' } }, 0],
])('%s proves a key for free, by %s', async (name, path, answer, credits) => {
  const { default: definition } = (await import(resolve(`examples/services/${name}.ts`))) as ServiceModule
  const { baseUrl, received } = await serve(({ headers }, response) => {
    const isKnown = Object.values(headers).some((value) => String(value).includes('a-key'))
    answerJson(response, isKnown ? 200 : 401, answer)
  })
  const service = { ...createService(definition as ServiceDefinition), auth: { header: 'x-key' } }
  const prove = (key: string) =>
    callAccount(service, readEnvironment({ FILLRATE_BASE_URL: baseUrl, FILLRATE_API_KEY: key }))
  expect(await prove('a-key-123')).toEqual({ isAccepted: true, credits })
  expect(await prove('other-123')).toMatchObject({ isAccepted: false })
  expect(received.map(({ url }) => url)).toEqual([path, path])
})

const small = defineService({
  name: 'Acme Data',
  auth: { header: 'X-Key', prefix: 'k ' },
  person: { path: '/people/{email}', method: 'GET', query: () => ({ v: 2 }), inputs: ['email'] },
  fields: { person: { job_title: 'text' } },
})

test('an adapter of a dozen lines: placeholders are filled, and the usual answers understood', async () => {
  const passing = testService(small, [
    {
      name: 'found',
      input: { email: 'a+b@x.example' },
      request: { path: '/people/a%2Bb%40x.example', query: { v: '2' }, headers: { 'x-key': 'k test-key' } },
      answer: { body: { data: { job_title: 'CEO', confidence: 0.5 } } },
      expect: { outcome: 'found', record: { job_title: 'CEO' }, confidence: 0.5 },
    },
    {
      name: 'down',
      input: { email: 'a@x.example' },
      answer: { status: 503 },
      expect: { outcome: 'transient' },
    },
  ])
  await expect(passing).resolves.toBeUndefined()
})

test('a case that comes out differently is listed with its field', async () => {
  const wrong = testService(small, [
    {
      name: 'wrong',
      input: { email: 'a@x.example' },
      answer: { body: { data: { job_title: 'CEO', confidence: 0.5 } } },
      expect: { outcome: 'found', confidence: 0.9 },
    },
  ])
  await expect(wrong).rejects.toThrow(/came out differently\nwrong:\n {2}confidence: 0.5, expected 0.9$/)
})

test('jobs of any input: results are named by their place, companies are read as such', async () => {
  const jobs = { results: 'answer', body: ({ inputs }: JobInputs) => ({ inputs }) } as const
  const definition = defineService({
    name: 'Acme Data',
    person: { path: '/person' },
    company: { path: '/company' },
    bulk: {
      ...jobs,
      path: '/people',
      inputs: ['email', 'name_company'],
      read: ({ body }) => {
        const results = (body as { id: number; match: object }[]).map(({ id, match: data }) => ({
          index: id,
          data,
        }))
        return { outcome: 'results', delivery: { results } }
      },
    },
    companyBulk: { ...jobs, path: '/companies' },
    fields: { person: { job_title: 'text' }, company: { industry: 'text' } },
  })
  const inputs = [{ email: 'a@x.example' }, { name: 'Ada Lovelace', company: 'Engines' }]
  const match = { job_title: 'CEO', confidence: 0.9 }
  const people = (index: number): ServiceCase => ({
    name: 'two people',
    input: { inputs },
    request: { path: '/people', body: { inputs } },
    answer: { body: [{ id: index, match }] },
    expect: { outcome: 'accepted', results: [{ index, outcome: 'found', record: { job_title: 'CEO' } }] },
  })
  const companies: ServiceCase = {
    name: 'a company',
    input: { inputs: [{ domain: 'acme.com' }] },
    request: { path: '/companies', body: { inputs: [{ domain: 'acme.com' }] } },
    answer: { body: [{ domain: 'acme.com', industry: 'machinery' }] },
    expect: { outcome: 'accepted', results: [{ outcome: 'found', record: { industry: 'machinery' } }] },
  }
  await expect(testService(definition, [people(0), people(1), companies])).resolves.toBeUndefined()
  const wrong = testService(definition, [people(2)])
  await expect(wrong).rejects.toThrow('results[0].outcome: "unreadable", expected "found"')
})

const contacts = {
  kind: 'person',
  table: 'contacts',
  inputs: { email: 't.email' },
  outputs: { title: 'job_title' },
} as const

test('outputs are checked against the fields of the service', () => {
  const config = parseConfig(defineConfig({ service: small, sources: { contacts } }), null)
  expect(config.services.map(({ adapter }) => adapter.name)).toEqual(['Acme Data'])
  expect(config.services[0]?.adapter.fields.person).toHaveProperty('job_title', 'text')
  expect(
    problemsOf({
      service: { adapter: small },
      sources: { contacts: { ...contacts, outputs: { t: 'title' } } },
    }),
  ).toEqual([['sources.contacts.outputs.t', expect.stringContaining("'job_title'")]])
})

test('a source that the service cannot serve is a problem', () => {
  const sources = {
    contacts: { ...contacts, inputs: { linkedin_url: 't.linkedin' } },
    accounts: {
      kind: 'company',
      table: 'a',
      inputs: { domain: 't.d' },
      outputs: { i: { field: 'i', unlisted: true } },
    },
  }
  expect(problemsOf({ service: small, sources }).map(([place]) => place)).toEqual([
    'sources.contacts.inputs.linkedin_url',
    'sources.accounts.kind',
  ])
})

function problemsOf(config: unknown): [string, string][] {
  try {
    parseConfig(config, null)
  } catch (error) {
    if (error instanceof ConfigProblems) return error.problems.map(({ place, expected }) => [place, expected])
    throw error
  }
  return []
}
