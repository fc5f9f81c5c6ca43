import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { createCommandLine, type CommandLine } from '../../support/cli.ts'
import { startHarness, stateSum, type Harness } from '../../support/harness.ts'
import { crmConfig } from '../../support/crm.ts'
import { onServer } from '../../support/server.ts'
import type { RunReport } from '../../../src/runs/report.ts'

// The parts of docker-compose.yml that can be tested without Docker: its CRM, configuration and commands.

const ROLES = ['fillrate_compose_owner', 'fillrate_compose_app'] as const
const [OWNER, APP] = ROLES
let harness: Harness
let cli: CommandLine
const urlFor = (role: string): string => {
  const url = new URL(harness.database.url)
  url.username = role
  url.password = 'compose'
  return url.href
}

beforeAll(async () => {
  for (const role of ROLES)
    await onServer(inject('postgresUrl'), (client) =>
      client.query(`drop role if exists ${role}`).catch(() => {}),
    )
  // Fewer rows of the same composition.
  const crm = (await readFile('deploy/compose/crm.sql', 'utf8'))
    .replace('generate_series(1, 600)', 'generate_series(1, 60)')
    .replace('1 + n % 600', '1 + n % 60')
    .replace('generate_series(1, 5000)', 'generate_series(1, 300)')
  harness = await startHarness({
    config: crmConfig,
    prepare: async ({ pool }) => void (await pool.query(crm)),
  })
  // What psql does, and the names of this test.
  const name = (await harness.query<{ name: string }>('select current_database() as name'))[0]?.name
  const roles = (await readFile('deploy/compose/roles.sql', 'utf8'))
    .replace(/^\\getenv .*$/m, '')
    .replaceAll(`:'password'`, `'compose'`)
    .replaceAll('database crm', `database ${name}`)
    .replaceAll(/fillrate_(?=owner|app)/g, 'fillrate_compose_')
  await harness.query(`drop schema fillrate cascade; ${roles}`)
  cli = await createCommandLine(urlFor(APP), harness.sandbox, {})
})
afterAll(async () => {
  await cli.remove()
  for (const role of ROLES)
    await harness.database.pool.query(`drop owned by ${role} cascade; drop role ${role}`).catch(() => {})
  await harness.close()
})

test('with the roles of roles.sql, migrate creates the schema, and a run fills the CRM and keeps typed values', async () => {
  expect(await cli.runWith({ DATABASE_URL: urlFor(OWNER) }, 'migrate')).toMatchObject({ code: 0, stderr: '' })
  const typed = (): Promise<unknown> =>
    harness.query(
      `select count(*) filter (where title = 'typed by hand') as titles, count(phone) filter (where id % 9 = 0) as phones
           from crm.contacts`,
    )
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
