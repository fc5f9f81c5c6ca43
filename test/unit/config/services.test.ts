import { describe, expect, expectTypeOf, test } from 'vitest'
import { lookupBudgetOf, mixedBudgetOf, type Config, type ConfigService } from '../../../src/config/config.ts'
import { defineConfig } from '../../../src/config/define.ts'
import { parseConfig } from '../../../src/config/load.ts'
import { ConfigProblems } from '../../../src/config/problems.ts'
import type { SourceStep } from '../../../src/domain/mapping.ts'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import { toLookupBudget } from '../../../src/domain/spend.ts'
import { good } from './valid-config.ts'

const { contacts, accounts } = good.sources

/** Takes an email or a name, has a company endpoint, and other fields than the built-in interface. */
const pdl = {
  name: 'PDL',
  person: { path: '/v5/person/enrich', inputs: ['email', 'linkedin_url'] },
  fields: { person: { job_title: 'text', mobile_phone: 'text', title: 'text' } },
} as const

/** Takes no profile, knows no company, and does not say what it knows. */
const finder = {
  name: 'Finder',
  person: { path: '/find', inputs: ['email'] },
} as const

const several = {
  services: {
    acme: {},
    pdl: {
      adapter: pdl,
      price: { currency: 'EUR', lookup: 0.28 },
      budget: 2_000,
      concurrency: 16,
      refreshAfter: '180d',
      bulk: { minimum: 7 },
    },
    finder,
  },
  sources: {
    contacts: {
      ...contacts,
      inputs: { email: 't.email', linkedin_url: 't.linkedin' },
      services: ['acme', { name: 'pdl', when: 'blank', minConfidence: 0.8 }],
      outputs: {
        title: 'title',
        phone: { acme: 'phone', pdl: { field: 'mobile_phone', minConfidence: 0.9 } },
        department: { acme: 'department' },
      },
      freshness: { column: 'enriched_at' },
    },
    accounts,
  },
  attempts: 3,
  budget: 10_000,
} as const

function serviceOf(config: Config, name: string): ConfigService {
  const service = config.services.find((one) => one.name === name)
  if (service === undefined) throw new Error(`there is no service ${name}`)
  return service
}

const stepOf = (config: Config, service: string, source: string): SourceStep | undefined =>
  config.sources[source]?.steps.find(({ step }) => step.service === service)

const servicesOf = (config: Config, source: string) =>
  config.sources[source]?.steps.map(({ step }) => step.service)

