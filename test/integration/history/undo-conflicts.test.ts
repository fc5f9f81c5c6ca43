import { expect, test } from 'vitest'
import { ConfigProblems } from '../../../src/config/problems.ts'
import { createCrm, withContacts } from '../../support/crm.ts'
import { useFreshHarness } from '../../support/harness.ts'

const always = withContacts({
  outputs: { title: { field: 'title', policy: 'always' }, phone: 'phone', seniority: 'seniority' },
})
const tracked = withContacts({ outputs: { title: { field: 'title', policy: 'tracked' } } })

const harness = useFreshHarness({
  config: always,
  sandbox: { missingShare: 0, notFoundShare: 0 },
  prepare: ({ pool }) => createCrm(pool, 60),
})

const row = async (id: number): Promise<Record<string, unknown>> =>
  (
    await harness.query<Record<string, unknown>>(
      'select title, phone, seniority from crm.contacts where id = $1',
      [id],
    )
  )[0] ?? {}

const EMPTY = { title: null, phone: null, seniority: null }

test('cells changed since stay and are reported, as are missing and rejected rows', async () => {
  const run = await harness.run()
  expect(run.rows.enriched).toBe(60)
  await harness.query(`
    update crm.contacts set title = 'Chief' where id in (1, 2);
    update crm.contacts set title = 'x', phone = 'y', seniority = 'z', enriched_at = '2020-01-01' where id = 3;
    delete from crm.contacts where id = 4;
    alter table crm.contacts add constraint has_phone check (id <> 5 or phone is not null);
    update crm.contacts set email = 'another@example.com' where id = 6`)
  const later = await harness.run()
  expect(later.rows).toMatchObject({ picked: 1, enriched: 1 })
  const [third, fifth, sixth] = [await row(3), await row(5), await row(6)]

  const plan = await harness.undo(run.run, { dryRun: true })
  const report = await harness.undo(run.run)
  expect(plan).toMatchObject({
    cells: { kept: 8 },
    kept: report.kept,
    changes: { restored: 57, row_missing: 1, kept: 2 },
  })
  expect(report.changes).toEqual({
    total: 60,
    restored: 56,
    kept: 2,
    row_missing: 1,
    rejected: 1,
    undone_before: 0,
    not_configured: 0,
    remaining: 0,
  })
  expect(report.kept.toSorted((a, b) => Number(a.key) - Number(b.key))).toEqual([
    { source: 'contacts', key: '1', columns: ['title'], written_by: null, inputs_changed: false },
    { source: 'contacts', key: '2', columns: ['title'], written_by: null, inputs_changed: false },
    {
      source: 'contacts',
      key: '3',
      columns: ['title', 'phone', 'seniority'],
      written_by: null,
      inputs_changed: false,
    },
    {
      source: 'contacts',
      key: '6',
      columns: ['title', 'phone', 'seniority'],
      written_by: later.run,
      inputs_changed: true,
    },
  ])
  expect(report.failed).toContainEqual({ source: 'contacts', key: '4', outcome: 'row_missing', reason: null })
  expect(report.failed).toContainEqual(
    expect.objectContaining({ key: '5', outcome: 'rejected', reason: expect.stringContaining('has_phone') }),
  )
  expect(await row(1)).toEqual({ ...EMPTY, title: 'Chief' })
  expect([await row(3), await row(5), await row(6)]).toEqual([third, fifth, sixth])
  expect(await row(8)).toEqual(EMPTY)
  expect(await row(7)).toEqual({ ...EMPTY, title: 'typed by hand' })

  // Once it can be restored, the same undo restores it.
  await harness.query('alter table crm.contacts drop constraint has_phone')
  const again = await harness.undo(run.run)
  expect(again).toMatchObject({ changes: { restored: 1, kept: 2, row_missing: 1, undone_before: 56 } })
  expect(await row(5)).toEqual(EMPTY)
})

test('a restored value keeps its owner: one of a user stays, and one that was written for other inputs does not', async () => {
  await harness.run()
  const first = await row(7)
  await harness.query(`update crm.contacts set email = 'other' || id || '@example.com' where id in (7, 8)`)
  await harness.query(`update crm.contacts set title = 'typed again' where id = 8`)
  const second = await harness.run()
  expect(second.rows.enriched).toBe(2)
  const written = await row(7)
  expect(written['title']).not.toBe(first['title'])
  await harness.undo(second.run)
  expect([(await row(7))['title'], (await row(8))['title']]).toEqual([first['title'], 'typed again'])

  // A user happens to type what Fillrate had written before the undo.
  const taken = await harness.scalar<string>(
    `select before ->> 'title' from fillrate.changes where key = '8' order by id desc limit 1`,
  )
  await harness.query('update crm.contacts set title = $1 where id = 8', [taken])
  await harness.query(`update fillrate.lookups set record = jsonb_set(record::jsonb, '{title}', '"Newest"')`)

  const app = await harness.open({ config: tracked })
  await app.retry({
    sources: [],
    states: ['undone'],
    reason: null,
    dryRun: false,
    signal: new AbortController().signal,
  })
  await app.run({
    sources: [],
    limit: null,
    where: null,
    route: 'sync',
    waitMs: 0,
    signal: new AbortController().signal,
  })
  expect([(await row(7))['title'], (await row(8))['title']]).toEqual(['Newest', taken])
})

