import type pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openSource, type Source } from '../../../src/sources/source.ts'
import { writeBatch, type WriteResult } from '../../../src/sources/write.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { mapping, output } from './mapping.ts'
import { prepare, transact } from './writing.ts'

let database: TestDatabase
let source: Source

beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(async () => {
  await database.drop()
})
beforeEach(async () => {
  await database.pool.query(`
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
      where: 'not t.deleted',
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

/** A person edits row 1 in a transaction that is still open; our write waits for it; then the person commits. */
async function writeWhile(edit: string): Promise<WriteResult[]> {
  const batch = await prepare(database, source, ['1', '2'], record)
  const person = await database.pool.connect()
  try {
    await person.query('begin')
    await person.query(edit)
    const writing = transact(database, (tx) => writeBatch(tx, source, batch))
    await untilOneWaits(person)
    await person.query('commit')
    return await writing
  } finally {
    person.release()
  }
}

async function untilOneWaits(client: pg.ClientBase): Promise<void> {
  for (;;) {
    const { rowCount } = await client.query(
      `select from pg_locks where not granted and pid <> pg_backend_pid() and pg_blocking_pids(pid) @> array[pg_backend_pid()]`,
    )
    if (rowCount) return
  }
}

const people = async (): Promise<unknown[]> =>
  (await database.pool.query('select id, title, phone, attributes from people order by id')).rows

test('a value typed while the write waits for the row stays', async () => {
  const results = await writeWhile(
    `update people set title = 'Typed', phone = '1', attributes = attributes || '{"typed": 2}' where id = 1`,
  )
  expect(results).toMatchObject([
    { outcome: 'written', keptColumns: ['title', 'phone'], after: { 'attributes.department': 'IT' } },
    { outcome: 'written', keptColumns: [] },
  ])
  expect(await people()).toEqual([
    { id: 1, title: 'Typed', phone: '1', attributes: { kept: 1, typed: 2, department: 'IT' } },
    { id: 2, title: 'CTO', phone: '+4712345678', attributes: { department: 'IT' } },
  ])
})

test('a row whose own input changes while the write waits is not written', async () => {
  const results = await writeWhile(`update people set email = 'c@x.no' where id = 1`)
  expect(results).toMatchObject([{ outcome: 'inputs_changed' }, { outcome: 'written' }])
  expect((await people())[0]).toMatchObject({ title: null, phone: null, attributes: { kept: 1 } })
})

test('a row that is given to another account meanwhile asks another question', async () => {
  const results = await writeWhile(`update people set account_id = 2 where id = 1`)
  expect(results).toMatchObject([{ outcome: 'inputs_changed' }, { outcome: 'written' }])
})

test('a row deleted, or taken out of the source, while the write waits is gone', async () => {
  expect(await writeWhile(`update people set deleted = true where id = 1`)).toMatchObject([
    { outcome: 'gone' },
    { outcome: 'written' },
  ])
  expect(await writeWhile(`delete from people where id = 2`)).toMatchObject([{ outcome: 'gone' }])
})

test('a row that refers to a locked one can be inserted meanwhile', async () => {
  await database.pool.query(
    `drop table if exists notes; create table notes (person int references people, note text)`,
  )
  const batch = await prepare(database, source, ['1'], record)
  await transact(database, async (tx) => {
    await writeBatch(tx, source, batch)
    const inserted = await database.pool.query(`insert into notes values (1, 'x')`)
    expect(inserted.rowCount).toBe(1)
  })
  await database.pool.query('drop table notes')
})

test('two writers of the same rows leave the first one’s values', async () => {
  const first = await prepare(database, source, ['1', '2'], record)
  const second = await prepare(database, source, ['2', '1'], { ...record, title: 'CEO' })
  const results = await Promise.all([
    transact(database, (tx) => writeBatch(tx, source, first)),
    transact(database, (tx) => writeBatch(tx, source, second)),
  ])
  const outcomes = results.map((batch) => batch.map((result) => result.outcome)).toSorted()
  expect(outcomes).toEqual([
    ['unchanged', 'unchanged'],
    ['written', 'written'],
  ])
})
