import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { readCandidates, type ScannedPage } from '../../../src/pipeline/pick/candidates.ts'
import { readStretch } from '../../../src/pipeline/pick/stretch.ts'
import { openSource } from '../../../src/sources/source.ts'
import type { Source } from '../../../src/sources/source-model.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { mapping } from '../sources/mapping.ts'

// Several pages at once, of which next to nothing is to be picked, hold the same rows as the pages one by one.

const ROWS = 100
let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

beforeEach(async () => {
  await database.pool.query(`
    drop table if exists people; truncate fillrate.rows;
    create table people (a text collate "C", b int, email text, title text, phone text, primary key (b, a));
    insert into people (a, b, email, title)
    select 'n' || n, n / 7, n || '@example.com', case when n % 10 = 0 then 'CTO' end from generate_series(1, ${ROWS}) n`)
})

/** Settles every row of the source, except those whose email was changed since. */
async function settle(source: Source): Promise<void> {
  const { candidates } = await readCandidates(database.db, source, { ...read, size: 1_000 })
  for (const { key, input_hash } of candidates)
    await database.pool.query(
      `insert into fillrate.rows (source, key, input_hash, state, settled_at) values ($1, $2, $3, 'unchanged', now())`,
      [source.name, key, input_hash],
    )
}

const read = { after: null, where: null, changedSince: null, live: [], service: 0 }

async function readAll(
  source: Source,
  size: number,
  range: { readonly until?: string } = {},
): Promise<ScannedPage[]> {
  const pages: ScannedPage[] = []
  for (let after: string | null = null; ;) {
    const page: ScannedPage = await readStretch(
      { db: database.db, policy: { sourceTimeoutMs: 30_000 } } as Parameters<typeof readStretch>[0],
      source,
      { ...read, ...range, after, size },
    )
    pages.push(page)
    after = page.next
    if (after === null) return pages
  }
}

const sum = (pages: readonly ScannedPage[], of: (page: ScannedPage) => number | undefined): number =>
  pages.reduce((total, page) => total + (of(page) ?? 0), 0)

test.each([
  ['a key of two columns', { key: ['a', 'b'] }],
  ['joins', { key: ['a', 'b'], joins: 'left join (select 1 as one) o on true' }],
  ['a filter', { key: ['a', 'b'], where: 't.b % 3 <> 0' }],
])('finds each changed row once, with %s', async (_, given) => {
  const source = await openSource(database.db, mapping(given as object))
  await settle(source)
  await database.pool.query(
    `update people set email = 'new' || email where b in (4, 8, 13) and title is null`,
  )
  const whole = await readCandidates(database.db, source, { ...read, size: 1_000 })
  expect(whole.candidates.length).toBeGreaterThan(10)
  for (const size of [1, 3, 10, 99, 100, 101]) {
    const pages = await readAll(source, size)
    expect(pages.flatMap((page) => page.candidates)).toEqual(
      whole.candidates.map((one) => expect.objectContaining({ key: one.key, input_hash: one.input_hash })),
    )
    for (const disposition of ['fresh', 'complete', 'eligible'] as const)
      expect(sum(pages, (page) => page.dispositions[disposition])).toBe(whole.dispositions[disposition])
    for (const count of ['scanned', 'known', 'newcomers'] as const)
      expect(sum(pages, (page) => page[count])).toBe(whole[count])
  }
  // A slow machine reads them in more than one stretch, of which one may hold none.
  const bounded = await readAll(source, 3, { until: whole.candidates[4]?.key ?? '' })
  expect(bounded.flatMap((page) => page.candidates).at(-1)?.key).toBe(whole.candidates[4]?.key)
})

test('ends before a page that fails, which fails in its turn', async () => {
  const source = await openSource(
    database.db,
    mapping({
      key: ['a', 'b'],
      inputs: { email: `case when t.b = 9 then (1 / (t.b - 9))::text end` },
    } as object),
  )
  const pages: ScannedPage[] = []
  const reading = async (): Promise<void> => {
    for (let after: string | null = null; ;) {
      const page: ScannedPage = await readStretch(
        { db: database.db, policy: { sourceTimeoutMs: 30_000 } } as Parameters<typeof readStretch>[0],
        source,
        { ...read, after, size: 10 },
      )
      pages.push(page)
      after = page.next
      if (after === null) return
    }
  }
  await expect(reading()).rejects.toThrow('division by zero')
  // Of the 63 rows before it, those of whole pages.
  expect(sum(pages, (page) => page.scanned)).toBe(60)
})
