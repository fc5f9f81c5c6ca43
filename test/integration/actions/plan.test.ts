import { expect, test } from 'vitest'
import type { SourcePlan } from '../../../src/domain/report/plan.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { runRequest, useHarness } from '../../support/harness.ts'

const harness = useHarness({
  config: withAccounts,
  prepare: async ({ pool }) => {
    await createCrm(pool, 300, 40)
    await pool.query(`
        insert into crm.contacts (email) values ('no address'), (null), ('a@b.example; c@d.example');
        insert into crm.contacts (email, title, phone, seniority, company) values ('full@example.com', 'a', 'b', 'c', 'd')`)
  },
})

const sumOf = (source: SourcePlan): number => source.complete + source.fresh + source.held + source.picked

test('every row is counted once, the numbers add up, and nothing is written or called', async () => {
  const app = await harness.open()
  const plan = await app.plan(runRequest())
  for (const source of plan.sources) {
    expect(sumOf(source)).toBe(source.rows)
    const invalid = Object.values(source.invalid_input).reduce((sum, count) => sum + count, 0)
    expect(invalid + source.suppressed + source.valid_input).toBe(source.picked)
  }
  expect(plan.sources[0]).toMatchObject({
    source: 'contacts',
    rows: 304,
    complete: 1,
    picked: 303,
    valid_input: 300,
  })
  expect(plan.lookups).toMatchObject({
    distinct: 270 + 40,
    stored: 0,
    requested: 310,
    to_request: { email: 270, domain: 40 },
  })
  expect(plan.calls).toEqual({ person: 0, company: 40, bulk: 3, total: 43 })
  expect(harness.calls()).toBe(0)
  const rows = await harness.query(
    'select (select count(*) from fillrate.rows)::int + (select count(*) from fillrate.lookups)::int as stored',
  )
  expect(rows).toEqual([{ stored: 0 }])
})

test('a run does what the plan said', async () => {
  const app = await harness.open()
  const plan = await app.plan(runRequest())
  const report = await app.run(runRequest())
  expect(report.rows.picked).toBe(plan.sources.reduce((sum, source) => sum + source.picked, 0))
  expect(report.lookups).toMatchObject({ distinct: plan.lookups.distinct, requested: plan.lookups.requested })
  expect(report.requests).toMatchObject({
    person: plan.calls.person,
    company: plan.calls.company,
    bulk: plan.calls.bulk,
  })
})

test('after the run nothing is left to request', async () => {
  const app = await harness.open()
  const plan = await app.plan(runRequest())
  expect(plan.lookups.requested).toBe(0)
  expect(plan.calls.total).toBe(0)
  for (const source of plan.sources) expect(source).toMatchObject({ picked: 0, rows: sumOf(source) })
})

test('a plan respects limit and budget', async () => {
  await harness.query(
    `insert into crm.contacts (email) select 'later' || n || '@example.com' from generate_series(1, 100) n`,
  )
  const app = await harness.open()
  const plan = await app.plan(runRequest({ sources: ['contacts'], limit: 80, budget: 30, route: 'sync' }))
  expect(plan.sources[0]).toMatchObject({ picked: 80, stopped_at: 'limit', table: null })
  expect(plan.sources.map(sumOf)).toEqual(plan.sources.map((source) => source.rows))
  expect(plan.cost).toMatchObject({ lookups: 30, budget: 30, beyond_budget: 50 })
  expect(plan.calls).toMatchObject({ person: 30, total: 30 })
})
