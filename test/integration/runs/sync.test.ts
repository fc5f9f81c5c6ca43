import { beforeAll, expect, test } from 'vitest'
import type { RunReport } from '../../../src/domain/report/run.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { useHarness, stateSum } from '../../support/harness.ts'

let report: RunReport
const harness = useHarness({
  config: crmConfig,
  sandbox: {
    limit: 200,
    windowMs: 2_000,
    latencyAfterMs: [5, 40],
    faults: { '500': 0.05, '503': 0.05 },
    // No input fails twice: its further tries are half a minute and more ahead.
    plan: (_, { nth }) => (nth > 0 ? false : undefined),
  },
  prepare: ({ pool }) => createCrm(pool, 1_200),
})
beforeAll(async () => {
  report = await harness.run({ route: 'sync' })
})

test('every row ends in a final state through a service that fails one call in ten', () => {
  expect(report.status).toBe('completed')
  expect(report.rows).toMatchObject({ picked: 1_200, waiting: 0, failed: 0 })
  expect(stateSum(report)).toBe(1_200)
  expect(report.requests.retried).toBeGreaterThan(0)
})

test('no call exceeds the rate limit after the first window', () => {
  const refused = harness.sandbox.stats().windows.map((window) => window.refused)
  expect(refused.slice(1).every((count) => count === 0)).toBe(true)
  expect(report.requests.throttled).toBe(refused.reduce((sum, count) => sum + count, 0))
})

test('the limiter sees each call and its response: it learns the limit and uses several windows of it', () => {
  expect(report.rate.limit).toBe(200)
  expect(report.rate.used).toBeGreaterThan(1_000)
})

test('no input gets a second response', () => {
  expect(harness.sandbox.stats({ inputs: true }).inputs.max_requested).toBe(1)
})

test("the sandbox's count and the report agree", () => {
  const calls = Object.values(harness.sandbox.stats().requests['POST /v1/person/enrich'] ?? {}).reduce(
    (sum, count) => sum + count,
    0,
  )
  expect(report.requests.person).toBe(calls)
})
