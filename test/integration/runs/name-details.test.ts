import pino from 'pino'
import prospeo from '../../../examples/services/prospeo.ts'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { forgetSubject } from '../../../src/actions/forget.ts'
import { parseForgetTarget } from '../../../src/actions/forget-target.ts'
import { parseConfig } from '../../../src/config/load.ts'
import type { ServiceDefinition } from '../../../src/domain/service/adapter.ts'
import { createFillrate } from '../../../src/fillrate.ts'
import { openSource } from '../../../src/sources/source.ts'
import { useTestDatabase } from '../../support/database.ts'
import { playService } from '../../support/paid-services.ts'
import { playProspeo, PROSPEO_KEY } from '../../support/stand-ins/prospeo.ts'

// First and last name and the domain of the company: a part of the question at a service that takes them, and of no other.

const database = useTestDatabase()
beforeAll(async () => {
  await database.query(`
    create table people (id int primary key, email text, first_name text, last_name text, company text, website text, title text);
    create table others (like people including all)`)
})
const PARTS = { first_name: 't.first_name', last_name: 't.last_name' }
const NAMED: ServiceDefinition = {
  name: 'Named',
  person: { path: '/person', record: { confidence: null } },
  fields: { person: { title: 'text' } },
}

/** A source that is named like its table. */
const toConfig = (adapter: ServiceDefinition, source: { readonly table: string }) => ({
  service: { adapter },
  sources: { [source.table]: source },
})

/** Runs a source of a service until everything is settled. */
async function run(
  service: ServiceDefinition,
  url: string,
  source: { readonly table: string },
  route: 'sync' | 'bulk' = 'sync',
): Promise<void> {
  const fillrate = await createFillrate({
    config: toConfig(service, source) as never,
    env: { DATABASE_URL: database.url, FILLRATE_BASE_URL: url, FILLRATE_API_KEY: PROSPEO_KEY },
  })
  onTestFinished(() => fillrate.close())
  expect(await fillrate.run({ budget: 'unlimited', waitMs: 30_000, route })).toMatchObject({
    status: 'completed',
  })
}

const PEOPLE = {
  table: 'people',
  kind: 'person',
  inputs: { email: 't.email', ...PARTS, company: 't.company', company_domain: 't.website' },
  outputs: { title: 'current_job_title' },
}

test.each([
  ['sync', 1],
  ['bulk', 2],
] as const)(
  'two people of one name at different domains are two lookups, one in two spellings is one: %s',
  async (route, n) => {
    await database.query(`
      truncate people;
      insert into people (id, first_name, last_name, website) values
        (${n}1, 'Ada', 'T${n}', 'one.example.com'), (${n}2, 'Ada', 'T${n}', 'two.example.com'),
        (${n}3, ' ADA', 't${n}', 'https://www.one.example.com/team'), (${n}4, 'Ada', 'T${n}', 'gmail.com')`)
    const standIn = await playProspeo()
    await run(prospeo, standIn.url, PEOPLE, route)
    expect([...standIn.billed.keys()].sort()).toEqual([
      `Ada T${n}||one.example.com`,
      `Ada T${n}||two.example.com`,
    ])
    const parts = { name: `Ada T${n}`, first_name: 'Ada', last_name: `T${n}` }
    expect(
      await database.query(
        `select key, input from fillrate.lookups where key like 'ada+t${n}%' order by key`,
      ),
    ).toEqual(
      ['one.example.com', 'two.example.com'].map((company_domain) => ({
        key: `ada+t${n}||ada|t${n}|${company_domain}`,
        input: { ...parts, company_domain },
      })),
    )
    const title = `Analyst ${n}`
    expect(await database.query('select title from people order by id')).toEqual([
      { title },
      { title },
      { title },
      { title: null },
    ])
    expect(
      await database.query(
        `select state, reason from fillrate.rows where source = 'people' and key = '${n}4'`,
      ),
    ).toEqual([{ state: 'invalid_input', reason: 'company_domain: free-mail host' }])
  },
)

