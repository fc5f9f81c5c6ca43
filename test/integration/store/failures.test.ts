import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  countFailureReasons,
  countSkippedCells,
  iterateFailures,
  latestFailures,
} from '../../../src/store/failures.ts'
import { listSourceNames } from '../../../src/store/rows.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

let database: TestDatabase
const all = { source: null, states: null }
beforeAll(async () => {
  database = await createTestDatabase()
  await database.pool.query(`
    insert into fillrate.rows (source, key, state, reason, settled_at)
    select case when n % 2 = 0 then 'accounts' else 'contacts' end, n::text,
           (array['enriched', 'not_found', 'rejected', 'below_confidence', 'failed'])[1 + n % 5],
           case n % 5 when 3 then 'confidence 0.' || n || ' is below 0.7' else 'reason ' || n % 5 end,
           timestamptz '2026-01-01' + n * interval '1 minute'
      from generate_series(1, 100) n`)
})
afterAll(() => database.drop())

test('groups reasons, whatever the confidence was; a miss is not a failure', async () => {
  expect(await countFailureReasons(database.db, all)).toEqual([
    { source: 'accounts', state: 'failed', reason: 'reason 4', rows: 10 },
    { source: 'contacts', state: 'failed', reason: 'reason 4', rows: 10 },
    { source: 'accounts', state: 'rejected', reason: 'reason 2', rows: 10 },
    { source: 'contacts', state: 'rejected', reason: 'reason 2', rows: 10 },
    { source: 'accounts', state: 'below_confidence', reason: 'confidence is below 0.7', rows: 10 },
    { source: 'contacts', state: 'below_confidence', reason: 'confidence is below 0.7', rows: 10 },
  ])
  expect(
    await countFailureReasons(database.db, { source: 'contacts', states: ['rejected', 'failed'] }),
  ).toHaveLength(2)
})

test('lists the latest first', async () => {
  const rows = await latestFailures(database.db, all, 3)
  expect(rows.map((row) => row.key)).toEqual(['99', '98', '97'])
})

test('pages have each failed row once, in order, up to the limit', async () => {
  const keysOf = async (source: string | null, limit: number | null): Promise<string[]> => {
    const keys: string[] = []
    for await (const page of iterateFailures(database.db, { source, states: null }, limit, 7)) {
      expect(page.length).toBeLessThanOrEqual(7)
      keys.push(...page.map((row) => `${row.source} ${row.key}`))
    }
    return keys
  }
  const every = await keysOf(null, null)
  expect(every).toHaveLength(60)
  expect(new Set(every).size).toBe(60)
  expect(await keysOf('contacts', null)).toEqual(every.filter((key) => key.startsWith('contacts')))
  expect(await keysOf(null, 10)).toEqual(every.slice(0, 10))
  expect(await keysOf('missing', null)).toEqual([])
})

test('counts skipped cells by column and reason, the most frequent first', async () => {
  await database.pool.query(`
    insert into fillrate.skipped_cells (source, key, "column", reason, detail, value)
    select source, key, 'phone', 'too_long', null, '"+47 22 00 00 00"'::jsonb from fillrate.rows where state = 'enriched'
    union all
    select source, key, 'title', 'below_confidence', '0.9', '"CTO"'::jsonb from fillrate.rows where state = 'failed'
       and source = 'contacts' and key < '5'`)
  expect(await countSkippedCells(database.db, null)).toEqual([
    { source: 'accounts', column: 'phone', reason: 'too_long', detail: null, rows: 10 },
    { source: 'contacts', column: 'phone', reason: 'too_long', detail: null, rows: 10 },
    { source: 'contacts', column: 'title', reason: 'below_confidence', detail: '0.9', rows: 4 },
  ])
  expect(await countSkippedCells(database.db, 'accounts')).toHaveLength(1)
})

test('lists the sources that have rows', async () => {
  expect(await listSourceNames(database.db)).toEqual(['accounts', 'contacts'])
})
