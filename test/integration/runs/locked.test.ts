import { expect, test } from 'vitest'
import { runExitCode } from '../../../src/runs/report.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { runRequest, useFreshHarness } from '../../support/harness.ts'
import { whileOpen } from '../../support/answered-people.ts'

const harness = useFreshHarness({ config: crmConfig, prepare: ({ pool }) => createCrm(pool, 20) })

test('a run ends in bounded time although a row stays locked, says so, and the next run writes it without a call', async () => {
  const { database, sandbox } = harness
  await whileOpen(database, `update crm.contacts set last_name = 'typed' where id = 5`, async () => {
    const report = await harness.run({ waitMs: 2_000 })
    expect(report).toMatchObject({ status: 'completed', rows: { picked: 20, waiting: 1, write_rejected: 0 } })
    expect(report.reason).toContain('1 row waits because other transactions have locked')
    expect(runExitCode(report)).toBe(3)
  })
  const calls = sandbox.stats().calls.accepted
  const next = await harness.run()
  // A writer may finish the row before its pass reads it, which then finds nothing to pick, or nothing left to fill.
  expect(next).toMatchObject({ status: 'completed', reason: null, rows: { waiting: 0 } })
  expect(sandbox.stats().calls.accepted).toBe(calls)
  const rows = await database.query(
    `select c.enriched_at is not null as is_written, count(ch.id)::int as changes
       from crm.contacts c left join fillrate.changes ch on ch.source = 'contacts' and ch.key = c.id::text
      where c.id = 5 group by c.id`,
  )
  expect(rows).toEqual([{ is_written: true, changes: 1 }])
})

test('a run ends in bounded time although its table stays locked, says so, and the next run continues', async () => {
  const app = await harness.open()
  await whileOpen(harness.database, 'lock table crm.contacts in access exclusive mode', async () => {
    const report = await app.run(runRequest({ waitMs: 1_000 }))
    expect(report).toMatchObject({ status: 'completed', unread_sources: ['contacts'], rows: { picked: 0 } })
    expect(report.reason).toContain('contacts could not be read to the end')
    expect(runExitCode(report)).toBe(3)
  })
  expect(await harness.run()).toMatchObject({ status: 'completed', rows: { picked: 20, waiting: 0 } })
})

test('a run waits for a table locked meanwhile, then continues', async () => {
  const { database, sandbox } = harness
  const person = await database.pool.connect()
  sandbox.configure({ latencyAfterMs: [300, 400] })
  const running = harness.run()
  await expect.poll(() => sandbox.stats().calls.accepted).toBeGreaterThan(0)
  await person.query('begin; lock table crm.contacts in access exclusive mode')
  // Responses arrive, and cannot be written.
  await expect
    .poll(() => database.count(`fillrate.rows where state = 'waiting' and due_at is not null`))
    .toBeGreaterThan(0)
  await person.query('commit')
  person.release()
  expect(await running).toMatchObject({ status: 'completed', rows: { picked: 20, waiting: 0 } })
})
