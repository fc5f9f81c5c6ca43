import { sql } from 'kysely'
import { beforeEach, expect, test } from 'vitest'
import { FAILURE_STATES, ROW_STATES } from '../../../src/domain/row.ts'
import { countRowStates, foldRowCounts, recountRows } from '../../../src/store/rows.ts'
import { failureSql } from '../../../src/store/terms.ts'
import { findMiscounted } from '../../chaos/invariants.ts'
import { useTestDatabase } from '../../support/database.ts'

const database = useTestDatabase()
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

test('a row has the failure that its state is, and no other', async () => {
  const { rows } = await sql<{ state: string; failure: string | null }>`
    select state, ${failureSql(sql`state`)} as failure from unnest(${[...ROW_STATES]}::text[]) state`.execute(
    database.db,
  )
  expect(Object.fromEntries(rows.map(({ state, failure }) => [state, failure]))).toEqual(
    Object.fromEntries(
      ROW_STATES.map((state) => [
        state,
        (FAILURE_STATES as readonly string[]).includes(state) ? state : null,
      ]),
    ),
  )
  const insert = (values: string) =>
    database.query(
      `insert into fillrate.rows (source, key, settled_at, state, failure, deleted_at) values ('b', '1', now(), ${values})`,
    )
  await expect(insert(`'enriched', 'failed', null`)).rejects.toThrow('rows_failure')
  await expect(insert(`'failed', 'failed', now()`)).rejects.toThrow('rows_failure')
})

test('rows are counted by their run while it is in progress, and without it when it is over', async () => {
  await database.query(`
    insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until)
    values ('manual', '{a}', 'running', 'test', gen_random_uuid(), now());
    update fillrate.rows set run_id = (select max(id) from fillrate.runs);
    update fillrate.rows set state = 'enriched', settled_at = now() where key::int <= 30`)
  const run = await database.scalar<number>('select max(id)::int from fillrate.runs')
  await foldRowCounts(database.db, 0)
  expect(await countRowStates(database.db, { run })).toMatchObject({ enriched: 30, waiting: 70 })
  await expectExact()
  await database.query(`
    update fillrate.runs set state = 'completed', finished_at = now();
    update fillrate.rows set run_id = null where key = '1'`)
  await foldRowCounts(database.db, 0)
  expect(await listCounts()).toEqual([
    { source: 'a', state: 'enriched', run: null, rows: 30 },
    { source: 'a', state: 'waiting', run, rows: 70 },
  ])
  await expectExact()
  expect(await recountRows(database.db)).toBe(0)
  // Whatever takes a row over later counts it without that run, too.
  await database.query(`update fillrate.rows set state = 'failed', run_id = null where state = 'enriched'`)
  await database.query('delete from fillrate.runs')
  await expectExact()
})
