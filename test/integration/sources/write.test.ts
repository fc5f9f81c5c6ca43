import { sql } from 'kysely'
import { beforeEach, describe, expect, test } from 'vitest'
import { openSource } from '../../../src/sources/source.ts'
import { writeBatch } from '../../../src/sources/write/write.ts'
import { createTestDatabase, useTestDatabase } from '../../support/database.ts'
import { mapping, output } from './mapping.ts'
import { prepare, transact, write } from './writing.ts'

const database = useTestDatabase()

beforeEach(async () => {
  await database.query(`
    drop table if exists people;
    create table people (
      id int primary key, email text, title text, phone varchar(12), country text, attributes jsonb, tags text[],
      level int, updated_at timestamptz, confidence float8)`)
})

const rows = (columns: string): Promise<unknown[]> =>
  database.query(`select ${columns} from people order by id`)
const versions = () => rows('id, xmin::text as version')

describe('a batch', () => {
  test('is written by one statement, which returns the values before and after', async () => {
    await database.query(
      `insert into people (id, email, title, phone) values (1, 'a', null, ''), (2, 'b', 'Typed', '1')`,
    )
    const source = await openSource(
      database.db,
      mapping({
        outputs: [
          output('title', 'title'),
          output('phone', 'phone'),
          output('attributes.work.dept', 'department'),
        ],
        touch: { updated_at: "timestamptz '2026-11-21 12:00:00+02'", confidence: '$confidence' },
      }),
    )
    const record = { title: 'CTO', phone: '+4712345678', department: 'IT' }
    const batch = await prepare(database, source, ['1', '2'], record)
    database.statements()
    const [first, second] = await transact(database, (tx) => writeBatch(tx, source, batch))
    expect(database.statements().map((text) => text.trim().split(/\W/)[0])).toEqual([
      'begin',
      'set',
      'with',
      'set',
      'release',
      'commit',
    ])
    expect(first).toEqual({
      key: '1',
      outcome: 'written',
      reason: null,
      before: { phone: '' },
      after: {
        title: 'CTO',
        phone: '+4712345678',
        'attributes.work.dept': 'IT',
        updated_at: '2026-11-21T10:00:00Z',
        confidence: 0.9,
      },
      protectedColumns: [],
      skipped: [],
    })
    expect(second).toMatchObject({
      outcome: 'written',
      before: {},
      after: { 'attributes.work.dept': 'IT' },
      protectedColumns: ['title', 'phone'],
    })
    expect(await rows('id, title, phone, attributes, confidence')).toEqual([
      { id: 1, title: 'CTO', phone: '+4712345678', attributes: { work: { dept: 'IT' } }, confidence: 0.9 },
      { id: 2, title: 'Typed', phone: '1', attributes: { work: { dept: 'IT' } }, confidence: 0.9 },
    ])
  })

  test('sends no UPDATE for a row in which nothing changes, and touches nothing there', async () => {
    await database.query(
      `insert into people (id, email, title, level) values (1, 'a', 'CTO', 0), (2, 'b', 'Typed', 1)`,
    )
    const source = await openSource(
      database.db,
      mapping({
        outputs: [output('title', 'title', { policy: 'always' }), output('level', 'level')],
        touch: { updated_at: 'now()' },
      }),
    )
    const before = await versions()
    const results = await write(database, source, ['1'], { title: 'CTO', level: 7 })
    expect(results).toMatchObject([
      { outcome: 'unchanged', before: null, after: null, protectedColumns: ['level'] },
    ])
    expect(await versions()).toEqual(before)
  })

  test('skips a row whose inputs have changed since the lookup', async () => {
    await database.query(`insert into people (id, email) values (1, 'a')`)
    const source = await openSource(database.db, mapping())
    const batch = await prepare(database, source, ['1'], { title: 'CTO' })
    await database.query(`update people set email = 'A'`)
    const results = await transact(database, (tx) => writeBatch(tx, source, batch))
    expect(results).toMatchObject([{ outcome: 'inputs_changed', before: null, after: null }])
    expect(await rows('title')).toEqual([{ title: null }])
  })

  test('reports rows that were deleted or have left the source', async () => {
    await database.query(`insert into people (id, email, level) values (1, 'a', 1), (2, 'b', 1), (3, 'c', 1)`)
    const source = await openSource(database.db, mapping({ where: ['t.level = 1'] }))
    const batch = await prepare(database, source, ['1', '2', '3'], { title: 'CTO' })
    await database.query(`delete from people where id = 1; update people set level = 2 where id = 2`)
    const results = await transact(database, (tx) => writeBatch(tx, source, batch))
    expect(results.map((result) => result.outcome)).toEqual(['row_missing', 'row_missing', 'written'])
    expect(await rows('id, title')).toEqual([
      { id: 2, title: null },
      { id: 3, title: 'CTO' },
    ])
  })

  test('can be previewed: nothing is locked or written, and the results are the same', async () => {
    await database.query(`insert into people (id, email, title) values (1, 'a', null), (2, 'b', 'Typed')`)
    const outputs = [output('title', 'title'), output('attributes.x', 'title')]
    const source = await openSource(database.db, mapping({ outputs, where: ['t.id < 3'] }))
    const batch = await prepare(database, source, ['1', '2'], { title: 'CTO' })
    const before = await versions()
    const holder = await database.pool.connect()
    await holder.query('begin; select from people for update')
    const preview = await transact(database, (tx) => writeBatch(tx, source, batch, { preview: true }))
    await holder.query('rollback')
    holder.release()
    expect(await versions()).toEqual(before)
    expect(preview).toEqual(await transact(database, (tx) => writeBatch(tx, source, batch)))
  })

  test('shows touched columns as the write leaves them, whatever the type of their expression', async () => {
    const own = await createTestDatabase()
    await own.query(`
      create table people (id int primary key, email text, title text, a text, b text, c text, d numeric);
      insert into people (id, email) values (1, 'a@x.no')`)
    const touch = { a: `interval '1 day'`, b: `point '(1,2)'`, c: `date '2026-11-23'`, d: '1e20::float8' }
    const source = await openSource(own.db, mapping({ outputs: [output('title', 'title')], touch }))
    const batch = await prepare(own, source, ['1'], { title: 'CTO' })
    const preview = await transact(own, (tx) => writeBatch(tx, source, batch, { preview: true }))
    expect(preview[0]?.after).toMatchObject({ a: '1 day', b: '(1,2)', c: '2026-11-23' })
    expect(preview).toEqual(await transact(own, (tx) => writeBatch(tx, source, batch)))
    await own.drop()
  })

  test('may be empty', async () => {
    const source = await openSource(database.db, mapping())
    expect(await transact(database, (tx) => writeBatch(tx, source, []))).toEqual([])
  })
})

