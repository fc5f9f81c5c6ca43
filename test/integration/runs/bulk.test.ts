import { beforeAll, expect, test } from 'vitest'
import type { RunReport } from '../../../src/domain/report/run.ts'
import { crmConfig, createCrm, distinctEmails, typedCells } from '../../support/crm.ts'
import { useHarness, stateSum } from '../../support/harness.ts'

let report: RunReport
let distinct: number
let typed: string

const harness = useHarness({
  config: { ...crmConfig, bulk: { grace: '0s' } },
  sandbox: {
    jobDelayMs: [10, 300],
    retryDelaysMs: [100, 200, 500],
    seed: 3,
    faults: { duplicate: 0.2, early: 0.2, 'bad-signature': 0.2, 'job-failed': 0.05, shuffle: 0.2 },
  },
  prepare: ({ pool }) => createCrm(pool, 5_000),
})
beforeAll(async () => {
  distinct = await distinctEmails(harness.database.pool)
  typed = await typedCells(harness.database.pool)
  report = await harness.run({ route: 'bulk' })
})

test('every row ends in a final state, and the states sum to picked', () => {
  expect(report.status).toBe('completed')
  expect(report.rows.waiting).toBe(0)
  expect(report.rows.picked).toBe(5_000)
  expect(stateSum(report)).toBe(report.rows.picked)
  expect(report.rows.enriched).toBeGreaterThan(4_000)
})

test('no input is requested twice except the members of failed jobs', async () => {
  const stats = harness.sandbox.stats({ inputs: true })
  const rows = await harness.query<{ members: number; failed: number }>(
    `select coalesce(sum(size) filter (where state = 'failed'), 0)::int as members,
            count(*) filter (where state = 'failed')::int as failed from fillrate.jobs`,
  )
  const failed = rows[0] ?? { members: 0, failed: 0 }
  expect(failed.failed).toBeGreaterThan(0)
  expect(stats.requests['POST /v1/person/enrich']?.['200'] ?? 0).toBeLessThanOrEqual(failed.members)
  const twice = await harness.query<{ count: number }>(
    `select count(*)::int as count from fillrate.lookups l join fillrate.jobs j on j.key = l.job_key
      where j.state = 'failed' and not l.sync_only`,
  )
  expect(twice[0]?.count).toBe(0)
  expect(distinct).toBe(report.lookups.distinct)
})

test("the sandbox's count and the report agree", () => {
  const stats = harness.sandbox.stats()
  const sum = (endpoint: string): number =>
    Object.values(stats.requests[endpoint] ?? {}).reduce((total, count) => total + count, 0)
  expect(sum('POST /v1/person/bulk')).toBe(report.requests.bulk)
  expect(sum('POST /v1/person/enrich')).toBe(report.requests.person)
  expect(stats.jobs.accepted).toBe(report.jobs.submitted)
  expect(stats.jobs.failed).toBe(report.jobs.failed)
  expect(stats.deliveries.badly_signed).toBeGreaterThan(0)
  expect(stats.deliveries.badly_signed_accepted).toBe(0)
  expect(report.lookups.requested).toBe(distinct)
  expect(report.lookups.found + report.lookups.not_found).toBe(distinct)
})

test('manually entered values have not changed', async () => {
  expect(await typedCells(harness.database.pool)).toBe(typed)
})

test('every written cell is in a change, with its previous value', async () => {
  const rows = await harness.query<{ rows: number; cells: number }>(
    `select count(*)::int as rows, sum((select count(*) from jsonb_object_keys(after - 'enriched_at')))::int as cells
       from fillrate.changes`,
  )
  expect(rows[0]).toEqual({ rows: report.rows.enriched, cells: report.cells.written })
})
