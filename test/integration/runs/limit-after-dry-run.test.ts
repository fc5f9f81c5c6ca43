import { expect, test } from 'vitest'
import type { RunReport } from '../../../src/domain/report/run.ts'
import { openCommandLine } from '../cli/command-line.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'

const { cli, database, json } = await openCommandLine({
  prepare: (pool) => createCrm(pool, 40, 40),
  config: withAccounts,
})

test('rows that an ended run has left are written by the run that takes them over, within its limit', async () => {
  const refused = await cli.runWith({ FILLRATE_API_KEY: 'wrong' }, 'run', '--budget', '20')
  expect(refused.code).toBe(2)
  await json('run --dry-run --budget 100', 0)
  const { run, rows } = await json<RunReport>('run contacts --limit 5 --budget 20', 0)
  expect(rows.picked).toBe(5)
  const settled = `fillrate.rows where source = 'contacts' and state <> 'waiting'`
  expect(await database.count(settled)).toBe(5)
  expect(await database.count(`fillrate.changes where run_id <> ${run}`)).toBe(0)
})
