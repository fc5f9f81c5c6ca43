import { sql } from 'kysely'
import pg from 'pg'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import type { App } from '../../../src/app.ts'
import * as followed from '../../../src/store/changed-rows.ts'
import { inTransaction } from '../../../src/store/transaction.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { useHarness } from '../../support/harness.ts'

// The triggers of live sync must not affect the users of a table. No daemon runs here.

let app: App
let clients: pg.Client[] = []
const LISTS = ['changed_rows', 'changed_rows_spare'] as const

const { contacts } = crmConfig.sources
const withTriggers = (table: string): object => ({
  ...contacts,
  table,
  touch: {},
  outputs: { title: 'title' },
  follow: true,
})
const harness = useHarness({
  config: {
    ...crmConfig,
    sources: {
      contacts: { ...contacts, follow: true },
      parts: withTriggers('crm.parts'),
    },
  },
  prepare: async ({ pool }) => {
    await createCrm(pool, 50)
    await pool.query(`
        create table crm.parts (id bigint primary key, email text, title text) partition by range (id);
        create table crm.parts_low (title text, id bigint not null, gone int, email text);
        alter table crm.parts_low drop column gone;
        alter table crm.parts attach partition crm.parts_low for values from (0) to (5000);
        create table crm.parts_high partition of crm.parts for values from (5000) to (1000000)`)
  },
})
beforeAll(async () => {
  app = await harness.open()
  for (const source of ['contacts', 'parts']) await app.follow('install', source)
})
beforeEach(async () => {
  await Promise.all(clients.map((client) => client.end()))
  clients = []
  await harness.query(`truncate ${LISTS.map((list) => `fillrate.${list}`).join(', ')}`)
})

const recorded = async (list: (typeof LISTS)[number] = 'changed_rows'): Promise<string[]> =>
  (
    await harness.query<{ key: string }>(
      `select distinct k as key from fillrate.${list}, unnest(keys) k order by 1`,
    )
  ).map((row) => row.key)
async function user(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: harness.database.url })
  await client.connect()
  clients.push(client)
  return client
}
let changes = 0
const change = (id: number, email = `changed${++changes}@example.com`): string =>
  `update crm.contacts set email = '${email}' where id = ${id}`

test('two SERIALIZABLE transactions that change different rows both commit', async () => {
  const [first, second] = [await user(), await user()]
  for (const client of [first, second]) await client.query('begin isolation level serializable')
  await first.query(change(1))
  await second.query(change(2))
  await first.query('commit')
  await expect(second.query('commit')).resolves.toMatchObject({ command: 'COMMIT' })
  expect(await recorded()).toEqual(['1', '2'])
})

test('the list is read at READ COMMITTED, whatever the database default', async () => {
  const [{ name = '' } = {}] = await harness.query<{ name: string }>('select current_database() as name')
  await harness.query(`alter database "${name}" set default_transaction_isolation = 'serializable'`)
  const reader = await harness.open()
  const level = await inTransaction(reader.db, (tx) =>
    sql<{ level: string }>`select current_setting('transaction_isolation') as level`.execute(tx),
  )
  await harness.query(`alter database "${name}" reset default_transaction_isolation`)
  expect(level.rows).toEqual([{ level: 'read committed' }])
})

test('at REPEATABLE READ a concurrently changed key is recorded again', async () => {
  const client = await user()
  await client.query('begin isolation level repeatable read; select 1')
  await client.query('select from crm.contacts limit 1')
  await harness.query(change(3))
  await harness.query(
    `insert into crm.contacts (id, email) overriding system value values (901, 'a@example.com')`,
  )
  await client.query(change(4))
  await client.query('commit')
  expect(await recorded()).toEqual(['3', '4', '901'])
})

test('a transaction that changed rows can be prepared (XA)', async (context) => {
  const [setting] = await harness.query<{ max_prepared_transactions: string }>(
    'show max_prepared_transactions',
  )
  if (setting?.max_prepared_transactions === '0') context.skip('the server has no prepared transactions')
  const client = await user()
  await client.query('begin')
  await client.query(change(1))
  await client.query(`prepare transaction 'of_the_test'`)
  await client.query(`commit prepared 'of_the_test'`)
  expect(await recorded()).toEqual(['1'])
})

test('user commits send no notification, because notifying commits wait for each other', async () => {
  const client = await user()
  const heard: string[] = []
  client.on('notification', ({ channel }) => heard.push(channel))
  await client.query('listen fillrate')
  await client.query(change(1))
  // A session gets its own notifications before the result of its next statement.
  await client.query('select 1')
  expect(heard).toEqual([])
})

test('while the list is locked, statements do not wait and their keys go to the spare list', async () => {
  const [locker, client] = [await user(), await user()]
  await locker.query('begin; lock table fillrate.changed_rows in access exclusive mode')
  // Far more than they need, but less than a second each.
  await client.query(`set statement_timeout = '8s'`)
  await client.query(`do $$ begin
    for n in 1..20 loop update crm.contacts set email = 'locked' || n || '@example.com' where id = n; end loop; end $$`)
  await locker.query('rollback')
  expect(await recorded()).toEqual([])
  expect(await recorded('changed_rows_spare')).toHaveLength(20)
  const read = await followed.listChangedRows(app.db, ['contacts'], 100)
  expect(new Set(read.flatMap((one) => one.keys)).size).toBe(20)
  await followed.removeChanges(app.db, read)
  expect(await followed.listChangedRows(app.db, ['contacts'], 100)).toEqual([])
})

