import { beforeAll, describe, expect, test } from 'vitest'
import type { OutputMapping } from '../../../src/domain/mapping.ts'
import { keysQuery, pageQuery, type PageRow } from '../../../src/sources/page.ts'
import { openSource } from '../../../src/sources/source.ts'
import type { Source } from '../../../src/sources/source-model.ts'
import { restoreBatch, writeBatch, type WriteResult } from '../../../src/sources/write/write.ts'
import { inTransaction } from '../../../src/store/transaction.ts'
import { useTestDatabase } from '../../support/database.ts'
import { mapping, output } from './mapping.ts'
import { prepare, readPage, undo, withInputs, type Writing, type Written } from './writing.ts'

const database = useTestDatabase()

/** Settings that change how Postgres writes values, each set to a non-default. */
const SETTINGS = `
  alter database "%" set DateStyle = 'SQL, DMY'; alter database "%" set extra_float_digits = 0;
  alter database "%" set IntervalStyle = 'sql_standard'; alter database "%" set bytea_output = 'escape'`

beforeAll(async () => {
  const name = new URL(database.url).pathname.slice(1)
  await database.query(SETTINGS.replaceAll('%', name))
  await database.query(`
    create schema ext; create extension citext schema ext; create extension hstore schema ext; create extension ltree schema ext;
    create type pair as (word text, n int)`)
})
/** Creates a table `people` with these columns, a key and an email. */
async function table(columns: string, rows: string): Promise<void> {
  await database.query(
    `drop table if exists people cascade; create table people (id int primary key, email text, ${columns}); ${rows}`,
  )
}

const open = (outputs: OutputMapping[], more: Parameters<typeof mapping>[0] = {}): Promise<Source> =>
  openSource(database.db, mapping({ outputs, ...more }))

const always = (column: string, more: Partial<OutputMapping> = {}): OutputMapping =>
  output(column, column, { policy: 'always', ...more })

async function write(
  source: Source,
  keys: readonly string[],
  record: unknown,
  options: Writing = {},
): Promise<WriteResult[]> {
  const batch = await inTransaction(database.db, () => prepare(database, source, keys, record, options))
  return inTransaction(database.db, (tx) => writeBatch(tx, source, batch))
}

const toUndo = ({ key, before, after }: WriteResult | WriteResult): Written[] =>
  before && after ? [{ key, before, after }] : []

/** Every row to the last byte, whatever the session's settings. */
async function bytes(from = 'people'): Promise<string[]> {
  const client = await database.pool.connect()
  try {
    await client.query(
      `begin; set local extra_float_digits = 1; set local DateStyle = 'ISO'; set local bytea_output = 'hex'`,
    )
    const { rows } = await client.query<{ row: string }>(`select p::text as row from ${from} p order by 1`)
    return rows.map(({ row }) => row)
  } finally {
    await client.query('rollback')
    client.release()
  }
}

