import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createCommandLine, type CommandLine } from '../../support/cli.ts'
import { startHarness, stateSum, type Harness } from '../../support/harness.ts'
import { crmConfig } from '../../support/crm.ts'
import type { RunReport } from '../../../src/runs/report.ts'

// The parts of docker-compose.yml that can be tested without Docker: its CRM, configuration and commands.

let harness: Harness
let cli: CommandLine
beforeAll(async () => {
  // Fewer rows of the same composition.
  const crm = (await readFile('deploy/compose/crm.sql', 'utf8'))
    .replace('generate_series(1, 600)', 'generate_series(1, 60)')
    .replace('1 + n % 600', '1 + n % 60')
    .replace('generate_series(1, 5000)', 'generate_series(1, 300)')
  harness = await startHarness({
    config: crmConfig,
    prepare: async ({ pool }) => void (await pool.query(crm)),
  })
  cli = await createCommandLine(harness.database.url, harness.sandbox, {})
})
afterAll(async () => {
  await cli.remove()
  await harness.close()
})

test('a run fills the CRM and keeps typed values', async () => {
  const typed = async (): Promise<unknown> =>
    (
      await harness.database.pool.query(
        `select count(*) filter (where title = 'typed by hand') as titles, count(phone) filter (where id % 9 = 0) as phones
           from crm.contacts`,
      )
    ).rows
  const before = await typed()
  const config = resolve('deploy/compose/fillrate.config.ts')
  const ended = await cli.run('run', '--wait', '2m', '--json', '--config', config)
  const report = JSON.parse(ended.stdout) as RunReport
  expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0, failed: 0, write_rejected: 0 } })
  expect(stateSum(report)).toBe(report.rows.picked)
  for (const state of ['enriched', 'not_found', 'below_confidence', 'invalid_input'] as const)
    expect(report.rows[state]).toBeGreaterThan(0)
  expect(report.jobs.completed).toBeGreaterThan(0)
  expect(report.lookups.distinct).toBeLessThan(report.rows.picked)
  expect(await typed()).toEqual(before)
})
