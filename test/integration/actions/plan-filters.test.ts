import { afterEach, expect, test } from 'vitest'
import { requestsFor, cascadeConfig, createPeople, HALF, readPeople } from '../../support/cascade.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { runRequest, startHarness, type Harness } from '../../support/harness.ts'

let harness: Harness
afterEach(() => harness.close())

const start = async (): Promise<void> => {
  harness = await startHarness({ config: withAccounts, prepare: ({ pool }) => createCrm(pool, 200, 30) })
}
const plan = async (request: { sources?: string[] } = {}) => {
  const app = await harness.open()
  return app.plan(runRequest(request))
}

test('rows without a key are counted as such', async () => {
  await start()
  await harness.query(
    `alter table crm.contacts add ref text unique; update crm.contacts set ref = 'r' || id where id > 30`,
  )
  const { contacts } = withAccounts.sources
  const app = await harness.open({
    config: {
      ...withAccounts,
      sources: { contacts: { ...contacts, key: 'ref', where: 't.id <= 150' } },
    },
  })
  const { sources } = await app.plan(runRequest())
  expect(sources).toMatchObject([{ table: 200, without_key: 30, filtered_out: 50, where_out: 0, rows: 120 }])
  const narrow = await app.plan(runRequest({ where: 't.id > 50' }))
  expect(narrow.sources).toMatchObject([
    { table: 200, without_key: 30, filtered_out: 50, where_out: 20, rows: 100 },
  ])
})

test('a cascade is planned as a range, using what is known', async () => {
  harness = await startHarness({
    config: cascadeConfig,
    sandbox: HALF,
    prepare: ({ pool }) => createPeople(pool, 120),
  })
  const ways = (await readPeople(harness.database.pool)).map((person) => requestsFor(person))
  const first = new Set(ways.map((way) => way.requested[0]))
  const before = await plan()
  expect(before.lookups).toMatchObject({ distinct: first.size, stored: 0, requested: first.size })
  expect(before.cost.lookups).toBe(first.size)
  const report = await harness.run({ route: 'sync' })
  expect(report.lookups.requested).toBeGreaterThan(before.cost.lookups)
  expect(report.lookups.requested).toBeLessThanOrEqual(before.cost.max_lookups)

  const missed = ways.find((way) => way.requested.length > 1)?.requested[0] ?? ''
  await harness.query(
    `insert into people values (1000, '${missed}', 'https://linkedin.com/in/quite-new', 'Ada New', 'New', null)`,
  )
  const after = await plan()
  expect(after.sources).toMatchObject([{ picked: 1, valid_input: 1 }])
  expect(after.lookups).toMatchObject({
    distinct: 2,
    stored: 1,
    to_request: { linkedin_url: 1 },
    requested: 1,
  })
  expect(after.cost).toMatchObject({ lookups: 1, max_lookups: 2 })
  const person = (await readPeople(harness.database.pool)).at(-1)
  const next = person ? requestsFor(person).requested.length - 1 : 0
  const run = await harness.run({ route: 'sync' })
  expect(run.lookups).toMatchObject({ distinct: next + 1, stored: 1, requested: next })
})
