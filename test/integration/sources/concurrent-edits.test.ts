import { beforeEach, expect, test } from 'vitest'
import { openSource } from '../../../src/sources/source.ts'
import type { Source } from '../../../src/sources/source-model.ts'
import { writeBatch, type WriteResult } from '../../../src/sources/write/write.ts'
import { useTestDatabase } from '../../support/database.ts'
import { mapping, output } from './mapping.ts'
import { prepare, transact } from './writing.ts'

const database = useTestDatabase()
let source: Source

beforeEach(async () => {
  await database.query(`
    drop table if exists people, accounts;
    create table accounts (id int primary key, name text);
    create table people (id int primary key, email text, title text, phone text, account_id int references accounts,
                         attributes jsonb, deleted boolean not null default false);
    insert into accounts values (1, 'One'), (2, 'Two');
    insert into people values (1, 'a@x.no', null, null, 1, '{"kept": 1}'), (2, 'b@x.no', null, null, 1, null)`)
  source = await openSource(
    database.db,
    mapping({
      joins: 'left join accounts a on a.id = t.account_id',
      where: ['not t.deleted'],
      inputs: { email: 't.email', company: 'a.name' },
      outputs: [
        output('title', 'title'),
        output('phone', 'phone', { policy: 'tracked' }),
        output('attributes.department', 'department'),
      ],
    }),
  )
})

const record = { title: 'CTO', phone: '+4712345678', department: 'IT' }

/**
 * A user edits a row in an open transaction: our write skips it and writes the other one. Then the user commits, and the
 * row is written again with what was prepared before.
 */
async function writeWhile(edit: string, edited = '1'): Promise<WriteResult[]> {
  const batch = await prepare(database, source, ['1', '2'], record)
  const person = await database.pool.connect()
  try {
    await person.query('begin')
    await person.query(edit)
    const first = await transact(database, (tx) => writeBatch(tx, source, batch))
    expect(first.filter(({ outcome }) => outcome === 'locked').map(({ key }) => key)).toEqual([edited])
    await person.query('commit')
    const left = batch.filter(({ key }) => key === edited)
    const second = await transact(database, (tx) => writeBatch(tx, source, left))
    return first.map((result) => second.find(({ key }) => key === result.key) ?? result)
  } finally {
    person.release()
  }
}

const people = (): Promise<unknown[]> =>
  database.query('select id, title, phone, attributes from people order by id')

test('a value entered in a transaction that was open during the write stays', async () => {
  const results = await writeWhile(
    `update people set title = 'Typed', phone = '1', attributes = attributes || '{"typed": 2}' where id = 1`,
  )
  expect(results).toMatchObject([
    { outcome: 'written', protectedColumns: ['title', 'phone'], after: { 'attributes.department': 'IT' } },
    { outcome: 'written', protectedColumns: [] },
  ])
  expect(await people()).toEqual([
    { id: 1, title: 'Typed', phone: '1', attributes: { kept: 1, typed: 2, department: 'IT' } },
    { id: 2, title: 'CTO', phone: '+4712345678', attributes: { department: 'IT' } },
  ])
})

test('a row whose own input changes meanwhile is not written', async () => {
  const results = await writeWhile(`update people set email = 'c@x.no' where id = 1`)
  expect(results).toMatchObject([{ outcome: 'inputs_changed' }, { outcome: 'written' }])
  expect((await people())[0]).toMatchObject({ title: null, phone: null, attributes: { kept: 1 } })
})

test('a row whose joined account changes meanwhile is not written', async () => {
  const results = await writeWhile(`update people set account_id = 2 where id = 1`)
  expect(results).toMatchObject([{ outcome: 'inputs_changed' }, { outcome: 'written' }])
})

test('a row that is deleted or leaves the source meanwhile is missing', async () => {
  expect(await writeWhile(`update people set deleted = true where id = 1`)).toMatchObject([
    { outcome: 'row_missing' },
    { outcome: 'written' },
  ])
  expect(await writeWhile(`delete from people where id = 2`, '2')).toMatchObject([{ outcome: 'row_missing' }])
})

test('a row that changes after the statement began, and before it is locked, is read as it is then', async () => {
  await database.query(`insert into people select n, n || '@x.no' from generate_series(3, 6) as n`)
  source = await openSource(
    database.db,
    mapping({
      outputs: [
        output('title', 'title', {
          sql: `case when t.id = 1 then (select $value from pg_sleep(1)) else $value end`,
        }),
        output('phone', 'phone', { policy: 'tracked' }),
      ],
    }),
  )
  const batch = await prepare(database, source, ['1', '2', '3', '4', '5', '6'], record)
  const writing = transact(database, (tx) => writeBatch(tx, source, batch))
  await expect
    .poll(async () => {
      const rows = await database.query(
        `select from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()`,
      )
      return rows.length
    })
    .toBe(1)
  await database.query(`
    update people set title = 'Typed' where id = 2; update people set email = 'c@x.no' where id = 3;
    delete from people where id = 4; update people set account_id = 2 where id = 5; update people set id = 7 where id = 6`)
  expect(await writing).toMatchObject([
    { outcome: 'written' },
    { outcome: 'written', protectedColumns: ['title'], after: { phone: record.phone } },
    { outcome: 'inputs_changed' },
    // Still to be seen by the statement: the next one finds out.
    { outcome: 'locked' },
    { outcome: 'written', before: {}, after: { title: 'CTO', phone: record.phone } },
    { outcome: 'locked' },
  ])
  const rows = await database.query('select id, title, phone, account_id from people order by id')
  expect(rows).toEqual([
    { id: 1, title: 'CTO', phone: record.phone, account_id: 1 },
    { id: 2, title: 'Typed', phone: record.phone, account_id: 1 },
    { id: 3, title: null, phone: null, account_id: null },
    { id: 5, title: 'CTO', phone: record.phone, account_id: 2 },
    { id: 7, title: null, phone: null, account_id: null },
  ])
})

test('a row that references a locked one can be inserted meanwhile', async () => {
  await database.query(
    `drop table if exists notes; create table notes (person int references people, note text)`,
  )
  const batch = await prepare(database, source, ['1'], record)
  await transact(database, async (tx) => {
    await writeBatch(tx, source, batch)
    const inserted = await database.pool.query(`insert into notes values (1, 'x')`)
    expect(inserted.rowCount).toBe(1)
  })
  await database.query('drop table notes')
})

test('of two writers of the same rows the first one wins, and neither waits for the other', async () => {
  const first = await prepare(database, source, ['1', '2'], record)
  const second = await prepare(database, source, ['2', '1'], { ...record, title: 'CEO' })
  await transact(database, async (tx) => {
    expect(await writeBatch(tx, source, first)).toMatchObject([
      { outcome: 'written' },
      { outcome: 'written' },
    ])
    const beside = await transact(database, (other) => writeBatch(other, source, second))
    expect(beside).toMatchObject([{ outcome: 'locked' }, { outcome: 'locked' }])
  })
  const later = await transact(database, (tx) => writeBatch(tx, source, second))
  expect(later).toMatchObject([{ outcome: 'unchanged' }, { outcome: 'unchanged' }])
})
