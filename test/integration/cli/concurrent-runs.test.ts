import { expect, test } from 'vitest'
import type { RunReport } from '../../../src/domain/report/run.ts'
import { createCrm, distinctEmails } from '../../support/crm.ts'
import { stateSum } from '../../support/harness.ts'
import { openCommandLine } from './command-line.ts'

const { database, sandbox, cli } = await openCommandLine({
  prepare: (pool) => createCrm(pool, 2_000),
  service: { limit: 400, windowMs: 1_000, latencyAfterMs: [5, 30], jobDelayMs: [20, 200] },
})

const runTwice = async (route: string): Promise<RunReport[]> => {
  const ended = await Promise.all([
    cli.run('run', '--json', '--route', route),
    cli.run('run', '--json', '--route', route),
  ])
  expect(ended.map((one) => one.code)).toEqual([0, 0])
  return ended.map((one) => JSON.parse(one.stdout) as RunReport)
}

test('two concurrent runs enrich every row, repeat no lookup, and call through one leader', async () => {
  const distinct = await distinctEmails(database.pool)
  const reports = await runTwice('sync')
  for (const report of reports) {
    expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0 } })
    expect(stateSum(report)).toBe(report.rows.picked)
  }
  expect(reports.reduce((sum, report) => sum + report.rows.picked, 0)).toBe(2_000)
  expect(reports.reduce((sum, report) => sum + report.lookups.requested, 0)).toBe(distinct)
  expect(reports.reduce((sum, report) => sum + report.requests.person, 0)).toBe(distinct)
  const stats = sandbox.stats({ inputs: true })
  expect(stats.inputs.max_paid).toBe(1)
  expect(stats.calls).toEqual({ accepted: distinct, refused: 0 })
})

test('two concurrent runs do the same in bulk', async () => {
  sandbox.reset()
  await database.query(
    `insert into crm.contacts (email) select 'bulk' || (n / 2) || '@example.com' from generate_series(1, 2000) n`,
  )
  const reports = await runTwice('bulk')
  expect(reports.reduce((sum, report) => sum + report.rows.picked, 0)).toBe(2_000)
  expect(sandbox.stats({ inputs: true }).inputs).toMatchObject({ distinct: 1_001, max_requested: 1 })
})
