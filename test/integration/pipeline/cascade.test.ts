import { afterEach, expect, test } from 'vitest'
import type { SandboxOptions } from '../../../src/sandbox/options.ts'
import { requestsFor, cascadeConfig, createPeople, HALF, readPeople } from '../../support/cascade.ts'
import { runRequest, startHarness, stateSum, type Harness } from '../../support/harness.ts'

const PEOPLE = 240
let harness: Harness
afterEach(() => harness.close())

const start = async (
  sandbox: Partial<SandboxOptions> = {},
  config: object = cascadeConfig,
): Promise<void> => {
  harness = await startHarness({
    config,
    sandbox: { ...HALF, ...sandbox },
    prepare: ({ pool }) => createPeople(pool, PEOPLE),
  })
}

/** The expected requests in all, and the expected content of the table. */
async function expected() {
  const people = await readPeople(harness.database.pool)
  const chains = people.map((person) => ({ person, ...requestsFor(person) }))
  return {
    chains,
    requested: new Set(chains.flatMap((chain) => chain.requested)),
    found: chains.filter((chain) => chain.title !== null).length,
  }
}

/** Every lookup was requested once, and every row holds the result of its first identifier with a match. */
async function expectAllAsExpected(): Promise<void> {
  const { chains, requested } = await expected()
  const { inputs } = harness.sandbox.stats({ inputs: true })
  expect(Object.keys(inputs.all ?? {}).sort()).toEqual([...requested].sort())
  expect(inputs.max_requested).toBe(1)
  expect(chains.map(({ person }) => [person.id, person.title])).toEqual(
    chains.map(({ person, title }) => [person.id, title]),
  )
}

for (const route of ['sync', 'bulk'] as const)
  test(`a person not found by email is found by profile URL, or by name and company (${route})`, async () => {
    await start()
    const { chains, requested, found } = await expected()
    for (const length of [1, 2, 3])
      expect(chains.some((chain) => chain.requested.length === length && chain.title !== null)).toBe(true)
    const report = await harness.run({ route })
    expect(report).toMatchObject({
      status: 'completed',
      rows: { picked: PEOPLE, enriched: found, not_found: PEOPLE - found, waiting: 0 },
      lookups: { distinct: requested.size, requested: requested.size, stored: 0 },
    })
    expect(stateSum(report)).toBe(PEOPLE)
    await expectAllAsExpected()
  })

test('without a cascade only the first identifier is used', async () => {
  const { people } = cascadeConfig.sources
  await start({}, { ...cascadeConfig, sources: { people: { ...people, cascade: false } } })
  const first = (await expected()).chains.map((chain) => chain.requested[0] ?? '')
  const report = await harness.run({ route: 'sync' })
  expect(report.lookups).toMatchObject({ distinct: new Set(first).size, requested: new Set(first).size })
})

test('a row without a match names the identifiers, is left alone, and starts again when it is due', async () => {
  await start({ notFoundShare: 1 })
  await harness.run({ route: 'sync' })
  const reasons = await harness.query<{ reason: string }>(
    `select distinct reason from fillrate.rows where state = 'not_found' order by reason`,
  )
  expect(reasons.map((row) => row.reason)).toEqual([
    'the service found no match by email or by name and company',
    'the service found no match by email, by profile URL or by name and company',
    'the service found no match by name and company',
    'the service found no match by profile URL or by name and company',
  ])
  const [notes] = await harness.query<{ notes: object }>(`select notes from fillrate.rows where key = '7'`)
  expect(notes?.notes).toEqual({ inputs: [{ input: 'email', reason: expect.any(String) as string }] })
  const [due] = await harness.query<{ due: boolean }>(
    `select bool_and(due_at between now() + interval '29 days' and now() + interval '31 days') as due from fillrate.rows`,
  )
  expect(due).toEqual({ due: true })
  expect((await harness.run()).rows.picked).toBe(0)

  harness.sandbox.configure({ notFoundShare: 0 })
  await harness.query('update fillrate.rows set due_at = now()')
  await harness.query('update fillrate.lookups set refresh_at = now()')
  const again = await harness.run({ route: 'sync' })
  const first = new Set((await readPeople(harness.database.pool)).map((one) => requestsFor(one).requested[0]))
  expect(again).toMatchObject({
    rows: { picked: PEOPLE, enriched: PEOPLE },
    lookups: { requested: first.size },
  })
  expect(await harness.query(`select from fillrate.rows where missed_lookup_ids is not null`)).toEqual([])
})

