import fc from 'fast-check'
import { beforeEach, expect, test } from 'vitest'
import type { WritePolicy } from '../../../src/domain/mapping.ts'
import { openSource } from '../../../src/sources/source.ts'
import type { Source } from '../../../src/sources/source-model.ts'
import { useTestDatabase } from '../../support/database.ts'
import { mapping, output } from './mapping.ts'
import { undo, write, type Written } from './writing.ts'

const database = useTestDatabase()

beforeEach(async () => {
  await database.query(`
    drop table if exists people;
    create table people (
      id int primary key, email text, title varchar(20), tags text[], amount numeric(12,4), seen timestamptz,
      attributes jsonb, more jsonb, level int constraint small check (level < 100), updated_at timestamptz)`)
})

const open = (policy: WritePolicy = 'blank'): Promise<Source> =>
  openSource(
    database.db,
    mapping({
      outputs: [
        ...['title', 'tags', 'amount', 'seen', 'more', 'level'].map((column) =>
          output(column, column, { policy }),
        ),
        output('attributes.a', 'title', { policy }),
        output('attributes.b.c', 'tags', { policy }),
        output('attributes.b.d.e', 'amount', { policy }),
      ],
      touch: { updated_at: 'now()', 'attributes.b.at': `'touched'` },
    }),
  )

const record = {
  title: 'CTO',
  tags: ['x', 'y'],
  amount: '12.5',
  seen: '2026-01-01T00:00:00Z',
  more: { k: [1] },
  level: 5,
}

const content = async (): Promise<string[]> =>
  (await database.query<{ row: string }>('select p::text as row from people p order by id')).map((r) => r.row)

const isWritten = <T extends { before: unknown; after: unknown }>(result: T): boolean => result.after !== null

const json = fc.oneof(
  fc.constantFrom(
    null,
    'null',
    '{}',
    '{"b": {}}',
    '{"b": null}',
    '{"a": null, "b": {"d": {}}}',
    '{"b": {"d": null, "c": []}}',
  ),
  fc.constantFrom(
    '{"a": " ", "b": {"c": ["q"], "d": {"e": 1, "f": 2}, "at": 3}}',
    '[]',
    '"text"',
    '{"b": "text"}',
    '{"b": {"d": 7}}',
  ),
)
const person = fc.record({
  title: fc.constantFrom(null, '', ' ', 'Typed'),
  tags: fc.constantFrom(null, [], ['a', 'b"']),
  amount: fc.constantFrom(null, '0', '12345678.1234'),
  seen: fc.constantFrom(null, '2020-02-02T02:02:02.000123+01'),
  attributes: json,
  more: json,
  level: fc.constantFrom(null, 0),
  updated_at: fc.constantFrom(null, '2020-01-01'),
})

test('an undo restores the table to the byte, and can itself be undone, again and again', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(person, { minLength: 1, maxLength: 12 }),
      fc.constantFrom<WritePolicy>('blank', 'always'),
      async (people, policy) => {
        await database.query('truncate people')
        await database.query(
          `insert into people (id, email, title, tags, amount, seen, attributes, more, level, updated_at)
           select n, 'a', title, tags, amount, seen, attributes::jsonb, more::jsonb, level, updated_at
             from rows from (jsonb_to_recordset($1) as (title text, tags text[], amount numeric, seen timestamptz,
                             attributes text, more text, level int, updated_at timestamptz)) with ordinality as r(
                             title, tags, amount, seen, attributes, more, level, updated_at, n)`,
          [JSON.stringify(people)],
        )
        const source = await open(policy)
        const before = await content()
        const written = await write(
          database,
          source,
          people.map((_, n) => String(n + 1)),
          record,
        )
        const after = await content()
        let changes = written.filter(isWritten) as Written[]
        for (const expected of [before, after, before, after]) {
          const undone = await undo(database, source, changes)
          expect(undone.every((one) => one.outcome === 'written' && one.protectedColumns.length === 0)).toBe(
            true,
          )
          expect(await content()).toEqual(expected)
          changes = undone as Written[]
        }
      },
    ),
    { numRuns: 40 },
  )
})

test('a cell that was changed since stays, and is named', async () => {
  await database.query(`insert into people (id, email) values (1, 'a'), (2, 'b'), (3, 'c')`)
  const source = await open()
  const written = (await write(database, source, ['1', '2', '3'], { title: 'CTO', level: 5 })) as Written[]
  await database.query(`
    update people set title = 'Typed', attributes = jsonb_set(attributes, '{b,typed}', '1') where id = 1;
    delete from people where id = 3`)
  const results = await undo(database, source, written)
  expect(results.map(({ outcome, protectedColumns }) => [outcome, protectedColumns])).toEqual([
    ['written', ['title']],
    ['written', []],
    ['row_missing', []],
  ])
  const rows = await database.query('select title, level, attributes, updated_at from people order by id')
  expect(rows).toEqual([
    { title: 'Typed', level: null, attributes: { b: { typed: 1 } }, updated_at: null },
    { title: null, level: null, attributes: null, updated_at: null },
  ])
})

test('an undo that the database rejects is reported row by row', async () => {
  await database.query(`insert into people (id, email, level) values (1, 'a', 1), (2, 'b', 2)`)
  const source = await open('always')
  const written = (await write(database, source, ['1', '2'], { level: 5 })) as Written[]
  const spoiled = written.map((row) =>
    row.key === '1' ? { ...row, before: { ...row.before, level: 100 } } : row,
  )
  expect(await undo(database, source, spoiled)).toMatchObject([
    { outcome: 'rejected', reason: 'check constraint small does not allow the value' },
    { outcome: 'written', before: { level: 5 }, after: { level: 2 } },
  ])
})

test('dropped columns are reported, the others restored', async () => {
  await database.query(`insert into people (id, email) values (1, 'a')`)
  const source = await open()
  const written = (await write(database, source, ['1'], { title: 'CTO', level: 5 })) as Written[]
  await database.query(
    'alter table people drop column level; alter table people add column r0 int, add column m0 int',
  )
  const results = await undo(database, await openSource(database.db, mapping()), written)
  expect(results).toMatchObject([{ outcome: 'written', protectedColumns: ['level'] }])
})
