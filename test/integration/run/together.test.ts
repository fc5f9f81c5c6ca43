import { afterAll, beforeAll, expect, test } from 'vitest'
import { createCrm, crmConfig, distinctEmails } from '../../support/crm.ts'
import { runRequest, startHarness, stateSum, type Harness } from '../../support/harness.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness({
    config: crmConfig,
    sandbox: { limit: 400, windowMs: 1_000, latencyAfterMs: [5, 30] },
    prepare: ({ pool }) => createCrm(pool, 2_000),
  })
})
afterAll(() => harness.close())

test('two runs at once enrich every row, ask no input twice, and call through one caller', async () => {
  const distinct = await distinctEmails(harness.database.pool)
  const apps = await Promise.all([harness.open(), harness.open()])
  const reports = await Promise.all(apps.map((app) => app.run(runRequest({ route: 'sync' }))))

  for (const report of reports) {
    expect(report.status).toBe('completed')
    expect(report.rows.waiting).toBe(0)
    expect(stateSum(report)).toBe(report.rows.picked)
  }
  expect(reports.reduce((sum, report) => sum + report.rows.picked, 0)).toBe(2_000)
  expect(reports.reduce((sum, report) => sum + report.lookups.asked, 0)).toBe(distinct)
  const stats = harness.sandbox.stats({ inputs: true })
  expect(stats.inputs.max_asked).toBe(1)
  expect(stats.calls).toEqual({ accepted: distinct, refused: 0 })
})
