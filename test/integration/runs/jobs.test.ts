import { afterAll, expect, test } from 'vitest'
import type { SandboxOptions } from '../../../src/sandbox/options.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { startHarness, type Harness } from '../../support/harness.ts'

const opened: Harness[] = []
afterAll(() => Promise.all(opened.map((one) => one.close())))

const start = async (sandbox: Partial<SandboxOptions>, deadline = '6h'): Promise<Harness> => {
  const harness = await startHarness({
    config: { ...crmConfig, bulk: { deadline, grace: '0s' } },
    sandbox: { jobDelayMs: [5, 50], retryDelaysMs: [50, 100], ...sandbox },
    prepare: ({ pool }) => createCrm(pool, 200),
  })
  opened.push(harness)
  return harness
}
const first = (moment: { inputs: readonly string[] }): boolean =>
  moment.inputs.includes('person1@example.com')
const jobStates = async (harness: Harness): Promise<Record<string, number>> => {
  const rows = await harness.query<{ state: string; count: number }>(
    'select state, count(*)::int as count from fillrate.jobs group by state',
  )
  return Object.fromEntries(rows.map((row) => [row.state, row.count]))
}

test.concurrent('a job whose 202 was lost is never sent again, and its delivery finds it', async () => {
  const harness = await start({
    plan: (fault, moment) => fault === 'drop-after' && moment.endpoint.endsWith('bulk') && first(moment),
  })
  const report = await harness.run({ route: 'bulk' })
  expect(report).toMatchObject({ status: 'completed', rows: { picked: 200, waiting: 0 } })
  expect(harness.sandbox.stats({ inputs: true }).inputs).toMatchObject({
    max_requested: 1,
    requested_singly: 0,
  })
  expect(harness.sandbox.stats().faults['drop-after']).toBe(1)
  expect(await jobStates(harness)).toEqual({ completed: report.requests.bulk })
})

test.concurrent('a run with --wait 0 leaves its deliveries to the next one, which requests nothing', async () => {
  const harness = await start({ jobDelayMs: 600_000 })
  const without = await harness.run({ route: 'bulk', waitMs: 0 })
  expect(without.rows.waiting).toBe(200)
  expect(without.status).toBe('completed')
  // The service retries until a receiver answers: here, the receiver on another address is gone for good.
  const rows = await harness.query<{ count: number }>(
    `select sum(size)::int as count from fillrate.jobs where state = 'submitted'`,
  )
  expect(rows[0]?.count).toBe(180)
})

test.concurrent('inputs without a result are requested again by single calls, once', async () => {
  const harness = await start({ faults: { 'missing-result': 0.2 } })
  const report = await harness.run({ route: 'bulk' })
  expect(report).toMatchObject({ status: 'completed', rows: { picked: 200, waiting: 0 } })
  expect(report.requests.person).toBeGreaterThan(0)
  const { inputs } = harness.sandbox.stats({ inputs: true })
  expect(inputs.requested_singly).toBe(report.requests.person)
  expect(inputs.max_requested).toBe(2)
})

test.concurrent('results for inputs that were never submitted change nothing', async () => {
  const harness = await start({ faults: { 'foreign-result': 0.5, shuffle: 1 } })
  const report = await harness.run({ route: 'bulk' })
  expect(report).toMatchObject({ status: 'completed', rows: { picked: 200, waiting: 0 } })
  const rows = await harness.query<{ wrong: number }>(
    `select count(*)::int as wrong from fillrate.lookups
      where state = 'found' and record ->> 'email' is not null and lower(record ->> 'email') <> key`,
  )
  expect(rows[0]?.wrong).toBe(0)
})

test.concurrent('results of a failed job are used, and only the rest is requested again', async () => {
  const harness = await start({
    failedResults: 'part',
    plan: (fault, moment) => fault === 'job-failed' && first(moment),
  })
  const report = await harness.run({ route: 'bulk' })
  expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0 }, jobs: { failed: 1 } })
  expect(report.requests.person).toBeGreaterThan(0)
  expect(report.requests.person).toBeLessThan(100)
})

test.concurrent('a bulk call answered with 503 is posted again as the same job', async () => {
  const harness = await start({
    plan: (fault, moment) =>
      fault === '503' && moment.endpoint.endsWith('bulk') && first(moment) && moment.nth === 0,
  })
  const report = await harness.run({ route: 'bulk' })
  expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0 }, requests: { person: 0 } })
  const rows = await harness.query<{ attempts: number; state: string }>(
    'select attempts, state from fillrate.jobs where attempts > 1',
  )
  expect(rows).toEqual([{ attempts: 2, state: 'completed' }])
  expect(harness.sandbox.stats({ inputs: true }).inputs.max_requested).toBe(1)
})

test.concurrent('a lookup accepted as a job is a job of one', async () => {
  const harness = await start({})
  const app = await harness.open()
  harness.sandbox.configure({ plan: (fault, moment) => fault === '202' && first(moment) })
  await app.close()
  const report = await harness.run({ route: 'sync', waitMs: 0 })
  const rows = await harness.query<{ size: number; state: string }>(`select size, state from fillrate.jobs`)
  expect(rows).toEqual([{ size: 1, state: 'submitted' }])
  expect(report.rows.waiting).toBe(1)
})