test('two concurrent undos revert each write once', async () => {
  const before = await harness.checksum('(select id, title, phone, seniority, enriched_at from crm.contacts)')
  await harness.query(
    `insert into crm.contacts (email) select 'more' || n || '@example.com' from generate_series(1, 600) n`,
  )
  const run = await harness.run()
  expect(run.rows.enriched).toBe(660)
  const reports = await Promise.all([harness.undo(run.run), harness.undo(run.run)])
  expect(reports.map((one) => one.status)).toEqual(['completed', 'completed'])
  expect(reports.reduce((sum, one) => sum + one.changes.restored, 0)).toBe(660)
  for (const report of reports) expect(report.changes.restored + report.changes.undone_before).toBe(660)
  await harness.query('delete from crm.contacts where id > 60')
  expect(await harness.checksum('(select id, title, phone, seniority, enriched_at from crm.contacts)')).toBe(
    before,
  )
  const twice = await harness.count(
    '(select undone_by_change_id from fillrate.changes where undone_by_change_id is not null group by 1 having count(*) > 1) t',
  )
  expect(twice).toBe(0)
})

test('an undo retries a locked row, and sees what the other transaction wrote', async () => {
  const { pool } = harness.database
  const run = await harness.run()
  const person = await pool.connect()
  await person.query(`begin; update crm.contacts set title = 'Chief' where id = 9`)
  const undoing = harness.undo(run.run)
  await expect.poll(() => harness.count('fillrate.changes where undone_by_change_id is not null')).toBe(59)
  await person.query('commit')
  person.release()
  expect(await undoing).toMatchObject({
    changes: { restored: 60 },
    kept: [{ key: '9', columns: ['title'], written_by: null }],
  })
  expect(await row(9)).toEqual({ ...EMPTY, title: 'Chief' })
})

test('an interrupted undo reports what is left, and the next one finishes', async () => {
  await harness.query(
    `insert into crm.contacts (email) select 'more' || n || '@example.com' from generate_series(1, 600) n`,
  )
  const before = await harness.checksum('crm.contacts')
  const run = await harness.run()
  const stop = new AbortController()
  const app = await harness.open()
  const first = await app.undo({
    run: run.run,
    dryRun: false,
    signal: stop.signal,
    onProgress: () => stop.abort(),
  })
  expect(first).toMatchObject({ status: 'interrupted', changes: { restored: 500, remaining: 160 } })
  expect(await harness.scalar('select state from fillrate.runs order by id desc limit 1')).toBe('interrupted')
  const second = await harness.undo(run.run)
  expect(second).toMatchObject({
    status: 'completed',
    changes: { restored: 160, undone_before: 500, remaining: 0 },
  })
  expect(await harness.checksum('crm.contacts')).toBe(before)
  // Both parts can be undone again.
  await harness.undo(second.run ?? 0)
  await harness.undo(first.run ?? 0)
  expect(await harness.count('crm.contacts where title is null')).toBe(0)
})

test('changes of a source that is no longer configured are counted, and the others reverted', async () => {
  const run = await harness.run()
  await harness.query(`update fillrate.changes set source = 'people' where key in ('1', '2')`)
  const report = await harness.undo(run.run)
  expect(report.changes).toMatchObject({ restored: 58, not_configured: 2 })
  expect(await row(3)).toEqual(EMPTY)
})

test('a missing run, a running run, and a run that has written nothing', async () => {
  await expect(harness.undo(99)).rejects.toThrow(ConfigProblems)
  const run = await harness.run()
  const none = await harness.run()
  expect(await harness.undo(none.run)).toMatchObject({ run: null, changes: { total: 0 } })
  await harness.undo(run.run)
  expect(await harness.undo(run.run)).toMatchObject({
    run: null,
    changes: { total: 60, undone_before: 60, restored: 0 },
  })
  await harness.query(
    `update fillrate.runs set state = 'running', finished_at = null, leased_until = now() + interval '1 minute' where id = $1`,
    [run.run],
  )
  await expect(harness.undo(run.run)).rejects.toThrow(/still running/)
})
