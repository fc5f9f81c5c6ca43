import pino from 'pino'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { forgetSubject } from '../../../src/actions/forget.ts'
import { parseForgetTarget } from '../../../src/actions/forget-target.ts'
import { readStatus } from '../../../src/actions/status.ts'
import { listRuns, withGroups } from '../../../src/store/runs.ts'
import { type Harness, startHarness } from '../../support/harness.ts'

// What was asked and written by several services in turn.

/** Rows by what the two services know of them: of the first `acme` knows the title, and `pdl` adds the phone. */
const GROUP_ROWS = { both: '5', secondOnly: '2', none: '12' } as const

let harness: Harness
beforeEach(async () => {
  harness = await startHarness({
    config: {
      services: { acme: {}, pdl: {} },
      sources: {
        people: {
          kind: 'person',
          table: 'people',
          inputs: { email: 't.email' },
          services: ['acme', { name: 'pdl', when: 'blank' }],
          outputs: { title: 'title', phone: 'phone' },
        },
      },
      budget: 'unlimited',
    },
    services: {
      acme: { notFoundShare: 0.4, missingShare: 0.2, seed: 1 },
      pdl: { notFoundShare: 0.2, missingShare: 0, seed: 2 },
    },
    prepare: async ({ pool }) => {
      await pool.query(`
        create table people (id int primary key, email text, title text, phone text);
        insert into people select n, 'p' || n || '@example.com' from generate_series(1, 20) n`)
    },
  })
  await harness.run({ route: 'sync' })
})
afterEach(() => harness.close())

const explain = async (key: string) => (await harness.open()).explain('people', key)

test('explain names the service of each lookup, in the order in which they were asked, and who filled which cell', async () => {
  const both = await explain(GROUP_ROWS.both)
  expect(both.missed_lookups).toMatchObject([
    { service: 'acme', state: 'found', run: 1, went_on: 'its record left a wanted cell blank' },
  ])
  expect(both.lookup).toMatchObject({ service: 'pdl', state: 'found', run: 2 })
  expect(both.row.columns).toMatchObject([
    { column: 'title', service: 'acme', written_by: 1 },
    { column: 'phone', service: 'pdl', written_by: 2 },
  ])
  expect(both.changes).toMatchObject([
    { run: 2, service: 'pdl', cells: [{ column: 'phone' }] },
    { run: 1, service: 'acme', cells: [{ column: 'title' }] },
  ])
  expect(both.fields).toMatchObject([
    { service: 'acme', column: 'title', result: 'written by run 1' },
    { service: 'acme', column: 'phone', result: 'not written: the record has no value' },
    { service: 'pdl', column: 'title', result: 'not written: the column holds what run 1 wrote from acme' },
    { service: 'pdl', column: 'phone', result: 'written by run 2' },
  ])
  const none = await explain(GROUP_ROWS.none)
  expect([...none.missed_lookups, none.lookup]).toMatchObject([
    { service: 'acme', state: 'not_found', went_on: 'it had no match' },
    { service: 'pdl', state: 'not_found' },
  ])
})

test('forget erases what each of the services has answered about a person', async () => {
  const { db } = harness.database
  const email = `p${GROUP_ROWS.secondOnly}@example.com`
  const target = parseForgetTarget('email', email)
  if (typeof target === 'string') throw new Error(target)
  const report = await forgetSubject({ db, log: pino({ level: 'silent' }) }, [target], { dryRun: false })
  expect(report).toMatchObject({ erased: { lookups: 2, records: 1, rows: 1, changes: 1 }, remaining: [] })
  expect(await harness.query(`select from fillrate.lookups where key = '${email}'`)).toEqual([])
  expect(await explain(GROUP_ROWS.secondOnly)).toMatchObject({
    state: { state: 'suppressed' },
    lookup: null,
    missed_lookups: [],
    changes: [],
  })
})

const filled = async (): Promise<number[]> =>
  Object.values(
    (await harness.query('select count(title)::int as t, count(phone)::int as p from people'))[0] ?? {},
  ) as number[]

test('the undo of a group’s first run undoes the writes of all its services', async () => {
  expect(await filled()).toEqual([18, 19])
  const preview = await harness.undo(1, { dryRun: true })
  const report = await harness.undo(1)
  // Three rows by `acme` alone, six by both, ten by `pdl` alone.
  expect(report).toMatchObject({ undoes: 1, others: [2], changes: { total: 25, restored: 25, remaining: 0 } })
  expect(preview).toEqual({ ...report, run: null, dry_run: true, duration_ms: preview.duration_ms })
  expect(await filled()).toEqual([0, 0])
  expect(await explain(GROUP_ROWS.both)).toMatchObject({
    state: { state: 'unchanged', reason: 'undone by run 3, which undid runs 1 and 2' },
  })
  const again = await harness.undo(3)
  expect(again).toMatchObject({ changes: { restored: 25 } })
  expect(await filled()).toEqual([18, 19])
})

test('the undo of another run of a group undoes its own writes, and the first one then the rest', async () => {
  const own = await harness.undo(2)
  expect(own).toMatchObject({ undoes: 2, changes: { total: 16, restored: 16 } })
  expect(own.others).toBeUndefined()
  expect(await filled()).toEqual([7, 4])
  expect(await harness.undo(1)).toMatchObject({
    others: [2],
    changes: { total: 25, restored: 9, undone_before: 16 },
  })
  expect(await filled()).toEqual([0, 0])
})

test('a group is not undone while one of its runs is running', async () => {
  await harness.query(`
    update fillrate.runs set state = 'running', finished_at = null, leased_until = now() + interval '1 minute' where id = 2`)
  await expect(harness.undo(1)).rejects.toThrow('run 2 of its group is still running')
})

test('runs and status show the runs of a group together, with their services', async () => {
  const { db } = harness.database
  const runs = await withGroups(db, await listRuns(db, 10))
  expect(runs).toMatchObject([
    { id: 2, group: 1, service: 'pdl' },
    { id: 1, group: 1, service: 'acme' },
  ])
  const status = await readStatus(db, ['people'], null)
  expect(status).toMatchObject({
    last_run: { id: 2, group: 1, service: 'pdl' },
    last_group: [{ id: 1, service: 'acme' }, { id: 2 }],
  })
  // An undo belongs to no group.
  await harness.undo(1)
  const [undo] = await withGroups(db, await listRuns(db, 1))
  expect(undo).not.toHaveProperty('group')
  expect(await readStatus(db, ['people'], null)).not.toHaveProperty('last_group')
})
