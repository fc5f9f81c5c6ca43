import { beforeEach, expect, test } from 'vitest'
import { twoStepSources } from '../../support/crm.ts'
import { runRequest, useHarness } from '../../support/harness.ts'

// Records of two services are out of date at different times. A row is due with the first that it needs, and no service is called for
// a record that nothing waits for.

const DAYS = { acme: 30, beta: 90 }
const configWith = (...policies: Parameters<typeof twoStepSources>): object => ({
  services: { acme: { refreshAfter: '30d' }, beta: { refreshAfter: '90d' } },
  sources: twoStepSources(...policies),
  budget: 'unlimited',
})

const sandbox = { notFoundShare: 0, missingShare: 0 }
const harness = useHarness({
  config: configWith('blank', 'blank'),
  services: { acme: sandbox, beta: sandbox },
  prepare: async ({ pool }) => {
    await pool.query(
      'create table people (id int primary key, email text, title text, seniority text, phone text)',
    )
  },
})
beforeEach(() =>
  harness.query(`truncate people, fillrate.rows, fillrate.lookups, fillrate.changes restart identity cascade;
    insert into people select n, 'p' || n || '@example.com' from generate_series(1, 5) n`),
)

/** A pass of a night, and how many days pass after it. @returns what each service was called with */
async function night(config: object, days: number): Promise<string> {
  const app = await harness.open({ config })
  const { rows, services = [] } = await app.run(runRequest({ route: 'sync' }))
  await app.close()
  expect(rows.waiting).toBe(0)
  for (const [table, columns] of [
    ['lookups', ['resolved_at', 'requested_at', 'refresh_at', 'enqueued_at']],
    ['rows', ['due_at', 'settled_at', 'picked_at']],
  ] as const)
    await harness.query(
      `update fillrate.${table} set ${columns.map((one) => `${one} = ${one} - interval '${days} days'`).join(', ')}`,
    )
  const called = services.map(({ service, lookups }) => `${service} ${lookups.requested}`)
  return called.join(', ')
}
/** Ten passes, 31 days apart. */
async function tenNights(config: object): Promise<string[]> {
  const calls: string[] = []
  for (let n = 0; n < 10; n++) calls.push(await night(config, DAYS.acme + 1))
  return calls
}

test('rows whose cells are full are never due, whatever the age of their records', async () => {
  const calls = await tenNights(configWith('blank', 'blank'))
  expect(calls).toEqual(['acme 5, beta 5', ...Array.from({ length: 9 }, () => 'acme 0, beta 0')])
})

test('tracked cells of the first service are refreshed at its age, and full ones of the second need nothing', async () => {
  const calls = await tenNights(configWith('tracked', 'blank'))
  expect(calls).toEqual(['acme 5, beta 5', ...Array.from({ length: 9 }, () => 'acme 5, beta 0')])
})

test('tracked cells of the second service are refreshed at its own age, though the first has found the row', async () => {
  const calls = await tenNights(configWith('blank', 'tracked'))
  const beta = calls.map((one) => Number(/beta (\d+)/.exec(one)?.[1]))
  expect(beta).toEqual([5, 0, 0, 5, 0, 0, 5, 0, 0, 5])
  // Its own cells are full: what the first service knows is not needed.
  expect(calls.slice(1).map((one) => /acme (\d+)/.exec(one)?.[1])).toEqual(
    Array.from({ length: 9 }, () => '0'),
  )
})

test('between two ages nothing is called, and no row is picked', async () => {
  const config = configWith('tracked', 'tracked')
  expect(await night(config, 1)).toBe('acme 5, beta 5')
  for (let n = 0; n < 3; n++) expect(await night(config, 1)).toBe('acme 0, beta 0')
  expect(await harness.scalar(`select count(*)::int from fillrate.rows where due_at <= now()`)).toBe(0)
})
