import fc from 'fast-check'
import { sql } from 'kysely'
import { beforeEach, describe, expect, test } from 'vitest'
import { countFilled } from '../../../src/sources/left-out.ts'
import {
  keysQuery,
  pageColumnsSql,
  pageOrderSql,
  pageQuery,
  parseDuplicateKey,
  type PageRow,
  type SourcePageOptions,
} from '../../../src/sources/page.ts'
import { SourceProblems } from '../../../src/sources/problems.ts'
import { openSource } from '../../../src/sources/source.ts'
import type { Source } from '../../../src/sources/source-model.ts'
import { useTestDatabase } from '../../support/database.ts'
import { mapping, output } from './mapping.ts'
import { readPage, write } from './writing.ts'

const database = useTestDatabase()

beforeEach(async () => {
  await database.query(`
    drop table if exists people, accounts;
    create table accounts (id int primary key, name text, domain text);
    create table people (id int primary key, email text, title text, phone text, attributes jsonb,
                         account_id int, updated_at timestamptz, deleted boolean not null default false)`)
})

async function page(source: Source, options: Partial<SourcePageOptions> = {}): Promise<PageRow[]> {
  const all = { after: null, limit: 100, where: null, ...options }
  const { rows } = await sql<PageRow>`
    select ${pageColumnsSql(source)} from (${pageQuery(source, all)}) page order by ${pageOrderSql(source)}`.execute(
    database.db,
  )
  return rows
}

async function everyPage(source: Source, limit: number): Promise<string[]> {
  const keys: string[] = []
  for (let after: string | null = null; ;) {
    const rows = await page(source, { after, limit })
    keys.push(...rows.map((row) => row.key))
    after = rows.at(-1)?.key ?? null
    if (rows.length < limit) return keys
  }
}

