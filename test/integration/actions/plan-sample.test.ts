import { afterEach, expect, test } from 'vitest'
import { describeSource } from '../../../src/sources/describe-source.ts'
import { requestsFor, cascadeConfig, createPeople, HALF, readPeople } from '../../support/cascade.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { startServicesInOrder } from '../../support/services-in-order.ts'
import { runRequest, startHarness, type Harness } from '../../support/harness.ts'

let harness: Harness
afterEach(() => harness.close())

const start = async (): Promise<void> => {
  harness = await startHarness({ config: withAccounts, prepare: ({ pool }) => createCrm(pool, 200, 30) })
}
const plan = async (
  request: { sample?: number; sources?: string[]; where?: string; limit?: number } = {},
) => {
  const app = await harness.open()
  return app.plan(runRequest(request))
}

/** Everything that a plan must leave unchanged. */
const everything = (): Promise<object[]> =>
  harness.query(`select (select md5(string_agg(t.xmin::text || t::text, ',' order by id)) from crm.contacts t) as contacts,
                 (select md5(string_agg(t.xmin::text || t::text, ',' order by id)) from crm.accounts t) as accounts,
                 (select md5(string_agg(t.xmin::text || t::text, ',' order by source, key)) from fillrate.rows t) as rows,
                 (select md5(string_agg(t.xmin::text || t::text, ',' order by id)) from fillrate.lookups t) as lookups`)

test('nothing is shown if nothing is stored, and no sample unless requested', async () => {
  await start()
  expect((await plan({ sample: 20 })).sample).toEqual([])
  expect(await plan()).not.toHaveProperty('sample')
})

test('rows with a stored record are shown before and after, as the next run writes them', async () => {
  await start()
  await harness.run({ dryRun: { sample: 0 } })
  const before = await everything()
  const calls = harness.calls()
  const { sample = [], lookups } = await plan({ sample: 20 })
  expect(await everything()).toEqual(before)
  expect(harness.calls()).toBe(calls)
  expect(lookups).toMatchObject({ requested: 0 })
  expect(sample).toHaveLength(20)
  expect(sample.filter((row) => row.source === 'accounts')).toHaveLength(10)
  expect((await plan({ sample: 3 })).sample).toHaveLength(3)
  expect((await plan({ sample: 1_000 })).sample?.length).toBeGreaterThan(150)

  await harness.run()
  for (const { source, key, cells } of sample) {
    const [row] = await harness.query<Record<string, unknown>>(
      `select * from crm.${source} where id = ${key}`,
    )
    expect(cells.length).toBeGreaterThan(0)
    for (const { column, before: was, after } of cells) {
      expect(was).toBeNull()
      expect(row?.[column]).toEqual(after)
    }
  }
})

test('of several services the records of each are shown with its name, as the next run writes them', async () => {
  const { people } = cascadeConfig.sources
  const services = await startServicesInOrder({
    config: {
      services: { acme: {}, beta: {}, gamma: {} },
      sources: {
        people: {
          ...people,
          inputs: { email: 't.email' },
          services: ['acme', { name: 'beta', when: 'blank' }, 'gamma'],
          outputs: { title: 'title', phone: 'phone' },
        },
      },
      budget: 'unlimited',
    },
    sandboxes: {
      acme: { notFoundShare: 0.4, missingShare: 0.4, seed: 1 },
      beta: { notFoundShare: 0.4, missingShare: 0.4, seed: 2 },
      gamma: { notFoundShare: 0.4, seed: 3 },
    },
    prepare: async ({ pool }) => {
      await pool.query(`
        create table people (id int primary key, email text, title text, phone text);
        insert into people select n, 'p' || n || '@example.com' from generate_series(1, 120) n`)
    },
  })
  harness = services as Harness
  const first = await services.run()
  await services.query(`
    update people set title = null, phone = null;
    delete from fillrate.rows; delete from fillrate.changes; delete from fillrate.skipped_cells`)
  const app = await services.open()
  const { sample = [], cost } = await app.plan({ ...runRequest(), sample: 1_000 })
  expect((await app.plan({ ...runRequest(), sample: 7 })).sample).toHaveLength(7)
  await app.close()
  expect(cost.lookups).toBe(0)
  const next = await services.run()
  expect(next).toMatchObject({ lookups: { requested: 0 }, cells: { written: first.cells.written } })
  const written = await services.query(`
    select c.key, v."column", v.after, s.name as service
      from fillrate.changes c join fillrate.lookups l on l.id = c.lookup_id join fillrate.services s on s.id = l.service_id
     cross join lateral jsonb_each_text(c.after) v ("column", after) order by c.key || ' ' || v."column" collate "C"`)
  const shown = sample.flatMap(({ key, cells }) =>
    cells.map(({ column, after, service }) => ({ key, column, after, service })),
  )
  expect(new Set(shown.map(({ service }) => service))).toEqual(new Set(['acme', 'beta', 'gamma']))
  const sorted = shown.sort((a, b) => (`${a.key} ${a.column}` < `${b.key} ${b.column}` ? -1 : 1))
  expect(sorted).toEqual(written)
})