test('while both lists are locked, statements neither wait nor fail', async () => {
  const [locker, client] = [await user(), await user()]
  await locker.query(
    'begin; lock table fillrate.changed_rows, fillrate.changed_rows_spare in access exclusive mode',
  )
  await client.query(`set statement_timeout = '8s'`)
  await client.query(`do $$ begin
    for n in 1..20 loop update crm.contacts set email = 'lost' || n || '@example.com' where id = n; end loop; end $$`)
  await locker.query('rollback')
  const [row] = await harness.query<{ email: string }>('select email from crm.contacts where id = 20')
  expect(row?.email).toBe('lost20@example.com')
})

test('1,000 statements of a transaction are recorded without subtransactions that write', async () => {
  const client = await user()
  await client.query('begin')
  await client.query(`do $$ begin
    for n in 1..1000 loop update crm.contacts set email = 'sub' || n || '@example.com' where id = 1 + n % 50; end loop;
    end $$`)
  const { rows } = await client.query<{ statements: string; foreign: string }>(
    `select count(*) as statements, count(*) filter (where xmin <> pg_current_xact_id()::xid) as foreign
       from fillrate.changed_rows`,
  )
  await client.query('commit')
  expect(rows).toEqual([{ statements: '1000', foreign: '0' }])
})

test('a statement reads nothing of the list, whatever its length', async () => {
  await harness.query(`insert into fillrate.changed_rows (source, keys, is_import)
               select 'contacts', array[n::text], false from generate_series(1, 2000) n`)
  const client = await user()
  await client.query('begin')
  await client.query(change(7))
  const { rows } = await client.query(
    `select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::int as read, sum(n_tup_ins)::int as added
       from pg_stat_xact_all_tables where schemaname = 'fillrate'`,
  )
  await client.query('commit')
  expect(rows).toEqual([{ read: 0, added: 1 }])
})

test.each([
  [
    'renamed',
    'alter table fillrate.changed_rows rename to gone',
    'alter table fillrate.gone rename to changed_rows',
  ],
  [
    'of another shape',
    'alter table fillrate.changed_rows rename keys to gone',
    'alter table fillrate.changed_rows rename gone to keys',
  ],
  [
    'in a schema that is renamed',
    'alter schema fillrate rename to gone',
    'alter schema gone rename to fillrate',
  ],
])('a list that is %s makes no statement fail', async (_how, spoil, repair) => {
  await harness.query(spoil)
  try {
    await harness.query(change(8, 'unrecorded@example.com'))
    await harness.query(`insert into crm.contacts (email) values ('unrecorded@example.com')`)
  } finally {
    await harness.query(repair)
  }
  expect(await recorded()).toEqual([])
})

test('session settings stay unchanged, also when the list is locked', async () => {
  const [locker, client] = [await user(), await user()]
  await client.query(`set lock_timeout = '7s'`)
  await client.query(`begin; set local search_path = crm`)
  await locker.query('begin; lock table fillrate.changed_rows in access exclusive mode')
  await client.query(change(9))
  await locker.query('rollback')
  await client.query(change(10))
  const { rows } = await client.query(
    `select current_setting('lock_timeout') as lock, current_setting('search_path') as path`,
  )
  await client.query('commit')
  expect(rows).toEqual([{ lock: '7s', path: 'crm' }])
  expect([await recorded(), await recorded('changed_rows_spare')]).toEqual([['10'], ['9']])
})

test('reading the list in a transaction blocks no user', async () => {
  await harness.query(change(11))
  const client = await user()
  await client.query(`set statement_timeout = '8s'`)
  await inTransaction(app.db, async (tx) => {
    const read = await followed.listChangedRows(tx, ['contacts'], 10)
    expect(read.flatMap((one) => one.keys)).toEqual(['11'])
    await client.query(change(11, 'once.more@example.com'))
    await followed.removeChanges(tx, read)
  })
  // A change made after the read is still listed.
  expect(await recorded()).toEqual(['11'])
})

test('an update of many rows keeps none of them in temporary files, and each changed key is recorded', async () => {
  await harness.query(`insert into crm.contacts (id, email, last_name) overriding system value
               select n, 'many' || n || '@example.com', repeat('x', 100) from generate_series(10001, 30000) n`)
  await harness.query('truncate fillrate.changed_rows')
  const client = await user()
  await client.query(`set temp_file_limit = '1MB'; set work_mem = '64kB'`)
  await client.query(`update crm.contacts set last_name = 'Nr ' || id where id > 10000`)
  expect(await recorded()).toEqual([])
  await client.query('begin')
  await client.query(`update crm.contacts set email = 'more' || id || '@example.com' where id > 10000`)
  await client.query('savepoint s')
  await client.query(change(5))
  await client.query('rollback to s')
  await client.query('commit')
  expect(await recorded()).toHaveLength(20_000)
  expect(await harness.query('select from fillrate.changed_rows where is_import')).not.toEqual([])
  await harness.query('delete from crm.contacts where id > 10000')
})