/** Column type, its value, the record's value. */
const SHAPES: [type: string, held: string, value: unknown][] = [
  ['text[]', `'{{a,b},{c,d}}'`, ['x', 'y']],
  ['text[]', `'[0:1]={a,"b c"}'`, ['NULL', '', 'x,"y']],
  ['int[]', `'{{1,2},{3,4}}'`, [5]],
  ['int[]', `'{1,NULL}'`, [5]],
  ['jsonb[]', `array['"123"', '123', 'null']::jsonb[]`, ['123', 'true', { k: 1 }]],
  ['json[]', `array['{"a": 1,  "a": 2}']::json[]`, ['str', 1]],
  ['json', `'{"a":1,  "a": 2, "b": 1e2}'`, { k: [1] }],
  ['jsonb', `'{"n": 1.50}'`, 'text'],
  ['float8', '0.1 + 0.2::float8', 1 / 3],
  ['float8', `'-0'`, 2.5],
  ['float8', `'NaN'`, 0],
  ['real', '0.1', 0.3],
  ['float8[]', 'array[0.1 + 0.2::float8]', [1 / 3, 2]],
  ['numeric', '12.50', '12345678901234567.890'],
  ['numeric[]', `'{1.10,12345678901234567890.5}'`, ['2.20']],
  ['numeric(30,2)', '1.10', '12345678901234567.89'],
  ['bigint', '9007199254740993', '9007199254740995'],
  ['timestamptz', `'0044-03-15 12:00:00+00 BC'`, '2020-02-03T04:05:06.000007Z'],
  ['timestamptz', `'infinity'`, '2020-02-03'],
  ['timestamp', `'0044-03-15 12:00:00 BC'`, '2020-02-03T04:05:06'],
  ['timestamptz[]', `array['2020-01-01 00:00:00+00'::timestamptz]`, ['2020-02-03T04:05:06Z']],
  ['date', `'0044-03-15 BC'`, '2020-02-03'],
  ['interval', `'-1 year 2 days -03:04:05.6'`, '2 hours'],
  ['interval[]', `array['-1 year 2 days'::interval]`, ['P1Y2D']],
  ['tstzrange', `'[2020-01-01 00:00:00+00,)'`, '[2021-01-01 00:00:00+00,2022-01-01 00:00:00+00)'],
  ['int4range[]', `array['[1,5)'::int4range]`, ['[2,3)']],
  ['pair', `row('a,"b', 1)::pair`, '("x y",2)'],
  ['pair', 'row(null, 1)::pair', '(a,)'],
  ['pair[]', `array[row('a', null)::pair]`, ['(b,2)']],
  ['ext.hstore', `'a=>1, "b c"=>NULL'`, 'k=>v'],
  ['ext.hstore[]', `array['a=>1'::ext.hstore]`, ['k=>v']],
  ['ext.ltree', `'a.b'`, 'c.d'],
  ['ext.citext', `'Mixed'`, 'MIXED'],
  ['ext.citext[]', `array['Mixed']::ext.citext[]`, ['MIXED']],
  ['bytea', String.raw`'\x00ff5c'`, String.raw`\x0102`],
  ['char(5)', `'ab'`, 'abc'],
  ['bit(4)', `'0101'`, '1010'],
  ['varbit(5)', `'01'`, '11111'],
  ['inet', `'10.0.0.1'`, '10.0.0.2/8'],
  ['point', `'(0.30000000000000004,-0)'`, '(1,2)'],
  ['xml', `'<a  b="1"/>'`, '<c/>'],
  ['regclass', `'pg_class'`, 'pg_type'],
  ['tsvector', `'''a b'':1 c'`, 'x:2'],
]