test('the sample excludes manually entered values, and rows excluded by a filter or limit', async () => {
  await start()
  await harness.run({ sources: ['contacts'] })
  await harness.query(
    `insert into crm.contacts (email, title, last_name)
     select email, 'typed by hand', 'New' from crm.contacts where id in (select key::bigint from fillrate.rows where state = 'enriched')`,
  )
  const all = (await plan({ sample: 1_000, sources: ['contacts'] })).sample ?? []
  expect(all.length).toBeGreaterThan(50)
  expect(all.flatMap((row) => row.cells).filter((cell) => cell.column === 'title')).toEqual([])
  const some = await plan({ sample: 1_000, sources: ['contacts'], limit: 7 })
  expect(some.sources[0]?.picked).toBe(7)
  expect(some.sample?.length).toBeLessThanOrEqual(7)
  const none = await plan({ sample: 1_000, sources: ['contacts'], where: `t.last_name <> 'New'` })
  expect(none.sample).toEqual([])
})

test('rows excluded by filters are counted, and the numbers add up to the table', async () => {
  await start()
  const { contacts } = withAccounts.sources
  const app = await harness.open({
    config: { ...withAccounts, sources: { contacts: { ...contacts, where: 't.id <= 150' } } },
  })
  const { sources } = await app.plan(runRequest({ where: 't.id > 20' }))
  expect(sources).toMatchObject([{ table: 200, filtered_out: 50, where_out: 20, rows: 130, picked: 130 }])
  const whole = await app.plan(runRequest())
  expect(whole.sources).toMatchObject([{ table: 200, filtered_out: 50, where_out: 0, rows: 150 }])
})

test('rows without a key are counted as such, and check names them', async () => {
  await start()
  await harness.query(
    `alter table crm.contacts add ref text unique; update crm.contacts set ref = 'r' || id where id > 30`,
  )
  const { contacts } = withAccounts.sources
  const app = await harness.open({
    config: {
      ...withAccounts,
      sources: { contacts: { ...contacts, key: 'ref', where: 't.id <= 150' } },
    },
  })
  const { sources } = await app.plan(runRequest())
  expect(sources).toMatchObject([{ table: 200, without_key: 30, filtered_out: 50, where_out: 0, rows: 120 }])
  const narrow = await app.plan(runRequest({ where: 't.id > 50' }))
  expect(narrow.sources).toMatchObject([
    { table: 200, without_key: 30, filtered_out: 50, where_out: 20, rows: 100 },
  ])
  const source = app.sources.get('contacts')
  if (source === undefined) throw new Error('the configuration has no source')
  expect(await describeSource(harness.database.db, source)).toMatchObject([
    { place: 'key', found: '30 rows with NULL in ref: never looked up or written' },
  ])
})

test('a cascade is planned as a range, using what is known', async () => {
  harness = await startHarness({
    config: cascadeConfig,
    sandbox: HALF,
    prepare: ({ pool }) => createPeople(pool, 120),
  })
  const ways = (await readPeople(harness.database.pool)).map((person) => requestsFor(person))
  const first = new Set(ways.map((way) => way.requested[0]))
  const before = await plan()
  expect(before.lookups).toMatchObject({ distinct: first.size, stored: 0, requested: first.size })
  expect(before.cost.lookups).toBe(first.size)
  const report = await harness.run({ route: 'sync' })
  expect(report.lookups.requested).toBeGreaterThan(before.cost.lookups)
  expect(report.lookups.requested).toBeLessThanOrEqual(before.cost.max_lookups)

  const missed = ways.find((way) => way.requested.length > 1)?.requested[0] ?? ''
  await harness.query(
    `insert into people values (1000, '${missed}', 'https://linkedin.com/in/quite-new', 'Ada New', 'New', null)`,
  )
  const after = await plan({ sample: 5 })
  expect(after.sources).toMatchObject([{ picked: 1, valid_input: 1 }])
  expect(after.lookups).toMatchObject({
    distinct: 2,
    stored: 1,
    to_request: { linkedin_url: 1 },
    requested: 1,
  })
  expect(after.cost).toMatchObject({ lookups: 1, max_lookups: 2 })
  const person = (await readPeople(harness.database.pool)).at(-1)
  const next = person ? requestsFor(person).requested.length - 1 : 0
  const run = await harness.run({ route: 'sync' })
  expect(run.lookups).toMatchObject({ distinct: next + 1, stored: 1, requested: next })
})