describe('several services', () => {
  const config = parseConfig(several, '/crm/fillrate.config.ts')

  test('have settings of their own', () => {
    expect(config).toMatchObject({ path: '/crm/fillrate.config.ts', budget: 10_000 })
    // One that serves no source is not called.
    expect(config.services.map(({ name }) => name)).toEqual(['acme', 'pdl'])
    expect(config.serviceNames).toEqual(['acme', 'pdl', 'finder'])
    expect(serviceOf(config, 'acme')).toMatchObject({
      adapter: BUILT_IN_SERVICE,
      concurrency: 32,
      price: null,
      budget: 10_000,
      refreshAfterMs: 90 * 86_400_000,
      attempts: 3,
    })
    expect(serviceOf(config, 'pdl')).toMatchObject({
      adapter: { name: 'PDL' },
      concurrency: 16,
      timeoutMs: 30_000,
      bulk: { minimum: 7, graceMs: 300_000 },
      price: { currency: 'EUR', person: 0.28, company: 0.28 },
      budget: 2_000,
      refreshAfterMs: 180 * 86_400_000,
      attempts: 3,
    })
  })

  test('are steps of the sources that list them', () => {
    expect(servicesOf(config, 'contacts')).toEqual(['acme', 'pdl'])
    expect(stepOf(config, 'acme', 'contacts')?.step).toEqual({
      service: 'acme',
      services: ['acme', 'pdl'],
      isFirst: true,
      next: { service: 'pdl', when: 'blank' },
      takes: null,
      details: [],
    })
    expect(stepOf(config, 'pdl', 'contacts')).toMatchObject({
      step: { isFirst: false, next: null },
      minConfidence: 0.8,
      freshness: { column: 'enriched_at', maxAgeMs: 180 * 86_400_000 },
    })
    // Only the built-in interface takes a domain.
    expect(servicesOf(config, 'accounts')).toEqual(['acme'])
    expect(stepOf(config, 'acme', 'accounts')?.step).toMatchObject({ isFirst: true, next: null })
  })

  test('fill the columns that name them, each from its own field', () => {
    const fields = (name: string) =>
      stepOf(config, name, 'contacts')?.outputs.map(({ column, field, minConfidence }) => [
        column,
        field,
        minConfidence,
      ])
    expect(fields('acme')).toEqual([
      ['title', 'title', null],
      ['phone', 'phone', null],
      ['department', 'department', null],
    ])
    expect(fields('pdl')).toEqual([
      ['title', 'title', null],
      ['phone', 'mobile_phone', 0.9],
    ])
  })

  test('together fill all columns, each from the field of the first that fills it', () => {
    const fields = ({ sources }: Config) => sources['contacts']?.outputs.map(({ field }) => field)
    expect(fields(config)).toEqual(['title', 'phone', 'department'])
    const inReverse = { ...several.sources.contacts, services: ['pdl', 'acme'] }
    const reversed = parseConfig({ ...several, sources: { contacts: inReverse } }, null)
    expect(fields(reversed)).toEqual(['title', 'mobile_phone', 'department'])
    expect(reversed.sources['contacts']?.step).toBe(stepOf(reversed, 'pdl', 'contacts')?.step)
  })

  test('fill something between them, or are refused', () => {
    const sources = {
      contacts: { ...contacts, inputs: { linkedin_url: 't.l' }, outputs: { phone: { finder: 'p' } } },
    }
    expect(problems({ services: { finder, pdl }, sources })).toMatchObject([
      {
        expected:
          'a field of a service that takes an input of this source: those that fill a column take none of them',
      },
    ])
  })

  test('are all asked by default that take an input and fill a column, in their order', () => {
    const { services: _, ...unlisted } = several.sources.contacts
    const all = parseConfig(
      {
        ...several,
        sources: {
          contacts: { ...unlisted, inputs: { linkedin_url: 't.linkedin' } },
          others: { ...unlisted, outputs: { phone: { finder: 'phone', acme: 'phone' } } },
        },
      },
      null,
    )
    const turns = (source: string) =>
      all.sources[source]?.steps.map(({ step }) => [step.service, step.isFirst, step.next])
    expect(turns('contacts')).toEqual([
      ['acme', true, { service: 'pdl', when: 'miss' }],
      ['pdl', false, null],
    ])
    expect(turns('others')).toEqual([
      ['acme', true, { service: 'finder', when: 'miss' }],
      ['finder', false, null],
    ])
    // An input that only some take is fine. Each mapping has all of them, and says which its service takes.
    expect(all.sources['others']?.inputs).toEqual(several.sources.contacts.inputs)
    expect(stepOf(all, 'finder', 'others')).toMatchObject({
      step: { takes: ['email'], services: ['acme', 'finder'] },
    })
    expect(stepOf(all, 'acme', 'others')?.step.takes).toBeNull()
  })

  test('are sent the details of a name that each takes', () => {
    const detailed = {
      name: 'Detailed',
      person: { path: '/find', inputs: ['name_company', 'first_name', 'last_name', 'company_domain'] },
    } as const
    const named = { ...finder, person: { path: '/find', inputs: ['email', 'name_company'] } } as const
    const outputs = { title: { detailed: 'a', named: 'b' } }
    const parse = (inputs: object, services: object = { detailed, named }) =>
      parseConfig({ services, sources: { contacts: { ...contacts, inputs, outputs } } }, null)
    const parts = { first_name: 't.f', last_name: 't.l' }
    const both = parse({ ...parts, company: 't.c', company_domain: 't.d' })
    const turnOf = (config: Config, name: string) => stepOf(config, name, 'contacts')?.step
    expect(turnOf(both, 'detailed')).toMatchObject({
      takes: null,
      details: ['first_name', 'last_name', 'company_domain'],
    })
    expect(turnOf(both, 'named')).toMatchObject({
      takes: ['company', 'first_name', 'last_name'],
      details: [],
    })
    // Without a company it can look up nobody by name.
    const domains = parse({ email: 't.e', ...parts, company_domain: 't.d' })
    expect(turnOf(domains, 'named')).toMatchObject({ takes: ['email'] })
    expect(() => parse({ ...parts, company_domain: 't.d' }, { named })).toThrow(
      /inputs\.company_domain[^]*an input that no service of this source takes/,
    )
  })

  test('may be one, which has a name then', () => {
    const one = parseConfig(
      { services: { acme: { adapter: './acme.ts' } }, sources: { contacts } },
      null,
      acmeModule,
    )
    expect(one.services.map(({ name, adapter }) => [name, adapter.name])).toEqual([['acme', 'PDL']])
    expect(one.sources['contacts']?.step).toMatchObject({ isFirst: true, next: null })
  })

  test('are typed: names in lists and outputs, fields as texts', () => {
    const typed = defineConfig(several)
    expectTypeOf<keyof NonNullable<typeof typed.services>>().toEqualTypeOf<'acme' | 'pdl' | 'finder'>()
    const unlisted = defineConfig({
      services: { acme: {}, pdl },
      // @ts-expect-error -- no such service
      sources: { contacts: { ...contacts, services: ['amce'] } },
    })
    expect(problems(unlisted)).toHaveLength(1)
  })
})

