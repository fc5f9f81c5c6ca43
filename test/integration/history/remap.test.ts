import { expect, test } from 'vitest'
import type { RemapReport } from '../../../src/actions/remap.ts'
import { countStates, createCrm, withContacts } from '../../support/crm.ts'
import { useFreshHarness, stateSum } from '../../support/harness.ts'

const outputs = {
  title: 'title',
  seniority: { field: 'seniority', policy: 'tracked', map: { senior: 'Sr' } },
}
const first = withContacts({ outputs, minConfidence: 0.5 })
/** Another column, another map, a lower threshold. */
const second = withContacts({
  outputs: {
    ...outputs,
    phone: 'phone',
    seniority: { ...outputs.seniority, map: { senior: 'Senior', entry: 'Entry' } },
  },
})

/** Cells that remaps have written. */
const REMAPPED_CELLS = `
  select sum((select count(*) from jsonb_object_keys(after - 'enriched_at')))::int from fillrate.changes where run_id > 1`

const harness = useFreshHarness({
  config: first,
  sandbox: { missingShare: 0 },
  prepare: ({ pool }) => createCrm(pool, 1_300),
})

const remap = (config: object, dryRun = false): Promise<RemapReport> =>
  harness.remap('contacts', { config, dryRun })

test('stored records are written again under the changed mapping, without a call', async () => {
  const run = await harness.run({ limit: 400 })
  expect(run.rows.below_confidence).toBeGreaterThan(0)
  await harness.query(`update crm.contacts set seniority = 'Typed' where seniority = 'Sr' and id % 2 = 0`)
  await harness.query(`
    update crm.contacts set email = 'changed@example.com'
     where id = (select min(key::int) from fillrate.rows where state = 'enriched')`)
  const typed = (): Promise<string> =>
    harness.checksum(`(select id, seniority from crm.contacts where seniority = 'Typed')`)
  const before = { typed: await typed(), table: await harness.checksum('crm.contacts') }
  const calls = harness.calls()

  const plan = await remap(second, true)
  expect(plan).toMatchObject({ dry_run: true, report: null })
  const { rows, undone: _, cells: __, ...fates } = plan.examined
  expect(Object.values(fates).reduce((sum, n) => sum + n, 0)).toBe(rows)
  expect(plan.sample.length).toBe(10)
  expect(plan.columns.reduce((sum, { written }) => sum + written, 0)).toBe(plan.examined.cells)
  expect(await harness.checksum('crm.contacts')).toBe(before.table)

  const { examined, report } = await remap(second)
  expect(examined).toEqual(plan.examined)
  expect(report).toMatchObject({ status: 'completed', lookups: { requested: 0 } })
  expect(report?.rows).toMatchObject({ picked: examined.changed, enriched: examined.changed, waiting: 0 })
  expect(report && stateSum(report)).toBe(examined.changed)
  expect(report?.cells.written).toBe(examined.cells)
  expect(harness.calls()).toBe(calls)
  expect(await typed()).toBe(before.typed)
  expect(await countStates(harness)).not.toHaveProperty('below_confidence')
  expect(await harness.count(`crm.contacts where seniority = 'Sr'`)).toBe(0)
  expect(
    await harness.count(
      `crm.contacts c join fillrate.rows r on r.source = 'contacts' and r.key = c.id::text
         join fillrate.lookups l on l.id = r.lookup_id where l.state = 'found' and c.phone is null and c.email <> 'changed@example.com'`,
    ),
  ).toBe(0)
  expect(await harness.count('fillrate.answered_lookups')).toBe(0)

  // Nothing is left to do, and rows that would not change keep their state.
  const again = await remap(second)
  expect(again.examined).toMatchObject({ changed: 0, inputs_changed: 1 })
  expect(again.report?.rows.picked).toBe(0)
  // It is a run like any other and can be undone.
  await harness.undo(report?.run ?? 0)
  expect(await harness.checksum('crm.contacts')).toBe(before.table)
})

