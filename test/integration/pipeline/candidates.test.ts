import { afterEach, beforeEach, expect, test } from 'vitest'
import { readCandidates, type ScannedPage } from '../../../src/pipeline/pick/candidates.ts'
import { openSource } from '../../../src/sources/source.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { mapping } from '../sources/mapping.ts'

let database: TestDatabase

beforeEach(async () => {
  database = await createTestDatabase()
  await database.pool.query(`create table people (id text collate "C" primary key, email text, title text)`)
})
afterEach(() => database.drop())

async function read(after: string | null, size: number): Promise<ScannedPage> {
  const source = await openSource(database.db, mapping())
  const options = { after, size, where: null, changedSince: null, live: [7], service: 0 }
  return readCandidates(database.db, source, options)
}

test('a page has its candidates in key order, and counts of the other rows', async () => {
  await database.pool.query(`
    insert into people select 'k' || n, n || '@example.com', case when n = 5 then 'CTO' end from generate_series(9, 1, -1) n;
    insert into fillrate.runs (id, trigger, sources, state, owner, lease_token, leased_until)
    overriding system value
    select 7, 'manual', '{people}', 'running', 'test', gen_random_uuid(), now() + interval '1 hour';
    insert into fillrate.rows (source, key, state, settled_at, run_id, input_hash)
    select 'people', t.id, case when t.id = 'k1' then 'unchanged' else 'waiting' end,
           case when t.id = 'k1' then now() end, case when t.id = 'k3' then 7 end,
           coalesce(hashtextextended(t.email collate "C", 1), 0)
      from people t where t.id in ('k1', 'k3', 'k4')`)
  const page = await read(null, 7)
  expect(page.candidates.map(({ key, disposition }) => [key, disposition])).toEqual([
    ['k2', 'eligible'],
    ['k4', 'abandoned'],
    ['k6', 'eligible'],
    ['k7', 'eligible'],
  ])
  expect(page).toMatchObject({ scanned: 7, last: 'k7', next: 'k7', densest: 4, known: 3, newcomers: 3 })
  expect(page.dispositions).toEqual({ eligible: 3, abandoned: 1, held: 1, fresh: 1, complete: 1 })
  expect(await read('k7', 7)).toMatchObject({
    scanned: 2,
    last: 'k9',
    next: null,
    dispositions: { eligible: 2 },
  })
  expect(await read('k9', 7)).toMatchObject({ candidates: [], scanned: 0, last: null, next: null })
})

test('the counts of a page are sent once, not with each candidate', async () => {
  await database.pool.query(`insert into people select n, n || '@example.com' from generate_series(1, 500) n`)
  const { candidates } = await read(null, 500)
  expect(candidates).toHaveLength(500)
  // 500 copies of some hundred characters, and each searched for its last key.
  expect(candidates.filter((candidate) => 'counts' in candidate && candidate.counts !== null)).toEqual([])
})
