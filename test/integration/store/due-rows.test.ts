import { beforeEach, expect, test } from 'vitest'
import { eraseRows, markRowsDeleted } from '../../../src/store/deleted-rows.ts'
import { listDueRows, postponeDueRows, pruneDueRows } from '../../../src/store/due-rows.ts'
import { findUnlisted } from '../../chaos/invariants.ts'
import { useTestDatabase } from '../../support/database.ts'

const database = useTestDatabase()
beforeEach(async () => {
  await database.query('truncate fillrate.rows')
  await database.query(
    `insert into fillrate.rows (source, key, state) select 'a', lpad(n::text, 3, '0'), 'waiting' from generate_series(1, 100) n`,
  )
})

const listDue = (after = '', limit = 1_000) => listDueRows(database.db, 'a', after, limit)
const countEntries = async () => (await database.query('select from fillrate.due_rows')).length
const finish = (from: number, to: number, dueAt: string) =>
  database.query(`update fillrate.rows set state = 'not_found', settled_at = now(), due_at = ${dueAt}
          where key between '${String(from).padStart(3, '0')}' and '${String(to).padStart(3, '0')}'`)

test('a row is listed from the moment that it is due, once, and no longer when it is picked again', async () => {
  await finish(1, 10, `now() - interval '1 minute'`)
  await finish(11, 20, `now() + interval '1 minute'`)
  await finish(5, 5, `now() - interval '2 hours'`)
  await database.query(
    `update fillrate.rows set state = 'waiting', settled_at = null, due_at = null where key = '010'`,
  )
  expect(await listDue()).toEqual(['001', '002', '003', '004', '005', '006', '007', '008', '009'])
  expect(await listDue('003', 2)).toEqual(['004', '005'])
  expect(await listDueRows(database.db, 'b', '', 10)).toEqual([])
  expect(await findUnlisted(database.pool)).toEqual([])
})

test.each([100, 10])(
  'due rows are listed in the order of their keys, however many (%i are sorted)',
  async (most) => {
    for (let n = 60; n >= 1; n--) await finish(n, n, `now() - interval '1 minute'`)
    await finish(61, 70, `now() + interval '1 minute'`)
    const all = Array.from({ length: 60 }, (_, n) => String(n + 1).padStart(3, '0'))
    expect(await listDueRows(database.db, 'a', '', 1_000, most)).toEqual(all)
    expect(await listDueRows(database.db, 'a', '003', 2, most)).toEqual(['004', '005'])
  },
)

test('every kind of statement lists what it makes due', async () => {
  await database.query(`
    insert into fillrate.rows (source, key, state, settled_at, due_at) select 'a', n, 'failed', now(), now() from generate_series(101, 120) n
        on conflict (source, key) do update set state = excluded.state, settled_at = excluded.settled_at, due_at = excluded.due_at`)
  await database.query(`update fillrate.rows set source = 'b' where key = '120'`)
  await database.query(`update fillrate.rows set state = 'enriched', settled_at = now() where key < '010'`)
  await database.query(`update fillrate.rows set due_at = now() where key = '003'`)
  await database.query(`delete from fillrate.rows where key = '119'`)
  expect(await findUnlisted(database.pool)).toEqual([])
  expect(await listDue()).toEqual(['003', ...Array.from({ length: 18 }, (_, n) => String(101 + n))])
  expect(await listDueRows(database.db, 'b', '', 10)).toEqual(['120'])
})

test('a statement that changes no due time lists nothing', async () => {
  await finish(1, 10, 'now()')
  const before = await countEntries()
  await database.query(`update fillrate.rows set notes = '{}', run_id = 7`)
  expect(await countEntries()).toBe(before)
})

test('an entry is pruned when none of its rows is due in its hour', async () => {
  await finish(1, 10, `now() - interval '1 minute'`)
  await finish(11, 20, `now() + interval '2 hours'`)
  await pruneDueRows(database.db)
  expect(await countEntries()).toBe(2)
  await database.query(
    `update fillrate.rows set state = 'waiting', settled_at = null, due_at = null where key < '010'`,
  )
  const later = new Date(Date.now() + 3 * 3_600_000)
  await database.db
    .transaction()
    .execute((tx) => postponeDueRows(tx, 'a', [{ key: '010', settledUntil: later }]))
  await pruneDueRows(database.db)
  expect(await listDue()).toEqual([])
  expect(await findUnlisted(database.pool)).toEqual([])
  expect(await countEntries()).toBe(2)
})

test('entries whose rows stay due do not keep others from being pruned', async () => {
  await finish(1, 1, `now() - interval '3 hours'`)
  await database.query(`insert into fillrate.due_rows (source, due_at, keys)
               select 'a', date_trunc('hour', now() - interval '3 hours'), '{001}' from generate_series(1, 3000)`)
  await database.query(
    `insert into fillrate.due_rows (source, due_at, keys) values ('a', now() - interval '1 hour', '{002}')`,
  )
  const isKept = async () =>
    (await database.query(`select from fillrate.due_rows where keys = '{002}'`)).length > 0
  for (let n = 0; n < 1_000 && (await isKept()); n++) await pruneDueRows(database.db)
  expect(await isKept()).toBe(false)
  expect(await countEntries()).toBe(3_001)
})

test('an entry that another transaction has locked is pruned later', async () => {
  await finish(1, 1, `now() - interval '1 minute'`)
  await database.query(
    `update fillrate.rows set state = 'waiting', settled_at = null, due_at = null where key = '001'`,
  )
  const held = await database.pool.connect()
  try {
    await held.query('begin; update fillrate.due_rows set keys = keys')
    await pruneDueRows(database.db)
    await held.query('commit')
  } finally {
    held.release()
  }
  expect(await countEntries()).toBe(1)
  await pruneDueRows(database.db)
  expect(await countEntries()).toBe(0)
})

test('a key of an erased row is taken out of its list', async () => {
  await database.query(`insert into fillrate.rows (source, key, state, settled_at, due_at)
               select 'a', n || '@b.example', 'not_found', now(), now() + interval '90 days' from generate_series(1, 20) n`)
  const keys = Array.from({ length: 19 }, (_, n) => `${n + 1}@b.example`)
  await database.db.transaction().execute(async (tx) => {
    await markRowsDeleted(tx, 'a', keys, false)
    await eraseRows(tx, 'a', keys)
  })
  expect(await database.query(`select keys from fillrate.due_rows where source = 'a'`)).toEqual([
    { keys: ['20@b.example'] },
  ])
})
