import { beforeEach, describe, expect, test } from 'vitest'
import { readCandidates, type ScannedPage } from '../../../src/pipeline/pick/candidates.ts'
import { readStretch } from '../../../src/pipeline/pick/pick.ts'
import { openSource } from '../../../src/sources/source.ts'
import type { Source } from '../../../src/sources/source-model.ts'
import { inTransaction } from '../../../src/store/transaction.ts'
import { createTestDatabase, useTestDatabase } from '../../support/database.ts'
import { tuplesReadSoFar } from '../../support/tuples-read.ts'
import { mapping } from '../sources/mapping.ts'

// What is read of a source: a page of its rows, or several at once where next to nothing is to be picked.

const database = useTestDatabase()
beforeEach(() =>
  database.query(
    'drop table if exists people; truncate fillrate.rows, fillrate.runs restart identity cascade',
  ),
)

const PAGE = { after: null, where: null, live: [], service: 0 }

describe('a page', () => {
  beforeEach(() =>
    database.query(`create table people (id text collate "C" primary key, email text, title text)`),
  )

  async function read(after: string | null, size: number): Promise<ScannedPage> {
    const source = await openSource(database.db, mapping())
    return readCandidates(database.db, source, { ...PAGE, live: [7], after, size })
  }

  test('a page has its candidates in key order, and counts of the other rows', async () => {
    await database.query(`
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
    expect(page).toMatchObject({ scanned: 7, last: 'k7', next: 'k7', densest: 4, known: 3 })
    expect(page.dispositions).toEqual({ eligible: 3, abandoned: 1, held: 1, fresh: 1, complete: 1 })
    expect(await read('k7', 7)).toMatchObject({
      scanned: 2,
      last: 'k9',
      next: null,
      dispositions: { eligible: 2 },
    })
    expect(await read('k9', 7)).toMatchObject({ candidates: [], scanned: 0, last: null, next: null })
  })
})

describe.each([
  ['a table without statistics', ''],
  ['one whose statistics are from before it was filled', 'analyze fillrate.rows;'],
])('a page of a source reads the state of each row once, in %s', (_, analyze) => {
  test.each([
    ['a number', 'bigint'],
    ['a text of another collation', 'text collate "C"'],
  ])('and with %s as its key', async (_type, type) => {
    const other = await createTestDatabase()
    try {
      await other.pool.query(`
        create table people (id ${type} primary key, email text, title text);
        insert into people (id, email) select n, n || '@example.com' from generate_series(1, 20000) n;
        insert into fillrate.rows (source, key, state, settled_at) select 'others', n, 'enriched', now() from generate_series(1, 20000) n;
        ${analyze}
        insert into fillrate.rows (source, key, state, settled_at) select 'people', n, 'enriched', now() from generate_series(1, 20000) n`)
      const source = await openSource(other.db, mapping())
      await inTransaction(other.db, async (tx) => {
        const before = await tuplesReadSoFar(tx)
        expect(await readCandidates(tx, source, { ...PAGE, size: 1_000 })).toMatchObject({ scanned: 1_000 })
        expect((await tuplesReadSoFar(tx)) - before).toBe(1_000)
      })
    } finally {
      await other.drop()
    }
  })
})

describe('several pages at once', () => {
  const ROWS = 100
  beforeEach(() =>
    database.query(`
      create table people (a text collate "C", b int, email text, title text, phone text, primary key (b, a));
      insert into people (a, b, email, title)
      select 'n' || n, n / 7, n || '@example.com', case when n % 10 = 0 then 'CTO' end from generate_series(1, ${ROWS}) n`),
  )

  /** Settles every row of the source, except those whose email was changed since. */
  async function settle(source: Source): Promise<void> {
    const { candidates } = await readCandidates(database.db, source, { ...PAGE, size: 1_000 })
    for (const { key, input_hash } of candidates)
      await database.query(
        `insert into fillrate.rows (source, key, input_hash, state, settled_at) values ($1, $2, $3, 'unchanged', now())`,
        [source.name, key, input_hash],
      )
  }

  async function readAll(
    source: Source,
    size: number,
    range: { readonly until?: string } = {},
    pages: ScannedPage[] = [],
  ): Promise<ScannedPage[]> {
    for (let after: string | null = null; ;) {
      const page: ScannedPage = await readStretch(
        { db: database.db, policy: { sourceTimeoutMs: 30_000 } } as Parameters<typeof readStretch>[0],
        source,
        { ...PAGE, ...range, after, size },
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
    ['a filter', { key: ['a', 'b'], where: ['t.b % 3 <> 0'] }],
  ])('finds each changed row once, with %s', async (_, given) => {
    const source = await openSource(database.db, mapping(given as object))
    await settle(source)
    await database.query(`update people set email = 'new' || email where b in (4, 8, 13) and title is null`)
    const whole = await readCandidates(database.db, source, { ...PAGE, size: 1_000 })
    expect(whole.candidates.length).toBeGreaterThan(10)
    for (const size of [1, 3, 10, 99, 100, 101]) {
      const pages = await readAll(source, size)
      expect(pages.flatMap((page) => page.candidates)).toEqual(
        whole.candidates.map((one) => expect.objectContaining({ key: one.key, input_hash: one.input_hash })),
      )
      for (const disposition of ['fresh', 'complete', 'eligible'] as const)
        expect(sum(pages, (page) => page.dispositions[disposition])).toBe(whole.dispositions[disposition])
      for (const count of ['scanned', 'known'] as const)
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
    await expect(readAll(source, 10, {}, pages)).rejects.toThrow('division by zero')
    // Of the 63 rows before it, those of whole pages.
    expect(sum(pages, (page) => page.scanned)).toBe(60)
  })
})
