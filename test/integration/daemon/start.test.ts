import { afterAll, beforeAll, expect, test } from 'vitest'
import type { DashboardToken } from '../../../src/config/environment.ts'
import { startSandbox, type Sandbox } from '../../../src/sandbox/server.ts'
import { Cable } from '../../support/cable.ts'
import { createCommandLine, type CommandLine, type Started } from '../../support/cli.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { DashboardClient } from '../../support/dashboard-client.ts'
import { useTestDatabase } from '../../support/database.ts'

// `fillrate start` as a process, from before there is a Postgres to after the second signal.

const followed = {
  ...crmConfig,
  services: { acme: {} },
  sources: { contacts: { ...crmConfig.sources.contacts, services: ['acme'], follow: true } },
  schedule: [{ cron: '0 2 * * *', timezone: 'Europe/Oslo' }],
}

const ANNA: DashboardToken = { name: 'anna', role: 'operator', secret: 'a-token-that-is-hard-to-guess' }

const database = useTestDatabase()
let sandbox: Sandbox
let cli: CommandLine
let daemon: Started
let cable: Cable
let output = ''
let dashboard: DashboardClient
let ready: () => Promise<{ status: number; reason?: string }>

beforeAll(async () => {
  await createCrm(database.pool, 10)
  await database.query('drop schema fillrate cascade')
  sandbox = await startSandbox({ notFoundShare: 0, missingShare: 0 })

  // A port on which Postgres does not listen yet.
  cable = await new Cable(database.url).plug()
  await cable.pull()
  cli = await createCommandLine(cable.through(database.url), { acme: sandbox }, followed)
  daemon = cli.startWith({ FILLRATE_DASHBOARD_TOKEN: `${ANNA.name}:${ANNA.secret}` }, 'start', '--json')
  await new Promise<void>((resolve) => {
    for (const stream of [daemon.child.stdout, daemon.child.stderr])
      stream?.on('data', (text: string) => {
        output += text
        if (output.includes('"public_url"')) resolve()
      })
  })
  const { listens } = JSON.parse(output.split('\n').find((line) => line.includes('"public_url"')) ?? '') as {
    listens: string
  }
  dashboard = new DashboardClient(listens, ANNA)
  ready = async () => {
    const answer = await fetch(`${listens}/readyz`)
    return { status: answer.status, ...((await answer.json()) as { reason?: string }) }
  }
})

afterAll(async () => {
  daemon.child.kill('SIGKILL')
  await daemon.ended
  await cable.pull()
  await cli.remove()
  await sandbox.close()
})

const enriched = (): Promise<number> =>
  database.count(`crm.contacts where email like 'new%' and phone is not null`)
const insert = (email: string) => database.pool.query('insert into crm.contacts (email) values ($1)', [email])

const linesOf = (event: string, code: string) =>
  output.split('\n').filter((line) => line.includes(`"${event}"`) && line.includes(`"${code}"`)).length

test('waits for Postgres and the schema, and reports not ready', async () => {
  await expect.poll(() => output).toContain('Postgres is away (connection refused)')
  expect(await ready()).toMatchObject({ status: 503, reason: 'database unavailable' })
  await cable.plug()
  await expect.poll(() => output).toContain('does not fit this version')
  await expect
    .poll(ready)
    .toMatchObject({ status: 503, reason: expect.stringContaining('fillrate migrate') as string })

  expect((await cli.run('migrate')).code).toBe(0)
  const installed = await cli.run('follow', 'install', 'contacts')
  expect(installed.stdout).toContain('triggers on crm.contacts')
  await expect.poll(() => output).toContain('this process runs live sync')
  await expect.poll(ready).toMatchObject({ status: 200 })
  // Postgres and the schema: each outage is one line at its begin and one at its end.
  for (const event of ['condition_began', 'condition_ended'])
    await expect.poll(() => linesOf(event, 'database_away')).toBe(2)
  await insert('new1@example.com')
  await expect.poll(enriched).toBe(1)
})

test('its own dashboard starts a run', async () => {
  await expect.poll(async () => (await dashboard.get('/runs/new')).text).not.toContain('No daemon')
  const location = await dashboard.confirm('/runs/start?source=contacts&limit=2&budget=2')
  // Of a run, or of the runs where it has not begun yet.
  expect(location).toMatch(/^\/runs(?:\/\d+|\?requested=1)$/)
  const lastAction = () =>
    database.pool
      .query('select actor, action, outcome from fillrate.audit_events order by id desc limit 1')
      .then(({ rows }) => rows as unknown)
  await expect.poll(lastAction).toEqual([{ actor: 'anna', action: 'run', outcome: 'done' }])
  const written = await database.pool.query(
    "select from fillrate.changes where run_id = (select max(id) from fillrate.runs where trigger = 'manual')",
  )
  expect(written.rowCount).toBe(2)
})

test('status shows the next time of the schedule in its time zone', async () => {
  const shown = await cli.run('status')
  expect(shown.code).toBe(0)
  expect(shown.stdout.match(/ 02:00:00 CES?T/g)).toHaveLength(1)
  const shownJson = JSON.parse((await cli.run('status', '--json')).stdout) as {
    schedule: { next: string[] }[]
  }
  expect(shownJson.schedule[0]?.next).toHaveLength(1)
})

test('SIGTERM finishes work in progress, closes runs and releases leases', async () => {
  sandbox.configure({ latencyAfterMs: 500 })
  await insert('new2@example.com')
  const calls = sandbox.stats().calls.accepted
  await expect.poll(() => sandbox.stats().calls.accepted).toBe(calls + 1)
  daemon.child.kill('SIGTERM')
  expect((await daemon.ended).code).toBe(0)
  const rows = await database.query(
    `select (select count(*)::int from fillrate.runs where state = 'running') as running,
            (select count(*)::int from fillrate.leases) as leases,
            (select state from fillrate.lookups where key = 'new2@example.com') as lookup`,
  )
  expect(rows).toEqual([{ running: 0, leases: 0, lookup: 'found' }])
})

test('stored answers are written by the next process without a call', async () => {
  const calls = sandbox.stats().calls.accepted
  const next = cli.start('start')
  await expect.poll(enriched).toBe(2)
  expect(sandbox.stats().calls.accepted).toBe(calls)
  // The second signal does not wait.
  sandbox.configure({ latencyAfterMs: 20_000 })
  await insert('new3@example.com')
  await expect.poll(() => sandbox.stats().calls.accepted).toBe(calls + 1)
  let stderr = ''
  next.child.stderr?.on('data', (text: string) => (stderr += text))
  next.child.kill('SIGTERM')
  await expect.poll(() => stderr).toContain('repeat to stop immediately')
  next.child.kill('SIGTERM')
  expect((await next.ended).code).toBe(130)
})
