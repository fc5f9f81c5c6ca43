import { resolve } from 'node:path'
import pino from 'pino'
import { expect, test } from 'vitest'
import { forgetSubject } from '../../../src/actions/forget.ts'
import { parseForgetTarget } from '../../../src/actions/forget-target.ts'
import type { ServiceDefinition } from '../../../src/domain/service/adapter.ts'
import type { JobInput } from '../../../src/domain/service/messages.ts'
import { expireDeadlines, expireLeases, PRELOADED } from '../../chaos/fixture.ts'
import anyInput, { nameOf } from '../../support/any-input-service.ts'
import { createCommandLine } from '../../support/cli.ts'
import { useTestDatabase } from '../../support/database.ts'
import { type Answer, billedTwice, playService, type PaidService } from '../../support/paid-services.ts'
import { openService } from '../../support/people-table.ts'

// Jobs of people by name and company, by profile, by all of them together, and of companies.

const database = useTestDatabase()

const INPUTS = { email: 't.email', linkedin_url: 't.profile', name: 't.name', company: 't.company' }

let tables = 0
/**
 * A table of people, each with the first of these inputs, in turn.
 * @param kinds of the inputs of a row
 */
async function createPeople(count: number, ...kinds: readonly ('email' | 'profile' | 'name')[]) {
  const table = `people${++tables}`
  await database.query(
    `create table ${table} (id int primary key, email text, profile text, name text, company text, title text, expected text)`,
  )
  const of = (kind: string, value: string): string =>
    `case when $2::text[] @> array[kind] and kind = '${kind}' then ${value} end`
  await database.query(
    `insert into ${table}
     select n, ${of('email', `'p' || n || '@${table}.example'`)}, ${of('profile', `'linkedin.com/in/${table}-' || n`)},
            ${of('name', `'Person ' || n`)}, ${of('name', `'${table} Ltd'`)}, null,
            'Title of ' || case kind when 'email' then 'p' || n || '@${table}.example'
                                     when 'profile' then 'linkedin.com/in/${table}-' || n else 'Person ' || n || ', ${table} Ltd' end
       from (select n, ($2::text[])[1 + n % cardinality($2::text[])] as kind from generate_series(1, $1::int) n) people`,
    [count, kinds],
  )
  const source = { kind: 'person', table, inputs: INPUTS, outputs: { title: 'title' } }
  return { table, sources: { [table]: source } }
}

const open = (
  service: ServiceDefinition,
  sources: object,
  played: Pick<PaidService, 'url'>,
  config: object = {},
) =>
  openService(database, service, sources, played, {
    config,
    env: { FILLRATE_WEBHOOK_SECRET: 'secret-of-the-tests' },
  })

const countTitles = async (table: string) =>
  (
    await database.query<{ own: number; others: number }>(
      `select count(*) filter (where title = expected)::int as own, count(*) filter (where title <> expected)::int as others
         from ${table}`,
    )
  )[0]

const toTitle = (input: JobInput) => ({ title: `Title of ${nameOf(input)}` })

interface AnyInputBehaviour {
  /** What is fetched of a job in place of a result for each input, in their order. */
  readonly fetch?: (people: readonly object[], inputs: readonly JobInput[]) => readonly object[]
}

/** The service of `any-input-service.ts`, which bills all that it answers or accepts. */
async function playAnyInput({ fetch = (people) => people }: AnyInputBehaviour = {}): Promise<
  PaidService & { readonly jobs: readonly (readonly JobInput[])[] }