describe('a page', () => {
  test('has keys, inputs, their hash and whether cells are lacking, in key order', async () => {
    await database.query(`insert into accounts values (1, 'Acme', 'acme.no')`)
    await database.query(
      `insert into people (id, email, title, account_id) values (2, null, '', 1), (1, ' A@x.no', 'CTO', null)`,
    )
    const source = await openSource(
      database.db,
      mapping({
        joins: 'left join accounts a on a.id = t.account_id -- the account',
        inputs: { email: 't.email', name: `concat_ws(' ', t.title, t.phone) -- both`, company: 'a.name' },
      }),
    )
    const [first, second] = await page(source)
    expect(first).toMatchObject({
      key: '1',
      email: ' A@x.no',
      name: 'CTO',
      company: null,
      lacks: false,
    })
    expect(second).toMatchObject({
      key: '2',
      email: null,
      company: 'Acme',
      lacks: true,
    })
    // An input that the source does not have costs a column nothing.
    expect(second).not.toHaveProperty('linkedin_url')
    expect(first?.input_hash).toMatch(/^-?\d{1,19}$/)
    const rows = await readPage(database.db, source, keysQuery(source, ['1', '1', '2', '77']))
    expect(rows.toSorted((a, b) => Number(a.key) - Number(b.key))).toEqual([first, second])
  })

  test('has another hash when any input changes, and the same when anything else does', async () => {
    await database.query(`insert into people (id, email, phone) values (1, 'a', null)`)
    const source = await openSource(
      database.db,
      mapping({ inputs: { email: 't.email', name: 't.phone', company: `'x'` } }),
    )
    const hashes = new Set<string | undefined>()
    for (const change of [
      `email = 'a'`,
      `email = 'a '`,
      `email = 'A'`,
      `email = null`,
      `email = ''`,
      `phone = ''`,
    ]) {
      await database.query(`update people set ${change}`)
      hashes.add((await page(source))[0]?.input_hash)
    }
    expect(hashes.size).toBe(6)
    await database.query(`update people set title = 'new', updated_at = now()`)
    hashes.add((await page(source))[0]?.input_hash)
    expect(hashes.size).toBe(6)
  })

  test('has another hash when a value moves to another input, or differs only for a collation that tells it from none', async () => {
    await database.query(
      `create collation if not exists whatever (provider = icu, locale = 'und-u-ks-level1', deterministic = false)`,
    )
    await database.query(`insert into people (id, email, phone) values (1, 'ANN', null)`)
    const source = await openSource(
      database.db,
      mapping({ inputs: { email: 't.email collate whatever', name: 't.phone' } }),
    )
    const hashes = new Set<string | undefined>()
    for (const [email, phone] of [
      ['ANN', null],
      ['ann', null],
      ['án', null],
      [null, 'ANN'],
      [null, 'ann'],
      ['ann', 'ANN'],
      ['ANN', 'ann'],
      ['ann', 'ann'],
      ['annann', null],
      ['', null],
      [null, ''],
      ['', ''],
      [null, null],
    ]) {
      await database.query('update people set email = $1, phone = $2', [email, phone])
      hashes.add((await page(source))[0]?.input_hash)
    }
    expect(hashes.size).toBe(13)
    expect((await readPage(database.db, source, keysQuery(source, ['1'])))[0]?.input_hash).toBe('0')
  })

  test('has the same hash when an input is mapped that the row does not have', async () => {
    await database.query(`insert into people (id, email, phone) values (1, 'a', null)`)
    const hashWith = async (inputs: object) =>
      (await page(await openSource(database.db, mapping({ inputs } as object))))[0]?.input_hash
    expect(await hashWith({ email: 't.email', name: 't.phone' })).toBe(await hashWith({ email: 't.email' }))
  })

  test('applies the source’s condition and the run’s', async () => {
    await database.query(`insert into people (id, email, updated_at, deleted) values
      (1, 'a', '2026-01-01', false), (2, 'b', '2026-01-03', true), (3, 'c', '2026-01-03', false), (4, 'd', null, false)`)
    const source = await openSource(database.db, mapping({ where: ['t.deleted is false or false'] }))
    const keys = async (options: Partial<SourcePageOptions>) =>
      (await page(source, options)).map((row) => row.key)
    expect(await keys({})).toEqual(['1', '3', '4'])
    expect(await keys({ where: 't.id > 3 or t.id = 2 -- x' })).toEqual(['4'])
    expect((await keysQuery(source, ['2', '3']).execute(database.db)).rows.map((row) => row.key)).toEqual([
      '3',
    ])
  })

  test('applies each condition of a list, whatever stands in them', async () => {
    await database.query(
      `insert into people (id, email, deleted) values (1, 'a', false), (2, 'b', true), (3, 'c', true)`,
    )
    const where = ['t.id = 1 or t.id > 1 -- all', 't.deleted is false or t.id = 3']
    const keys = async (conditions: readonly string[]) =>
      (await page(await openSource(database.db, mapping({ where: conditions })))).map((row) => row.key)
    expect(await keys(where)).toEqual(['1', '3'])
    expect(await keys(where.toReversed())).toEqual(['1', '3'])
    expect(await keys([])).toEqual(['1', '2', '3'])
  })

  test.each(['true) or (true', 'true; drop table people', `title = 'x`, '/* x', '$1 = 1'])(
    'refuses the condition %s',
    async (where) => {
      const source = await openSource(database.db, mapping())
      expect(() => pageQuery(source, { after: null, limit: 1, where })).toThrow(SourceProblems)
    },
  )

  test('finds the rows that lack a value, by each policy', async () => {
    await database.query(`insert into people (id, email, title, phone, attributes) values
      (1, 'a', 'x', '1', '{"d": 1}'), (2, 'b', 'x', '1', null), (3, 'c', 'x', '1', '"text"'), (4, 'd', 'x', ' ', '{"d": 1}')`)
    const lacking = async (
      outputs: ReturnType<typeof output>[],
      lastWritten?: SourcePageOptions['lastWritten'],
    ) => {
      const source = await openSource(database.db, mapping({ outputs }))
      return (await page(source, lastWritten ? { lastWritten } : {}))
        .filter((row) => row.lacks)
        .map((row) => row.key)
    }
    expect(await lacking([output('title', 'title'), output('attributes.d', 'department')])).toEqual(['2'])
    expect(await lacking([output('title', 'title', { policy: 'always' })])).toEqual(['1', '2', '3', '4'])
    const tracked = [output('phone', 'phone', { policy: 'tracked' })]
    expect(await lacking(tracked)).toEqual(['4'])
    const inputs = await page(await openSource(database.db, mapping({ outputs: tracked })))
    const written = (change: string) => sql<{ key: string; input_hash: unknown; written: unknown }>`
      select key, hashes.value::bigint # ${sql.raw(change)} as input_hash, written
        from jsonb_each_text(${JSON.stringify(Object.fromEntries(inputs.map((row) => [row.key, row.input_hash])))}) as hashes
        join (values ('1', '{"phone": "1"}'::jsonb), ('2', '{"phone": "2"}'), ('3', '{}')) as v(key, written) using (key)`
    expect(await lacking(tracked, written('0'))).toEqual(['1', '4'])
    // Written for other inputs.
    expect(await lacking(tracked, written('1'))).toEqual(['4'])
  })
})

