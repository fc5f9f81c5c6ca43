import { afterAll, beforeAll, expect, test } from 'vitest'
import { exitCodeOf } from '../../../src/pipeline/run/report.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { runRequest, startHarness, stateSum, type Harness } from '../../support/harness.ts'

let harness: Harness
beforeAll(async () => {
  const { budget: _, ...config } = crmConfig
  harness = await startHarness({ config, prepare: ({ pool }) => createCrm(pool, 500) })
})
afterAll(() => harness.close())

test('a run without a budget is refused before anything is asked', async () => {
  const app = await harness.open()
  await expect(app.run(runRequest())).rejects.toMatchObject({
    name: 'ConfigProblems',
    problems: [{ place: 'budget', found: 'none' }],
  })
  expect(harness.sandbox.stats().calls.accepted).toBe(0)
})

test('a run stops at its budget, having asked no more, and the next one goes on', async () => {
  const first = await harness.run({ budget: 120, route: 'sync' })
  expect(first.status).toBe('budget_reached')
  expect(exitCodeOf(first)).toBe(4)
  expect(first.lookups.asked).toBe(120)
  expect(first.rows.waiting).toBe(0)
  expect(stateSum(first)).toBe(first.rows.picked)
  expect(first.left_out + first.rows.picked).toBe(500)
  expect(harness.sandbox.stats().requests['POST /v1/person/enrich']).toBeDefined()
  expect(harness.sandbox.stats().calls.accepted).toBe(120)

  const second = await harness.run({ budget: 'unlimited', route: 'sync' })
  expect(second.status).toBe('completed')
  expect(second.lookups.asked).toBe(450 - 120)
  expect(first.rows.picked + second.rows.picked).toBe(500)
  expect(harness.sandbox.stats({ inputs: true }).inputs.max_asked).toBe(1)
})

test('rows that cost nothing are taken with a budget of nothing', async () => {
  await harness.database.pool.query(
    `insert into crm.contacts (email) values ('person3@example.com'), ('new@example.com')`,
  )
  const report = await harness.run({ budget: 0 })
  expect(report).toMatchObject({
    status: 'budget_reached',
    left_out: 1,
    rows: { picked: 1 },
    lookups: { asked: 0 },
  })
})