test('a run whose budget ends within a cascade says so, and the next run continues there', async () => {
  await start()
  const { chains, requested } = await expected()
  const first = new Set(chains.map((chain) => chain.requested[0]))
  const report = await harness.run({ route: 'sync', budget: first.size + 5 })
  expect(report).toMatchObject({
    status: 'budget_reached',
    skipped_over_budget: 0,
    lookups: { requested: first.size + 5 },
  })
  expect(report.rows.waiting).toBeGreaterThan(0)
  expect(stateSum(report)).toBe(PEOPLE)
  expect(report.reason).toBe(
    `Stopped at the budget of ${first.size + 5} lookups; ${report.rows.waiting} rows wait for the next lookup`,
  )

  const next = await harness.run({ route: 'sync' })
  expect(next).toMatchObject({
    status: 'completed',
    rows: { picked: report.rows.waiting, waiting: 0 },
    lookups: { requested: requested.size - first.size - 5 },
  })
  await expectAllAsExpected()
})

test('rows beyond the budget are counted once', async () => {
  await start()
  await harness.run({ route: 'sync', budget: 20 })
  const report = await harness.run({ route: 'sync', budget: 0 })
  const [known] = await harness.query<{ settled: number }>(
    `select count(*)::int as settled from fillrate.rows where state <> 'waiting'`,
  )
  expect(report.skipped_over_budget).toBe(PEOPLE - (known?.settled ?? 0))
})

test('two concurrent processes request everything once', async () => {
  await start({ latencyAfterMs: [1, 20] })
  const apps = await Promise.all([harness.open(), harness.open()])
  const reports = await Promise.all(apps.map((app) => app.run(runRequest({ route: 'sync' }))))
  expect(reports.reduce((sum, report) => sum + stateSum(report), 0)).toBe(PEOPLE)
  expect(reports.every((report) => report.rows.waiting === 0)).toBe(true)
  await expectAllAsExpected()
})

test('a run interrupted within a cascade is continued, wherever that was', async () => {
  await start({ latencyAfterMs: [5, 15] })
  const { requested } = await expected()
  for (let share = 1; share <= 5; share++) {
    const interrupt = new AbortController()
    const app = await harness.open()
    const running = app.run(runRequest({ route: 'sync', signal: interrupt.signal }))
    await expect
      .poll(() => harness.calls(), { interval: 5 })
      .toBeGreaterThanOrEqual((requested.size * share) / 6)
    interrupt.abort()
    const report = await running
    expect(stateSum(report)).toBe(report.rows.picked)
  }
  expect(await harness.run({ route: 'sync' })).toMatchObject({ status: 'completed', rows: { waiting: 0 } })
  await expectAllAsExpected()
})

test('a row whose inputs change within a cascade starts again', async () => {
  await start()
  const { chains } = await expected()
  const budget = new Set(chains.map((chain) => chain.requested[0])).size
  await harness.run({ route: 'sync', budget })
  const [waits] = await harness.query<{ key: string }>(
    `select key from fillrate.rows where state = 'waiting' and missed_lookup_ids is not null order by key::int limit 1`,
  )
  await harness.query(`update people set email = 'other.person@example.com' where id = $1`, [waits?.key])
  await harness.run({ route: 'sync' })
  const { inputs } = harness.sandbox.stats({ inputs: true })
  expect(inputs.all).toHaveProperty(['other.person@example.com'])
  const left = (await expected()).chains.find((chain) => chain.person.id === Number(waits?.key))
  expect(left?.person.title).toBe(left?.title)
})
