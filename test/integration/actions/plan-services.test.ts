import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Plan } from '../../../src/domain/report/plan.ts'
import { readRunSpends, readSpend } from '../../../src/actions/spend.ts'
import { parseConfig } from '../../../src/config/load.ts'
import { runRequest, startHarness, type Harness } from '../../support/harness.ts'
import { personSource, withPeople } from '../../support/crm.ts'

// What a plan says of three services before and after a first run, against what the next run then requests.

const ROWS = 2_000
const KNOWN = ROWS / 5

const PRICES = [0.02, 0.28, 1]
const [acme, pdl, last] = PRICES.map((lookup) => ({ price: { currency: 'EUR', lookup } }))

const config = {
  services: { acme, pdl, last },
  sources: {
    people: personSource('people', { title: 'title', phone: 'phone' }),
  },
  budget: 'unlimited',
}

let services: Harness
beforeAll(async () => {
  services = await startHarness({
    config,
    services: {
      acme: { notFoundShare: 0.4, seed: 1 },
      pdl: { notFoundShare: 0.45, seed: 2 },
      last: { notFoundShare: 0.55, seed: 3 },
    },
    prepare: withPeople(ROWS, 'phone text'),
  })
})
afterAll(() => services.close())

const plan = async (request: object = {}): Promise<Plan> => {
  const app = await services.open()
  const { limit: _, ...rest } = runRequest({ route: 'sync' })
  return app.plan({ ...rest, limit: null, ...request }).finally(() => app.close())
}

test('a plan has what is certain and the most of each service, and the next run requests no more', async () => {
  const before = await plan()
  expect(before.services).toMatchObject([
    { service: 'acme', lookups: { certain: ROWS, max: ROWS } },
    { service: 'pdl', lookups: { certain: 0, max: ROWS } },
    { service: 'last', lookups: { certain: 0, max: ROWS } },
  ])
  expect(before.cost).toMatchObject({
    lookups: ROWS,
    max_lookups: 3 * ROWS,
    max_amount: { amount: ROWS * 1.3, currency: 'EUR' },
  })

  const first = await services.run({ route: 'sync', limit: KNOWN })
  expect(first).toMatchObject({ status: 'completed', rows: { picked: KNOWN } })
  // Each service's lookups cost its own price.
  const spent = await readSpend(services.database.db, parseConfig(config, null))
  const cost = (first.services ?? []).reduce(
    (sum, { lookups }, n) => sum + lookups.requested * (PRICES[n] ?? 0),
    0,
  )
  expect(spent.today.cost).toEqual({ amount: expect.closeTo(cost, 6) as number, currency: 'EUR' })
  const ofRun = await readRunSpends(services.database.db, [first.run], parseConfig(config, null))
  expect(ofRun.get(first.run)?.cost?.amount).toBeCloseTo(cost, 6)
  const after = await plan()
  expect(after.sources).toMatchObject([{ source: 'people', fresh: expect.any(Number), picked: ROWS - KNOWN }])
  const next = await services.run({ route: 'sync' })
  const requested = next.services?.map(({ service, lookups }) => ({ service, lookups: lookups.requested }))
  expect(after.services?.map(({ service }) => service)).toEqual(requested?.map(({ service }) => service))
  const planned = after.services?.map(({ lookups, max_amount: most }) => ({
    ...lookups,
    amount: most?.amount,
  }))
  expect(planned?.map(({ max }) => max)).toEqual([ROWS - KNOWN, ROWS - KNOWN, ROWS - KNOWN])
  for (const [n, { certain, max, amount }] of (planned ?? []).entries()) {
    expect(requested?.[n]?.lookups).toBeGreaterThanOrEqual(certain)
    expect(requested?.[n]?.lookups).toBeLessThanOrEqual(max)
    expect(amount).toBeCloseTo(max * (PRICES[n] ?? 0), 6)
  }
})

test('a stored miss goes on for certain, a stored record ends the row, and a budget bounds all', async () => {
  const count = (name: string, state: string): Promise<number> =>
    services.count(`fillrate.lookups l join fillrate.services s on s.id = l.service_id
                     where s.name = '${name}' and l.state = '${state}'`)
  const misses = await count('acme', 'not_found')
  await services.query(`
    update people set title = null, phone = null;
    delete from fillrate.rows;
    delete from fillrate.lookups where service_id in (select id from fillrate.services where name <> 'acme')`)
  const stored = await plan()
  expect(stored.services?.map(({ lookups }) => lookups)).toEqual([
    { certain: 0, max: 0 },
    { certain: misses, max: misses },
    { certain: 0, max: misses },
  ])
  const limited = await plan({ budget: 400 })
  expect(limited.cost).toMatchObject({
    lookups: 400,
    max_lookups: 400,
    budget: 400,
    beyond_budget: misses - 400,
  })
})

test('the budget of a service leaves fewer rows for the services after it', async () => {
  const open = ROWS - KNOWN
  await services.query(`
    truncate fillrate.rows, fillrate.lookups, fillrate.changes, fillrate.row_counts;
    update people set title = null, phone = null`)
  await services.run({ route: 'sync', limit: KNOWN })
  const limited = { ...config, services: { ...config.services, pdl: { ...pdl, budget: 240 } } }
  const app = await services.open({ config: limited })
  const request = { ...runRequest({ route: 'sync' }), limit: null }
  const { services: planned = [] } = await app.plan(request)
  const next = await app.run(request)
  await app.close()
  const real = next.services?.map(({ lookups }) => lookups.requested) ?? []
  const most = planned.map(({ lookups }) => lookups.max)
  expect(real.slice(0, 2)).toEqual([open, 240])
  expect(most.slice(0, 2)).toEqual([open, 240])
  expect(real[2]).toBeLessThanOrEqual(most[2] ?? 0)
})

test('with `blank` rows that a service found go on, and end where the next is for misses', async () => {
  const blank = {
    ...config,
    sources: {
      people: { ...config.sources.people, services: ['acme', { name: 'pdl', when: 'blank' }, 'last'] },
    },
  }
  await services.query(`
    truncate fillrate.rows, fillrate.lookups, fillrate.changes, fillrate.row_counts;
    update people set title = null, phone = null`)
  const app = await services.open({ config: blank })
  const request = { ...runRequest({ route: 'sync' }), limit: null }
  await app.run({ ...request, limit: KNOWN })
  const { services: planned } = await app.plan(request)
  const next = await app.run(request)
  await app.close()
  const real = next.services?.map(({ lookups }) => lookups.requested) ?? []
  // Those that `acme` has found without a title or phone, too; none of these goes on to `last`.
  expect(real[1]).toBeGreaterThan((ROWS - KNOWN) * 0.5)
  expect(real[2]).toBeLessThan((ROWS - KNOWN) * 0.2)
  for (const [n, lookups] of real.entries())
    expect(lookups).toBeLessThanOrEqual(planned?.[n]?.lookups.max ?? 0)
})