describe('pages', () => {
  test.each([
    ['int', 'id int', '(n)'],
    ['bigint', 'id bigint', '(n::bigint * 10000000000)'],
    ['uuid', 'id uuid', `(md5(n::text)::uuid)`],
    ['varchar(17)', 'id varchar(17)', `('k' || n || '"''\\ é')`],
    ['text', 'id text', `(chr(64 + n) || 'x')`],
    ['char(5)', 'id char(5)', '(n::text)'],
  ])('of a key of type %s have every row once', async (_, column, value) => {
    await database.query(
      `drop table if exists keyed; create table keyed (${column} primary key, email text, title text)`,
    )
    await database.query(`insert into keyed (id) select ${value} from generate_series(1, 23) n`)
    const source = await openSource(database.db, mapping({ table: 'keyed' }))
    const expected = await database.query<{ key: string }>('select id::text as key from keyed order by id')
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 30 }), async (limit) => {
        expect(await everyPage(source, limit)).toEqual(expected.map((row) => row.key))
      }),
      { numRuns: 8 },
    )
    const some = expected.slice(3, 9).map((row) => row.key)
    const { rows } = await keysQuery(source, some).execute(database.db)
    expect(rows.map((row) => row.key).toSorted()).toEqual(some.toSorted())
  })

  test('of a composite key follow its index, whatever the configured order', async () => {
    await database.query(`
      drop table if exists keyed;
      create table keyed (tenant text, "No" int, email text, title text, primary key (tenant, "No"));
      insert into keyed select t, n, 'x' from unnest(array['b', 'a"', '[']) t, generate_series(1, 7) n`)
    for (const key of [null, ['No', 'tenant']]) {
      const source = await openSource(database.db, mapping({ table: 'keyed', key }))
      const keys = await everyPage(source, 4)
      expect(new Set(keys).size).toBe(21)
      expect(keys[0]).toBe(JSON.stringify(key ? ['1', '['] : ['[', '1']))
      expect((await keysQuery(source, keys.slice(2, 5)).execute(database.db)).rows).toHaveLength(3)
    }
  })

  test('of a key with a time are the same in every session', async () => {
    await database.query(`
      drop table if exists keyed;
      create table keyed (day date, at timestamptz, email text, title text, primary key (day, at));
      insert into keyed select date '2026-01-01' + n, timestamptz '2026-01-01 00:00:00.000001Z' + n * interval '7 hours', 'x'
        from generate_series(1, 5) n`)
    const source = await openSource(database.db, mapping({ table: 'keyed' }))
    const keys = await everyPage(source, 2)
    expect(keys[0]).toBe('["2026-01-02","2026-01-01T07:00:00.000001Z"]')
    await database.db.transaction().execute(async (tx) => {
      await sql`set local datestyle = 'German'`.execute(tx)
      await sql`set local timezone = 'Asia/Tokyo'`.execute(tx)
      const { rows } = await keysQuery(source, keys).execute(tx)
      expect(rows.map((row) => row.key).toSorted()).toEqual(keys)
    })
  })

  test('of a partitioned table cross its partitions', async () => {
    await database.query(`
      drop table if exists keyed;
      create table keyed (id int primary key, email text, title text) partition by range (id);
      create table keyed_low partition of keyed for values from (0) to (5);
      create table keyed_high partition of keyed for values from (5) to (100);
      insert into keyed select n, 'x' from generate_series(1, 9) n`)
    const source = await openSource(database.db, mapping({ table: 'keyed' }))
    const keys = await everyPage(source, 2)
    expect(keys).toEqual(['1', '2', '3', '4', '5', '6', '7', '8', '9'])
    const results = await write(database, source, keys, { title: 'CTO' })
    expect(results.every((result) => result.outcome === 'written')).toBe(true)
  })

  test('of a nullable unique key skip rows without a key', async () => {
    await database.query(
      `drop table if exists keyed; create table keyed (code text unique, email text, title text)`,
    )
    await database.query(`insert into keyed values ('a'), (null), ('b'), (null)`)
    const source = await openSource(database.db, mapping({ table: 'keyed', key: ['code'] }))
    expect(await everyPage(source, 1)).toEqual(['a', 'b'])
  })

  test('read a large table through the key’s index and never sort it', async () => {
    await database.query(`
      insert into accounts select n, 'Acme ' || n, null from generate_series(1, 5000) n;
      insert into people (id, email, account_id) select n, 'p' || n, n % 5000 + 1 from generate_series(1, 60000) n;
      analyze people; analyze accounts`)
    const source = await openSource(
      database.db,
      mapping({
        joins: 'left join accounts a on a.id = t.account_id',
        where: ['not t.deleted'],
        inputs: { email: 't.email', name: 't.phone', company: 'a.name' },
      }),
    )
    const query = pageQuery(source, { after: '30000', limit: 1000, where: null })
    const { rows } = await sql<{
      'QUERY PLAN': string
    }>`explain (analyze, costs off, timing off) ${query}`.execute(database.db)
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n')
    expect(plan).toMatch(/Index Scan using people_pkey on people t .*rows=1001/)
    expect(plan).not.toMatch(/Seq Scan on people/)

    // A filter that few rows pass does not lead beyond the last key.
    const rare = { after: '30000', until: '30500', limit: 10, where: `t.email = 'p7'` }
    const range = await sql<{
      'QUERY PLAN': string
    }>`explain (analyze, costs off, timing off) ${pageQuery(source, rare)}`.execute(database.db)
    expect(range.rows.map((row) => row['QUERY PLAN']).join('\n')).toMatch(/Rows Removed by Filter: 500$/m)
  })

  test('read a range of keys up to its last one, of composite keys too', async () => {
    await database.query(
      `drop table if exists pairs; create table pairs (a text, b int, title text, primary key (a, b))`,
    )
    await database.query(
      `insert into pairs select x, n from unnest('{p,q,r}'::text[]) x, generate_series(1, 4) n`,
    )
    const source = await openSource(database.db, mapping({ table: 'pairs', inputs: { email: 't.a' } }))
    const range = { after: '["p","3"]', until: '["q","2"]', limit: 10, where: null }
    const { rows } = await sql<PageRow>`${pageQuery(source, range)}`.execute(database.db)
    expect(rows.map((row) => row.key)).toEqual(['["p","4"]', '["q","1"]', '["q","2"]'])
  })
})