> {
  const jobs: (readonly JobInput[])[] = []
  const service = await playService(({ path, body }, bill): Answer => {
    const sent = body as { people?: ({ id: number } & JobInput)[]; domains?: string[] }
    const bill1 = (inputs: readonly JobInput[]): void => bill(...inputs.map(nameOf))
    if (path === '/people') {
      const inputs = (sent.people ?? []).map(({ id: _id, ...input }) => input)
      bill1(inputs)
      return { status: 202, body: { id: `j-${jobs.push(inputs)}` } }
    }
    if (path.startsWith('/jobs/')) {
      const inputs = jobs[Number(path.slice('/jobs/j-'.length)) - 1] ?? []
      const people = inputs.map((input, id) => ({ id, ...toTitle(input) }))
      return { body: { people: fetch(people, inputs) } }
    }
    if (path === '/companies') {
      bill(...(sent.domains ?? []))
      const companies = (sent.domains ?? []).map((domain) => ({ domain, industry: `Industry of ${domain}` }))
      return { body: { results: companies.toReversed() } }
    }
    const input = body as JobInput
    bill1([input])
    return { body: path === '/company' ? { industry: `Industry of ${input.domain}` } : toTitle(input) }
  })
  return { ...service, jobs }
}

test('people by name and company, whose results come in the declared order, in the answer', async () => {
  const { table, sources } = await createPeople(25, 'name')
  const service = await playService(({ path, body }, bill) => {
    if (path !== '/bulk') throw new Error('asked singly')
    const { details } = body as { details: JobInput[] }
    bill(...details.map(nameOf))
    // A record names an address, which nobody has submitted.
    return {
      body: { matches: details.map((input) => ({ ...toTitle(input), email: `${input.name}@x.example` })) },
    }
  })
  const definition: ServiceDefinition = {
    name: 'In order',
    person: { path: '/person', record: { confidence: null } },
    bulk: {
      path: '/bulk',
      size: 10,
      inputs: ['name_company'],
      results: 'answer',
      ordered: true,
      body: ({ inputs, emails }) => ({ details: inputs, emails: emails.filter((email) => email !== '') }),
      read: ({ body }) => {
        const { matches } = (body ?? {}) as { matches?: object[] }
        return matches && { outcome: 'results', delivery: { results: matches.map((data) => ({ data })) } }
      },
    },
    fields: { person: { title: 'text', email: 'text' } },
  }
  await using fillrate = await open(definition, sources, service)
  const { calls } = await fillrate.plan({ budget: 'unlimited' })
  expect(calls).toEqual({ person: 0, company: 0, bulk: 3, total: 3 })
  const report = await fillrate.run({ budget: 'unlimited', waitMs: 30_000 })
  expect(report).toMatchObject({
    status: 'completed',
    rows: { enriched: 25 },
    lookups: { requested: 25, in_doubt: 0 },
    requests: { bulk: calls.bulk, person: 0 },
  })
  expect(await countTitles(table)).toEqual({ own: 25, others: 0 })
  expect(billedTwice(service)).toEqual([])
})

test('people by profile, whose results are delivered in another order and form', async () => {
  const { table, sources } = await createPeople(20, 'profile')
  const receipts: Promise<number>[] = []
  const service = await playService(({ path, body }, bill) => {
    if (path !== '/bulk') throw new Error('asked singly')
    const { profiles, callback } = body as { profiles: string[]; callback: string }
    bill(...profiles)
    const people = profiles.map((url) => ({
      profile: url.replace('www.', 'no.').toUpperCase().replace('HTTPS', 'https'),
      ...toTitle({ linkedin_url: url }),
    }))
    const headers = { 'content-type': 'application/json' }
    const deliver = async (): Promise<number> =>
      (
        await fetch(callback, {
          method: 'POST',
          headers,
          body: JSON.stringify({ people: people.toReversed() }),
        })
      ).status
    receipts.push(new Promise((done) => setTimeout(done, 50)).then(deliver))
    return { body: { job_id: String(receipts.length) } }
  })
  const definition: ServiceDefinition = {
    name: 'Delivered',
    person: { path: '/person', record: { confidence: null } },
    bulk: {
      path: '/bulk',
      size: 10,
      inputs: ['linkedin_url'],
      body: ({ inputs, webhookUrl }) => ({
        profiles: inputs.map(({ linkedin_url }) => linkedin_url),
        callback: webhookUrl,
      }),
    },
    webhook: {
      signature: 'none',
      read: ({ people }, job) => {
        if (job?.inputs.some(({ linkedin_url }) => linkedin_url === undefined) === true)
          throw new Error('other inputs')
        const results = (people as { profile: string; title: string }[]).map(({ profile, title }) => ({
          request_id: profile,
          data: { title },
        }))
        return { status: 'completed', results }
      },
    },
    fields: { person: { title: 'text' } },
  }
  await using fillrate = await open(definition, sources, service)
  expect((await fillrate.plan({ budget: 'unlimited' })).calls).toMatchObject({ bulk: 2, person: 0 })
  const report = await fillrate.run({ budget: 'unlimited', waitMs: 30_000 })
  expect(report).toMatchObject({
    status: 'completed',
    rows: { enriched: 20 },
    requests: { bulk: 2, person: 0 },
  })
  expect(await Promise.all(receipts)).toEqual([200, 200])
  expect(await countTitles(table)).toEqual({ own: 20, others: 0 })
})