const acmeModule = new Map([['./acme.ts', { definition: pdl, place: '/crm/acme.ts' }]])

function rejected(value: unknown): ConfigProblems | null {
  try {
    parseConfig(value, null, acmeModule)
    return null
  } catch (error) {
    if (error instanceof ConfigProblems) return error
    throw error
  }
}
const problems = (value: unknown): ConfigProblems['problems'] => rejected(value)?.problems ?? []

const withContacts = (changes: object, services: object = several.services): object => ({
  services,
  sources: { contacts: { ...several.sources.contacts, ...changes } },
})

/** A place, what is found there, and what is expected there or to be done. */
type Expected = [place: string, found: RegExp, advice: RegExp]

function expectProblems(value: unknown, expected: readonly Expected[]): void {
  const found = problems(value)
  expect(found.map(({ place }) => place).toSorted()).toEqual(expected.map(([place]) => place).toSorted())
  for (const [place, what, advice] of expected) {
    const one = found.find((problem) => problem.place === place)
    expect(one?.found).toMatch(what)
    expect(`${one?.expected} ${one?.todo}`).toMatch(advice)
  }
}

/** A configuration of one service, with settings of its own. */
const ofAcme = (settings: object): object =>
  withContacts({ services: ['acme'], outputs: { title: 'title' } }, { acme: settings })

