import pg from 'pg'
import { expect, test } from 'vitest'
import type { RunReport } from '../../../src/domain/report/run.ts'
import { createCommandLine } from '../../support/cli.ts'
import { createCrm, crmConfig, distinctEmails, typedCells } from '../../support/crm.ts'
import { createTestDatabase } from '../../support/database.ts'
import { openCommandLine } from './command-line.ts'

const CONCURRENCY = 16
const { database, sandbox, cli } = await openCommandLine({
  prepare: (pool) => createCrm(pool, 1_000),
  service: { latencyAfterMs: [20, 60], jobDelayMs: [100, 400] },
  config: { ...crmConfig, service: { concurrency: CONCURRENCY } },
})

test('after SIGKILL the next run finishes; at most two calls per slot are billed twice, and each is counted', async () => {
  const distinct = await distinctEmails(database.pool)
  const typed = await typedCells(database.pool)
  const killed = cli.start('run', '--route', 'sync', '--json')
  await expect.poll(() => sandbox.stats().calls.accepted).toBeGreaterThan(200)
  killed.child.kill('SIGKILL')
  await killed.ended

  const next = await cli.run('run', '--route', 'sync', '--json')
  expect(next.code).toBe(0)
  const report = JSON.parse(next.stdout) as RunReport
  expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0 } })

  const { inputs } = sandbox.stats({ inputs: true })
  expect(inputs.distinct).toBe(distinct)
  expect(inputs.max_paid).toBeLessThanOrEqual(2)
  expect(report.lookups.in_doubt).toBeGreaterThan(0)
  // On the wire, answered and not stored yet, and leased ahead without a call.
  expect(report.lookups.in_doubt).toBeLessThanOrEqual(3 * CONCURRENCY)
  expect(inputs.paid_more_than_once).toBeLessThanOrEqual(Math.min(report.lookups.in_doubt, 2 * CONCURRENCY))

  const rows = await database.query<{ settled: number; dead: number }>(
    `select (select count(*) from fillrate.rows where state <> 'waiting')::int as settled,
            (select count(*) from fillrate.runs where state = 'interrupted')::int as dead`,
  )
  expect(rows[0]).toEqual({ settled: 1_000, dead: 1 })
  expect(await typedCells(database.pool)).toBe(typed)
})

test('rows that are filled while the next run picks them are reported as enriched', async () => {
  const own = await createTestDatabase()
  const [user, locker] = [0, 1].map(() => new pg.Client({ connectionString: own.url })) as [
    pg.Client,
    pg.Client,
  ]
  const commands = await createCommandLine(own.url, sandbox, crmConfig)
  try {
    await createCrm(own.pool, 200)
    await own.query('update crm.contacts set title = null')
    await Promise.all([user.connect(), locker.connect()])
    // The answers are stored, and cannot be written before the process is killed.
    await user.query('begin; select from crm.contacts for update')
    const killed = commands.start('run', '--route', 'sync', '--json')
    await expect.poll(() => own.count('fillrate.lookups where resolved_at is not null')).toBe(180)
    killed.child.kill('SIGKILL')
    await killed.ended
    await user.query('rollback')
    // Its lease is over, and the rows that it has postponed are due.
    await own.query('update fillrate.runs set leased_until = now(); update fillrate.rows set due_at = null')

    // The next run has read the rows and waits to claim the first of them, while another process fills the others.
    await locker.query(
      `begin; select from fillrate.rows where state = 'waiting' order by key limit 1 for no key update`,
    )
    const next = commands.start('run', '--route', 'sync', '--json')
    await expect
      .poll(() =>
        own.count(`pg_stat_activity where wait_event_type = 'Lock' and query ~ 'insert into fillrate.rows'`),
      )
      .toBe(1)
    const filler = commands.start('serve')
    await expect.poll(() => own.count(`fillrate.rows where state = 'waiting'`)).toBe(1)
    await locker.query('rollback')
    const { code, stdout } = await next.ended
    filler.child.kill('SIGTERM')
    expect((await filler.ended).code).toBe(0)
    expect(code).toBe(0)
    expect((JSON.parse(stdout) as RunReport).rows).toMatchObject({ unchanged: 0, waiting: 0 })
    expect(await own.count(`fillrate.rows where state = 'enriched'`)).toBe(
      await own.count(`crm.contacts where enriched_at is not null`),
    )
  } finally {
    await Promise.all([user.end(), locker.end()])
    await commands.remove()
    await own.drop()
  }
})