test('companies in calls of their own, beside people, and at their own price', async () => {
  const { table, sources } = await createPeople(10, 'profile')
  await database.query(`
    create table companies (id int primary key, website text, industry text);
    insert into companies select n, 'https://www.c' || n || '.example/' from generate_series(1, 20) n`)
  const companies = {
    kind: 'company',
    table: 'companies',
    inputs: { domain: 't.website' },
    outputs: { industry: 'industry' },
  }
  const service = await playAnyInput()
  const price = { currency: 'EUR', lookup: { person: 1, company: 0.5 } }
  await using fillrate = await open(anyInput, { ...sources, companies }, service, { price })
  const { calls, cost } = await fillrate.plan({ budget: 'unlimited' })
  // Eight, eight and four of twenty.
  expect(calls).toMatchObject({ person: 0, company: 0, bulk: 1 + 3 })
  expect(cost.max_amount).toEqual({ amount: 20, currency: 'EUR' })
  const report = await fillrate.run({ budget: 'unlimited', waitMs: 30_000 })
  expect(report).toMatchObject({
    status: 'completed',
    rows: { enriched: 30 },
    lookups: { requested: 30, in_doubt: 0 },
    requests: { person: 0, company: 0 },
    spend: { lookups: 30, cost: { amount: 20, currency: 'EUR' } },
  })
  expect(service.calls.get('/companies')).toBe(3)
  const own = `select count(*)::int as own from companies where industry = 'Industry of c' || id || '.example'`
  expect(await database.query(own)).toEqual([{ own: 20 }])
  expect(await countTitles(table)).toEqual({ own: 10, others: 0 })
  expect(billedTwice(service)).toEqual([])

  const target = parseForgetTarget('domain', 'c7.example')
  if (typeof target === 'string') throw new Error(target)
  const mentions = (text: string): Promise<number> =>
    database.count(`fillrate.deliveries where body like '%Industry of ${text}%'`)
  expect([await mentions('c7.'), await mentions('c8.')]).toEqual([1, 1])
  await forgetSubject({ db: database.db, log: pino({ level: 'silent' }) }, [target], { dryRun: false })
  expect([await mentions('c7.'), await mentions('c8.')]).toEqual([0, 1])
})