describe('policies', () => {
  const blanks = ['null', `''`, `' '`, `E'\\t\\n'`, `U&'\\00A0'`, `U&'\\200B\\FEFF'`, `U&' \\3000\\2060'`]
  test.each(blanks)('%s is blank in a text', async (value) => {
    await database.query(`insert into people (id, email, title) values (1, 'a', ${value})`)
    const source = await openSource(database.db, mapping())
    expect(await write(database, source, ['1'], { title: 'CTO' })).toMatchObject([
      { outcome: 'written', protectedColumns: [] },
    ])
  })

  test.each([`'0'`, `'false'`, `'N/A'`, `'-'`, `'null'`, `'[]'`])('%s is a value', async (value) => {
    await database.query(`insert into people (id, email, title) values (1, 'a', ${value})`)
    const source = await openSource(database.db, mapping())
    expect(await write(database, source, ['1'], { title: 'CTO' })).toMatchObject([
      { outcome: 'unchanged', protectedColumns: ['title'] },
    ])
  })

  test('an empty array is blank, 0 is not', async () => {
    await database.query(`insert into people (id, email, tags, level) values (1, 'a', '{}', 0)`)
    const outputs = [output('tags', 'tags'), output('level', 'level')]
    const source = await openSource(database.db, mapping({ outputs }))
    const results = await write(database, source, ['1'], { tags: ['x', 'y"z'], level: 3 })
    expect(results).toMatchObject([
      {
        outcome: 'written',
        before: { tags: '{}' },
        after: { tags: String.raw`{x,"y\"z"}` },
        protectedColumns: ['level'],
      },
    ])
  })

  test('tracked overwrites what Fillrate wrote, unless it was changed since', async () => {
    await database.query(`insert into people (id, email, title, level) values (1, 'a', 'CTO', 5)`)
    const outputs = [
      output('title', 'title', { policy: 'tracked' }),
      output('level', 'level', { policy: 'tracked' }),
      output('attributes.dept', 'dept', { policy: 'tracked' }),
    ]
    const source = await openSource(database.db, mapping({ outputs }))
    const results = await write(
      database,
      source,
      ['1'],
      { title: 'CEO', level: 6, dept: 'IT' },
      { written: { title: 'CTO', level: 4 } },
    )
    expect(results).toMatchObject([
      {
        outcome: 'written',
        before: { title: 'CTO' },
        after: { title: 'CEO', 'attributes.dept': 'IT' },
        protectedColumns: ['level'],
      },
    ])
    const written = results[0]?.after ?? {}
    const again = await write(database, source, ['1'], { title: 'VP', level: 6, dept: 'HR' }, { written })
    expect(again).toMatchObject([
      { after: { title: 'VP', 'attributes.dept': 'HR' }, protectedColumns: ['level'] },
    ])
  })

  test('a written time is recognized in a session of another time zone', async () => {
    await database.query(`insert into people (id, email) values (1, 'a')`)
    const outputs = [output('updated_at', 'last_updated', { policy: 'tracked' })]
    const source = await openSource(database.db, mapping({ outputs }))
    const [first] = await write(database, source, ['1'], { last_updated: '2026-01-31T23:30:00.123456-05:00' })
    expect(first?.after).toEqual({ updated_at: '2026-02-01T04:30:00.123456Z' })
    const batch = await prepare(
      database,
      source,
      ['1'],
      { last_updated: '2026-03-01T00:00:00Z' },
      { written: first?.after ?? {} },
    )
    const results = await transact(database, async (tx) => {
      await sql`set local timezone = 'Asia/Tokyo'`.execute(tx)
      return await writeBatch(tx, source, batch)
    })
    expect(results).toMatchObject([{ outcome: 'written', after: { updated_at: '2026-03-01T00:00:00Z' } }])
  })

  test('always overwrites; a missing field erases nothing', async () => {
    await database.query(`insert into people (id, email, title, country) values (1, 'a', 'Typed', 'NO')`)
    const outputs = [
      output('title', 'title', { policy: 'always' }),
      output('country', 'country', { policy: 'always' }),
    ]
    const source = await openSource(database.db, mapping({ outputs }))
    const results = await write(database, source, ['1'], { title: 'CTO', country: ' ' })
    expect(results).toMatchObject([{ before: { title: 'Typed' }, after: { title: 'CTO' } }])
    expect(await rows('title, country')).toEqual([{ title: 'CTO', country: 'NO' }])
  })

  test('a group is written whole or not at all', async () => {
    await database.query(`insert into people (id, email, phone, country) values
      (1, 'a', null, null), (2, 'b', null, 'SE'), (3, 'c', null, 'NO'), (4, 'd', '12345678', null)`)
    const outputs = [
      output('phone', 'phone', { sql: `regexp_replace($value, '^\\+\\d\\d', '')`, group: 'phone' }),
      output('country', 'country', { group: 'phone' }),
    ]
    const source = await openSource(database.db, mapping({ outputs }))
    const results = await write(database, source, ['1', '2', '3', '4'], {
      phone: '+4712345678',
      country: 'NO',
    })
    expect(results.map((result) => result.outcome)).toEqual(['written', 'unchanged', 'written', 'written'])
    expect(await rows('phone, country')).toEqual([
      { phone: '12345678', country: 'NO' },
      { phone: null, country: 'SE' },
      { phone: '12345678', country: 'NO' },
      { phone: '12345678', country: 'NO' },
    ])
    const incomplete = await write(database, source, ['2'], { phone: '+4712345678' })
    expect(incomplete).toMatchObject([{ outcome: 'unchanged', protectedColumns: [] }])
  })

  test('a field that the record lacks leaves the rest of its group to be written', async () => {
    await database.query(`insert into people (id, email, title, phone, country) values
      (1, 'a', null, null, null), (2, 'b', null, null, 'typed'), (3, 'c', 'typed', null, null)`)
    const group = { group: 'place' }
    const source = await openSource(
      database.db,
      mapping({
        outputs: [
          output('title', 'title', group),
          output('phone', 'phone', group),
          output('country', 'country', group),
        ],
      }),
    )
    const results = await write(database, source, ['1', '2', '3'], { title: 'Oslo', phone: 'Norway' })
    expect(await rows('title, phone, country')).toEqual([
      { title: 'Oslo', phone: 'Norway', country: null },
      { title: null, phone: null, country: 'typed' },
      { title: 'typed', phone: null, country: null },
    ])
    const left = (column: string, by: string) => ({ column, reason: 'group_incomplete', detail: by })
    expect(results.map(({ skipped }) => skipped)).toMatchObject([
      [],
      [left('title', 'country holds another value'), left('phone', 'country holds another value')],
      [left('phone', 'title holds another value')],
    ])
  })
})

