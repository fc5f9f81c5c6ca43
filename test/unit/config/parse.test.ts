import { describe, expect, test } from 'vitest'
import { parseConfig } from '../../../src/config/load.ts'
import { ConfigProblems, type Problem } from '../../../src/config/problems.ts'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import { good } from './valid-config.ts'
import { output } from '../../integration/sources/mapping.ts'

describe('a valid configuration', () => {
  test('gets every default', () => {
    const step = {
      step: { service: null, services: [], isFirst: true, next: null, takes: null, details: [] },
      minConfidence: 0,
      freshness: null,
      outputs: [output('title', 'title')],
    }
    expect(parseConfig(good, '/crm/fillrate.config.ts')).toEqual({
      path: '/crm/fillrate.config.ts',
      serviceNames: [],
      sources: {
        contacts: {
          name: 'contacts',
          ...step,
          steps: [step],
          kind: 'person',
          table: 'crm.contacts',
          joins: null,
          key: null,
          where: [],
          inputs: { email: 't.email' },
          writes: null,
          cascade: false,
          reviewed: true,
          touch: {},
          follow: false,
          onDelete: 'forget',
        },
        accounts: expect.objectContaining({ kind: 'company', inputs: { domain: 't.website' } }),
      },
      services: [
        {
          name: null,
          adapter: BUILT_IN_SERVICE,
          concurrency: 32,
          timeoutMs: 30_000,
          reserve: 0.1,
          account: null,
          bulk: { minimum: null, deadlineMs: 6 * 3_600_000, graceMs: 300_000 },
          refreshAfterMs: 90 * 86_400_000,
          retryNotFoundAfterMs: 30 * 86_400_000,
          attempts: 5,
          budget: null,
          price: null,
        },
      ],
      budget: null,
      liveSync: { budget: null },
      schedule: [],
      keep: { recordsMs: null, deliveriesMs: 30 * 86_400_000, changesMs: null },
      notify: [],
    })
  })

  test('keeps every setting', () => {
    const contacts = {
      ...good.sources.contacts,
      key: ['tenant_id', 'id'],
      inputs: { name: 't.name', company: 't.company' },
      minConfidence: 0.7,
      cascade: true,
      outputs: {
        phone: {
          field: 'phone',
          policy: 'tracked',
          minConfidence: 0.9,
          matches: /^\+\d+$/i,
        },
        seniority: { field: 'seniority', policy: 'always', map: { vp: 'VP', c_suite: 1, intern: false } },
        'attributes.department': { field: 'department', matches: '^\\w+$' },
        score: { field: 'scores.fit', unlisted: true, sql: '$value * 10', group: 'scores' },
        rank: { field: 'id', group: 'scores' },
      },
      touch: { enriched_at: 'now()' },
      freshness: { column: 'enriched_at' },
    }
    const config = parseConfig(
      {
        sources: { ...good.sources, contacts },
        service: { concurrency: 4, timeout: '1.5s', reserve: 0.2 },
        bulk: { minimum: 1, deadline: '2 hours' },
        refreshAfter: '1w',
        retryNotFoundAfter: '0d',
        attempts: 1,
        budget: 0,
        price: { currency: 'EUR', lookup: { person: 0.05, company: 0 } },
        liveSync: { budget: 'unlimited' },
        schedule: [
          {
            cron: ' @daily ',
            timezone: 'Europe/Oslo',
            sources: ['accounts'],
            budget: 'unlimited',
          },
          { cron: '0 2 * * MON-FRI' },
        ],
      },
      null,
    )
    expect(config).toMatchObject({
      path: null,
      services: [
        {
          concurrency: 4,
          timeoutMs: 1500,
          reserve: 0.2,
          bulk: { minimum: 1, deadlineMs: 7_200_000, graceMs: 300_000 },
          refreshAfterMs: 604_800_000,
          retryNotFoundAfterMs: 0,
          attempts: 1,
          price: { currency: 'EUR', person: 0.05, company: 0 },
        },
      ],
      budget: 0,
      liveSync: { budget: 'unlimited' },
      schedule: [
        {
          cron: '@daily',
          timezone: 'Europe/Oslo',
          sources: ['accounts'],
          budget: 'unlimited',
        },
        {
          cron: '0 2 * * MON-FRI',
          timezone: null,
          sources: ['contacts', 'accounts'],
          budget: null,
        },
      ],
    })
    expect(config.sources['contacts']).toMatchObject({
      key: ['tenant_id', 'id'],
      inputs: { name: 't.name', company: 't.company' },
      minConfidence: 0.7,
      cascade: true,
      touch: { enriched_at: 'now()' },
      freshness: { column: 'enriched_at', maxAgeMs: 604_800_000 },
      outputs: [
        {
          column: 'phone',
          policy: 'tracked',
          minConfidence: 0.9,
          matches: { source: '^\\+\\d+$', flags: 'i' },
        },
        { column: 'seniority', policy: 'always', map: { vp: 'VP', c_suite: 1, intern: false } },
        { column: 'attributes.department', matches: { source: '^\\w+$', flags: '' } },
        { column: 'score', field: 'scores.fit', sql: '$value * 10', group: 'scores' },
        { column: 'rank', field: 'id', group: 'scores' },
      ],
    })
  })
})

