import { describe, expect, test } from 'vitest'
import { parseConfig } from '../../../src/config/parse.ts'
import { ConfigProblems } from '../../../src/config/problems.ts'
import type { Problem } from '../../../src/config/problems.ts'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import { good } from './valid-config.ts'

describe('a valid configuration', () => {
  test('gets every default', () => {
    const step = {
      turn: { service: null, services: [], isFirst: true, next: null, takes: null, details: [] },
      shapes: BUILT_IN_SERVICE.shapes.person,
      minConfidence: 0,
      freshness: null,
      outputs: [
        {
          column: 'title',
          field: 'title',
          policy: 'blank',
          minConfidence: null,
          map: null,
          sql: null,
          group: null,
          matches: null,
        },
      ],
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
          changedAt: null,
          inputs: { email: 't.email' },
          writes: null,
          cascade: false,
          reviewed: true,
          touch: {},
          follow: false,
          onDelete: 'forget',
          budget: null,
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
      dashboard: { allowWhere: false },
      notify: [],
    })
  })

  test('keeps every setting', () => {
    const contacts = {
      ...good.sources.contacts,
      key: ['tenant_id', 'id'],
      inputs: { name: 't.name', company: 't.company' },
      minConfidence: 0.7,
      budget: '12.5%',
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
            limit: 10,
            catchUp: false,
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
          limit: 10,
          catchUp: false,
        },
        {
          cron: '0 2 * * MON-FRI',
          timezone: null,
          sources: ['contacts', 'accounts'],
          budget: null,
          limit: null,
          catchUp: true,
        },
      ],
    })
    expect(config.sources['contacts']).toMatchObject({
      key: ['tenant_id', 'id'],
      inputs: { name: 't.name', company: 't.company' },
      minConfidence: 0.7,
      budget: '12.5%',
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
const outputs = (mapped: object) => contacts({ outputs: mapped })
const title = (options: object) => outputs({ title: { field: 'title', ...options } })
const scheduled = (entry: object) => ({ ...good, budget: 100, schedule: [{ cron: '0 2 * * *', ...entry }] })

/** The configuration, and the one problem it has: place, found, a part of what was expected, and of what to do. */
const mistakes: Record<string, [unknown, string, string, string, string?]> = {
  'no object': [[], 'the configuration', 'an empty list', 'sources'],
  'no sources': [{}, 'sources', 'nothing', 'an object such as'],
  'an empty set of sources': [{ sources: {} }, 'sources', 'an empty object', 'at least one source'],
  'a name with a space': [
    { sources: { 'my contacts': good.sources.contacts } },
    'sources["my contacts"]',
    "'my contacts'",
    'letters, digits',
  ],
  'a wrong kind': [
    contacts({ kind: 'persona' }),
    'sources.contacts.kind',
    "'persona'",
    "'person' or 'company'",
    "Did you mean 'person'?",
  ],
  'a misspelt key': [
    contacts({ minConfidense: 1 }),
    'sources.contacts.minConfidense',
    'an unknown key',
    'minConfidence',
    "Did you mean 'minConfidence'?",
  ],
  'a key of another place': [{ ...good, timeout: '1d' }, 'timeout', 'an unknown key', 'service'],
  'no table': [contacts({ table: undefined }), 'sources.contacts.table', 'nothing', "'crm.contacts'"],
  'a query as a table': [
    contacts({ table: 'select 1' }),
    'sources.contacts.table',
    "'select 1'",
    "'crm.contacts'",
  ],
  'an empty key': [contacts({ key: [] }), 'sources.contacts.key', 'an empty list', 'at least one column'],
  'a blank condition of several': [
    contacts({ where: ['t.id > 1', ' '] }),
    'sources.contacts.where[1]',
    'white space',
    'an SQL expression',
  ],
  'a confidence in percent': [
    contacts({ minConfidence: 70 }),
    'sources.contacts.minConfidence',
    '70',
    'from 0 to 1',
  ],
  'no inputs': [
    contacts({ inputs: {} }),
    'sources.contacts.inputs',
    'an empty object',
    'at least one of email',
  ],
  'a name without a company': [
    contacts({ inputs: { name: 't.name' } }),
    'sources.contacts.inputs.company',
    'nothing',
    'name and company together',
    'leave out `name`',
  ],
  'a company without a name': [
    contacts({ inputs: { company: 't.c' } }),
    'sources.contacts.inputs.name',
    'nothing',
    'name and company together',
    'leave out `company`',
  ],
  'a first name alone': [
    contacts({ inputs: { email: 't.email', first_name: 't.f', company_domain: 't.d' } }),
    'sources.contacts.inputs.name',
    'nothing',
    'name and company together',
    'Add `name`, or leave out `first_name`, `company_domain`',
  ],
  'first and last name without a company': [
    contacts({ inputs: { first_name: 't.f', last_name: 't.l' } }),
    'sources.contacts.inputs.company',
    'nothing',
    'name and company together',
    'Add `company`, or leave out `first_name`, `last_name`',
  ],
  'a domain of a person': [
    contacts({ inputs: { email: 't.email', domain: 't.d' } }),
    'sources.contacts.inputs.domain',
    'an unknown key',
    'one of email',
    "Did you mean 'company_domain'?",
  ],
  'an email of a company': [
    accounts({ inputs: { domain: 't.d', email: 't.e' } }),
    'sources.accounts.inputs.email',
    'an unknown key',
    'one of domain',
  ],
  'no outputs': [outputs({}), 'sources.contacts.outputs', 'an empty object', 'at least one column'],
  'a field of the other kind': [
    outputs({ a: 'industry' }),
    'sources.contacts.outputs.a',
    "'industry'",
    "'title'",
    "{ field: 'industry', unlisted: true }",
  ],
  'a misspelt field': [
    outputs({ title: 'titel' }),
    'sources.contacts.outputs.title',
    "'titel'",
    "'title'",
    "Did you mean 'title'?",
  ],
  'a field in other words': [
    title({ field: 'firstName' }),
    'sources.contacts.outputs.title.field',
    "'firstName'",
    "'name.first'",
    "Did you mean 'name.first'?",
  ],
  'an unknown field': [
    outputs({ a: 'shoe.size' }),
    'sources.contacts.outputs.a',
    "'shoe.size'",
    "'title'",
    "{ field: 'shoe.size', unlisted: true }",
  ],
  'no field': [title({ field: undefined }), 'sources.contacts.outputs.title.field', 'nothing', "'title'"],
  'an output that is a number': [
    outputs({ 'a.b': 5 }),
    'sources.contacts.outputs["a.b"]',
    '5',
    'a field of a person record',
  ],
  'a wrong mark of an unlisted field': [
    title({ unlisted: 'yes' }),
    'sources.contacts.outputs.title.unlisted',
    "'yes'",
    'true, or nothing',
  ],
  'a map to nothing': [
    title({ map: { vp: null } }),
    'sources.contacts.outputs.title.map.vp',
    'null',
    'a text, a number',
  ],
  'a broken pattern': [
    title({ matches: '(' }),
    'sources.contacts.outputs.title.matches',
    "'(': Unterminated group",
    'a regular expression',
  ],
  'a pattern with slashes in a text': [
    title({ matches: '/x/i' }),
    'sources.contacts.outputs.title.matches',
    "'/x/i'",
    'a regular expression',
    'leave out the slashes',
  ],
  'a pattern that remembers': [
    title({ matches: /x/g }),
    'sources.contacts.outputs.title.matches',
    '/x/g',
    'a regular expression',
    'flags g and y',
  ],
  'a column twice': [
    outputs({ title: 'title', '"title"': 'id' }),
    'sources.contacts.outputs["\\"title\\""]',
    'a cell of title, which is written, too',
    'each column, or each key in it, once',
  ],
  'a column and a key inside it': [
    outputs({ a: 'title', 'a.b.c': 'id' }),
    'sources.contacts.outputs["a.b.c"]',
    'a cell of a, which is written, too',
    'each column, or each key in it, once',
  ],
  'an output on the key': [
    contacts({ key: 'id', outputs: { id: 'id' } }),
    'sources.contacts.outputs.id',
    'a column of the key',
    'does not identify',
  ],
  'touch on the key': [
    contacts({ key: ['a', 'b'], touch: { b: '1' } }),
    'sources.contacts.touch.b',
    'a column of the key',
    'does not identify',
  ],
  'touch twice, in quotes and without': [
    contacts({ touch: { seen: '1', '"seen"': '2' } }),
    'sources.contacts.touch["\\"seen\\""]',
    'a cell of seen, which is written, too',
    'each column, or each key in it, once',
  ],
  'touch on an output': [
    contacts({ touch: { title: 'now()' } }),
    'sources.contacts.touch.title',
    'a cell of title, which is written, too',
    'each column, or each key in it, once',
  ],
  'freshness on an output': [
    contacts({ freshness: { column: 'title' } }),
    'sources.contacts.freshness.column',
    'a cell of title, which is written, too',
    'each column, or each key in it, once',
  ],
  'freshness without a time': [
    contacts({ freshness: {} }),
    'sources.contacts.freshness',
    'an empty object',
    'a `column` that each write sets, or a `read` expression',
  ],
  'freshness of two times': [
    contacts({ freshness: { column: 'enriched_at', read: 'c.enriched_at' } }),
    'sources.contacts.freshness',
    'both `column` and `read`',
    'a `column` that each write sets, or a `read` expression',
  ],
  'freshness inside an output': [
    contacts({ outputs: { attributes: 'title' }, freshness: { column: 'attributes.at' } }),
    'sources.contacts.freshness.column',
    'a cell of attributes, which is written, too',
    'each column, or each key in it, once',
  ],
  'freshness on the key': [
    contacts({ key: 'at', freshness: { column: 'at' } }),
    'sources.contacts.freshness.column',
    'a column of the key',
    'does not identify',
  ],
  'freshness as a text': [
    contacts({ freshness: 'enriched_at' }),
    'sources.contacts.freshness',
    "'enriched_at'",
    "{ column: 'enriched_at' }",
  ],
  'a group of one': [
    title({ group: 'phone' }),
    'sources.contacts.outputs.title.group',
    "'phone', which no other output has",
    'two outputs or more',
  ],
  'a duration without its unit': [{ ...good, refreshAfter: '90' }, 'refreshAfter', "'90'", 'with its unit'],
  'a duration that is a number': [
    { ...good, service: { timeout: 30 } },
    'service.timeout',
    '30',
    'with its unit',
  ],
  'no time at all': [{ ...good, service: { timeout: '0s' } }, 'service.timeout', "'0s'", 'above zero'],
  'a duration past all time': [
    { ...good, refreshAfter: '1000y' },
    'refreshAfter',
    "'1000y'",
    'with its unit',
  ],
  'no concurrency': [{ ...good, service: { concurrency: 0 } }, 'service.concurrency', '0', 'from 1 to'],
  'a budget in words': [{ ...good, budget: 'lots' }, 'budget', "'lots'", "or 'unlimited'"],
  'an hour past midnight': [
    scheduled({ cron: '0 25 * * *' }),
    'schedule[0].cron',
    "'0 25 * * *': invalid value for hour: 25",
    'five fields',
  ],
  'six fields': [
    scheduled({ cron: '0 0 2 * * *' }),
    'schedule[0].cron',
    "'0 0 2 * * *': not five fields",
    'five fields',
  ],
  'a day that never comes': [
    scheduled({ cron: '0 0 31 2 *' }),
    'schedule[0].cron',
    "'0 0 31 2 *': it never matches",
    'five fields',
  ],
  'a misspelt zone': [
    scheduled({ timezone: 'Europe/Olso' }),
    'schedule[0].timezone',
    "'Europe/Olso'",
    'IANA',
    "Did you mean 'Europe/Oslo'?",
  ],
  'no sources to run': [
    scheduled({ sources: [] }),
    'schedule[0].sources',
    'an empty list',
    'at least one source',
  ],
  'a source that is not there': [
    scheduled({ sources: ['accounts', 'contact'] }),
    'schedule[0].sources[1]',
    "'contact'",
    "'contacts' or 'accounts'",
    "Did you mean 'contacts'?",
  ],
  'a schedule without a budget': [
    { ...scheduled({}), budget: undefined },
    'schedule[0].budget',
    'nothing, and no budget for all runs either',
    'a whole number',
    'Add `budget`',
  ],
  'a key in the file': [
    { ...good, service: { apiKey: 'k-123' } },
    'service.apiKey',
    'an unknown key',
    'concurrency',
    'FILLRATE_API_KEY',
  ],
  'a database in the file': [
    { ...good, databaseUrl: 'postgres://u:p@h/d' },
    'databaseUrl',
    'an unknown key',
    'sources',
    'DATABASE_URL',
  ],
}

const advice = (part: string | undefined): unknown =>
  part === undefined ? null : expect.stringContaining(part)

describe('an invalid configuration', () => {
  test.each(Object.entries(mistakes))('%s', (_name, [config, place, found, expected, todo]) => {
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