describe('keys inside a jsonb column', () => {
  const outputs = [
    output('attributes.department', 'department'),
    output('attributes.work.title', 'title'),
    output('attributes.work.tags', 'tags'),
  ]
  const record = { department: 'IT', title: 'CTO', tags: ['a'] }
  const all = { department: 'IT', work: { title: 'CTO', tags: ['a'] } }

  test.each([
    ['null', all],
    [`'null'`, all],
    [`'{}'`, all],
    [`'{"x": 1, "work": null}'`, { x: 1, ...all }],
    [
      `'{"work": {"y": [1], "title": " ", "tags": []}, "department": null}'`,
      { ...all, work: { y: [1], ...all.work } },
    ],
    [`'{"department": "HR", "work": {"title": 0}}'`, { department: 'HR', work: { title: 0, tags: ['a'] } }],
    [`'{"work": "remote"}'`, { department: 'IT', work: 'remote' }],
    [`'{"work": [1]}'`, { department: 'IT', work: [1] }],
  ])('are set in %s', async (value, expected) => {
    await database.query(`insert into people (id, email, attributes) values (1, 'a', ${value})`)
    const source = await openSource(database.db, mapping({ outputs }))
    expect(await write(database, source, ['1'], record)).toMatchObject([{ outcome: 'written' }])
    expect(await rows('attributes')).toEqual([{ attributes: expected }])
  })

  test('leave a column alone that is not an object, whatever the policy', async () => {
    await database.query(
      `insert into people (id, email, attributes) values (1, 'a', '"text"'), (2, 'b', '[1]')`,
    )
    const always = outputs.map((one) => ({ ...one, policy: 'always' as const }))
    const source = await openSource(database.db, mapping({ outputs: always }))
    const results = await write(database, source, ['1', '2'], record)
    expect(results).toMatchObject([
      { outcome: 'unchanged', protectedColumns: outputs.map(({ column }) => column) },
      { outcome: 'unchanged', protectedColumns: outputs.map(({ column }) => column) },
    ])
    expect(await rows('attributes')).toEqual([{ attributes: 'text' }, { attributes: [1] }])
  })

  test('can be touched; quoted names may contain dots', async () => {
    await database.query(
      `alter table people add column "a.b" text; alter table people add column "odd ""x""" jsonb`,
    )
    await database.query(`insert into people (id, email, attributes) values (1, 'a', '{"x":1}')`)
    const source = await openSource(
      database.db,
      mapping({
        outputs: [
          output('a.b', 'title'),
          output('"odd ""x""".k', 'title'),
          output('attributes."p.q"', 'title'),
        ],
        touch: { 'attributes.at': "date '2026-01-02'" },
      }),
    )
    await write(database, source, ['1'], { title: 'CTO' })
    expect(await rows('"a.b" as a, "odd ""x""" as b, attributes')).toEqual([
      { a: 'CTO', b: { k: 'CTO' }, attributes: { x: 1, 'p.q': 'CTO', at: '2026-01-02' } },
    ])
  })
})