function problemsOf(config: unknown): readonly Problem[] {
  try {
    parseConfig(config, null)
  } catch (error) {
    if (error instanceof ConfigProblems) return error.problems
    throw error
  }
  return []
}

const contacts = (changes: object) => ({ sources: { contacts: { ...good.sources.contacts, ...changes } } })
const accounts = (changes: object) => ({ sources: { accounts: { ...good.sources.accounts, ...changes } } })
const outputs = (mapped: object) => ({ outputs: mapped })
const title = (options: object) => outputs({ title: { field: 'title', ...options } })
const scheduled = (entry: object) => ({ ...good, budget: 100, schedule: [{ cron: '0 2 * * *', ...entry }] })

/** A place, what is found there, of what mistake, and a part of what was expected and of what to do. */
type Mistake = [place: string, found: string, mistake: object, expected: string, todo?: string]

const mistakes: readonly Mistake[] = [
  ['the configuration', 'an empty list', [], 'sources'],
  ['sources', 'nothing', {}, 'an object such as'],
  ['sources', 'an empty object', { sources: {} }, 'at least one source'],
  [
    'sources["my contacts"]',
    "'my contacts'",
    { sources: { 'my contacts': good.sources.contacts } },
    'letters, digits',
  ],
  ['timeout', 'an unknown key', { ...good, timeout: '1d' }, 'service'],
  [
    'sources.accounts.inputs.email',
    'an unknown key',
    accounts({ inputs: { domain: 't.d', email: 't.e' } }),
    'one of domain',
  ],
  ['refreshAfter', "'90'", { ...good, refreshAfter: '90' }, 'with its unit'],
  ['service.adapter', '5', { ...good, service: { adapter: 5 } }, 'an object such as'],
  ['service.timeout', '30', { ...good, service: { timeout: 30 } }, 'with its unit'],
  ['service.timeout', "'0s'", { ...good, service: { timeout: '0s' } }, 'above zero'],
  ['refreshAfter', "'1000y'", { ...good, refreshAfter: '1000y' }, 'with its unit'],
  ['service.concurrency', '0', { ...good, service: { concurrency: 0 } }, 'from 1 to'],
  ['budget', "'lots'", { ...good, budget: 'lots' }, "or 'unlimited'"],
  [
    'schedule[0].budget',
    'nothing, and no budget for all runs either',
    { ...scheduled({}), budget: undefined },
    'a whole number',
    'Add `budget`',
  ],
  [
    'service.apiKey',
    'an unknown key',
    { ...good, service: { apiKey: 'k-123' } },
    'concurrency',
    'FILLRATE_API_KEY',
  ],
  [
    'databaseUrl',
    'an unknown key',
    { ...good, databaseUrl: 'postgres://u:p@h/d' },
    'sources',
    'DATABASE_URL',
  ],
]

