import { beforeAll, expect, test } from 'vitest'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { stateSum, useHarness } from '../../support/harness.ts'

const harness = useHarness({ config: withAccounts, prepare: ({ pool }) => createCrm(pool, 300, 40) })
beforeAll(() => harness.run())

test('a second run over the same rows requests nothing and picks nothing', async () => {
  const before = harness.calls()
  const report = await harness.run()
  expect(report.rows.picked).toBe(0)
  expect(harness.calls()).toBe(before)
})

test('a changed email requests exactly that one', async () => {
  const before = harness.calls()
  await harness.query(`update crm.contacts set email = 'changed@example.com', title = null where id = 5`)
  const report = await harness.run()
  expect(report.rows.picked).toBe(1)
  expect(report.lookups.requested).toBe(1)
  expect(harness.calls()).toBe(before + 1)
})

test('a row with an already answered address is written without a call', async () => {
  const before = harness.calls()
  await harness.query(`insert into crm.contacts (email) values ('PERSON12@example.com ')`)
  const report = await harness.run()
  expect(report).toMatchObject({ rows: { picked: 1 }, lookups: { distinct: 1, stored: 1, requested: 0 } })
  expect(stateSum(report)).toBe(1)
  expect(harness.calls()).toBe(before)
})

test('a row without a usable input is rejected before it costs a call', async () => {
  const before = harness.calls()
  await harness.query(`insert into crm.contacts (email) values ('a@b.example, c@d.example'), ('  '), (null)`)
  const report = await harness.run({ sources: ['contacts'] })
  expect(report.rows).toMatchObject({ picked: 3, invalid_input: 3 })
  expect(harness.calls()).toBe(before)
})

test('due rows are requested again', async () => {
  const before = harness.calls()
  const rows = await harness.query<{ key: string }>(
    `update crm.contacts set title = null
      where id = (select key::bigint from fillrate.rows where source = 'contacts' and state = 'enriched' order by key::bigint limit 1)
      returning id::text as key`,
  )
  await harness.query(`update fillrate.rows set due_at = now() where source = 'contacts' and key = $1`, [
    rows[0]?.key,
  ])
  await harness.query(
    `update fillrate.lookups set refresh_at = now() where id = (select lookup_id from fillrate.rows where source = 'contacts' and key = $1)`,
    [rows[0]?.key],
  )
  const report = await harness.run()
  expect(report).toMatchObject({ rows: { picked: 1 }, lookups: { requested: 1 } })
  expect(harness.calls()).toBe(before + 1)
})

// As after a move by dump and restore to a server of another byte order or encoding, where hash functions differ.
test('rows whose stored hashes mean nothing any more are picked once, and neither requested nor written again', async () => {
  const written = (): Promise<unknown> =>
    harness.query(`
        select (select count(*) from fillrate.changes) as changes, (select count(*) from fillrate.lookups) as lookups,
               (select md5(string_agg(c::text, ',' order by id)) from crm.contacts c) as contacts`)
  const before = { calls: harness.calls(), written: await written() }
  await harness.query(`update fillrate.rows set input_hash = input_hash # -1`)
  const report = await harness.run()
  expect(report.rows.picked).toBeGreaterThan(100)
  expect(report).toMatchObject({ status: 'completed', lookups: { requested: 0 }, cells: { written: 0 } })
  expect({ calls: harness.calls(), written: await written() }).toEqual(before)
  expect(await harness.run()).toMatchObject({ rows: { picked: 0 } })
})
