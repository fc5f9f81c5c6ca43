import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { FAILURE_STATES, ROW_STATES } from '../../../src/domain/row.ts'
import {
  countFailureReasons,
  searchRows,
  type RowFilter,
  type RowPlace,
} from '../../../src/store/row-search.ts'
import { openDatabase, type Database } from '../../../src/store/open.ts'
import { countRowStates } from '../../../src/store/rows.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

/** Of each state but `waiting`, in this order by key: the first page is full of one, the last page of another. */
const ROWS = 6_000
const STATES = ROW_STATES.filter((state) => state !== 'waiting')
const WAITING = 20
const PAGE = { after: null, limit: 50, most: 500 } as const
/** With the rows of the page, which are read again for their lookups, and those of an index that were read ahead. */
const MOST_READ = 1_000

const any: RowFilter = { source: null, state: null, reason: null, run: null, identity: null }

let database: TestDatabase
let db: Database

beforeAll(async () => {
  database = await createTestDatabase()
  db = openDatabase({ url: database.url, max: 1 })
  await database.query(`
    insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until)
    select 'manual', '{a,b}', 'running', 'test', gen_random_uuid(), now() + interval '1 hour' from generate_series(1, 2)`)
  for (const [n, state] of STATES.entries())
    await database.query(`
      insert into fillrate.rows (source, key, state, failure, reason, settled_at, run_id)
      select case when n % 10 = 0 then 'b' else 'a' end, '${n}-' || lpad(n::text, 6, '0'), '${state}',
             nullif('${state}', '${FAILURE_STATES.includes(state as never) ? '' : state}'), 'reason ' || n % 5, now(), 1
        from generate_series(1, ${ROWS}) n`)
  await database.query(`
    insert into fillrate.rows (source, key, state, run_id) select 'a', 'w' || n, 'waiting', 2 from generate_series(1, ${WAITING}) n;
    analyze fillrate.rows`)
})
afterAll(async () => {
  await db.destroy()
  await database.drop()
})

/** How many rows a step reads; null where Postgres does not say so at once. */
async function countRead(step: () => Promise<unknown>): Promise<number | null> {
  if (!(await database.scalar<boolean>(`current_setting('server_version_num')::int >= 150000`))) return null
  const read = async (): Promise<number> => {
    await sql`select pg_stat_force_next_flush()`.execute(db)
    const { rows } = await sql<{ reads: number }>`
      select (seq_tup_read + idx_tup_fetch)::bigint as reads from pg_stat_user_tables
       where schemaname = 'fillrate' and relname = 'rows'`.execute(db)
    return rows[0]?.reads ?? Number.NaN
  }
  const before = await read()
  await step()
  return (await read()) - before
}

test('a search for waiting rows reads none of the finished ones', async () => {
  for (const source of [null, 'a']) {
    const search = async () =>
      expect((await searchRows(db, { ...any, state: 'waiting', source }, PAGE)).rows).toHaveLength(WAITING)
    expect((await countRead(search)) ?? 0).toBeLessThan(10 * WAITING)
  }
})

const FILTERS = [null, 'not_enriched' as const, ...STATES].flatMap((state) =>
  [null, 'b'].flatMap((source) =>
    [null, 1].flatMap((run) => [null, 'reason 5'].map((reason) => ({ ...any, state, source, run, reason }))),
  ),
)

test.each(FILTERS)('a page reads a bounded number of rows: $state $source $run $reason', async (filter) => {
  const search = () => searchRows(db, filter, PAGE)
  expect((await countRead(search)) ?? 0).toBeLessThan(MOST_READ)
})

test.each(FAILURE_STATES)('the first page of %s rows is full, wherever they are', async (state) => {
  for (const source of [null, 'a', 'b'])
    expect((await searchRows(db, { ...any, state, source }, PAGE)).rows).toHaveLength(PAGE.limit)
})

test('the pages have each row that matches once', async () => {
  for (const [filter, expected] of [
    [{ ...any, state: 'suppressed' }, ROWS],
    [{ ...any, state: 'not_enriched', reason: 'reason 1' }, FAILURE_STATES.length * (ROWS / 5)],
    [{ ...any, source: 'b' }, STATES.length * (ROWS / 10)],
    [{ ...any, run: 1, state: 'unchanged', source: 'a' }, ROWS * 0.9],
  ] as const) {
    const keys: string[] = []
    let after: RowPlace | null = null
    do {
      const { rows, next } = await searchRows(db, filter, { after, limit: 1_000, most: 3_000 })
      keys.push(...rows.map(({ key }) => key))
      after = next
    } while (after !== null)
    expect([keys.length, new Set(keys).size]).toEqual([expected, expected])
  }
})

test('what a page counts costs the same at any size', async () => {
  const reasons = () => countFailureReasons(db, { source: ['a', 'b'], states: null }, 50)
  expect((await countRead(reasons)) ?? 0).toBeLessThan(FAILURE_STATES.length * 2 * 50 + 100)
  expect((await reasons()).every(({ isPartial }) => isPartial)).toBe(true)
  expect((await countFailureReasons(db, { source: 'b', states: ['failed'] }, ROWS))[0]).not.toHaveProperty(
    'isPartial',
  )
  const states = async () => expect(await countRowStates(db, { run: 1 })).toMatchObject({ unchanged: ROWS })
  expect(await countRead(states)).toBeOneOf([0, null])
})
