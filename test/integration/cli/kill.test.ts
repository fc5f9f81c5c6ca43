import { afterAll, beforeAll, expect, test } from 'vitest'
import { startSandbox, type Sandbox } from '../../../src/sandbox/server.ts'
import { createCommandLine, type CommandLine } from '../../support/cli.ts'
import { createCrm, crmConfig, distinctEmails, typedCells } from '../../support/crm.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

const CONCURRENCY = 16
let database: TestDatabase
let sandbox: Sandbox
let cli: CommandLine
beforeAll(async () => {
  database = await createTestDatabase()
  await createCrm(database.pool, 1_000)
  sandbox = await startSandbox({ latencyAfterMs: [20, 60], jobDelayMs: [100, 400] })
  cli = await createCommandLine(database.url, sandbox, {
    ...crmConfig,
    service: { concurrency: CONCURRENCY },
  })
})
afterAll(async () => {
  await cli.remove()
  await sandbox.close()
  await database.drop()
})

interface Report {
  readonly status: string
  readonly rows: Record<string, number>
  readonly lookups: { readonly in_doubt: number }
}

test('after SIGKILL the next run finishes; at most two calls per slot are billed twice, and each is counted', async () => {
  const distinct = await distinctEmails(database.pool)
  const typed = await typedCells(database.pool)
  const killed = cli.start('run', '--route', 'sync', '--json')
  await expect.poll(() => sandbox.stats().calls.accepted).toBeGreaterThan(200)
  killed.child.kill('SIGKILL')
  await killed.ended

  const next = await cli.run('run', '--route', 'sync', '--json')
  expect(next.code).toBe(0)
  const report = JSON.parse(next.stdout) as Report
  expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0 } })

  const { inputs } = sandbox.stats({ inputs: true })
  expect(inputs.distinct).toBe(distinct)
  expect(inputs.max_paid).toBeLessThanOrEqual(2)
  expect(report.lookups.in_doubt).toBeGreaterThan(0)
  // On the wire, answered and not stored yet, and marked ahead without a call.
  expect(report.lookups.in_doubt).toBeLessThanOrEqual(3 * CONCURRENCY)
  expect(inputs.paid_more_than_once).toBeLessThanOrEqual(Math.min(report.lookups.in_doubt, 2 * CONCURRENCY))

  const { rows } = await database.pool.query<{ settled: number; dead: number }>(
    `select (select count(*) from fillrate.rows where state <> 'waiting')::int as settled,
            (select count(*) from fillrate.runs where state = 'interrupted')::int as dead`,
  )
  expect(rows[0]).toEqual({ settled: 1_000, dead: 1 })
  expect(await typedCells(database.pool)).toBe(typed)
})
