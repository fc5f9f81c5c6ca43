import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { FAILURE_STATES, ROW_STATES } from '../../../src/domain/row.ts'
import { countRowStates, foldRowCounts, recountRows } from '../../../src/store/rows.ts'
import { findMiscounted } from '../../chaos/invariants.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())
beforeEach(async () => {
  await database.query('truncate fillrate.rows')
  await database.query(
    `insert into fillrate.rows (source, key, state) select 'a', n, 'waiting' from generate_series(1, 100) n`,
  )
})

const listCounts = () =>
  database.query(
    'select source, state, run_id::int as run, rows::int from fillrate.row_counts order by 1, 2, 3, 4',
  )
const expectExact = async () => expect(await findMiscounted(database.pool)).toEqual([])

test('every kind of statement keeps the counts', async () => {
  await database.query(`update fillrate.rows set state = 'enriched', settled_at = now() where key::int <= 30`)
  await expectExact()
  await database.query(`
    insert into fillrate.rows (source, key, state, settled_at) select 'a', n, 'failed', now() from generate_series(21, 140) n
        on conflict (source, key) do update set state = excluded.state, settled_at = excluded.settled_at`)
  await expectExact()
  await database.query(`update fillrate.rows set source = 'b' where key::int > 130`)
  await database.query(`delete from fillrate.rows where key::int between 10 and 25`)
  await expectExact()
  expect(await countRowStates(database.db, { sources: ['a'] })).toMatchObject({
    enriched: 9,
    failed: 105,
    waiting: 0,
  })
  await database.query('truncate fillrate.rows')
  expect(await listCounts()).toEqual([])
})

test('a statement that changes no state appends nothing, and one that is rolled back neither', async () => {
  const before = await listCounts()
  await database.query('update fillrate.rows set due_at = now()')
  await database.query(`begin; update fillrate.rows set state = 'failed', settled_at = now(); rollback`)
  expect(await listCounts()).toEqual(before)
})

test('concurrent writers and folds neither wait for one another nor lose a count', async () => {
  const held = await database.pool.connect()
  try {
    await held.query(`begin; update fillrate.rows set state = 'failed', settled_at = now() where key = '1'`)
    await Promise.all([
      ...Array.from({ length: 40 }, (_, n) =>
        database.query(
          `update fillrate.rows set state = 'enriched', settled_at = now() where key::int = ${n + 2}`,
        ),
      ),
      ...Array.from({ length: 10 }, () => foldRowCounts(database.db, 0)),
    ])
    await held.query('commit')
  } finally {
    held.release()
  }
  await expectExact()
  await foldRowCounts(database.db, 0)
  await foldRowCounts(database.db, 0)
  expect(await listCounts()).toEqual([
    { source: 'a', state: 'enriched', run: null, rows: 40 },
    { source: 'a', state: 'failed', run: null, rows: 1 },
    { source: 'a', state: 'waiting', run: null, rows: 59 },
  ])
})

test('counts that are not those of the rows are corrected, while others count', async () => {
  await database.query(
    `insert into fillrate.row_counts (source, state, run_id, rows) values ('a', 'waiting', 7, 5), ('a', 'failed', null, -3)`,
  )
  const held = await database.pool.connect()
  try {
    await held.query(`begin; update fillrate.rows set state = 'enriched', settled_at = now() where key = '1'`)
    expect(await recountRows(database.db)).toBe(2)
    await held.query('commit')
  } finally {
    held.release()
  }
  await expectExact()
  expect(await recountRows(database.db)).toBe(0)
})

test('the column of failures has the states that count as one', async () => {
  await database.query(`insert into fillrate.rows (source, key, state, settled_at)
               select 'b', state, state, now() from unnest('{${ROW_STATES.filter((state) => state !== 'waiting').join(',')}}'::text[]) state`)
  const failures = await database.query(
    `select failure from fillrate.rows where failure is not null order by 1`,
  )
  expect(failures.map(({ failure }) => failure)).toEqual([...FAILURE_STATES].toSorted())
})

test('few counts are not folded', async () => {
  await database.query(`update fillrate.rows set state = 'failed', settled_at = now()`)
  const before = await listCounts()
  await foldRowCounts(database.db)
  expect(await listCounts()).toEqual(before)
})
