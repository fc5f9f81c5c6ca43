import { randomUUID } from 'node:crypto'
import { afterEach, expect, test } from 'vitest'
import { claimScheduledRun } from '../../../src/store/scheduled-runs.ts'
import { openDatabase } from '../../../src/store/open.ts'
import type { Started } from '../../support/cli.ts'
import { createCrm, crmConfig, distinctEmails } from '../../support/crm.ts'
import { beginRun } from '../../support/test-run.ts'
import { openCommandLine } from './command-line.ts'

// Each run is in a process of its own, and is cancelled from this one.

const SCHEDULED = { cron: '0 2 * * *', timezone: null, sources: ['contacts'] }

const { database, sandbox, cli, here } = await openCommandLine({
  prepare: (pool) => createCrm(pool, 600),
  service: { limit: 20, windowMs: 1_000, notFoundShare: 0, missingShare: 0 },
})
const running: Started[] = []
afterEach(async () => {
  for (const { child } of running) if (child.exitCode === null) child.kill('SIGKILL')
  await Promise.all(running.splice(0).map(({ ended }) => ended))
})

const start = (...args: string[]): Started => {
  // Without a secret there are no jobs, which would hold all rows at once.
  const started = cli.startWith({ FILLRATE_WEBHOOK_SECRET: undefined }, ...args)
  running.push(started)
  return started
}

interface RunRow {
  readonly id: number
  readonly state: string
  readonly reason: string | null
  readonly waiting: number
}
const listRuns = (trigger: string): Promise<RunRow[]> =>
  database.query<RunRow>(
    `select id::int, state, reason,
              (select count(*) from fillrate.rows where run_id = u.id and state = 'waiting')::int as waiting
         from fillrate.runs u where trigger = any($1) order by id desc`,
    [trigger.split(',')],
  )
const newestRun = async (trigger: string): Promise<RunRow | null> => (await listRuns(trigger))[0] ?? null
const calls = (): number => sandbox.stats().calls.accepted

/** Waits until a run calls the service, so that it has work under way. */
async function untilCalling(trigger: string): Promise<number> {
  const before = calls()
  await expect.poll(async () => (await newestRun(trigger))?.state).toBe('running')
  await expect.poll(calls).toBeGreaterThan(before)
  return (await newestRun(trigger))?.id ?? 0
}

test('a run of another process stops, keeps what it has, and says who cancelled it', async () => {
  const first = start('run', '--route', 'sync', '--json')
  const run = await untilCalling('manual')
  const cancelled = await here(['cancel', String(run), '--json'])
  expect(cancelled).toMatchObject({ code: 0, stderr: '' })
  expect(JSON.parse(cancelled.stdout)).toMatchObject({ run })

  const ended = await first.ended
  const reason = expect.stringMatching(/^cancelled by \S+@\S+/) as string
  expect(ended.code).toBe(130)
  const report = JSON.parse(ended.stdout) as { rows: Record<string, number> }
  expect(report).toMatchObject({ run, status: 'interrupted', reason })
  const { picked = 0, ...states } = report.rows
  expect(Object.values(states).reduce((sum, count) => sum + count, 0)).toBe(picked)
  expect(report.rows['waiting']).toBeGreaterThan(0)
  const rows = await database.query<{ leased: number; running: number }>(
    `select (select count(*) from fillrate.lookups where state = 'leased')::int as leased,
            (select count(*) from fillrate.runs where state = 'running')::int as running`,
  )
  expect(rows).toEqual([{ leased: 0, running: 0 }])
})

