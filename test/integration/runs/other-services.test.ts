import { resolve } from 'node:path'
import pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import apollo from '../../../examples/services/apollo.ts'
import fullEnrich from '../../../examples/services/fullenrich.ts'
import peopleDataLabs from '../../../examples/services/people-data-labs.ts'
import { createCrm } from '../../../src/demo/crm.ts'
import { FULL_DEMO } from '../../../src/demo/settings.ts'
import type { ServiceDefinition } from '../../../src/domain/service/adapter.ts'
import { expireDeadlines, expireLeases, PRELOADED } from '../../chaos/fixture.ts'
import { createCommandLine } from '../../support/cli.ts'
import { useTestDatabase } from '../../support/database.ts'
import {
  billedTwice,
  isKnown,
  playApollo,
  playFullEnrich,
  playPeopleDataLabs,
  type FullEnrichJob,
  type PaidService,
} from '../../support/paid-services.ts'
import { openService } from '../../support/people-table.ts'

/** The demo's CRM, run against stand-ins of the examples' services. `DEMO=whole` takes all of its rows. */
const SIZE = process.env['DEMO'] === 'whole' ? FULL_DEMO : { seed: 7, accounts: 60, contacts: 400 }

const database = useTestDatabase()
beforeAll(async () => {
  const client = new pg.Client(database.url)
  await client.connect()
  await createCrm(client, SIZE)
  await client.end()
  for (const schema of ['pdl', 'apollo', 'fullenrich'])
    await database.query(`
      create schema ${schema};
      create table ${schema}.accounts (like crm.accounts including all);
      create table ${schema}.contacts (like crm.contacts including all);
      insert into ${schema}.accounts overriding system value select * from crm.accounts;
      insert into ${schema}.contacts overriding system value select * from crm.contacts`)
})
const NAMES = { name: "concat_ws(' ', t.first_name, t.last_name)", company: 'a.name' }

/** People with the inputs that a service takes. */
const contactsOf = (
  schema: string,
  inputs: Readonly<Record<string, string>>,
  outputs: Readonly<Record<string, string>>,
) => ({
  kind: 'person' as const,
  table: `${schema}.contacts`,
  joins: `left join ${schema}.accounts a on a.id = t.account_id`,
  where: 't.deleted_at is null',
  inputs,
  outputs,
})

const open = (service: ServiceDefinition, sources: object, played: Pick<PaidService, 'url'>) =>
  openService(database, service, sources, played, {
    concurrency: 4,
    env: { FILLRATE_WEBHOOK_SECRET: 'key-1' },
  })

/** Jobs of so many emails; a last one alone goes singly. */
const countJobs = (emails: number, size: number): number => Math.floor((emails + size - 2) / size)

const countTitles = async (schema: string, title: string): Promise<number> =>
  (await database.pool.query(`select from ${schema}.contacts where title = $1`, [title])).rowCount ?? 0

test('People Data Labs: results in the answer, in another order and with gaps', async () => {
  const service = await playPeopleDataLabs()
  const sources = {
    accounts: {
      kind: 'company',
      table: 'pdl.accounts',
      where: 't.archived_at is null',
      inputs: { domain: 't.website' },
      outputs: { industry: 'industry', employees: 'employee_count' },
    },
    contacts: contactsOf(
      'pdl',
      { email: 't.email', linkedin_url: 't.linkedin', ...NAMES },
      { title: 'job_title', phone: 'mobile_phone' },
    ),
  }
  await using fillrate = await open(peopleDataLabs, sources, service)
  const { calls, lookups } = await fillrate.plan({ budget: 'unlimited' })
  const report = await fillrate.run({ budget: 'unlimited', waitMs: 60_000 })
  expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0, failed: 0 } })
  expect(report.requests.bulk).toBe(calls.bulk)
  expect(calls.bulk).toBe(countJobs(lookups.to_request.email, 100))
  expect(report.lookups.requested).toBe(lookups.requested)
  expect({ refused: service.refused(), twice: billedTwice(service) }).toEqual({ refused: 0, twice: [] })
  expect(report.lookups.found).toBe(service.billed.size)
  // What an answer left out, or failed, was requested singly, and may have been billed.
  expect(report.lookups.in_doubt).toBeGreaterThan(0)
  expect(await countTitles('pdl', 'analyst')).toBeGreaterThan(SIZE.contacts / 3)
})

test('Apollo: ten people in a call, in the order of the inputs', async () => {
  const service = await playApollo()
  const contacts = contactsOf(
    'apollo',
    { email: 't.email', linkedin_url: 't.linkedin', ...NAMES },
    { title: 'title' },
  )
  // What a user knows of the own plan.
  const rate = { ...apollo.rate, limit: '300 per minute' }
  await using fillrate = await open({ ...apollo, rate }, { people: contacts }, service)
  const { calls, lookups } = await fillrate.plan({ budget: 'unlimited' })
  const report = await fillrate.run({ budget: 'unlimited', waitMs: 60_000 })
  expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0, failed: 0 } })
  expect(calls.bulk).toBe(countJobs(lookups.to_request.email, 10))
  expect(report.requests).toMatchObject({ bulk: calls.bulk, person: calls.person })
  expect({ refused: service.refused(), twice: billedTwice(service) }).toEqual({ refused: 0, twice: [] })
  expect(report.lookups).toMatchObject({ found: service.billed.size, in_doubt: 0 })
  expect(await countTitles('apollo', 'Analyst')).toBeGreaterThan(SIZE.contacts / 3)
})

