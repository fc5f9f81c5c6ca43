import { afterAll, beforeAll, expect, test } from 'vitest'
import { JSON_SHAPES } from '../../../scripts/docs/json-shapes.ts'
import { startSandbox, type Sandbox } from '../../../src/sandbox/server.ts'
import { createCommandLine, type CommandLine } from '../../support/cli.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { runProgram } from '../../support/program.ts'

// The output of the commands, one after the other on one database, as docs/json.md describes it.

let database: TestDatabase
let sandbox: Sandbox
let cli: CommandLine
beforeAll(async () => {
  database = await createTestDatabase()
  await createCrm(database.pool, 40)
  await database.pool.query(`insert into crm.contacts (email) values ('no-address')`)
  sandbox = await startSandbox()
  cli = await createCommandLine(database.url, sandbox, {
    ...crmConfig,
    schedule: [{ cron: '0 2 * * *', sources: ['contacts'] }],
  })
})
afterAll(async () => {
  await cli.remove()
  await sandbox.close()
  await database.drop()
})

async function print(line: string): Promise<unknown> {
  const env = {
    DATABASE_URL: database.url,
    FILLRATE_BASE_URL: sandbox.url,
    FILLRATE_API_KEY: sandbox.keys.join(','),
    FILLRATE_WEBHOOK_SECRET: sandbox.webhookSecret,
  }
  const { stdout, stderr } = await runProgram({ cwd: cli.folder, env }, ...line.split(' '), '--json')
  expect(stderr === '' || stdout !== '').toBe(true)
  expect(stdout).toMatch(/^\{.*\}\n$/)
  return JSON.parse(stdout)
}

const described: readonly (readonly [line: string, shape: keyof typeof JSON_SHAPES])[] = [
  ['version', 'version'],
  ['help', 'help'],
  ['rnu', 'error'],
  ['undo 99', 'error'],
  ['migrate', 'migrate'],
  ['check', 'check'],
  ['plan --budget 10', 'plan'],
  ['follow install contacts', 'follow'],
  ['run --route sync --dry-run --limit 5 --budget 10', 'run'],
  ['plan --sample 2', 'plan'],
  ['run --route sync --limit 30', 'run'],
  ['run --route bulk --wait 1m', 'run'],
  ['cancel 1', 'error'],
  ['jobs', 'jobs'],
  ['failures', 'failures'],
  ['undo 2 --dry-run', 'undo'],
  ['undo 2', 'undo'],
  ['runs', 'runs'],
  ['pause contacts', 'pause'],
  ['resume contacts', 'resume'],
  ['schedule', 'schedule'],
  ['forget --email contact1@example.com', 'forget'],
]

test.each(described)('fillrate %s --json has the documented shape', async (line, shape) => {
  const result = JSON_SHAPES[shape].safeParse(await print(line))
  expect(result.error?.issues ?? []).toEqual([])
})

/** Names chosen by the user, by the service or by the words of a reason. */
const FOREIGN = /^(rows|fill_rate|invalid_input|inputs|record|input|map)$/

function listNames(value: unknown, parent = ''): string[] {
  if (Array.isArray(value)) return value.flatMap((one) => listNames(one, parent))
  if (typeof value !== 'object' || value === null || FOREIGN.test(parent)) return []
  return Object.entries(value).flatMap(([name, inner]) => [name, ...listNames(inner, name)])
}

test.each([
  'status',
  'explain contacts 1',
  'retry --dry-run',
  'remap contacts --dry-run',
  'init --out other.config.ts',
  'serve --port x',
])('fillrate %s --json has names in snake_case', async (line) => {
  const names = listNames(await print(line))
  expect(names.length).toBeGreaterThan(0)
  expect(names.filter((name) => !/^[a-z][a-z0-9_]*$/.test(name))).toEqual([])
})