describe('expressions', () => {
  test('get the value as text or json, and the confidence', async () => {
    await database.query(`create table if not exists domains (id int primary key, name text)`)
    await database.query(`truncate domains; insert into domains values (7, 'x.no')`)
    await database.query(`insert into people (id, email) values (1, 'a'), (2, 'b'), (3, 'c')`)
    const outputs = [
      output('title', 'title', { sql: `upper($value) || ' $value' -- ' $value` }),
      output('level', 'domain', { sql: '(select id from domains where name = $value)' }),
      output('tags', 'tags', { sql: `array(select jsonb_array_elements_text($json))` }),
      output('country', 'millions', { sql: '$value::numeric * 1000000' }),
      output('attributes.sure', 'title', { sql: '$confidence > 0.5' }),
      output('phone', 'empty', { sql: `regexp_replace($value, '.', '', 'g')` }),
    ]
    const source = await openSource(database.db, mapping({ outputs }))
    const record = { title: `o'x`, domain: 'x.no', tags: ['a', 'b'], millions: 1.5, empty: 'x' }
    const [result] = await write(database, source, ['1', '2'], record)
    expect(result?.skipped).toEqual([{ column: 'phone', reason: 'no_value', detail: null }])
    expect((await rows('title, level, tags, country, attributes, phone'))[0]).toEqual({
      title: `O'X $value`,
      level: 7,
      tags: ['a', 'b'],
      country: '1500000.0',
      attributes: { sure: true },
      phone: null,
    })
    const other = await write(database, source, ['3'], { domain: 'unknown.no', millions: 'many' })
    expect(other).toMatchObject([
      {
        outcome: 'rejected',
        skipped: [
          { column: 'level', reason: 'no_value' },
          { column: 'country', reason: 'sql_failed' },
        ],
      },
    ])
  })

  test('may give a text that is too long: it is skipped', async () => {
    await database.query(`insert into people (id, email) values (1, 'a')`)
    const long = output('phone', 'title', { sql: `repeat($value, 5)` })
    const source = await openSource(database.db, mapping({ outputs: [long] }))
    const skipped = await write(database, source, ['1'], { title: 'abc' })
    expect(skipped).toMatchObject([
      { outcome: 'unchanged', skipped: [{ column: 'phone', reason: 'too_long' }] },
    ])
  })

  test('run once per row, and only for rows that are written', async () => {
    await database.query(`drop sequence if exists calls; create sequence calls`)
    await database.query(
      `insert into people (id, email, level) select n, 'a', case when n > 90 then 0 end from generate_series(1, 100) n`,
    )
    const outputs = [output('level', 'title', { sql: `nextval('calls')::int` })]
    const source = await openSource(
      database.db,
      mapping({ outputs, touch: { confidence: `nextval('calls') + 1000` } }),
    )
    const keys = Array.from({ length: 100 }, (_, n) => String(n + 1))
    await write(database, source, keys, { title: 'x' })
    const written = (await rows('level, confidence')) as Array<{ level: number; confidence: number }>
    expect(written.slice(90).every(({ level, confidence }) => level === 0 && confidence === null)).toBe(true)
    const drawn = written.slice(0, 90).flatMap(({ level, confidence }) => [level, confidence - 1000])
    expect(drawn.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 180 }, (_, n) => n + 1))
  })
})

