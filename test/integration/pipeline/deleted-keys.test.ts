import { expect, test } from 'vitest'
import { restoreAllReturned, markAllDeleted } from '../../../src/pipeline/deleted-rows.ts'
import { RunBudget } from '../../../src/pipeline/pick/budget.ts'
import { createPass } from '../../../src/pipeline/pick/pass.ts'
import { pickPage, repick } from '../../../src/pipeline/pick/pick.ts'
import { writeBackBatch } from '../../../src/pipeline/write-back.ts'
import { openSource } from '../../../src/sources/source.ts'
import { answeredPeople } from '../../support/answered-people.ts'
import { useTestDatabase } from '../../support/database.ts'
import { mapping } from '../sources/mapping.ts'

const database = useTestDatabase()

const toDeps = () =>
  ({ db: database.db, policy: { sourceTimeoutMs: 30_000 } }) as Parameters<typeof markAllDeleted>[0]

const FIRST = '2f6fd2a1-0000-4000-8000-000000000001'
const SECOND = '2f6fd2a1-0000-4000-8000-000000000002'

// Keys are compared as texts where that is certain, and as values otherwise: no row that is there is marked as deleted.
test.each([
  ['integer', ['1', '2', '30'], ['2', '30'], ['1']],
  [
    'integer',
    ['0', '1', '-5', '007', 'abc', '99999999999999999999'],
    ['1', '7', '-5'],
    ['0', 'abc', '99999999999999999999'],
  ],
  ['bigint', ['9000000000000000001', '2'], ['9000000000000000001'], ['2']],
  ['smallint', ['1', '70000'], ['1'], ['70000']],
  ['uuid', [FIRST, SECOND], [SECOND], [FIRST]],
  ['uuid', [FIRST.toUpperCase(), SECOND, 'none'], [FIRST], [SECOND, 'none']],
  ['text', ['a', 'b'], ['b'], ['a']],
  ['numeric', ['1.0', '2'], ['1'], ['2']],
])(
  'of a key of type %s, with the keys %j, those that are not in the table are marked as deleted',
  async (type, known, there, deleted) => {
    await database.query(`
    drop table if exists people; truncate fillrate.rows;
    create table people (id ${type} primary key, email text, title text)`)
    await database.query(`insert into people (id) select unnest($1::text[])::${type}`, [there])
    await database.query(
      `insert into fillrate.rows (source, key, state, settled_at) select 'people', unnest($1::text[]), 'enriched', now()`,
      [known],
    )
    const source = await openSource(database.db, mapping())
    expect(await markAllDeleted(toDeps(), source, AbortSignal.any([]))).toBe(deleted.length)
    const aside = await database.pool.query<{ key: string }>(
      'select key from fillrate.rows where deleted_at is not null',
    )
    expect(aside.rows.map(({ key }) => key).sort()).toEqual([...deleted].sort())
  },
)

test.each(['integer', 'text'])('keys of type %s are compared to the end, range by range', async (type) => {
  await database.query(`
    drop table if exists people; truncate fillrate.rows;
    create table people (id ${type} primary key, email text, title text);
    insert into people (id) select n::text::${type} from generate_series(1, 25000) n where n % 5000 <> 0;
    insert into fillrate.rows (source, key, state, settled_at) select 'people', n, 'enriched', now() from generate_series(1, 25000) n`)
  const source = await openSource(database.db, mapping())
  expect(await markAllDeleted(toDeps(), source, AbortSignal.any([]))).toBe(5)
  expect(await markAllDeleted(toDeps(), source, AbortSignal.any([]))).toBe(0)
  await database.query(`insert into people (id) values ('5000'), ('25000')`)
  expect(await restoreAllReturned(toDeps(), source, AbortSignal.any([]))).toBe(2)
})

test('two rows of a key, in a table and in one that inherits from it, do not stand for one that is gone', async () => {
  await database.query(`
    drop table if exists people; truncate fillrate.rows;
    create table people (id integer primary key, email text, title text);
    create table more_people () inherits (people);
    insert into people (id) values (1), (3);
    insert into more_people (id) values (1);
    insert into fillrate.rows (source, key, state, settled_at) select 'people', n, 'enriched', now() from generate_series(1, 3) n`)
  const source = await openSource(database.db, mapping())
  expect(await markAllDeleted(toDeps(), source, AbortSignal.any([]))).toBe(1)
})

test('a row that was deleted when its answer came is written by the same run, once it is inserted again', async () => {
  const { deps, source, run } = await answeredPeople(database, 3)
  const { signal } = new AbortController()
  await database.query('delete from people where id > 1')
  expect(await markAllDeleted(deps, source, signal)).toBe(2)
  while ((await writeBackBatch(deps, source)).rows > 0);
  expect(await database.query('select from fillrate.write_back_queue')).toEqual([])

  await database.query(`insert into people values (2, 'p2@example.com'), (3, 'p1@example.com')`)
  expect(await restoreAllReturned(deps, source, signal)).toBe(2)
  const budget = new RunBudget(0, new Map(), deps.adapter.credits)
  const picking = { id: run, budget, service: 0 }
  await repick(deps, picking, source, { includeAbandoned: false, signal })
  while ((await writeBackBatch(deps, source)).rows > 0);
  expect(await database.query('select title from people order by id')).toEqual([
    { title: 'Title 1' },
    { title: 'Title 2' },
    { title: 'Title 1' },
  ])
  expect(await database.query('select distinct state, run_id from fillrate.rows')).toEqual([
    { state: 'enriched', run_id: String(run) },
  ])
})

test('a pass picks a deleted row that it meets in its table, if no one has restored it before', async () => {
  const { deps, source, run } = await answeredPeople(database, 3)
  const { signal } = new AbortController()
  while ((await writeBackBatch(deps, source)).rows > 0);
  await database.query('delete from people where id > 1')
  expect(await markAllDeleted(deps, source, signal)).toBe(2)
  await database.query(`insert into people values (2, 'p2@example.com'), (3, 'p1@example.com')`)
  const pass = await createPass(deps, source, { limit: null, where: null })
  const budget = new RunBudget(0, new Map(), deps.adapter.credits)
  const picking = { id: run, budget, service: 0 }
  while (pass.phase !== 'done') await pickPage(deps, picking, pass, { limit: null, where: null })
  expect(await readCounts()).toEqual([
    { state: 'enriched', rows: 1 },
    { state: 'waiting', rows: 2 },
  ])
  while ((await writeBackBatch(deps, source)).rows > 0);
  expect(await database.query('select title from people order by id')).toEqual([
    { title: 'Title 1' },
    { title: 'Title 2' },
    { title: 'Title 1' },
  ])
  expect(await readCounts()).toEqual([{ state: 'enriched', rows: 3 }])
  expect(await restoreAllReturned(deps, source, signal)).toBe(0)
})

/** The kept counts. */
const readCounts = () =>
  database.query(`
      select state, sum(rows)::int as rows from fillrate.row_counts group by state having sum(rows) <> 0 order by state`)