test('a service that takes no details is sent name and company, as ever', async () => {
  const { sent, url } = await playNamed()
  await database.query(`
    insert into others (id, first_name, last_name, company) values (1, 'Bob', 'Doe', 'Acme'), (2, 'BOB', 'doe', 'ACME')`)
  await run(NAMED, url, OTHERS)
  expect(sent).toEqual([{ name: 'Bob Doe', company: 'Acme' }])
  expect(await database.query(`select key from fillrate.lookups where key like 'bob%'`)).toEqual([
    { key: 'bob+doe|acme' },
  ])
})

test('an erased person is not looked up under a name in any other form, by any service', async () => {
  await database.query(`
    truncate people, others;
    insert into people (id, first_name, last_name, company, website) values (5, 'Eve', 'T5', 'Engines', 'engines.example.com')`)
  const standIn = await playProspeo()
  await run(prospeo, standIn.url, PEOPLE)
  expect(standIn.calls).toHaveLength(1)
  await database.query(`update people set email = 'eve@engines.example.com'`)
  await forget('eve@engines.example.com', toConfig(prospeo, PEOPLE))
  const left = `select count(*)::int as n from fillrate.lookups where input::text ~* 'eve'`
  expect(await database.query(left)).toEqual([{ n: 0 }])

  // By first and last name with the domain alone, with the company alone, and with a company that is a domain.
  await database.query(`
    insert into people (id, first_name, last_name, company, website) values
      (6, 'EVE', 't5', null, 'www.engines.example.com'), (7, 'Eve', 'T5', 'ENGINES', null), (8, 'Eve', 'T5', 'Other', 'other.example.com');
    insert into others (id, first_name, last_name, company) values
      (6, 'Eve', 'T5', 'engines'), (7, 'Eve', 'T5', 'engines.example.com'), (8, 'Eve', 'T5', 'Elsewhere')`)
  await run(prospeo, standIn.url, PEOPLE)
  expect([...standIn.billed.keys()].slice(1)).toEqual(['Eve T5|Other|other.example.com'])
  const { sent, url } = await playNamed()
  await run(NAMED, url, OTHERS)
  expect(sent).toEqual([{ name: 'Eve T5', company: 'Elsewhere' }])
  expect(
    await database.query(`select source, key from fillrate.rows where state = 'suppressed' order by 1, 2`),
  ).toEqual(
    [
      ['others', '6'],
      ['others', '7'],
      ['people', '5'],
      ['people', '6'],
      ['people', '7'],
    ].map(([source, key]) => ({ source, key })),
  )
})

test('a person who was erased by name and company is not looked up with details', async () => {
  const { sent, url } = await playNamed()
  await database.query(`
    truncate people, others; insert into others (id, first_name, last_name, company) values (9, 'Kim', 'T9', 'Mills')`)
  await run(NAMED, url, OTHERS)
  expect(sent).toHaveLength(1)
  await database.query(`update others set email = 'kim@mills.example.com'`)
  await forget('kim@mills.example.com', toConfig(NAMED, OTHERS))
  await database.query(`
    insert into people (id, first_name, last_name, company, website) values (9, 'Kim', 'T9', 'Mills', 'mills.example.com')`)
  const standIn = await playProspeo()
  await run(prospeo, standIn.url, PEOPLE)
  expect(standIn.calls).toEqual([])
})

const OTHERS = {
  table: 'others',
  kind: 'person',
  inputs: { email: 't.email', ...PARTS, company: 't.company' },
  outputs: { title: 'title' },
}

async function playNamed(): Promise<{ readonly url: string; readonly sent: unknown[] }> {
  const sent: unknown[] = []
  const { url } = await playService(({ body }) => {
    sent.push(body)
    return { body: { title: 'Analyst' } }
  })
  return { url, sent }
}

async function forget(email: string, config: object): Promise<void> {
  const [mapping] = Object.values(parseConfig(config, null).sources)
  const target = parseForgetTarget('email', email)
  if (mapping === undefined || typeof target === 'string') throw new Error('nothing to forget')
  const source = await openSource(database.db, mapping)
  const deps = { db: database.db, log: pino({ level: 'silent' }), sources: [source] }
  await forgetSubject(deps, [target], { dryRun: false })
}