describe('undo and its undo, to the byte', () => {
  test('with every column type in one table', async () => {
    const names = SHAPES.map((_, n) => `c${n}`)
    await table(
      SHAPES.map(([type], n) => `c${n} ${type}`).join(', '),
      `insert into people values (1, 'a', ${SHAPES.map(([, held]) => held).join(', ')}); insert into people values (2, 'b');`,
    )
    const source = await open(names.map((name) => always(name)))
    const before = await bytes()
    const record = Object.fromEntries(SHAPES.map(([, , value], n) => [`c${n}`, value]))
    const written = await write(source, ['1', '2'], record)
    expect(written.map(({ outcome, reason, after }) => [outcome, reason, Object.keys(after ?? {})])).toEqual([
      ['written', null, names],
      ['written', null, names],
    ])
    const after = await bytes()
    let rows = written.flatMap(toUndo)
    for (const expected of [before, after, before]) {
      const preview = await inTransaction(database.db, async (tx) =>
        restoreBatch(tx, source, await withInputs(database, source, rows), { preview: true }),
      )
      expect(preview.map((one) => [one.outcome, one.protectedColumns])).toEqual(
        rows.map(() => ['written', []]),
      )
      const results = await undo(database, source, rows)
      expect(results.map((one) => [one.outcome, one.reason, one.protectedColumns])).toEqual(
        rows.map(() => ['written', null, []]),
      )
      expect(await bytes()).toEqual(expected)
      rows = results.flatMap(toUndo)
    }
  })

  test('in a session of another time zone, and tracked recognizes what was written there', async () => {
    await table('at timestamptz[], span tstzrange', `insert into people values (1, 'a', null, null);`)
    const source = await open(['at', 'span'].map((column) => output(column, column, { policy: 'tracked' })))
    const before = await bytes()
    const [first] = await write(source, ['1'], {
      at: ['2020-01-01T00:00:00Z'],
      span: '[2020-01-01 00:00:00Z,)',
    })
    const inOslo = <T>(act: (tx: Parameters<typeof writeBatch>[0]) => Promise<T>): Promise<T> =>
      inTransaction(database.db, async (tx) => {
        await database.query('select')
        await tx
          .selectNoFrom((eb) =>
            eb.fn('set_config', [eb.val('TimeZone'), eb.val('Europe/Oslo'), eb.val(true)]).as('zone'),
          )
          .execute()
        return act(tx as never)
      })
    const page = pageQuery(source, {
      after: null,
      limit: 10,
      where: null,
    })
    expect(((await page.execute(database.db)).rows[0] as PageRow).lacks).toBe(false)
    const batch = await prepare(
      database,
      source,
      ['1'],
      { at: ['2021-01-01T00:00:00Z'], span: '[2021-01-01 00:00:00Z,)' },
      {
        written: first?.after ?? {},
      },
    )
    const [second] = await inOslo((tx) => writeBatch(tx, source, batch))
    expect(second).toMatchObject({ outcome: 'written', protectedColumns: [] })
    const [undone] = await undo(
      database,
      source,
      [second].flatMap((one) => (one ? toUndo(one) : [])),
    )
    expect(undone).toMatchObject({ outcome: 'written', protectedColumns: [] })
    const whole = await withInputs(
      database,
      source,
      [first].flatMap((one) => (one ? toUndo(one) : [])),
    )
    const [restored] = await inOslo((tx) => restoreBatch(tx, source, whole))
    expect(restored).toMatchObject({ outcome: 'written', protectedColumns: [] })
    expect(await bytes()).toEqual(before)
  })

  test('after a column has become text or json', async () => {
    await table(
      'n numeric, j jsonb, s jsonb',
      `insert into people values (1, 'a', 12.50, '{"b": 1}', '"was"');`,
    )
    const columns = ['n', 'j', 's']
    const written = await write(await open(columns.map((column) => always(column))), ['1'], {
      n: '1.10',
      j: { k: [1] },
      s: 'x',
    })
    await database.query(
      'alter table people alter n type text, alter j type json using j::json, alter s type json using s::json',
    )
    const results = await undo(
      database,
      await open(columns.map((column) => always(column))),
      written.flatMap(toUndo),
    )
    expect(results).toMatchObject([{ outcome: 'written', protectedColumns: [] }])
    expect(await bytes()).toEqual([String.raw`(1,a,12.50,"{""b"": 1}","""was""")`])
  })

  test('one old value that no longer fits rejects only its own row', async () => {
    await table(
      'h ext.hstore, v text',
      `insert into people select n, 'a', case n when 7 then 'a=>1' end::ext.hstore from generate_series(1, 20) n;`,
    )
    const source = await open([always('h'), always('v')])
    const written = await write(
      source,
      Array.from({ length: 20 }, (_, n) => String(n + 1)),
      { h: 'k=>v', v: 'x' },
    )
    const rows = written
      .flatMap(toUndo)
      .map((row) => (row.key === '7' ? { ...row, before: { h: 'not hstore' } } : row))
    const outcomes = (await undo(database, source, rows)).map((one) => one.outcome)
    expect(outcomes.filter((one) => one === 'written')).toHaveLength(19)
    expect(outcomes[6]).toBe('rejected')
  })

  test('records the row as an AFTER trigger has changed it, and undoes that', async () => {
    await table(
      'v text',
      `insert into people values (1, 'a', null);
      create or replace function shout() returns trigger language plpgsql as $$ begin
        if new.v not like '%!' then update people set v = v || '!' where id = new.id; end if; return null; end $$;
      create trigger shout after update on people for each row execute function shout()`,
    )
    const source = await open([output('v', 'v', { policy: 'tracked' })])
    const before = await bytes()
    const written = await write(source, ['1'], { v: 'CTO' })
    expect(written).toMatchObject([{ outcome: 'written', after: { v: 'CTO!' } }])
    const again = await write(source, ['1'], { v: 'CEO' }, { written: written[0]?.after ?? {} })
    expect(again).toMatchObject([{ outcome: 'written', before: { v: 'CTO!' }, after: { v: 'CEO!' } }])
    for (const rows of [again, written])
      expect(await undo(database, source, rows.flatMap(toUndo))).toMatchObject([{ outcome: 'written' }])
    expect(await bytes()).toEqual(before)
  })
})

