import { beforeEach, expect, test } from 'vitest'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { useHarness } from '../../support/harness.ts'

// The identity of a row is its key and the inputs that were looked up: a key may be used again, and an address change.

const { contacts } = crmConfig.sources
const tracked = {
  ...crmConfig,
  sources: {
    contacts: { ...contacts, outputs: { title: { field: 'title', policy: 'tracked' }, phone: 'phone' } },
  },
} as const

const harness = useHarness({
  config: crmConfig,
  sandbox: { missingShare: 0, notFoundShare: 0 },
  prepare: ({ pool }) => createCrm(pool, 0),
})
beforeEach(() =>
  harness.query(`truncate crm.contacts, fillrate.rows, fillrate.lookups, fillrate.changes,
                  fillrate.skipped_cells restart identity cascade`),
)

const add = (...ids: number[]) =>
  harness.query(
    `insert into crm.contacts (id, email) overriding system value
     select n, 'person' || n || '@example.com' from unnest($1::int[]) n`,
    [ids],
  )
const run = async (config: object = crmConfig) => {
  const report = await harness.run({ route: 'sync' }, { config })
  return report
}
/** Writes what a newer record has. @returns the run that has written it */
async function remapNewer(): Promise<number> {
  await harness.query(`update fillrate.lookups set record = (record::jsonb || '{"title": "Newer"}')::json`)
  await harness.remap('contacts', { config: tracked })
  return harness.scalar<number>('select max(id)::int from fillrate.runs')
}
/** Uses the keys again for other people; `title` as given, everything else blank. */
async function reuse(title: string, { isNoticed = false } = {}): Promise<void> {
  const titles = await harness.query<{ id: string; title: string }>('select id, title from crm.contacts')
  await harness.query('delete from crm.contacts')
  if (isNoticed) await run()
  for (const row of titles)
    await harness.query(
      `insert into crm.contacts (id, email, title) overriding system value values ($1, $2, $3)`,
      [row.id, `other${row.id}@example.com`, title === 'same' ? row.title : title],
    )
}
const titles = async () =>
  (await harness.query<{ title: string }>('select title from crm.contacts order by id')).map((r) => r.title)

test.each([false, true])(
  'a typed value of a row that has the key of another is not taken for what Fillrate wrote there (noticed: %s)',
  async (isNoticed) => {
    await add(1, 2)
    await run(tracked)
    const written = await titles()
    await reuse('same', { isNoticed })

    expect(await run(tracked)).toMatchObject({ rows: { picked: 2, enriched: 2 } })
    expect(await titles()).toEqual(written)
    expect(await harness.query('select from crm.contacts where phone is null')).toEqual([])
    // Nor by the write after that one.
    await remapNewer()
    expect(await titles()).toEqual(written)
  },
)

test('an undo leaves a row that has the key of the one that was written, and lists it', async () => {
  await add(1, 2)
  const { run: id } = await run()
  const [first] = await titles()
  await reuse('same')
  await harness.query(`update crm.contacts set email = 'person2@example.com' where id = 2`)

  const report = await harness.undo(id)
  expect(report).toMatchObject({ changes: { total: 2, restored: 1, kept: 1 } })
  expect(report.kept.toSorted((a, b) => a.key.localeCompare(b.key))).toMatchObject([
    { key: '1', inputs_changed: true, columns: ['title', 'phone', 'seniority', 'company'] },
    { key: '2', inputs_changed: false, columns: ['phone', 'seniority', 'company'] },
  ])
  expect(await titles()).toEqual([first, null])
})

test('Fillrate owns what it wrote again, once a row has its earlier inputs again', async () => {
  await add(1)
  const { run: id } = await run(tracked)
  await harness.query(`update crm.contacts set email = 'other@example.com', phone = null`)
  await run(tracked)
  await harness.query(`update crm.contacts set email = 'person1@example.com', phone = null`)
  await run(tracked)
  const [row] = await harness.query<{ written: object }>('select last_written as written from fillrate.rows')
  expect(Object.keys(row?.written ?? {})).toEqual(['phone', 'title'])
  expect(await harness.undo(id)).toMatchObject({ changes: { restored: 1 }, cells: { kept: 1 } })
})