describe('names', () => {
  test('without a table, and names that the statement uses itself, refer to the user’s columns', async () => {
    await database.query(`
      drop table if exists odd, companies;
      create table companies (company_id int primary key, legal_name text);
      create table odd (
        id int primary key, email text, company_id int, i int, k text, key text, hash text, v text, w text, c text, j text,
        same boolean, n0 text, "select" text, b int, x int, o int, row_number int, n int, lacks boolean, copies int);
      insert into companies values (1, 'Acme');
      insert into odd (id, email, company_id, i, key, k) values (1, 'a@x.no', 1, 7, 'k', 'kk')`)
    const source = await openSource(
      database.db,
      mapping({
        table: 'odd',
        joins: 'left join companies using (company_id)',
        where: [`i = 7 and key = 'k' and k = 'kk' and hash is null and n is null and lacks is null`],
        inputs: { email: 'lower(email)', name: 'concat(key, hash, v, k)', company: 'legal_name' },
        outputs: [
          output('v', 'title', { sql: `$value || key || coalesce(hash, '') || coalesce(v, '-') || i` }),
          output('w', 'title', { sql: `(select legal_name || k from companies where $value = 'CTO')` }),
          output('select', 'title'),
          output('n0', 'title', { policy: 'always' }),
          output('copies', 'n'),
        ],
        touch: { hash: `'touched' || i` },
      }),
    )
    const [result] = await write(database, source, ['1'], { title: 'CTO', n: 3 })
    expect(result).toMatchObject({
      outcome: 'written',
      after: { v: 'CTOk-7', w: 'Acmekk', select: 'CTO', n0: 'CTO', copies: 3, hash: 'touched7' },
    })
  })
})