/** In the source contacts. */
const sourceMistakes: readonly Mistake[] = [
  ['kind', "'persona'", { kind: 'persona' }, "'person' or 'company'", "Did you mean 'person'?"],
  ['minConfidense', 'an unknown key', { minConfidense: 1 }, 'minConfidence', "Did you mean 'minConfidence'?"],
  ['table', 'nothing', { table: undefined }, "'crm.contacts'"],
  ['key', 'an empty list', { key: [] }, 'at least one column'],
  ['where[1]', 'white space', { where: ['t.id > 1', ' '] }, 'an SQL expression'],
  ['minConfidence', '70', { minConfidence: 70 }, 'from 0 to 1'],
  ['inputs', 'an empty object', { inputs: {} }, 'at least one of email'],
  [
    'inputs.company',
    'nothing',
    { inputs: { name: 't.name' } },
    'name and company together',
    'leave out `name`',
  ],
  [
    'inputs.name',
    'nothing',
    { inputs: { email: 't.email', first_name: 't.f', company_domain: 't.d' } },
    'name and company together',
    'Add `name`, or leave out `first_name`, `company_domain`',
  ],
  [
    'inputs.domain',
    'an unknown key',
    { inputs: { email: 't.email', domain: 't.d' } },
    'one of email',
    "Did you mean 'company_domain'?",
  ],
  ['outputs', 'an empty object', outputs({}), 'at least one column'],
  ['outputs.a', "'industry'", outputs({ a: 'industry' }), "'title'", "{ field: 'industry', unlisted: true }"],
  ['outputs.title', "'titel'", outputs({ title: 'titel' }), "'title'", "Did you mean 'title'?"],
  [
    'outputs.title.field',
    "'firstName'",
    title({ field: 'firstName' }),
    "'name.first'",
    "Did you mean 'name.first'?",
  ],
  ['outputs.title.unlisted', "'yes'", title({ unlisted: 'yes' }), 'true, or nothing'],
  ['outputs.title.map.vp', 'null', title({ map: { vp: null } }), 'a text, a number'],
  ['outputs.title.matches', "'(': Unterminated group", title({ matches: '(' }), 'a regular expression'],
  [
    'outputs.title.matches',
    "'/x/i'",
    title({ matches: '/x/i' }),
    'a regular expression',
    'leave out the slashes',
  ],
  ['outputs.title.matches', '/x/g', title({ matches: /x/g }), 'a regular expression', 'flags g and y'],
  [
    'outputs["\\"title\\""]',
    'a cell of title, which is written, too',
    outputs({ title: 'title', '"title"': 'id' }),
    'each column, or each key in it, once',
  ],
  [
    'outputs["a.b.c"]',
    'a cell of a, which is written, too',
    outputs({ a: 'title', 'a.b.c': 'id' }),
    'each column, or each key in it, once',
  ],
  ['outputs.id', 'a column of the key', { key: 'id', outputs: { id: 'id' } }, 'does not identify'],
  [
    'freshness.column',
    'a cell of title, which is written, too',
    { freshness: { column: 'title' } },
    'each column, or each key in it, once',
  ],
  ['freshness.column', 'nothing', { freshness: {} }, 'a column name'],
  ['freshness', "'enriched_at'", { freshness: 'enriched_at' }, "{ column: 'enriched_at' }"],
  [
    'outputs.title.group',
    "'phone', which no other output has",
    title({ group: 'phone' }),
    'two outputs or more',
  ],
]

/** In an entry of the schedule. */
const scheduleMistakes: readonly Mistake[] = [
  ['cron', "'0 25 * * *': invalid value for hour: 25", { cron: '0 25 * * *' }, 'five fields'],
  ['cron', "'0 0 2 * * *': not five fields", { cron: '0 0 2 * * *' }, 'five fields'],
  ['cron', "'0 0 31 2 *': it never matches", { cron: '0 0 31 2 *' }, 'five fields'],
  ['timezone', "'Europe/Olso'", { timezone: 'Europe/Olso' }, 'IANA', "Did you mean 'Europe/Oslo'?"],
  ['sources', 'an empty list', { sources: [] }, 'at least one source'],
  [
    'sources[1]',
    "'contact'",
    { sources: ['accounts', 'contact'] },
    "'contacts' or 'accounts'",
    "Did you mean 'contacts'?",
  ],
]

const within = (place: string, configOf: (mistake: object) => object, mistakes: readonly Mistake[]) =>
  mistakes.map(([inside, found, mistake, ...advised]): Mistake => [
    `${place}.${inside}`,
    found,
    configOf(mistake),
    ...advised,
  ])

const advice = (part: string | undefined): unknown =>
  part === undefined ? null : expect.stringContaining(part)

describe('an invalid configuration', () => {
  test.each<Mistake>([
    ...mistakes,
    ...within('sources.contacts', contacts, sourceMistakes),
    ...within('schedule[0]', scheduled, scheduleMistakes),
  ])('%s: %s', (place, found, config, expected, todo) => {
    expect(problemsOf(config)).toEqual([
      {
        place,
        found,
        expected: expect.stringContaining(expected),
        todo: advice(todo),
      },
    ])
  })

  test('is reported all at once', () => {
    const config = {
      ...good,
      budget: -1,
      attempts: 0,
      sources: { contacts: { ...good.sources.contacts, table: 5, outputs: { a: 'x', b: 'y' } } },
    }
    expect(problemsOf(config).map((problem) => problem.place)).toEqual([
      'sources.contacts.table',
      'sources.contacts.outputs.a',
      'sources.contacts.outputs.b',
      'attempts',
      'budget',
    ])
  })

  test('never shows a password or a key', () => {
    const config = {
      ...good,
      apiKey: 'k-s3cret',
      sources: { contacts: { ...good.sources.contacts, table: 'postgres://jane:s3cret@host/crm' } },
      refreshAfter: 'https://jane:s3cret@host',
    }
    expect(() => parseConfig(config, null)).toThrow(ConfigProblems)
    expect(JSON.stringify(problemsOf(config))).not.toContain('s3cret')
  })
})

test('an address that is read from a variable that is not set is no default address', () => {
  expect(problemsOf({ ...good, notify: [{ url: undefined }] })).toMatchObject([
    { place: 'notify[0].url', found: 'nothing' },
  ])
  expect(parseConfig({ ...good, notify: [{}] }, null).notify).toMatchObject([{ url: null }])
})