test('a row whose address changes gets every value of the new record, and none stays of the former', async () => {
  await add(1, 2)
  await run()
  const former = await harness.query<Record<string, string>>(
    'select title, phone, seniority, company from crm.contacts',
  )
  // The second row is complete.
  await harness.query(`update crm.contacts set email = 'other' || id || '@another.example',
                      title = case when id = 2 then title end, phone = case when id = 1 then 'typed' else phone end`)

  const report = await run()
  expect(report).toMatchObject({ rows: { picked: 2, enriched: 2 }, lookups: { requested: 2 } })
  const rows = await harness.query<Record<string, string>>(
    'select title, phone, seniority, company from crm.contacts order by id',
  )
  expect(rows[1]?.['phone']).not.toBe(former[1]?.['phone'])
  const record = await harness.query<{ company: string }>(
    `select record #>> '{company,name}' as company from fillrate.lookups where key like 'other1%'`,
  )
  expect(rows[0]).toMatchObject({ phone: 'typed', company: record[0]?.company })
  expect(rows[0]?.['company']).not.toBe(former[0]?.['company'])

  const app = await harness.open()
  const { fields } = await app.explain('contacts', '1')
  expect(fields.map(({ column, result }) => [column, result])).toEqual([
    ['title', `written by run ${report.run}`],
    ['phone', 'not written: the column holds a value, which the policy `blank` protects'],
    // The seniority is the same by chance.
    ['seniority', expect.stringMatching(/^written by run \d+$/)],
    ['company', `written by run ${report.run}`],
  ])
  await app.close()
})

test('one value of a row that has the key of another is kept, although Fillrate wrote the same', async () => {
  await add(1)
  await run()
  const [written] = await titles()
  await reuse('same')
  expect(await run()).toMatchObject({ rows: { picked: 1, enriched: 1 }, cells: { written: 3, protected: 1 } })
  expect(await titles()).toEqual([written])
})

test('a deleted row that is inserted again with its inputs is the same row: what Fillrate wrote there is its own', async () => {
  await add(1, 2)
  const { run: id } = await run(tracked)
  await harness.query('create table crm.saved as select * from crm.contacts; delete from crm.contacts')
  await run(tracked)
  await harness.query(`insert into crm.contacts overriding system value select * from crm.saved; drop table crm.saved;
               update crm.contacts set title = 'typed' where id = 2`)
  await run(tracked)
  await remapNewer()
  expect(await titles()).toEqual(['Newer', 'typed'])
  expect(await harness.undo(id)).toMatchObject({ changes: { total: 2, restored: 2 }, cells: { kept: 2 } })
})

/** Loads the table again with the same rows, as from a backup. */
const reload = () =>
  harness.query(`create table crm.saved as select * from crm.contacts; delete from crm.contacts;
         insert into crm.contacts overriding system value select * from crm.saved; drop table crm.saved`)

test('what an undo puts back in a table that was loaded again is as before that write: Fillrate refreshes it', async () => {
  await add(1)
  await run(tracked)
  const written = await titles()
  await reload()
  await harness.undo(await remapNewer())
  expect(await titles()).toEqual(written)
  await remapNewer()
  expect(await titles()).toEqual(['Newer'])
})

test('so is what the undo of an undo puts back: the record of another address replaces it', async () => {
  await add(1)
  const { run: id } = await run()
  const written = await titles()
  await reload()
  const undone = await harness.undo(id)
  expect(await titles()).toEqual([null])
  await harness.undo(undone.run ?? 0)
  expect(await titles()).toEqual(written)
  await harness.query(`update crm.contacts set email = 'other1@another.example', company = null`)
  expect(await run()).toMatchObject({ rows: { picked: 1, enriched: 1 }, cells: { protected: 0 } })
  expect(
    await harness.query(
      `select title, phone, company from crm.contacts
       except select record ->> 'title', record ->> 'phone', record #>> '{company,name}' from fillrate.lookups where key like 'other1%'`,
    ),
  ).toEqual([])
})