test('all kinds in one job, named by the number that was sent: what is foreign or contradicts is not used', async () => {
  const { table, sources } = await createPeople(30, 'email', 'profile', 'name')
  const service = await playAnyInput({
    fetch: (people, inputs) => {
      const [lost, twice, mixedUp, fourth] = inputs.flatMap(({ email }, n) =>
        email === undefined ? [] : [n],
      )
      const results = people.flatMap((person, n) => {
        if (n === lost) return []
        return [{ ...person, email: inputs[n === mixedUp ? (fourth ?? 0) : n]?.email }]
      })
      const foreign = { title: 'Somebody else', email: 'eve@other.example' }
      const other = { ...people[twice ?? 0], title: 'Somebody else', email: inputs[twice ?? 0]?.email }
      return [...results.toReversed(), other, foreign]
    },
  })
  const definition = { ...anyInput, bulk: { ...anyInput.bulk, path: '/people', size: 30 } }
  await using fillrate = await open(definition, sources, service)
  const { calls } = await fillrate.plan({ budget: 'unlimited' })
  expect(calls).toMatchObject({ person: 0, bulk: 1 })
  const report = await fillrate.run({ budget: 'unlimited', waitMs: 30_000 })
  expect(service.jobs).toHaveLength(1)
  expect(new Set(service.jobs[0]?.map((input) => Object.keys(input).join())).size).toBe(3)
  // Three are requested once more, singly, and count as in doubt.
  expect(report).toMatchObject({
    status: 'completed',
    rows: { enriched: 30 },
    lookups: { in_doubt: 3 },
    requests: { person: 3 },
  })
  expect(billedTwice(service)).toHaveLength(3)
  expect(await countTitles(table)).toEqual({ own: 30, others: 0 })
  expect(
    await database.query(
      `select sum(quarantined_results)::int as results from fillrate.deliveries d
         join fillrate.jobs j on j.key = d.job_key where j.run_id = $1`,
      [report.run],
    ),
  ).toEqual([{ results: 4 }])
})

test('results of a number that the job does not have are those of nobody', async () => {
  const { table, sources } = await createPeople(10, 'name')
  // Counted from 1.
  const service = await playAnyInput({
    fetch: (people) => people.map((person, n) => ({ ...person, id: n + 1 })),
  })
  await using fillrate = await open(anyInput, sources, service)
  const report = await fillrate.run({ budget: 'unlimited', waitMs: 30_000 })
  // None was ever of anybody: the description counts wrongly, and nothing more is paid for.
  expect(report).toMatchObject({ status: 'misconfigured', rows: { waiting: 10 }, lookups: { in_doubt: 0 } })
  expect(report.reason).toContain('name none of its inputs')
  expect(await countTitles(table)).toEqual({ own: 0, others: 0 })
})

test('a process that is killed between its jobs pays for nothing twice that is known to be paid', async () => {
  const { table, sources } = await createPeople(30, 'email', 'profile', 'name')
  const service = await playAnyInput()
  const adapter = resolve('test/support/any-input-service.ts')
  const start = { url: service.url, keys: ['key-1'], webhookSecret: '' }
  const config = { service: { adapter, concurrency: 1 }, sources, bulk: { grace: '0s' } }
  const cli = await createCommandLine(database.url, start, config)
  const runKilledAt = (point: string) =>
    cli.runWith({ ...PRELOADED, CHAOS_KILL_AT: point }, 'run', '--budget', 'unlimited')
  const restart = async (): Promise<void> => {
    await expireLeases(database)
    await database.query('update fillrate.jobs set poll_at = now() where poll_at is not null')
  }
  // Accepted, and its results are on the wire.
  expect(await runKilledAt('after GET /jobs/j-1')).toMatchObject({ code: null })
  await cli.remove()
  await restart()
  await using fillrate = await open(anyInput, sources, service)
  await fillrate.run({ budget: 'unlimited', waitMs: 2_000 })
  await expireDeadlines(database)
  const last = await fillrate.run({ budget: 'unlimited', waitMs: 30_000 })
  expect(last).toMatchObject({ status: 'completed', rows: { waiting: 0 } })
  expect(await countTitles(table)).toEqual({ own: 30, others: 0 })
  // The job is fetched again. What was posted and never recorded is requested again, once, and counted.
  const again = billedTwice(service)
  expect(service.jobs[0]?.map(nameOf).filter((name) => again.includes(name))).toEqual([])
  expect([...service.billed.values()].every((times) => times <= 2)).toBe(true)
  const [spent] = await database.query<{ lookups: number; doubt: number }>(
    'select sum(lookups)::int as lookups, sum(in_doubt)::int as doubt from fillrate.spend where source = $1',
    [table],
  )
  expect(spent).toEqual({ lookups: 30, doubt: again.length })
})
