import { expect, test } from 'vitest'
import { restoreAllReturned, markAllDeleted } from '../../../src/pipeline/deleted-rows.ts'
import { RunBudget } from '../../../src/pipeline/pick/budget.ts'
import { createPass } from '../../../src/pipeline/pick/pass.ts'
import { pickPage } from '../../../src/pipeline/pick/pick.ts'
import { writeBackBatch } from '../../../src/pipeline/write-back.ts'
import { dequeueOrphaned } from '../../../src/store/write-back-queue.ts'
import { openSource } from '../../../src/sources/source.ts'
import { answeredPeople } from '../../support/answered-people.ts'
import { useTestDatabase } from '../../support/database.ts'
import { mapping } from '../sources/mapping.ts'

const database = useTestDatabase()

const toDeps = () =>
  ({ db: database.db, policy: { sourceTimeoutMs: 30_000 } }) as Parameters<typeof markAllDeleted>[0]

const FIRST = '2f6fd2a1-0000-4000-8000-000000000001'
const SECOND = '2f6fd2a1-0000-4000-8000-000000000002'

// Keys are compared as values: no row that is there is marked as deleted.
test.each([
  [
    'integer',
    ['0', '1', '-5', '007', 'abc', '99999999999999999999'],
    ['1', '7', '-5'],
    ['0', 'abc', '99999999999999999999'],
  ],
  ['bigint', ['9000000000000000001', '2'], ['9000000000000000001'], ['2']],
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

test('known keys are compared to the end, page by page', async () => {
  await database.query(`
    drop table if exists people; truncate fillrate.rows;
    create table people (id text primary key, email text, title text);
    insert into people (id) select n::text from generate_series(1, 4500) n where n % 1500 <> 0;
    insert into fillrate.rows (source, key, state, settled_at) select 'people', n, 'enriched', now() from generate_series(1, 4500) n`)
  const source = await openSource(database.db, mapping())
  expect(await markAllDeleted(toDeps(), source, AbortSignal.any([]))).toBe(3)
  expect(await markAllDeleted(toDeps(), source, AbortSignal.any([]))).toBe(0)
  await database.query(`insert into people (id) values ('1500'), ('4500')`)
  expect(await restoreAllReturned(toDeps(), source, AbortSignal.any([]))).toBe(2)
})

test.each([
  ['was deleted before it was written', false, true],
  ['was deleted after it was written', true, true],
  ['was deleted, and that no one has restored', true, false],
])('a pass writes a row that %s, once it is inserted again', async (_, isWritten, isRestored) => {
  const { deps, source, run } = await answeredPeople(database, 3)
  const { signal } = new AbortController()
  if (isWritten) while ((await writeBackBatch(deps, source)).rows > 0);
  await database.query('delete from people where id > 1')
  expect(await markAllDeleted(deps, source, signal)).toBe(2)
  while ((await writeBackBatch(deps, source)).rows > 0);
  await dequeueOrphaned(database.db, 10)
  expect(await database.query('select from fillrate.answered_lookups')).toEqual([])

  await database.query(`insert into people values (2, 'p2@example.com'), (3, 'p1@example.com')`)
  const restored = isRestored ? await restoreAllReturned(deps, source, signal) : 0
  expect(restored).toBe(isRestored ? 2 : 0)
  const pass = createPass(source)
  const budget = new RunBudget(0, deps.adapter.credits)
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
