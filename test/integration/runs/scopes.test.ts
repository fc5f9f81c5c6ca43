import { afterEach, beforeEach, expect, test } from 'vitest'
import type { App } from '../../../src/app.ts'
import type { Environment } from '../../../src/config/environment.ts'
import { type Sandbox, startSandbox } from '../../../src/sandbox/server.ts'
import { firstOf } from '../../../src/runs/run-part.ts'
import { serveApp } from '../../support/app-processes.ts'
import { createCrm, crmConfig, personSource } from '../../support/crm.ts'
import { freePort } from '../../support/free-port.ts'
import { environmentFor, runRequest, useFreshHarness } from '../../support/harness.ts'

const scopeOf = ({ services }: App): string | null => firstOf(services).scope

// Two services on one database: the live one, and another that invents its records. No record, call or budget of one
// is ever used for the other.

const PEOPLE = 200
const EMAILS = 180
const config = {
  ...crmConfig,
  sources: {
    ...crmConfig.sources,
    leads: personSource('leads', { title: 'title' }),
  },
} as const

let trialService: Sandbox
const always = { notFoundShare: 0, missingShare: 0 } as const
const live = useFreshHarness({
  config,
  sandbox: { ...always, keys: ['live-1', 'live-2'] },
  prepare: async ({ pool }) => {
    await createCrm(pool, PEOPLE)
    await pool.query(`create table leads (id int primary key, email text, title text)`)
    await pool.query(
      `insert into leads select n, 'lead' || n || '@example.com' from generate_series(1, 100) n`,
    )
  },
})
beforeEach(async () => {
  trialService = await startSandbox({
    ...always,
    seed: 99,
    webhookSecret: 'test-secret',
    jobDelayMs: [10, 100],
  })
})
afterEach(() => trialService.close())

const openTest = (): Promise<App> =>
  live.open({ environment: environmentFor(live.database.url, trialService) })
const withKey = (apiKey: string): { environment: Partial<Environment> } => ({
  environment: { apiKey },
})
const askedOf = (sandbox: Sandbox): string[] =>
  Object.keys(sandbox.stats({ inputs: true }).inputs.all ?? {}).toSorted()
const isLead = (input: string): boolean => input.startsWith('lead')

async function titles(): Promise<string[]> {
  const rows = await live.database.query<{ title: string }>(
    `select title from crm.contacts where id % 7 <> 0 order by id`,
  )
  return rows.map((row) => row.title)
}

/** What the contacts would hold if there had never been another service. */
async function titlesOf(sandbox: Sandbox): Promise<string[]> {
  const app = await live.open({
    environment: { ...environmentFor(live.database.url, sandbox), apiKey: 'live-1' },
  })
  await app.run(runRequest({ sources: ['contacts'], route: 'sync' }))
  const expected = await titles()
  await live.database
    .query(`delete from fillrate.changes; delete from fillrate.rows; delete from fillrate.lookups;
    update crm.contacts set title = case when id % 7 = 0 then title end, phone = null, seniority = null, company = null`)
  return expected
}

test.each(['sync', 'bulk'] as const)(
  'a run against a test service requests only its own lookups, beside a run against the live one (%s)',
  async (route) => {
    live.sandbox.configure({ limit: 90, windowMs: 1_000 })
    const nightly = await live.open(withKey('live-1'))
    const trial = await openTest()
    const running = nightly.run(runRequest({ sources: ['contacts'], route }))
    await expect
      .poll(async () => {
        const rows = await live.database.query(`select from fillrate.rows where source = 'contacts'`)
        return rows.length
      })
      .toBe(PEOPLE)
    const tried = await trial.run(runRequest({ sources: ['leads'], budget: 1, route }))
    const done = await running
    expect(askedOf(trialService)).toHaveLength(1)
    expect(askedOf(trialService).every(isLead)).toBe(true)
    expect(askedOf(live.sandbox)).toHaveLength(EMAILS)
    expect(askedOf(live.sandbox).some(isLead)).toBe(false)
    expect(tried).toMatchObject({ status: 'budget_reached', lookups: { requested: 1 } })
    expect(tried.reason).toContain(`another service or key (${new URL(live.sandbox.url).host} `)
    expect(done).toMatchObject({ status: 'completed', lookups: { requested: EMAILS } })
    expect(done.reason).toContain(`another service or key (${new URL(trialService.url).host} `)
  },
)

test('a run with another key is not served by the first one, and pays nothing for it', async () => {
  live.sandbox.configure({ latencyAfterMs: 50 })
  // One call at a time: a second process with free calls would readily make them.
  const nightly = await live.open({
    ...withKey('live-1'),
    config: { ...config, service: { concurrency: 1 } },
  })
  const trial = await live.open(withKey('live-2'))
  const running = nightly.run(runRequest({ sources: ['contacts'], route: 'sync', where: 't.id <= 50' }))
  await expect
    .poll(async () => {
      const rows = await live.database.query(`select from fillrate.rows where source = 'contacts'`)
      return rows.length
    })
    .toBe(50)
  const tried = await trial.run(runRequest({ sources: ['leads'], budget: 20, route: 'sync' }))
  expect(tried).toMatchObject({ lookups: { requested: 20 }, requests: { person: 20 } })
  expect(await running).toMatchObject({ status: 'completed', requests: { person: 45 } })
})