test('a row on which an expression fails does not stop the others, and says why', async () => {
  await harness.run({ limit: 200 })
  const { report } = await remap(
    withContacts({
      outputs: {
        phone: { field: 'phone', sql: "(1 / (case when $value like '%7' then 0 else 1 end))::text" },
      },
    }),
  )
  expect(report?.rows.write_rejected).toBeGreaterThan(0)
  expect(report?.rows.enriched).toBeGreaterThan(50)
  expect(
    await harness.scalar(`select reason from fillrate.rows where state = 'write_rejected' limit 1`),
  ).toContain('division by zero')
})

test('what was undone is written again, and counted', async () => {
  const run = await harness.run({ limit: 300 })
  const after = await harness.checksum('(select id, title, seniority from crm.contacts)')
  await harness.undo(run.run)
  const { examined } = await remap(first)
  expect(examined).toMatchObject({ changed: run.rows.enriched, undone: run.rows.enriched })
  expect(await harness.checksum('(select id, title, seniority from crm.contacts)')).toBe(after)
})

test('an interrupted remap finishes its page, and the next one continues', async () => {
  await harness.run()
  const stop = new AbortController()
  const app = await harness.open({ config: second })
  const { report } = await app.remap({
    source: 'contacts',
    dryRun: false,
    sample: 0,
    signal: stop.signal,
    onProgress: () => stop.abort(),
  })
  expect(report).toMatchObject({ status: 'interrupted', rows: { waiting: 0 } })
  const rest = await remap(second)
  expect(rest.report?.rows.enriched).toBeGreaterThan(0)
  expect((await remap(second, true)).examined.changed).toBe(0)
  expect((await countStates(harness))['waiting']).toBeUndefined()
})

test('two concurrent remaps write each row once', async () => {
  await harness.run({ limit: 900 })
  const reports = await Promise.all([remap(second), remap(second)])
  const written = reports.reduce((sum, one) => sum + (one.report?.cells.written ?? 0), 0)
  expect(written).toBe(await harness.scalar(REMAPPED_CELLS))
  expect((await remap(second, true)).examined.changed).toBe(0)
})

test('a remap takes no row that another has written since it read the row', async () => {
  const { pool } = harness.database
  await harness.run({ limit: 900 })
  // The slow remap waits with its page read and nothing queued; the other writes it, up to one row that a user has locked.
  await harness.query(`
    create table crm.gate as select;
    create function crm.wait(value text) returns text language plpgsql as $$
      begin while exists (select from crm.gate) loop perform pg_sleep(0.1); end loop; return value; end $$`)
  const withPhone = (phone: object): object =>
    withContacts({ outputs: { ...outputs, phone }, minConfidence: 0.5 })
  const isTrue = async (condition: string): Promise<void> => {
    await expect.poll(() => harness.scalar(condition)).toBe(true)
  }
  const user = await pool.connect()
  let late: RemapReport, other: Promise<RemapReport>
  try {
    await user.query('begin')
    await user.query(`
      select from crm.contacts
       where id = (select key::int from fillrate.rows where state = 'enriched' order by key limit 1) for update`)
    const slow = remap(withPhone({ field: 'phone', sql: 'crm.wait($value)' }))
    await isTrue(`exists (
      select from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database() and query ~ '~evaluated')`)
    other = remap(withPhone({ field: 'phone' }))
    await isTrue(`(
      select count(*) = 1 and bool_and(due_at is not null) from fillrate.rows where state = 'waiting')`)
    await harness.query('delete from crm.gate')
    late = await slow
  } finally {
    user.release(true)
  }
  const { report } = await other
  const { enriched = 0 } = report?.rows ?? {}
  expect(enriched).toBeGreaterThan(500)
  expect(late.examined).toMatchObject({ changed: 0, unchanged: enriched - 1 })
  expect(late.report?.rows.picked).toBe(0)
  expect(report?.cells.written).toBe(await harness.scalar(REMAPPED_CELLS))
})