describe('an error of one cell rejects only that cell', () => {
  const values: [what: string, type: string, bad: unknown, good: unknown, sql: string | null][] = [
    ['ltree reads with 42601', 'ext.ltree', 'Sales & Marketing', 'Sales', null],
    ['hstore reads with XX000', 'ext.hstore', 'not hstore', 'k=>v', null],
    ['jsonpath reads with 42601', 'jsonpath', '$.', '$.a', null],
    ['regclass looks with 42P01', 'regclass', 'no_such', 'pg_type', null],
    ['an expression reads with 42601', 'tsquery', 'a b', 'a', `to_tsquery('simple', $value)`],
  ]
  test.each(values)('%s', async (_, type, bad, good, sql) => {
    await table(`c ${type}, v text`, `insert into people select n, 'a' from generate_series(1, 30) n;`)
    const source = await open([always('c', { sql }), always('v')])
    const keys = Array.from({ length: 30 }, (_unused, n) => String(n + 1))
    const results = await write(source, keys, (key: string) => ({ c: key === '17' ? bad : good, v: 'x' }))
    expect(results.filter((one) => one.outcome === 'written')).toHaveLength(30)
    expect(results.flatMap(({ key, skipped }) => skipped.map(({ column }) => [key, column]))).toEqual([
      ['17', 'c'],
    ])
  })

  test('an error that occurs without any row ends the batch', async () => {
    await table('v text', `insert into people values (1, 'a');`)
    const source = await open([always('v')])
    await database.query('alter table people rename v to w')
    await expect(write(source, ['1'], { v: 'x' })).rejects.toMatchObject({ code: '42703' })
  })
})

describe('keys', () => {
  test('are compared with the operators of their index, whatever schema their extension is in', async () => {
    await database.query(`
      create table places (k ext.citext primary key, email text, v text);
      insert into places select case when g % 2 = 0 then upper('k' || md5(g::text)) else 'k' || md5(g::text) end, 'cs' || g
        from generate_series(1, 1300) g;
      create table pairs (a ext.citext, b int, email text, v text, primary key (a, b));
      insert into pairs select case when g % 2 = 0 then 'A' || g / 50 else 'b' || g / 50 end, g, 'x' from generate_series(1, 700) g`)
    for (const [name, rows] of [
      ['places', 1300],
      ['pairs', 700],
    ] as const) {
      const source = await openSource(database.db, mapping({ table: name, outputs: [output('v', 'title')] }))
      const seen = new Set<string>()
      let after: string | null = null
      do {
        const page: PageRow[] = await readPage(
          database.db,
          source,
          pageQuery(source, { after, limit: 100, where: null }),
        )
        for (const row of page) seen.add(row.key)
        after = page.length === 100 ? (page.at(-1)?.key ?? null) : null
      } while (after !== null)
      expect(seen.size).toBe(rows)
      const [key = ''] = seen
      expect(await write(source, [key], { title: 'x' })).toMatchObject([{ outcome: 'written' }])
    }
  })

  test.each(['real', 'double precision', 'tstzrange', 'timestamp with time zone[]'])(
    'of type %s are refused: two of them may look alike',
    async (type) => {
      await database.query(
        `drop table if exists keyed; create table keyed (k ${type} primary key, email text, v text)`,
      )
      await expect(
        openSource(database.db, mapping({ table: 'keyed', outputs: [output('v', 'title')] })),
      ).rejects.toMatchObject({
        problems: [{ place: 'key', found: expect.stringContaining(type) as string }],
      })
    },
  )

  test('that no longer cast to the key’s type count as missing rows', async () => {
    await table('v text', `insert into people values (1, 'a'), (2, 'b');`)
    const old = await open([always('v')])
    const batch = await prepare(database, old, ['1', '2'], { v: 'x' })
    const [one] = await write(old, ['1'], { v: 'y' })
    await database.query('alter table people alter id type uuid using md5(id::text)::uuid')
    const source = await open([always('v')])
    expect(await inTransaction(database.db, (tx) => writeBatch(tx, source, batch))).toMatchObject([
      { outcome: 'row_missing' },
      { outcome: 'row_missing' },
    ])
    const undone = (one ? toUndo(one) : []).map((row) => ({ ...row, inputHash: null }))
    expect(await inTransaction(database.db, (tx) => restoreBatch(tx, source, undone))).toMatchObject([
      { outcome: 'row_missing' },
    ])
  })

  test('a column with a name that Fillrate uses is read and written, or reported', async () => {
    await table('"~key" text, v text', `insert into people values (1, 'a', 'k', null);`)
    expect(await write(await open([always('v')]), ['1'], { v: 'x' })).toMatchObject([{ outcome: 'written' }])
    await table('"~i" text, v text', '')
    // One that no output, input or expression names is not read.
    expect(await open([always('v')])).toMatchObject({ name: 'people' })
    await expect(open([always('v'), always('~i')])).rejects.toMatchObject({
      problems: [{ place: 'outputs', found: expect.stringContaining('~i') as string }],
    })
  })
})