test('runs with two keys of one account share its limit, and the second begins with what the first one learned', async () => {
  live.sandbox.configure({ limit: 10, windowMs: 2_000 })
  const ofAccount = { ...config, service: { account: 'acme' } }
  const request = (where: string) => runRequest({ sources: ['leads'], route: 'sync', where })
  const first = await live.open({ ...withKey('live-1'), config: ofAccount })
  await first.run(request('t.id <= 12'))
  const second = await live.open({ ...withKey('live-2'), config: ofAccount })
  expect(scopeOf(second)).toBe(scopeOf(first))
  await second.run(request('t.id > 12 and t.id <= 24'))
  const rows = await live.database.query('select scope, "limit" from fillrate.rate_limits')
  expect(rows).toEqual([{ scope: `${new URL(live.sandbox.url).host} acme`, limit: '10' }])
})

test('lookups answered by a test service are requested again from the live one, whose records alone are written', async () => {
  const expected = await titlesOf(live.sandbox)
  const before = live.sandbox.stats().calls.accepted
  // The trial has responses of every kind stored, and ends before it has written most of them.
  trialService.configure({ notFoundShare: 0.3, limit: 60, windowMs: 500 })
  const trial = await openTest()
  const ending = new AbortController()
  const trying = trial.run(
    runRequest({ sources: ['contacts'], route: 'sync', signal: ending.signal, dryRun: { sample: 0 } }),
  )
  await expect.poll(() => trialService.stats().calls.accepted).toBeGreaterThan(60)
  ending.abort()
  expect(await trying).toMatchObject({ status: 'interrupted' })

  const app = await live.open(withKey('live-1'))
  const plan = await app.plan(runRequest({ sources: ['contacts'] }))
  expect(plan.lookups).toMatchObject({ requested: EMAILS, stored: 0 })
  const report = await app.run(runRequest({ sources: ['contacts'], route: 'sync' }))
  expect(report).toMatchObject({ status: 'completed', lookups: { requested: EMAILS, found: EMAILS } })
  expect(live.sandbox.stats().calls.accepted - before).toBe(EMAILS)
  expect(await titles()).toEqual(expected)
})

test('a row without a match at a test service is requested from the live one', async () => {
  trialService.configure({ notFoundShare: 1 })
  const trial = await openTest()
  expect(await trial.run(runRequest({ sources: ['leads'] }))).toMatchObject({ rows: { not_found: 100 } })
  const app = await live.open(withKey('live-1'))
  expect((await app.explain('leads', '1')).next.what).toBe(
    'the next run picks it, because it was finished with another service, and looks it up by email',
  )
  expect(await app.run(runRequest({ sources: ['leads'] }))).toMatchObject({ rows: { enriched: 100 } })
  // Rows finished with the live service belong to no other: nothing is left to fill.
  expect(await trial.run(runRequest({ sources: ['leads'] }))).toMatchObject({ rows: { picked: 0 } })
})

test('a rotated key continues with the stored records and the jobs of the old one', async () => {
  live.sandbox.configure({ jobDelayMs: 600_000 })
  const port = await freePort()
  const old = await live.open({ environment: { apiKey: 'live-1', port } })
  const first = await old.run(runRequest({ sources: ['contacts'], route: 'bulk', waitMs: 0 }))
  expect(first.jobs.waiting).toBe(2)
  // The old key is gone, and its jobs are delivered to a process with the new one.
  live.sandbox.configure({ keys: ['live-2'], retryDelaysMs: Array.from({ length: 1_000 }, () => 100) })
  live.sandbox.releaseJobs()
  const next = await live.open({ environment: { apiKey: 'live-2', port } })
  const report = await next.run(runRequest({ sources: ['contacts'] }))
  expect(report).toMatchObject({ status: 'completed', lookups: { requested: 0 } })
  expect(live.sandbox.stats({ inputs: true }).inputs).toMatchObject({ max_requested: 1, distinct: EMAILS })
  expect(await live.database.query(`select from fillrate.rows where state = 'waiting'`)).toEqual([])
})

test('metrics name the service of the limit, and no account or key', async () => {
  live.sandbox.configure({ limit: 60, windowMs: 1_000 })
  const app = await live.open({ config: { ...config, service: { account: 'acme' } } })
  const { at, stop } = await serveApp(app)
  await app.run(runRequest({ sources: ['leads'], limit: 20, route: 'sync' }))
  const metrics = await (await fetch(`${at}/metrics`)).text()
  await stop()
  const limits = [...metrics.matchAll(/^fillrate_rate_limit_requests\{(.*)\}/gm)].map(([, labels]) => labels)
  expect(limits).toEqual([`service="${new URL(live.sandbox.url).host}"`])
})
