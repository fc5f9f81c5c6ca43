import { sql } from 'kysely'
import { beforeEach, describe, expect, test } from 'vitest'
import { openSource } from '../../../src/sources/source.ts'
import { writeBatch } from '../../../src/sources/write/write.ts'
import { useTestDatabase } from '../../support/database.ts'
import { mapping, output } from './mapping.ts'
import { prepare, transact, write } from './writing.ts'

const database = useTestDatabase()

beforeEach(async () => {
  await database.query(`
    drop table if exists people, countries cascade;
    create table countries (code text primary key);
    insert into countries values ('NO');
    create table people (
      id int primary key, email text, title text, level int constraint level_is_small check (level < 10),
      slug text constraint one_slug unique, country text, touched int,
      constraint a_country foreign key (country) references countries deferrable initially deferred);
    create or replace function guard() returns trigger language plpgsql as $$
      begin
        if new.title = 'forbidden' then raise 'titles like % are not allowed', new.title; end if;
        if new.title = 'custom' then raise 'custom' using errcode = 'ZX001'; end if;
        if new.title = 'locked' then raise 'only accounting may' using errcode = 'insufficient_privilege'; end if;
        if new.title = 'checked' then raise 'titles are checked' using errcode = 'check_violation'; end if;
        if new.title = 'assert' then assert false, 'asserted'; end if;
        if new.title = 'silent' then return null; end if;
        new.title := upper(new.title);
        return new;
      end $$;
    create trigger guard before update on people for each row execute function guard();
    insert into people (id, email) select n, 'p' || n from generate_series(1, 1000) n;
    insert into people (id, email, slug) values (1001, 'x', 'taken')`)
})

const open = (
  outputs = [
    output('title', 'title'),
    output('level', 'level'),
    output('slug', 'slug'),
    output('country', 'country'),
  ],
) => openSource(database.db, mapping({ outputs }))

describe('a row without a cell that the database takes is rejected', () => {
  test.each([
    ['unique', { slug: 'taken' }, 'unique', 'one_slug'],
    ['check', { level: 11 }, 'check', 'level_is_small'],
    ['a deferred foreign key', { country: 'XX' }, 'foreign_key', 'countries (code), a_country'],
    [
      'a trigger',
      { title: 'forbidden' },
      'rejected',
      'raised by a trigger or function: titles like … are not allowed',
    ],
    ['a code of its own', { title: 'custom' }, 'rejected', 'custom (ZX001)'],
    [
      'a lack of privilege that a trigger sees',
      { title: 'locked' },
      'rejected',
      'only accounting may (42501)',
    ],
    [
      'a trigger with the code of a constraint',
      { title: 'checked' },
      'rejected',
      'titles are checked (23514)',
    ],
    ['an assertion', { title: 'assert' }, 'rejected', 'asserted (P0004)'],
  ])('%s', async (_, bad, reason, detail) => {
    const source = await open()
    const results = await write(database, source, ['1', '2', '3'], (key: string) =>
      key === '2' ? bad : { title: 'cto' },
    )
    expect(results).toMatchObject([
      { outcome: 'written', after: { title: 'CTO' } },
      {
        outcome: 'rejected',
        reason: null,
        skipped: [{ column: Object.keys(bad)[0], reason, detail }],
        before: null,
        after: null,
      },
      { outcome: 'written', after: { title: 'CTO' } },
    ])
  })

  test('by a silent trigger', async () => {
    const results = await write(database, await open(), ['1'], { title: 'silent' })
    expect(results).toMatchObject([{ outcome: 'rejected', reason: 'a trigger prevented the update' }])
  })

  test('a value that its expression cannot cast, without the value itself', async () => {
    const source = await open([output('level', 'level', { sql: '$value::int' })])
    const results = await write(database, source, ['1', '2'], (key: string) => ({
      level: key === '1' ? 'a@b.no' : '2',
    }))
    expect(results).toMatchObject([
      {
        outcome: 'rejected',
        skipped: [
          {
            column: 'level',
            reason: 'sql_failed',
            detail: 'invalid input syntax for type integer (22P02)',
          },
        ],
      },
      { outcome: 'written', after: { level: 2 } },
    ])
  })
})

test('of several rows of a batch with the same unique value the first in key order gets it', async () => {
  const results = await write(database, await open(), ['10', '9', '100'], { slug: 'same' })
  expect(results.map((result) => result.outcome)).toEqual(['rejected', 'written', 'rejected'])
})

test('10 bad rows in 1,000 are found in fewer than 60 statements, and 990 written', async () => {
  const source = await open()
  const bad = new Map<string, object>(
    [3, 4, 98, 250, 499, 500, 501, 777, 900, 1000].map((id, n) => [
      String(id),
      [{ title: 'forbidden' }, { level: 99 }, { slug: 'taken' }, { country: 'XX' }, { title: 'custom' }][
        n % 5
      ] ?? {},
    ]),
  )
  const keys = Array.from({ length: 1000 }, (_, n) => String(n + 1))
  const batch = await prepare(database, source, keys, (key: string) => bad.get(key) ?? { title: 'cto' })
  database.statements()
  const results = await transact(database, (tx) => writeBatch(tx, source, batch))
  expect(database.statements().length).toBeLessThan(60)
  expect(results.filter((result) => result.outcome === 'rejected').map((result) => result.key)).toEqual([
    ...bad.keys(),
  ])
  const rows = await database.query(`select count(*)::int as n from people where title = 'CTO'`)
  expect(rows).toEqual([{ n: 990 }])
})

test('the transaction continues after a rejected row, and its earlier work stays', async () => {
  const source = await open()
  const batch = await prepare(database, source, ['1'], { level: 11 })
  await transact(database, async (tx) => {
    await sql`update people set touched = 1 where id = 2`.execute(tx)
    await writeBatch(tx, source, batch)
  })
  const { rowCount } = await database.pool.query('select from people where touched = 1')
  expect(rowCount).toBe(1)
})

test('an error that concerns no row is thrown: a dropped column', async () => {
  const source = await open()
  const batch = await prepare(database, source, ['1', '2'], { title: 'x', level: 1 })
  await database.query('alter table people rename column level to rank')
  await expect(transact(database, (tx) => writeBatch(tx, source, batch))).rejects.toThrow(/level/)
})
