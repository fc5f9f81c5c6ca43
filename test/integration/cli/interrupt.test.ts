import { afterAll, beforeAll, expect, test } from 'vitest'
import { startSandbox, type Sandbox } from '../../../src/sandbox/server.ts'
import { createCommandLine, type CommandLine } from '../../support/cli.ts'
import { createCrm, crmConfig, distinctEmails } from '../../support/crm.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

let database: TestDatabase
let sandbox: Sandbox
let cli: CommandLine
beforeAll(async () => {
  database = await createTestDatabase()
  await createCrm(database.pool, 800)
  sandbox = await startSandbox({ limit: 150, windowMs: 1_000, latencyAfterMs: [10, 50] })
  cli = await createCommandLine(database.url, sandbox, crmConfig)
})
afterAll(async () => {
  await cli.remove()
  await sandbox.close()
  await database.drop()
})

test('SIGTERM saves the state of a run; the next run continues where it stopped', async () => {
  const distinct = await distinctEmails(database.pool)
  const first = cli.start('run', '--route', 'sync', '--json')
  await expect.poll(() => sandbox.stats().calls.accepted).toBeGreaterThan(200)
  first.child.kill('SIGTERM')
  const interrupted = await first.ended
  expect(interrupted.code).toBe(130)
  const report = JSON.parse(interrupted.stdout) as { status: string; rows: Record<string, number> }
  expect(report.status).toBe('interrupted')
  const { picked = 0, ...states } = report.rows
  expect(Object.values(states).reduce((sum, count) => sum + count, 0)).toBe(picked)
  expect(report.rows['waiting']).toBeGreaterThan(0)
  const { rows } = await database.pool.query<{ leased: number }>(
    `select count(*)::int as leased from fillrate.lookups where state = 'leased'`,
  )
  expect(rows[0]?.leased).toBe(0)

  const second = await cli.run('run', '--route', 'sync', '--json')
  expect(second.code).toBe(0)
  expect(JSON.parse(second.stdout)).toMatchObject({ status: 'completed', rows: { waiting: 0 } })
  const stats = sandbox.stats({ inputs: true })
  expect(stats.inputs.max_paid).toBe(1)
  expect(stats.inputs.distinct).toBe(distinct)
})
