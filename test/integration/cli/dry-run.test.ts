import { expect, test } from 'vitest'
import type { RunReport } from '../../../src/domain/report/run.ts'
import { createCrm, crmConfig, distinctEmails } from '../../support/crm.ts'
import { openCommandLine } from './command-line.ts'

const CONCURRENCY = 8
const { database, sandbox, cli } = await openCommandLine({
  prepare: (pool) => createCrm(pool, 400),
  service: { latencyAfterMs: [10, 30], jobDelayMs: [50, 200] },
  config: { ...crmConfig, service: { concurrency: CONCURRENCY } },
})

const contacts = () =>
  database.scalar<string>(
    `select md5(string_agg(t.xmin::text || t::text, ',' order by id)) from crm.contacts t`,
  )

test('a killed dry run has written nothing, and the next run writes everything', async () => {
  const before = await contacts()
  const distinct = await distinctEmails(database.pool)
  const killed = cli.start('run', '--dry-run', '--route', 'sync')
  await expect.poll(() => sandbox.stats().calls.accepted).toBeGreaterThan(150)
  killed.child.kill('SIGKILL')
  await killed.ended
  expect(await contacts()).toBe(before)
  expect(await database.count('fillrate.rows')).toBe(0)

  // Its lease must expire first: the dry run waits for that, and takes over what it was to request.
  const waited = await cli.run('run', '--dry-run', '--route', 'sync', '--json')
  expect(JSON.parse(waited.stdout) as RunReport).toMatchObject({ rows: { picked: 400, waiting: 0 } })

  const dry = await cli.run('run', '--dry-run', '--route', 'sync')
  expect(dry.code).toBe(0)
  expect(dry.stdout).toMatch(/^Dry run \d+ completed in .*\n {2}Nothing was written to your tables/m)
  expect(dry.stdout).toMatch(/^Before and after, in 20 rows$/m)
  expect(dry.stdout).toMatch(/Cells +[\d,]+ would be written/)
  expect(await contacts()).toBe(before)

  const calls = sandbox.stats().calls.accepted
  const run = await cli.run('run', '--route', 'sync', '--json')
  expect(run.code).toBe(0)
  expect(JSON.parse(run.stdout) as RunReport).toMatchObject({
    status: 'completed',
    rows: { picked: 400, waiting: 0 },
    lookups: { requested: 0 },
  })
  expect(sandbox.stats().calls.accepted).toBe(calls)
  const { inputs } = sandbox.stats({ inputs: true })
  expect(inputs.distinct).toBe(distinct)
  // On the wire, or answered and not stored yet.
  expect(inputs.paid_more_than_once).toBeLessThanOrEqual(2 * CONCURRENCY)
  expect(inputs.max_paid).toBeLessThanOrEqual(2)
  expect(await database.count(`fillrate.lookups where state = 'pending'`)).toBe(0)
  const list = await cli.run('runs')
  expect(list.stdout.split('\n').filter((line) => / dry /.test(line))).toHaveLength(3)
})