const COUNT = 20_000
/** Statements of users, each on many rows, and whether their keys are recorded. Their own plans need no temporary file. */
const onMany = (table: string, written = table): [string, boolean][] => [
  [
    `insert into ${written} (id, email) ${table === 'crm.contacts' ? 'overriding system value' : ''}
     select n, 'many' || n || '@example.com' from (select generate_series(10001, ${10_000 + COUNT}) as n) as g`,
    true,
  ],
  [`update ${table} set title = repeat('x', 100) where id > 10000`, false],
  [`update ${table} set email = 'more' || id || '@example.com' where id > 10000`, true],
  [`delete from ${table} where id > 10000`, true],
]

test.each([
  ['a table', 'crm.contacts', onMany('crm.contacts')],
  ['a partitioned table', 'crm.parts', onMany('crm.parts')],
  ['a partition', 'crm.parts', onMany('crm.parts_high')],
])(
  'without any room for temporary files, rows of %s are inserted, updated and deleted',
  async (_, table, statements) => {
    const client = await user()
    const isolation = ['read committed', 'repeatable read', 'serializable']
    await client.query(`set temp_file_limit = 0; set work_mem = '64kB'; set lock_timeout = '1ms'`)
    for (const [n, [statement, isRecorded]] of statements.entries()) {
      await harness.query('truncate fillrate.changed_rows')
      await client.query(`begin isolation level ${isolation[n % 3]}; set constraints all deferred`)
      await client.query(statement)
      await client.query('commit')
      expect([table, statement, (await recorded()).length]).toEqual([
        table,
        statement,
        isRecorded ? COUNT : 0,
      ])
    }
  },
)

test('a row that moves to another partition, and one that is written in a partition, is recorded', async () => {
  await harness.query(
    `insert into crm.parts_low (id, email) values (1, 'one@example.com'), (2, 'two@example.com')`,
  )
  await harness.query(`truncate fillrate.changed_rows`)
  await harness.query(`update crm.parts set id = 6000 where id = 1`)
  expect(await recorded()).toContain('6000')
  await harness.query(`update crm.parts_low set email = 'zwei@example.com' where id = 2`)
  expect(await recorded()).toContain('2')
  await harness.query('delete from crm.parts')
})

test('where triggers are off for a session, its statements work and are not recorded', async () => {
  const client = await user()
  await client.query(`set session_replication_role = replica`)
  for (const [statement] of onMany('crm.contacts')) await client.query(statement)
  expect(await recorded()).toEqual([])
})

test('what a trigger of the user’s does to the same table meanwhile is recorded as well', async () => {
  await harness.query(`
    create function crm.copy() returns trigger language plpgsql as $$ begin
      insert into crm.contacts (id, email) overriding system value values (20000 + new.id, 'copy@example.com');
      update crm.contacts set email = 'copied@example.com' where id = 20000 + new.id;
      return null; end $$;
    create trigger copy after update of email on crm.contacts for each row when (new.id < 20000) execute function crm.copy()`)
  await harness.query(`update crm.contacts set email = 'x' || email where id in (12, 13)`)
  await harness.query('drop function crm.copy cascade')
  expect(await recorded()).toEqual(['12', '13', '20012', '20013'])
})

test('the columns of inputs can be altered, dropped and renamed', async () => {
  await harness.query('alter table crm.contacts alter column email type varchar(200)')
  await harness.query('alter table crm.parts alter column email type varchar(200)')
  // A session that has compiled the function for the type before does not record changes of it.
  await (await user()).query(change(14))
  expect(await recorded()).toEqual(['14'])
  await harness.query('alter table crm.contacts rename email to mail')
  await harness.query(`update crm.contacts set mail = 'y' || mail where id in (15, 16)`)
  await harness.query(
    'alter table crm.contacts rename mail to email; alter table crm.contacts alter column email type text',
  )
  await (await user()).query(change(17))
  expect(await recorded()).toEqual(['14', '17'])
})

test('waiting changes are merged by key, so that the list does not grow with every change', async () => {
  await harness.query(`insert into fillrate.changed_rows (source, keys, is_import)
               select 'contacts', array[(n % 7)::text], false from generate_series(1, 999) n`)
  await followed.mergeChanges(app.db, ['contacts'], 100)
  expect(await followed.listChangedRows(app.db, ['contacts'], 2_000)).toHaveLength(999)
  await harness.query(change(1))
  await followed.mergeChanges(app.db, ['others'], 100)
  expect(await followed.listChangedRows(app.db, ['contacts'], 2_000)).toHaveLength(1_000)
  await followed.mergeChanges(app.db, ['contacts'], 100)
  const merged = await followed.listChangedRows(app.db, ['contacts'], 2_000)
  expect(merged.map((one) => one.keys.toSorted())).toEqual([['0', '1', '2', '3', '4', '5', '6']])
})