describe('a key with two rows from the joins', () => {
  test('fails the page and is named, even if the page would end between them', async () => {
    await database.query(`
      insert into people (id, email) values (1, 'a'), (7, 'b'), (8, 'c');
      alter table accounts add column person int;
      insert into accounts (id, person) values (1, 7), (2, 7)`)
    const source = await openSource(
      database.db,
      mapping({ joins: 'left join accounts a on a.person = t.id' }),
    )
    for (const limit of [2, 100]) {
      const error: unknown = await page(source, { limit }).catch((error: unknown) => error)
      expect(parseDuplicateKey(error)).toBe('7')
    }
    expect(parseDuplicateKey(new Error('invalid input syntax for type integer: "x"'))).toBeNull()
    // Another server's quotation marks are no part of the key.
    const french = 'syntaxe en entrée invalide : « source people: more than one row for key 7 in a page »'
    expect(parseDuplicateKey(new Error(french))).toBe('7')
    const error: unknown = await keysQuery(source, ['7'])
      .execute(database.db)
      .catch((error: unknown) => error)
    expect(parseDuplicateKey(error)).toBe('7')
  })
})

test('countFilled counts the eligible rows and those that are not blank', async () => {
  await database.query(`insert into people (id, email, title, attributes, deleted) values
    (1, 'a', 'x', '{"d": "y"}', false), (2, 'b', ' ', '{"d": null}', false), (3, 'c', null, null, false), (4, 'd', 'x', null, true)`)
  const source = await openSource(
    database.db,
    mapping({
      where: ['not t.deleted'],
      outputs: [output('title', 'title'), output('attributes.d', 'department')],
    }),
  )
  expect(await countFilled(database.db, source)).toEqual({
    eligible: 3,
    columns: [
      { column: 'title', filled: 1 },
      { column: 'attributes.d', filled: 1 },
    ],
  })
})
