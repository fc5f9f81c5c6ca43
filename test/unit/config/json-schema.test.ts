import Fastify from 'fastify'
import { readFileSync } from 'node:fs'
import { beforeAll, describe, expect, test } from 'vitest'
import { configJsonSchema } from '../../../scripts/config-schema.ts'
import { parseConfig } from '../../../src/config/load.ts'
import { good } from './valid-config.ts'

const root = new URL('../../../', import.meta.url)

let validate: (value: unknown) => boolean

/** Validates as an editor would, with fastify's JSON Schema validator in strict mode. */
beforeAll(async () => {
  const app = Fastify({
    ajv: {
      customOptions: { coerceTypes: false, removeAdditional: false, useDefaults: false, strict: false },
    },
  })
  app.get('/', (request, reply) => {
    validate = request.compileValidationSchema(configJsonSchema()) as (value: unknown) => boolean
    void reply.send({})
  })
  await app.inject('/')
  await app.close()
})

const isAccepted = (config: unknown): boolean => {
  try {
    parseConfig(config, null)
    return true
  } catch {
    return false
  }
}

const contacts = (changes: object): object => ({
  sources: { contacts: { ...good.sources.contacts, ...changes } },
})
const price = { currency: 'EUR', lookup: 0.1 }
const several = (changes: object = {}): object => ({
  ...contacts(changes),
  services: {
    acme: {},
    other: { concurrency: 2, price, budget: 7, refreshAfter: '7d', bulk: { minimum: 2 } },
  },
})
const output = (value: unknown): object => contacts({ outputs: { title: value } })

test('the published schema is the one of this version', () => {
  const published: unknown = JSON.parse(readFileSync(new URL('fillrate.schema.json', root), 'utf8'))
  expect(published, 'it is stale: run `npm run docs`').toEqual(configJsonSchema())
})

test('describes each field to editors', () => {
  const text = JSON.stringify(configJsonSchema())
  expect(text).toContain('The maximum number of concurrent calls')
  expect(text).toContain('The URL of a personal LinkedIn profile')
  expect(text).toContain('"name.full"')
  expect(text).toContain('"additionalProperties":false')
  expect(text).toContain('"default":"90d"')
})

describe('a validator accepts and rejects the same configurations as Fillrate', () => {
  const accepted: Record<string, object> = {
    'the shortest': good,
    'with the address of the schema': {
      $schema: './node_modules/fillrate/fillrate.schema.json',
      ...good,
    },
    'with everything at the top': {
      ...good,
      service: { concurrency: 4, timeout: '1.5s', reserve: 0.2 },
      bulk: { minimum: 1, deadline: '2 hours' },
      refreshAfter: '1w',
      retryNotFoundAfter: '30d',
      attempts: 3,
      budget: 'unlimited',
      schedule: [{ cron: '0 2 * * *', timezone: 'Europe/Oslo', sources: ['contacts'] }],
    },
    'a name with its company': contacts({ inputs: { name: 't.name', company: 't.company' } }),
    'a key of two columns': contacts({ key: ['tenant_id', 'id'] }),
    'an output with options': output({
      field: 'title',
      policy: 'tracked',
      minConfidence: 0.9,
      map: { a: 'b', c: 1, d: false },
      matches: '^\\w+$',
    }),
    'a field that is not listed': output({ field: 'social.twitter', unlisted: true }),
    'several services': several(),
    'several services by turns': several({
      services: ['acme', { name: 'other', when: 'blank', minConfidence: 0.5 }],
      outputs: { title: 'title', phone: { acme: 'phone', other: { field: 'phone', policy: 'tracked' } } },
    }),
    'a budget in money': { ...good, price, budget: { amount: 5, currency: 'EUR' } },
  }
  const rejected: Record<string, unknown> = {
    'no services': { ...several(), services: {} },
    'an unknown setting of a service': { ...several(), services: { acme: { concurency: 1 } } },
    'a service that is a number': { ...several(), services: { acme: 1 } },
    'a name of a service with a space': { ...several(), services: { 'my acme': {} } },
    'an unknown `when`': several({ services: ['acme', { name: 'other', when: 'never' }] }),
    'a list of no services': several({ services: [] }),
    'a budget in money without its currency': { ...good, price, budget: { amount: 5 } },
    'a list': [],
    'no sources': {},
    'sources without one': { sources: {} },
    'an unknown key': { ...good, sorces: {} },
    'a name of a source with a space': { sources: { 'my contacts': good.sources.contacts } },
    'no kind': contacts({ kind: undefined }),
    'a kind that is none': contacts({ kind: 'people' }),
    'a table that is no name': contacts({ table: 'a.b.c.d' }),
    'a blank expression': contacts({ where: '  ' }),
    'an empty list of keys': contacts({ key: [] }),
    'no input': contacts({ inputs: {} }),
    'a name without a company': contacts({ inputs: { name: 't.name' } }),
    'an input of the other kind': contacts({ inputs: { domain: 't.website' } }),
    'no output': contacts({ outputs: {} }),
    'a field of the other kind': output('industry'),
    'a policy that is none': output({ field: 'title', policy: 'never' }),
    'a share above one': contacts({ minConfidence: 70 }),
    'a pattern that is a number': output({ field: 'title', matches: 5 }),
    'a field that is not listed, unsaid': output({ field: 'social.twitter' }),
    'a duration without a unit': { ...good, refreshAfter: '90' },
    'a duration as a number': { ...good, service: { timeout: 30 } },
    'calls at once that are none': { ...good, service: { concurrency: 0 } },
    'a budget in words': { ...good, budget: 'much' },
  }

  test.each(Object.keys(accepted))('accepts %s', (name) => {
    expect(isAccepted(accepted[name])).toBe(true)
    expect(validate(JSON.parse(JSON.stringify(accepted[name])))).toBe(true)
  })

  test.each(Object.keys(rejected))('rejects %s', (name) => {
    expect(isAccepted(rejected[name])).toBe(false)
    expect(validate(JSON.parse(JSON.stringify(rejected[name])))).toBe(false)
  })
})
