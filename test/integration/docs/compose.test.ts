import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { afterAll, expect, inject, test } from 'vitest'
import type { RunReport } from '../../../src/domain/report/run.ts'
import { stateSum } from '../../support/harness.ts'
import { onServer } from '../../support/server.ts'
import { openCommandLine } from '../cli/command-line.ts'

// The parts of docker-compose.yml that can be tested without Docker: its CRM, configuration and commands.

const ROLES = ['fillrate_compose_owner', 'fillrate_compose_app'] as const
const [OWNER, APP] = ROLES
for (const role of ROLES)
  await onServer(inject('postgresUrl'), (client) =>
    client.query(`drop role if exists ${role}`).catch(() => {}),
  )
const { database, cli } = await openCommandLine({
  prepare: async (pool) => {
    // Fewer rows of the same composition.
    const crm = (await readFile('deploy/compose/crm.sql', 'utf8'))
      .replace('generate_series(1, 600)', 'generate_series(1, 60)')
      .replace('1 + n % 600', '1 + n % 60')
      .replace('generate_series(1, 5000)', 'generate_series(1, 300)')
    await pool.query(crm)
    // What psql does, and the names of this test.
    const { rows } = await pool.query<{ name: string }>('select current_database() as name')
    const roles = (await readFile('deploy/compose/roles.sql', 'utf8'))
      .replace(/^\\getenv .*$/m, '')
      .replaceAll(`:'password'`, `'compose'`)
      .replaceAll('database crm', `database ${rows[0]?.name}`)
      .replaceAll(/fillrate_(?=owner|app)/g, 'fillrate_compose_')
    await pool.query(`drop schema fillrate cascade; ${roles}`)
  },
  config: {},
})
afterAll(async () => {
  for (const role of ROLES)
    await database.pool.query(`drop owned by ${role} cascade; drop role ${role}`).catch(() => {})
})
const asRole = (role: string): { DATABASE_URL: string } => ({
  DATABASE_URL: Object.assign(new URL(database.url), { username: role, password: 'compose' }).href,
})

test('with the roles of roles.sql, migrate creates the schema, and a run fills the CRM and keeps typed values', async () => {
  expect(await cli.runWith(asRole(OWNER), 'migrate')).toMatchObject({ code: 0, stderr: '' })
  const typed = (): Promise<unknown> =>
    database.query(
      `select count(*) filter (where title = 'typed by hand') as titles, count(phone) filter (where id % 9 = 0) as phones
           from crm.contacts`,
    )
  const before = await typed()
  const config = resolve('deploy/compose/fillrate.config.ts')
  const ended = await cli.runWith(asRole(APP), 'run', '--wait', '2m', '--json', '--config', config)
  const report = JSON.parse(ended.stdout) as RunReport
  expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0, failed: 0, write_rejected: 0 } })
  expect(stateSum(report)).toBe(report.rows.picked)
  for (const state of ['enriched', 'not_found', 'below_confidence', 'invalid_input'] as const)
    expect(report.rows[state]).toBeGreaterThan(0)
  expect(report.jobs.completed).toBeGreaterThan(0)
  expect(report.lookups.distinct).toBeLessThan(report.rows.picked)
  expect(await typed()).toEqual(before)
})