test('an answer that was on the way when the process died is counted, and its people are requested again, singly', async () => {
  await database.query(
    `create schema killed;
     create table killed.contacts (id int primary key, account_id bigint, deleted_at date, email text, title text);
     create table killed.accounts (id bigint, name text);
     insert into killed.contacts (id, email) select n, 'p' || n || '@killed.example' from generate_series(1, 40) n`,
  )
  const sources = { killed: contactsOf('killed', { email: 't.email' }, { title: 'job_title' }) }
  const service = await playPeopleDataLabs()
  const adapter = resolve('examples/services/people-data-labs.ts')
  const cli = await createCommandLine(
    database.url,
    { url: service.url, keys: ['key-1'], webhookSecret: '' },
    { service: { adapter }, sources },
  )
  // Paid, here, and not stored yet.
  const killed = { ...PRELOADED, CHAOS_KILL_AT: 'after POST /v5/person/bulk' }
  expect(await cli.runWith(killed, 'run', '--budget', '40')).toMatchObject({ code: null })
  await cli.remove()
  await expireLeases(database)
  await using fillrate = await open(peopleDataLabs, sources, service)
  // Nothing can bring the answer, but it may be paid: not yet.
  expect(await fillrate.run({ budget: 'unlimited', waitMs: 0 })).toMatchObject({ rows: { waiting: 40 } })
  await expireDeadlines(database)
  const report = await fillrate.run({ budget: 'unlimited', waitMs: 30_000 })
  expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0 }, lookups: { in_doubt: 40 } })
  expect(Object.fromEntries(service.calls)).toEqual({ '/v5/person/bulk': 1, '/v5/person/enrich': 40 })
  expect([...service.billed.values()].every((times) => times <= 2)).toBe(true)
})

test('FullEnrich: a lost delivery is fetched; a repeated one counts once', async () => {
  const service = await playFullEnrich({ lost: (job) => job === 2 })
  const sources = {
    leads: contactsOf('fullenrich', { email: 't.email' }, { title: 'employment.current.title' }),
  }
  const poll = { path: '/api/v2/contact/reverse/email/bulk/{job_id}', after: '500ms' }
  await using fillrate = await open({ ...fullEnrich, poll }, sources, service)
  const report = await fillrate.run({ budget: 'unlimited', route: 'bulk', waitMs: 60_000 })
  expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0, failed: 0 } })
  expect({ refused: service.refused(), twice: billedTwice(service) }).toEqual({ refused: 0, twice: [] })
  expect(report.lookups).toMatchObject({ found: service.billed.size, in_doubt: 0 })
  expect(service.fetched()).toBe(1)
  // Polls are no lookups, and not billed.
  expect(report.requests.bulk).toBe(service.jobs())
  const receipts = await Promise.all(service.receipts)
  expect(receipts).toEqual(receipts.map((_, n) => (n % 2 === 0 ? 401 : 200)))
  expect(await countTitles('fullenrich', 'Analyst')).toBeGreaterThan(SIZE.contacts / 3)
})

test('without a webhook, jobs are fetched, of one person too; one that the service has no more is given up', async () => {
  await database.query(`
    create schema polled;
    create table polled.accounts (id bigint, name text);
    create table polled.contacts (id int primary key, account_id bigint, deleted_at date, email text, title text);
    insert into polled.contacts (id, email) select n, 'p' || n || '@polled.example' from generate_series(1, 7) n`)
  const service = await playFullEnrich({ lost: () => false })
  const { webhook: _, bulk, ...rest } = fullEnrich
  const polled: ServiceDefinition = {
    ...rest,
    bulk: { ...bulk, path: '/api/v2/contact/reverse/email/bulk', size: 3 },
    poll: {
      path: '/api/v2/contact/reverse/email/bulk/{job_id}',
      after: '200ms',
      read: ({ body }) => {
        const { id, status, data } = body as FullEnrichJob
        if (status !== 'FINISHED') return { outcome: 'pending' }
        if (id === 'e-1') return { outcome: 'gone' }
        const results = data.map(({ input, profile = null }) => ({ request_id: input.email, data: profile }))
        return { outcome: 'results', delivery: { results } }
      },
    },
  }
  const sources = {
    polled: contactsOf('polled', { email: 't.email' }, { title: 'employment.current.title' }),
  }
  await using fillrate = await open(polled, sources, service)
  expect((await fillrate.plan({ budget: 'unlimited' })).calls).toMatchObject({ bulk: 2, person: 1 })
  const report = await fillrate.run({ budget: 'unlimited', waitMs: 60_000 })
  const found = [1, 2, 3, 4, 5, 6, 7].filter((n) => isKnown(`p${n}@polled.example`)).length
  expect(report).toMatchObject({ status: 'completed', rows: { enriched: found, not_found: 7 - found } })
  // Two jobs, the single lookup, and those of the job that is gone, each once more.
  expect(service.jobs()).toBe(2 + 1 + 3)
  expect(report.lookups.in_doubt).toBe(3)
})
