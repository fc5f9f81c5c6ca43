import { afterEach, expect, test } from 'vitest'
import type { SandboxOptions } from '../../../src/sandbox/options.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { startHarness, type Harness } from '../../support/harness.ts'

let harness: Harness
afterEach(() => harness.close())

const start = async (sandbox: Partial<SandboxOptions>, changes: object = {}): Promise<void> => {
  harness = await startHarness({
    config: { ...crmConfig, bulk: { grace: '0s' }, ...changes },
    sandbox: { jobDelayMs: [5, 50], retryDelaysMs: [50, 100], missingShare: 0, ...sandbox },
    prepare: ({ pool }) => createCrm(pool, 200),
  })
}
/** Rows whose stored record belongs to another address. */
const rowsWithAnother = (): Promise<number> =>
  harness.count(
    `fillrate.rows r join fillrate.lookups l on l.id = r.lookup_id where lower(l.record ->> 'email') <> l.key`,
  )

test("a service that rejects some addresses and lists ids for the others gives no row another's data", async () => {
  await start({ acceptedShape: 'job_id+request_ids', refusedShare: 0.02 })
  const report = await harness.run({ route: 'bulk' })
  expect(report).toMatchObject({ status: 'completed', rows: { picked: 200, waiting: 0 } })
  expect(await rowsWithAnother()).toBe(0)
  // The list was shorter than the job: the addresses in the results matched them, and no misses were invented.
  expect(report.rows.enriched).toBeGreaterThan(100)
  // Rejected inputs are requested by single calls, once, and counted: the service may have billed them.
  const { inputs } = harness.sandbox.stats({ inputs: true })
  expect(inputs.max_requested).toBe(2)
  expect(report.requests.person).toBeGreaterThan(0)
  expect(report.lookups.in_doubt).toBe(report.requests.person)
})

test("a service that echoes the addresses in its own order gives no row another's data", async () => {
  await start({ acceptedShape: 'job_id+emails', requestIds: 'email' })
  const report = await harness.run({ route: 'bulk' })
  expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0 }, requests: { person: 0 } })
  expect(await rowsWithAnother()).toBe(0)
})

test("a bulk call answered with a gateway's 504 is in doubt, and never posted again", async () => {
  await start({
    plan: (fault, { endpoint }) => (fault === '504' ? endpoint.endsWith('bulk') : undefined),
    faults: { lost: 1 },
  })
  const first = await harness.run({ route: 'bulk', waitMs: 0 })
  expect(first.jobs).toMatchObject({ in_doubt: 2, waiting: 0 })
  const second = await harness.run({ route: 'bulk', waitMs: 0 })
  expect(second.requests).toMatchObject({ bulk: 0, person: 0 })
  expect(harness.sandbox.stats({ inputs: true }).inputs).toMatchObject({
    max_requested: 1,
    requested_singly: 0,
  })
})

test('its delivery is accepted nevertheless', async () => {
  await start({ faults: { '504': 1 } })
  const report = await harness.run({ route: 'bulk' })
  expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0 }, requests: { person: 0 } })
  expect(report.jobs).toMatchObject({ completed: report.requests.bulk, in_doubt: 0 })
  expect(harness.sandbox.stats({ inputs: true }).inputs.max_requested).toBe(1)
})

test('a bulk call answered with 500 is posted again, and its members count as in doubt', async () => {
  await start({
    plan: (fault, { endpoint, nth }) => fault === '500' && endpoint.endsWith('bulk') && nth === 0,
  })
  const report = await harness.run({ route: 'bulk' })
  expect(report).toMatchObject({ rows: { waiting: 0 }, requests: { person: 0 }, lookups: { in_doubt: 180 } })
})

test('a progress delivery ends nothing, and results in two deliveries are paid once', async () => {
  await start({ faults: { progress: 1, 'in-parts': 1 }, requestIds: 'email' }, { bulk: { grace: '10m' } })
  const report = await harness.run({ route: 'bulk' })
  expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0 }, requests: { person: 0 } })
  expect(report.lookups.in_doubt).toBe(0)
  expect(harness.sandbox.stats({ inputs: true }).inputs.max_requested).toBe(1)
})
