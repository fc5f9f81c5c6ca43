import { beforeEach, expect, test } from 'vitest'
import { listDueRows, postponeDueRows } from '../../../src/store/rows.ts'
import { useTestDatabase } from '../../support/database.ts'

const database = useTestDatabase()
beforeEach(async () => {
  await database.query('truncate fillrate.rows')
  await database.query(
    `insert into fillrate.rows (source, key, state) select 'a', lpad(n::text, 3, '0'), 'waiting' from generate_series(1, 100) n`,
  )
})

const listDue = (after = '', limit = 1_000) => listDueRows(database.db, 'a', after, limit)
const finish = (from: number, to: number, dueAt: string) =>
  database.query(`update fillrate.rows set state = 'not_found', settled_at = now(), due_at = ${dueAt}
          where key between '${String(from).padStart(3, '0')}' and '${String(to).padStart(3, '0')}'`)

test('a row is found from the moment that it is due, by key, and no longer when it is picked again', async () => {
  await finish(1, 10, `now() - interval '1 minute'`)
  await finish(11, 20, `now() + interval '1 minute'`)
  await finish(5, 5, `now() - interval '2 hours'`)
  await database.query(
    `update fillrate.rows set state = 'waiting', settled_at = null, due_at = null where key = '010'`,
  )
  expect(await listDue()).toEqual(['001', '002', '003', '004', '005', '006', '007', '008', '009'])
  expect(await listDue('003', 2)).toEqual(['004', '005'])
  expect(await listDueRows(database.db, 'b', '', 10)).toEqual([])

  const settledUntil = new Date(Date.now() + 3_600_000)
  await database.db.transaction().execute((tx) => postponeDueRows(tx, 'a', [{ key: '004', settledUntil }]))
  expect(await listDue('003', 2)).toEqual(['005', '006'])
})
