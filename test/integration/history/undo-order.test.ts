import { afterEach, expect, test } from 'vitest'
import { startHarness, type Harness } from '../../support/harness.ts'
import { personSource } from '../../support/crm.ts'

/* Two sources fill one table: their writes are undone in any order. */

let harness: Harness
afterEach(() => harness.close())

const source = (outputs: object, more: object = {}) =>
  personSource('people', outputs, { minConfidence: 0, ...more })

async function start(sources: object): Promise<void> {
  harness = await startHarness({
    config: { sources, budget: 'unlimited' },
    sandbox: { notFoundShare: 0, missingShare: 0 },
    prepare: async ({ pool }) => {
      await pool.query(`
        create table people (id int primary key, email text, title text, attributes jsonb, enriched_at timestamptz);
        insert into people (id, email, attributes)
        select n, 'person' || n || '@example.com',
               case n % 4 when 0 then '{}'::jsonb when 1 then null when 2 then '{"contact": {}}' else '{"own": 1}' end
          from generate_series(1, 8) n`)
    },
  })
}

const table = (): Promise<unknown> => harness.query('select * from people order by id')

const first = source({ 'attributes.title': 'title', 'attributes.contact.phone': 'phone' })
const second = source({ 'attributes.seniority': 'seniority', 'attributes.contact.email': 'email' })

test.each([
  ['newest first', [1, 0]],
  ['oldest first', [0, 1]],
])('keys inside jsonb: %s, an object that was empty is empty again', async (_, order) => {
  await start({ first, second })
  const before = await table()
  const runs = [await harness.run({ sources: ['first'] }), await harness.run({ sources: ['second'] })]
  for (const n of order)
    expect((await harness.undo(runs[n]?.run ?? 0)).changes).toMatchObject({ restored: 8, kept: 0 })
  expect(await table()).toEqual(before)
})

test('the same source, after its mapping has grown', async () => {
  await start({ people: first })
  const before = await table()
  const one = await harness.run()
  const outputs = { ...first.outputs, ...second.outputs }
  await harness.remap('people', {
    config: { sources: { people: { ...first, outputs } }, budget: 'unlimited' },
  })
  await harness.undo(one.run)
  await harness.undo(one.run + 1)
  expect(await table()).toEqual(before)
})

test('a dry run counts as the undo does, where one run wrote a cell twice', async () => {
  const touch = { enriched_at: 'clock_timestamp()' }
  await start({
    one: source({ title: 'title' }, { touch }),
    two: source({ 'attributes.seniority': 'seniority' }, { touch }),
  })
  const { run } = await harness.run()
  const planned = await harness.undo(run, { dryRun: true })
  const done = await harness.undo(run)
  expect(done.cells).toEqual({ restored: 16, touched: 16, kept: 0 })
  expect(planned.cells).toEqual(done.cells)
  expect(planned.changes).toEqual(done.changes)
})

test('a column that both wrote gets back what it held before the first, oldest first', async () => {
  const touch = { enriched_at: 'now()' }
  await start({
    one: source({ title: 'title' }, { touch }),
    two: source({ 'attributes.seniority': 'seniority' }, { touch }),
    three: source({ 'attributes.contact.phone': 'phone' }, { touch }),
  })
  const before = await table()
  const runs = []
  for (const name of ['one', 'two', 'three']) runs.push(await harness.run({ sources: [name] }))
  for (const { run } of runs) expect((await harness.undo(run)).changes).toMatchObject({ restored: 8 })
  expect(await table()).toEqual(before)
})

test('what a user typed between two writes is restored, also oldest first', async () => {
  const touch = { enriched_at: 'now()' }
  await start({
    one: source({ title: 'title' }, { touch }),
    two: source({ 'attributes.seniority': 'seniority' }, { touch }),
  })
  const first = await harness.run({ sources: ['one'] })
  await harness.query(`update people set enriched_at = '2020-01-01'`)
  const second = await harness.run({ sources: ['two'] })
  await harness.undo(first.run)
  await harness.undo(second.run)
  const rows = await harness.query(
    `select distinct title, enriched_at = '2020-01-01' as is_typed from people`,
  )
  expect(rows).toEqual([{ title: null, is_typed: true }])
})

test('what an undo emptied, another run filled, and the undo of both brings back', async () => {
  await start({
    one: source({ title: 'title', 'attributes.title': 'title' }),
    two: source({ title: 'name.full' }),
  })
  const first = await harness.run({ sources: ['one'] })
  const written = await table()
  const emptied = await harness.undo(first.run)
  const second = await harness.run({ sources: ['two'] })
  await harness.undo(emptied.run ?? 0)
  expect(await table()).not.toEqual(written)
  await harness.undo(second.run)
  expect(await table()).toEqual(written)
})