describe('values', () => {
  test('that a cast to the type of a column would cut or fill up are skipped', async () => {
    await table('b bit(4), v varbit(3), bs bit(4)[]', `insert into people values (1, 'a');`)
    const columns = ['b', 'v', 'bs']
    for (const record of [
      { b: '101011', v: '1010', bs: ['101011'] },
      { b: '10', v: 'two', bs: ['1'] },
    ]) {
      const [skipped] = await write(await open(columns.map((column) => always(column))), ['1'], record)
      expect(skipped).toMatchObject({
        outcome: 'rejected',
        skipped: columns.map((column) => ({ column, reason: 'rejected' })),
      })
    }
    const [bySql] = await write(await open([always('b', { sql: '$value' })]), ['1'], { b: '10101' })
    expect(bySql).toMatchObject({ outcome: 'rejected', skipped: [{ column: 'b', reason: 'sql_failed' }] })
  })

  test('of a type that cuts longer ones silently are refused', async () => {
    await table('c "char", n name, ns name[]', '')
    await expect(open(['c', 'n', 'ns'].map((column) => always(column)))).rejects.toMatchObject({
      problems: ['c', 'n', 'ns'].map((column) => ({
        place: `outputs.${column}`,
        found: expect.stringContaining('cuts longer values') as string,
      })),
    })
  })

  test('a json text that Postgres cannot convert to jsonb is left alone, and is not blank', async () => {
    await table(
      'j json',
      String.raw`insert into people values (1, 'a', '"a\u0000b"'), (2, 'b', '{"\u0000": 1}'), (3, 'c', '""');`,
    )
    const source = await open([output('j', 'j')])
    const { rows } = await pageQuery(source, {
      after: null,
      limit: 9,
      where: null,
    }).execute(database.db)
    expect(rows.map((row) => row.lacks)).toEqual([false, false, true])
    const before = await bytes()
    const forced = await open([always('j')])
    const written = await write(forced, ['1', '2', '3'], { j: { k: 1 } })
    expect(written.map((one) => one.outcome)).toEqual(['written', 'written', 'written'])
    await undo(database, forced, written.flatMap(toUndo))
    expect(await bytes()).toEqual(before)
  })

  test('a key inside a json column is rejected: the rest of its text would be rewritten', async () => {
    await table('j json', '')
    await expect(open([output('j.dep', 'department')])).rejects.toMatchObject({
      problems: [{ place: 'outputs.j.dep', expected: expect.stringContaining('jsonb') as string }],
    })
  })

  test('sixty tracked outputs are read in one page', async () => {
    const names = Array.from({ length: 60 }, (_, n) => `c${n}`)
    await table(names.map((name) => `${name} text`).join(', '), `insert into people values (1, 'a');`)
    const source = await open(names.map((name) => output(name, name, { policy: 'tracked' })))
    const [written] = await write(source, ['1'], Object.fromEntries(names.map((name) => [name, 'x'])))
    await database.query(`
      create table if not exists was (key text, input_hash bigint, written jsonb); truncate was`)
    const [row] = await readPage(database.db, source, keysQuery(source, ['1']))
    await database.query('insert into was values ($1, $2, $3)', [
      '1',
      row?.input_hash,
      JSON.stringify(written?.after),
    ])
    const { sql } = await import('kysely')
    const options = {
      after: null,
      limit: 9,
      where: null,
      lastWritten: sql<{ key: string; input_hash: unknown; written: unknown }>`select * from was`,
    }
    expect((await pageQuery(source, options).execute(database.db)).rows).toMatchObject([{ lacks: true }])
    await database.query(`update people set ${names.map((name) => `${name} = 'typed'`).join(', ')}`)
    expect((await pageQuery(source, options).execute(database.db)).rows).toMatchObject([{ lacks: false }])
  })
})
