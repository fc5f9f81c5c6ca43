import { afterEach, expect, test } from 'vitest'
import { readRunSpends, readSpend } from '../../../src/actions/spend.ts'
import type { SandboxOptions } from '../../../src/sandbox/options.ts'
import { findSpendFaults } from '../../chaos/invariants.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { runRequest, startHarness, type Harness } from '../../support/harness.ts'

// Money: what is counted is what the service has counted, to the lookup.

const price = { currency: 'EUR', lookup: { person: 0.1, company: 0.01 } }
let harness: Harness
afterEach(() => harness.close())

const prepare = async (sandbox: Partial<SandboxOptions>, config: object = {}): Promise<void> => {
  harness = await startHarness({
    config: { ...withAccounts, price, ...config },
    sandbox,
    prepare: ({ pool }) => createCrm(pool, 40, 10),
  })
}
const spend = () => readSpend(harness.database.db, harness.config)
/** Lookups by source. */
const bySource = async (): Promise<Record<string, number>> => {
  const rows = await harness.query<{ source: string; lookups: number }>(
    'select source, sum(lookups)::int as lookups from fillrate.spend group by source',
  )
  return Object.fromEntries(rows.map(({ source, lookups }) => [source, lookups]))
}
/** Calls that the service received, and lookups that it bills. */
const counted = (): { calls: number; billed: number } => {
  const { requests, inputs } = harness.sandbox.stats()
  const calls = Object.values(requests).flatMap((byStatus) => Object.values(byStatus))
  return {
    calls: calls.reduce((sum, count) => sum + count, 0),
    billed: inputs.requested_singly + inputs.requested_in_bulk,
  }
}

test('calls and lookups are those that the service counted, through faults, and those in doubt are apart', async () => {
  const faults = { '500': 0.1, '503': 0.1, '504': 0.1, 'drop-after': 0.1, 'not-a-record': 0.1 }
  await prepare({ faults, notFoundShare: 0.2 }, { attempts: 1 })
  const report = await harness.run({ route: 'sync' })
  const { calls } = counted()
  expect(report.spend.calls).toBe(calls)
  expect(report.spend.in_doubt).toBeGreaterThan(0)
  expect(report.spend.lookups + report.spend.in_doubt).toBeGreaterThan(report.spend.lookups)
  expect(report.requests.person + report.requests.company).toBe(calls)
  expect(report.requests.retried).toBeGreaterThan(0)
  expect(report.rate.used).toBe(calls)
  expect(await findSpendFaults(harness.database.pool, { '': harness.sandbox })).toEqual([])
})

test('a job is billed once, whether its 202 or its delivery says so, and in doubt until then', async () => {
  await prepare({
    plan: (fault, { endpoint, nth }) => fault === '504' && endpoint === 'POST /v1/person/bulk' && nth === 0,
    jobDelayMs: [1_500, 1_500],
  })
  const app = await harness.open()
  const running = app.run(runRequest({ route: 'bulk', sources: ['contacts'] }))
  const latest = async () => (await readRunSpends(harness.database.db, [1], harness.config)).get(1)
  await expect.poll(async () => (await latest())?.in_doubt).toBeGreaterThan(0)
  const { billed } = counted()
  expect(await latest()).toMatchObject({ lookups: 0, in_doubt: billed, cost: { amount: 0 } })
  const report = await running
  expect(report).toMatchObject({ requests: { bulk: 1 }, spend: { lookups: billed, in_doubt: 0 } })
  expect(counted().billed).toBe(billed)
})

test('what several runs and sources have spent adds up by day, source and run, and turns into money', async () => {
  await prepare({})
  const people = await harness.run({ sources: ['contacts'], limit: 20 })
  const companies = await harness.run({ sources: ['accounts'] })
  expect(companies.requests).toMatchObject({ person: 0, bulk: 0 })
  const after = await spend()
  const { billed } = counted()
  const cost = { currency: 'EUR', amount: people.spend.lookups * 0.1 + companies.spend.lookups * 0.01 }
  expect(after.today).toMatchObject({ lookups: billed, in_doubt: 0 })
  expect(after.today.cost?.amount).toBeCloseTo(cost.amount, 6)
  expect(await bySource()).toEqual({ contacts: people.spend.lookups, accounts: companies.spend.lookups })
  const ofRuns = await readRunSpends(harness.database.db, [companies.run, people.run], harness.config)
  expect([...ofRuns].map(([run, { lookups }]) => [run, lookups])).toEqual([
    [companies.run, companies.spend.lookups],
    [people.run, people.spend.lookups],
  ])
})
