import { afterAll, expect, test } from 'vitest'
import { readSpend } from '../../../src/actions/spend.ts'
import { createCrm, withAccounts, personSource, withPeople } from '../../support/crm.ts'
import { type Harness, runRequest, startHarness } from '../../support/harness.ts'

// A budget in money, of lookups with several prices.

const opened: { close(): Promise<void> }[] = []
afterAll(() => Promise.all(opened.map((one) => one.close())))

const price = (lookup: number | object) => ({ price: { currency: 'EUR', lookup } })
const inMoney = { ...runRequest(), budget: undefined, limit: null } as const

async function startTwo(rest: object, beta: object = {}) {
  const services = await startHarness({
    config: {
      services: { acme: price(0.02), beta: { ...price(1), ...beta } },
      sources: { people: personSource('people', { title: 'title' }, rest) },
      budget: { amount: 20, currency: 'EUR' },
    },
    services: { acme: { notFoundShare: 0.5, seed: 1 }, beta: { notFoundShare: 0.5, seed: 2 } },
    prepare: withPeople(300),
  })
  opened.push(services)
  return services
}

/** @returns what each service was requested with, and why the run ended */
async function run(harness: Pick<Harness, 'open'>) {
  const app = await harness.open()
  const plan = await app.plan(inMoney)
  const report = await app.run(inMoney)
  const spent = await readSpend(app.db, app.config)
  await app.close()
  const requested = report.services?.map(({ lookups }) => lookups.requested) ?? [report.lookups.requested]
  return { plan, report, requested, amount: spent.today.cost?.amount }
}

test.concurrent('each lookup counts at the price of its service', async () => {
  const { plan, report, requested, amount } = await run(await startTwo({}))
  // 300 × 0.02 and 14 × 1.00.
  expect(requested).toEqual([300, 14])
  expect(amount).toBe(20)
  expect(report).toMatchObject({ status: 'budget_reached', reason: expect.stringContaining('20.00 EUR') })
  expect(plan.services?.map(({ lookups }) => lookups.max)).toEqual([300, 14])
  expect(plan.cost.max_amount).toEqual({ amount: 20, currency: 'EUR' })
})

test.concurrent('the budget of a service is a part of it', async () => {
  const services = await startTwo(
    { services: ['beta', 'acme'] },
    { budget: { amount: 12.5, currency: 'EUR' } },
  )
  const { requested, amount } = await run(services)
  expect(requested[1]).toBe(12)
  expect(requested[0]).toBeGreaterThan(0)
  expect(amount).toBeCloseTo(12 + 0.02 * (requested[0] ?? 0))
  const counted = await startTwo({}, { budget: 3 })
  expect((await run(counted)).requested).toEqual([300, 3])
})

test.concurrent('people and companies count at their own prices', async () => {
  const harness = await startHarness({
    config: {
      ...withAccounts,
      ...price({ person: 0.5, company: 0.1 }),
      budget: { amount: 8, currency: 'EUR' },
    },
    prepare: ({ pool }) => createCrm(pool, 60, 30),
  })
  opened.push(harness)
  const { requested, amount, plan } = await run(harness)
  const companies = await harness.count(`fillrate.lookups where kind = 'domain' and state <> 'waiting'`)
  expect(companies).toBeGreaterThan(20)
  expect(amount).toBeLessThanOrEqual(8)
  expect(amount).toBeGreaterThan(7.5)
  expect(requested).toEqual([companies + Math.floor((8 - 0.1 * companies) / 0.5)])
  expect(plan.cost.max_amount?.amount).toBeLessThanOrEqual(8)
  expect(plan.cost.lookups).toBe(16)
  expect(plan.cost.max_lookups).toBeGreaterThanOrEqual(requested[0] ?? 0)
})