describe('a mistake in several services is reported with its place', () => {
  const phone = (byService: object, more: object = {}) => ({
    outputs: { title: 'title', phone: byService },
    ...more,
  })

  test.each<[string, RegExp, object, RegExp]>([
    ['services', /\[\]|empty/, { services: [] }, /at least one service/],
    ['outputs.phone.pld', /unknown key/, phone({ acme: 'phone', pld: 'a' }), /Did you mean 'pdl'\?/],
    ['outputs.phone.pdl', /'mobil_phone'/, phone({ pdl: 'mobil_phone' }), /Did you mean 'mobile_phone'\?/],
    ['outputs.title', /'titel'/, { outputs: { title: 'titel' } }, /Did you mean 'title'\?/],
    ['outputs.phone', /\{\}|an empty object/, phone({}), /an object by service|a field of a person/],
    [
      'outputs.phone.acme.group',
      /'g', which no other/,
      phone({ acme: { field: 'phone', group: 'g' } }, { services: ['acme'] }),
      /a group of two/,
    ],
    [
      'services[1]',
      /'finder', which no output names/,
      { services: ['acme', 'finder'], outputs: { phone: { acme: 'phone' } } },
      /fills a column/,
    ],
  ])('in the source contacts, %s: %s', (place, found, changes, advice) => {
    expectProblems(withContacts(changes), [[`sources.contacts.${place}`, found, advice]])
  })

  test.each<[string, unknown, Expected[]]>([
    [
      'settings of one service beside them',
      { ...several, service: {}, bulk: { minimum: 5 }, price: { currency: 'EUR', lookup: 1 } },
      [
        ['service', /beside `services`/, /Move it to `services`, under a name/],
        ['bulk', /beside `services`/, /services\.acme\.bulk/],
        ['price', /beside `services`/, /services\.acme\.price/],
      ],
    ],
    ['none', { ...several, services: {} }, [['services', /an empty object|\{\}/, /at least one service/]]],
    [
      'a list',
      { ...several, services: ['acme'] },
      [['services', /list|\[/, /an object such as \{ acme: \{\}/]],
    ],
    [
      'a name with a space',
      withContacts({ services: undefined, outputs: { title: 'title' } }, { 'my service': {} }),
      [['services["my service"]', /'my service'/, /a service's name: letters/]],
    ],
    [
      'names with the same variables',
      withContacts({ services: ['a-b'], outputs: { title: 'title' } }, { 'a-b': {}, a_B: {} }),
      [['services.a_B', /variables of a-b, FILLRATE_A_B_/, /a name of its own/]],
    ],
    [
      'a setting, and an unknown one',
      ofAcme({ concurrency: 0, prise: 1, price: { currency: 'euro', lookup: 1 } }),
      [
        ['services.acme.concurrency', /0/, /a whole number from 1 to 1024/],
        ['services.acme.price.currency', /'euro'/, /three letters/],
        ['services.acme.prise', /unknown key/, /Did you mean 'price'\?/],
      ],
    ],
    [
      'a description',
      ofAcme({ adapter: { name: 'A', person: { path: 'find' } } }),
      [['services.acme.adapter.person.path', /'find'/, /begins with a slash|\//]],
    ],
    [
      'a service that there is not, in both forms',
      withContacts({ services: ['acme', 'pdi', { name: 'findr' }] }),
      [
        ['sources.contacts.services[1]', /'pdi'/, /Did you mean 'pdl'\?/],
        ['sources.contacts.services[2].name', /'findr'/, /Did you mean 'finder'\?/],
      ],
    ],
    [
      'a field for all that one lacks',
      withContacts({ outputs: { title: 'title', seniority: 'seniority', dept: { field: 'department' } } }),
      [
        [
          'sources.contacts.outputs.seniority',
          /'seniority', which pdl \(PDL\) lacks/,
          /\{ acme: 'seniority', pdl: '…' \}/,
        ],
        ['sources.contacts.outputs.dept.field', /'department', which pdl/, /acme: 'department'/],
      ],
    ],
    [
      'a service twice, and `when` at the first',
      withContacts({ services: [{ name: 'acme', when: 'blank' }, 'pdl', 'acme'] }),
      [
        ['sources.contacts.services[0].when', /'blank'/, /Remove it, or write it at a later one/],
        ['sources.contacts.services[2]', /'acme', which is in the list already/, /each service once/],
      ],
    ],
    [
      'a service that cannot serve the source',
      {
        services: several.services,
        sources: {
          contacts: { ...several.sources.contacts, services: ['acme', 'pdl', 'finder'] },
          accounts: { ...accounts, services: ['acme', 'finder'] },
          profiles: { ...contacts, inputs: { linkedin_url: 't.l' }, services: ['acme', 'finder'] },
        },
      },
      [
        [
          'sources.accounts.services[1]',
          /'finder', which has no endpoint for a company/,
          /looks up a company/,
        ],
        ['sources.profiles.services[1]', /'finder', which takes email, none of which/, /by 'linkedin_url'/],
      ],
    ],
    [
      'an input that none takes, a kind that none serves',
      {
        services: { pdl, finder },
        sources: {
          contacts: {
            ...contacts,
            inputs: { email: 't.email', name: 't.name', company: 't.company' },
          },
          accounts,
        },
      },
      [
        [
          'sources.contacts.inputs.name',
          /an input that no service of this source takes/,
          /email, linkedin_url/,
        ],
        ['sources.accounts.kind', /'company'/, /pdl \(PDL\), finder \(Finder\)/],
      ],
    ],
    [
      'services of a source in a configuration of one',
      { sources: { contacts: { ...contacts, services: ['acme'] } } },
      [['sources.contacts.services[0]', /'acme'/, /nothing here: the configuration has one service/]],
    ],
    [
      'budgets in money without a price, or in another currency',
      {
        services: {
          acme: {},
          pdl: { adapter: pdl, price: { currency: 'USD', lookup: 0.3 } },
        },
        sources: { contacts: { ...contacts, services: ['acme', 'pdl'] } },
        budget: { amount: 50, currency: 'EUR' },
      },
      [
        ['services.acme.price', /nothing/, /a price in EUR.*`budget` is in EUR/],
        ['services.pdl.price.currency', /'USD'/, /a price in EUR/],
      ],
    ],
    [
      'a budget of one service in money without its price',
      ofAcme({ budget: { amount: 5, currency: 'EUR' } }),
      [['services.acme.price', /nothing/, /its `budget` is in EUR/]],
    ],
    [
      'a budget in words, and half of one in money',
      { ...good, budget: { amount: 5 } },
      [['budget.currency', /nothing/, /three letters/]],
    ],
  ])('%s', (_, value, expected) => expectProblems(value, expected))
})

describe('a budget in money', () => {
  const price = { currency: 'EUR', lookup: { person: 0.1, company: 0.02 } }

  test('is as many lookups as it pays for at the highest price', () => {
    const one = parseConfig({ ...good, price, budget: { amount: 0.3, currency: 'EUR' } }, null)
    expect(one.budget).toEqual({ amount: 0.3, currency: 'EUR' })
    expect(lookupBudgetOf(one)).toBe(3)
    expect(one.liveSync).toEqual({ budget: 3 })
    const two = parseConfig(
      {
        services: {
          acme: { price },
          pdl: {
            adapter: pdl,
            price: { currency: 'EUR', lookup: 0.28 },
            budget: { amount: 20, currency: 'EUR' },
          },
        },
        sources: { contacts },
        budget: { amount: 50, currency: 'EUR' },
      },
      null,
    )
    expect(lookupBudgetOf(two)).toBe(178)
    expect(two.services.map(({ budget, price }) => toLookupBudget(budget, [price]))).toEqual([500, 71])
    // A run counts each at its own: the highest price is what one lookup of the limit stands for.
    expect(mixedBudgetOf(two)).toEqual({ amount: 50, currency: 'EUR', highest: 0.28 })
    expect(mixedBudgetOf(one)).toEqual({ amount: 0.3, currency: 'EUR', highest: 0.1 })
    expect(mixedBudgetOf({ ...one, budget: 7 })).toBeNull()
    const flat = { currency: 'EUR', person: 0.1, company: 0.1 }
    expect(
      mixedBudgetOf({ ...one, services: one.services.map((service) => ({ ...service, price: flat })) }),
    ).toBeNull()
  })

  test('that costs nothing has no limit', () => {
    const free = { currency: 'EUR', lookup: 0 }
    const config = parseConfig({ ...good, price: free, budget: { amount: 1, currency: 'EUR' } }, null)
    expect(lookupBudgetOf(config)).toBe('unlimited')
  })
})
