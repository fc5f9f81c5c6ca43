import { beforeAll, expect, test } from 'vitest'
import { countFailureReasons, iterateFailures, latestFailures } from '../../../src/store/row-search.ts'
import { groupSkippedCells, iterateSkippedCells } from '../../../src/store/skipped-cells.ts'
import { listSourceNames } from '../../../src/store/rows.ts'
import { useTestDatabase } from '../../support/database.ts'

const database = useTestDatabase()

const all = { source: null, states: null }
beforeAll(async () => {
  await database.query(`
    insert into fillrate.rows (source, key, state, failure, reason, settled_at)
    select source, key, state, nullif(nullif(state, 'enriched'), 'not_found'), reason, at from (
    select case when n % 2 = 0 then 'accounts' else 'contacts' end as source, n::text as key,
           (array['enriched', 'not_found', 'rejected', 'below_confidence', 'failed'])[1 + n % 5] as state,
           case n % 5 when 3 then 'confidence 0.' || n || ' is below 0.7' else 'reason ' || n % 5 end as reason,
           timestamptz '2026-01-01' + n * interval '1 minute' as at
      from generate_series(1, 100) n) r`)
})
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

test('pages have each failed row once, in order', async () => {
  const keysOf = async (source: string | null): Promise<string[]> => {
    const keys: string[] = []
    for await (const page of iterateFailures(database.db, { source, states: null }, 7)) {
      expect(page.length).toBeLessThanOrEqual(7)
      keys.push(...page.map((row) => `${row.source} ${row.key}`))
    }
    return keys
  }
  const every = await keysOf(null)
  expect(every).toHaveLength(60)
  expect(new Set(every).size).toBe(60)
  expect(await keysOf('contacts')).toEqual(every.filter((key) => key.startsWith('contacts')))
  expect(await keysOf('missing')).toEqual([])
})

test('counts skipped cells by column and reason, the most frequent first, with their values', async () => {
  await database.query(`
    insert into fillrate.skipped_cells (source, key, "column", reason, detail, value)
    select source, key, 'phone', 'too_long', null, to_jsonb('+47 ' || key::int % 3) from fillrate.rows where state = 'enriched'
    union all
    select source, key, 'title', 'below_confidence', '0.9', '"CTO"' from fillrate.rows where state = 'failed'
       and source = 'contacts' and key < '5'`)
  const ofPhones = (source: string, first: string, second: string) => ({
    source,
    column: 'phone',
    reason: 'too_long',
    detail: null,
    description: 'the text is longer than the column allows',
    rows: 10,
    distinct_values: 3,
    values: [
      { value: first, rows: 4 },
      { value: second, rows: 3 },
    ],
  })
  expect(await groupSkippedCells(database.db, {}, 2)).toEqual([
    ofPhones('accounts', '+47 1', '+47 0'),
    ofPhones('contacts', '+47 2', '+47 0'),
    {
      source: 'contacts',
      column: 'title',
      reason: 'below_confidence',
      detail: '0.9',
      description: 'the confidence is below 0.9',
      rows: 4,
      distinct_values: 1,
      values: [{ value: 'CTO', rows: 4 }],
    },
  ])
  expect(await groupSkippedCells(database.db, { source: 'accounts' })).toHaveLength(1)
  expect(await groupSkippedCells(database.db, { states: ['failed'] })).toMatchObject([
    { column: 'title', rows: 4 },
  ])
  const pages: number[] = []
  for await (const page of iterateSkippedCells(database.db, {}, 7)) pages.push(page.length)
  expect(pages).toEqual([7, 7, 7, 3])
})

test('lists the sources that have rows', async () => {
  expect(await listSourceNames(database.db)).toEqual(['accounts', 'contacts'])
})
