import { afterAll, beforeAll, expect, test } from 'vitest'
import { countReasons, latest, pages } from '../../../src/store/failures.ts'
import { sourceNames } from '../../../src/store/source-names.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
  await database.pool.query(`
    insert into fillrate.rows (source, key, state, reason, settled_at)
    select case when n % 2 = 0 then 'accounts' else 'contacts' end, n::text,
           (array['enriched', 'not_found', 'refused', 'below_confidence', 'failed'])[1 + n % 5],
           case n % 5 when 3 then 'confidence 0.' || n || ' is below 0.7' else 'reason ' || n % 5 end,
           timestamptz '2026-01-01' + n * interval '1 minute'
      from generate_series(1, 100) n`)
})
afterAll(() => database.drop())

test('reasons are counted once each, whatever the confidence was; a miss is none', async () => {
  expect(await countReasons(database.db, null)).toEqual([
    { source: 'accounts', state: 'failed', reason: 'reason 4', rows: 10 },
    { source: 'contacts', state: 'failed', reason: 'reason 4', rows: 10 },
    { source: 'accounts', state: 'refused', reason: 'reason 2', rows: 10 },
    { source: 'contacts', state: 'refused', reason: 'reason 2', rows: 10 },
    { source: 'accounts', state: 'below_confidence', reason: 'confidence is below 0.7', rows: 10 },
    { source: 'contacts', state: 'below_confidence', reason: 'confidence is below 0.7', rows: 10 },
  ])
  expect(await countReasons(database.db, 'contacts')).toHaveLength(3)
})

test('the latest come first', async () => {
  const rows = await latest(database.db, null, 3)
  expect(rows.map((row) => row.key)).toEqual(['99', '98', '97'])
})

test('pages hold each failed row once, in order, and no more than the limit', async () => {
  const keysOf = async (source: string | null, limit: number | null): Promise<string[]> => {
    const keys: string[] = []
    for await (const page of pages(database.db, source, limit, 7)) {
      expect(page.length).toBeLessThanOrEqual(7)
      keys.push(...page.map((row) => `${row.source} ${row.key}`))
    }
    return keys
  }
  const all = await keysOf(null, null)
  expect(all).toHaveLength(60)
  expect(new Set(all).size).toBe(60)
  expect(await keysOf('contacts', null)).toEqual(all.filter((key) => key.startsWith('contacts')))
  expect(await keysOf(null, 10)).toEqual(all.slice(0, 10))
  expect(await keysOf('nobody', null)).toEqual([])
})

test('the sources that rows were picked from', async () => {
  expect(await sourceNames(database.db)).toEqual(['accounts', 'contacts'])
})