test('a run that has ended, and one that does not exist, are refused', async () => {
  const [{ id }] = (await listRuns('manual')) as [RunRow]
  const ended = await here(['cancel', String(id)])
  expect(ended.code).toBe(2)
  expect(ended.stderr).toMatch(/which has ended \(interrupted: cancelled by/)
  expect((await here(['cancel', '4711'])).stderr).toContain('4711, and there is no such run')
  expect((await here(['cancel', 'last'])).stderr).toContain('Expected the number of a run')
})

test('a run whose process is dead is closed at once', async () => {
  const dead = await beginRun(database.db, { leaseMs: -60_000 })
  const ended = await here(['cancel', String(dead)])
  expect(ended.code).toBe(0)
  expect(ended.stdout).toMatch(/cancelled by \S+@[^\s;]+; its process died/)
})

test('a scheduled run that is cancelled is not started again', async () => {
  const name = `${SCHEDULED.cron} | contacts`
  await database.query(
    `insert into fillrate.scheduled_runs (schedule, at, sources, state, finished_at)
     values ($1, now() - interval '3 days', '{contacts}', 'done', now())`,
    [name],
  )
  await cli.configure({ ...crmConfig, schedule: [{ cron: SCHEDULED.cron, sources: ['contacts'] }] })
  const daemon = start('start', '--port', '0')
  const run = await untilCalling('schedule')
  expect(await here(['cancel', String(run)])).toMatchObject({ code: 0 })
  const read = async () =>
    (
      await database.query<{ state: string; reason: string }>(
        `select state, reason from fillrate.scheduled_runs where schedule = $1 and run_id = $2`,
        [name, run],
      )
    )[0]
  await expect.poll(read).toMatchObject({ state: 'done' })
  expect((await read())?.reason).toMatch(/^interrupted: cancelled by /)
  expect((await newestRun('schedule'))?.waiting).toBeGreaterThan(0)
  // Calls that were on the wire end after their run.
  const leased = () => database.count(`fillrate.lookups where state = 'leased'`)
  await expect.poll(leased).toBe(0)
  const after = calls()
  daemon.child.kill('SIGTERM')
  await daemon.ended
  expect(calls()).toBe(after)
  expect(await listRuns('schedule')).toHaveLength(1)
})

test('a scheduled run is not taken over from a process that was killed before it could stop', async () => {
  const rows = await database.query<{ id: string }>(
    `insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until, cancelled_at, cancelled_by)
     values ('schedule', '{contacts}', 'running', 'gone', $1, now() - interval '1 minute', now(), 'ada@host')
     returning id`,
    [randomUUID()],
  )
  await database.query(
    `insert into fillrate.scheduled_runs (schedule, at, sources, state, attempts, run_id, owner, lease_token, leased_until)
     values ('nightly', now() - interval '1 hour', '{contacts}', 'running', 1, $1, 'gone', $2, now() - interval '1 minute')`,
    [rows[0]?.id, randomUUID()],
  )
  const db = openDatabase({ url: database.url, max: 1 })
  try {
    const requests = { kinds: [], sources: [], service: 0 }
    const lease = { owner: 'here', token: randomUUID(), leaseMs: 1_000, takesOver: true }
    const request = { schedules: ['nightly'], requests, ...lease }
    expect(await claimScheduledRun(db, request)).toEqual({ claimed: null, blocked: [] })
  } finally {
    await db.destroy()
  }
  const now = await database.query(
    `select state, reason from fillrate.scheduled_runs where schedule = 'nightly'`,
  )
  expect(now).toEqual([{ state: 'done', reason: 'interrupted: cancelled by ada@host' }])
})

test('live sync leaves the rows of a cancelled run to the next run, and goes on with later changes', async () => {
  const { contacts } = crmConfig.sources
  await cli.configure({ ...crmConfig, sources: { contacts: { ...contacts, follow: true } } })
  expect(await cli.run('follow', 'install', 'contacts')).toMatchObject({ code: 0 })
  const daemon = start('start', '--port', '0')
  await expect.poll(() => Promise.resolve(daemon.child.exitCode)).toBeNull()
  await database.query(
    `insert into crm.contacts (email) select 'sync' || n || '@example.com' from generate_series(1, 500) n`,
  )
  const run = await untilCalling('follow,backfill')
  const cancelled = await here(['cancel', String(run)])
  expect(cancelled.code).toBe(0)
  const find = async () => (await listRuns('follow,backfill')).find(({ id }) => id === run)
  await expect.poll(find).toMatchObject({ state: 'interrupted' })
  const closed = await find()
  expect(closed?.waiting).toBeGreaterThan(0)

  await database.query(`insert into crm.contacts (email) values ('later@example.com')`)
  await expect
    .poll(
      async () =>
        (
          await database.query<{ phone: string | null }>(
            `select phone from crm.contacts where email = 'later@example.com'`,
          )
        )[0]?.phone ?? null,
    )
    .not.toBeNull()
  // Where the machine is slow, what was on the wire is answered behind its end.
  const left = (await find())?.waiting ?? 0
  expect((closed?.waiting ?? 0) - left).toBeLessThanOrEqual(32)
  daemon.child.kill('SIGTERM')
  await daemon.ended
})

test('the next run finishes all of it, and no lookup is paid twice', async () => {
  const distinct = await distinctEmails(database.pool)
  await cli.configure(crmConfig)
  const answered = sandbox.stats({ inputs: true }).inputs.distinct
  expect(answered).toBeGreaterThan(0)
  sandbox.configure({ limit: 2_000 })
  const ended = await cli.run('run', '--route', 'sync', '--json')
  expect(ended.code).toBe(0)
  const { inputs } = sandbox.stats({ inputs: true })
  expect(inputs.max_paid).toBe(1)
  expect(inputs.distinct).toBeGreaterThanOrEqual(distinct)
  expect(await distinctEmails(database.pool)).toBe(0)
})
