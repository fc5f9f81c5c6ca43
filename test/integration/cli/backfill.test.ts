import { afterAll, beforeAll, expect, test } from 'vitest'
import { startSandbox, type Sandbox } from '../../../src/sandbox/server.ts'
import { createCommandLine, type CommandLine } from '../../support/cli.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

// A budget below the backlog is a choice: night after night, and no trouble.

let database: TestDatabase
let sandbox: Sandbox
let cli: CommandLine
beforeAll(async () => {
  database = await createTestDatabase()
  await createCrm(database.pool, 40)
  sandbox = await startSandbox()
  cli = await createCommandLine(database.url, sandbox, crmConfig)
})
afterAll(async () => {
  await cli.remove()
  await sandbox.close()
  await database.drop()
})

const run = () => cli.run('run', 'contacts', '--route', 'sync', '--budget', '15')
const readStatus = async () =>
  JSON.parse((await cli.run('status', '--json')).stdout) as Record<string, unknown>

test('status shows how far a source has come whose runs stop at their budget, until nothing remains', async () => {
  expect((await run()).code).toBe(4)
  expect(await readStatus()).toMatchObject({
    troubles: [],
    backfills: { contacts: { picked: 15, eligible: 40, per_day: 15, done_at: expect.any(String) } },
  })
  expect((await cli.run('status')).stdout).toMatch(
    /Backfill +contacts: 15 of 40 rows picked, done by \d{4}-\d\d-\d\d at this pace/,
  )
  expect((await run()).code).toBe(4)
  expect(await readStatus()).toMatchObject({ backfills: { contacts: { picked: 30, per_day: 30 } } })
  await run()
  expect(await readStatus()).toMatchObject({ backfills: {} })
})
