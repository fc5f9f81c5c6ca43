import { sql } from 'kysely'
import { beforeEach, describe, expect, test } from 'vitest'
import type { OutputMapping, SourceMapping } from '../../../src/domain/mapping.ts'
import { openSource } from '../../../src/sources/source.ts'
import { writeBatch } from '../../../src/sources/write/write.ts'
import { useTestDatabase } from '../../support/database.ts'
import { mapping, output } from './mapping.ts'
import { prepare, transact, write } from './writing.ts'

const database = useTestDatabase()

beforeEach(async () => {
  await database.query(`
    drop table if exists people, countries, regions, offices, log cascade;
    drop domain if exists extension_number cascade;
    create domain extension_number as text constraint is_short check (value is null or length(value) < 5) default null;
    create table countries (id text primary key);
    insert into countries values ('NO');
    create table regions (country text, code text, primary key (country, code));
    insert into regions values ('NO', '03');
    create table log (note text, primary key (note) deferrable initially deferred);
    create table people (
      id int primary key, email text, title text, phone text constraint people_phone_key unique, mobile text,
      is_active boolean not null default true, level int check (level < 10), rank int not null default 0,
      country text references countries, region_country text, region text,
      extension extension_number, score smallint, tags text[], data jsonb, at tstzrange,
      low int, high int, touched_at timestamptz, note text, confidence int check (confidence < 50),
      constraint a_region foreign key (region_country, region) references regions,
      constraint in_order check (low <= high),
      exclude using gist (at with &&));
    create unique index one_active_mobile on people (lower(mobile)) where is_active;
    create unique index one_handle on people ((data ->> 'handle'));
    create table offices (id int primary key, phone text references people (phone));
    insert into people (id, email) select n, 'p' || n from generate_series(1, 20) n;
    insert into people (id, email, phone, mobile, data, at)
      values (100, 'x', '+47', 'AB', '{"handle": "ab"}', '[2020-01-01, 2021-01-01)')`)
})

const open = (outputs: readonly OutputMapping[], more: Partial<SourceMapping> = {}) =>
  openSource(database.db, mapping({ outputs: [output('title', 'title'), ...outputs], ...more }))

const row = async (id: number, columns: string): Promise<unknown> =>
  (await database.query(`select ${columns} from people where id = ${id}`))[0]

interface Misfit {
  readonly name: string
  readonly bad: Readonly<Record<string, unknown>>
  /** Column, reason, and detail where that says more. */
  readonly skipped: readonly (readonly [string, string, string?])[]
  /** Without them each field of the record has a column of its name. */
  readonly outputs?: readonly OutputMapping[]
  readonly before?: string
  readonly touch?: Readonly<Record<string, string>>
}

const misfits: readonly Misfit[] = [
  { name: 'a unique constraint', bad: { phone: '+47' }, skipped: [['phone', 'unique', 'people_phone_key']] },
  {
    name: 'a partial unique index on an expression',
    bad: { mobile: 'aB' },
    skipped: [['mobile', 'unique', 'one_active_mobile']],
  },
  {
    name: 'a unique index on a key inside jsonb, which costs the other key nothing',
    outputs: [output('data.handle', 'handle'), output('data.team', 'team')],
    bad: { handle: 'ab', team: 'A' },
    skipped: [['data.handle', 'unique', 'one_handle']],
  },
  { name: 'a check constraint', bad: { level: 11 }, skipped: [['level', 'check', 'people_level_check']] },
  {
    name: 'a check constraint over two outputs, of which the first is written',
    bad: { low: 5, high: 1 },
    skipped: [['high', 'check', 'in_order']],
  },
  {
    name: 'an exclusion constraint',
    bad: { at: '[2020-06-01, 2020-07-01)' },
    skipped: [['at', 'exclusion', 'people_at_excl']],
  },
  {
    name: 'a foreign key',
    bad: { country: 'XX' },
    skipped: [['country', 'foreign_key', 'countries (id), people_country_fkey']],
  },
  {
    name: 'a composite foreign key, of which the first column is written',
    outputs: [output('region_country', 'country'), output('region', 'region')],
    bad: { country: 'NO', region: '99' },
    skipped: [['region', 'foreign_key', 'regions (country, code), a_region']],
  },
  {
    name: 'a composite foreign key over a group, which is left out as a whole',
    outputs: [
      output('region_country', 'country', { group: 'region' }),
      output('region', 'region', { group: 'region' }),
      output('level', 'level'),
    ],
    bad: { country: 'NO', region: '99', level: 3 },
    skipped: [
      ['region_country', 'foreign_key'],
      ['region', 'foreign_key'],
    ],
  },
  {
    name: 'a unique cell of a group, which takes the other cell with it',
    outputs: [
      output('phone', 'phone', { group: 'phone' }),
      output('region_country', 'country', { group: 'phone' }),
    ],
    bad: { phone: '+47', country: 'NO' },
    skipped: [
      ['phone', 'unique', 'people_phone_key'],
      [
        'region_country',
        'group_incomplete',
        'phone: duplicate value: another row has it, and it must be unique (people_phone_key)',
      ],
    ],
  },
  {
    name: 'a domain',
    bad: { extension: '123456' },
    skipped: [['extension', 'check', 'is_short, domain extension_number']],
  },
  {
    name: 'an overflow in its own sql',
    outputs: [output('score', 'score', { sql: '$value::int' })],
    bad: { score: '70000' },
    skipped: [['score', 'sql_failed', 'a number is out of range for its column']],
  },
  {
    name: 'two rows in its own sql',
    outputs: [output('note', 'note', { sql: `(select id from countries union all select $value)` })],
    bad: { note: 'x' },
    skipped: [['note', 'sql_failed', 'a sub-select gives more than one row']],
  },
  {
    name: 'NOT NULL, by a trigger',
    outputs: [output('rank', 'rank', { policy: 'always' })],
    bad: { rank: 7 },
    before: `create trigger guard before update on people for each row when (new.rank = 7) execute function set_null()`,
    skipped: [['rank', 'not_null']],
  },
  {
    name: 'a trigger that names a column',
    bad: { level: 1, note: 'secret' },
    before: `create trigger guard before update on people for each row execute function refuse_secret()`,
    skipped: [['note', 'rejected', 'raised by a trigger or function: no secrets']],
  },
  {
    name: 'a trigger that names nothing',
    bad: { level: 1, note: 'hidden', score: 2 },
    before: `create trigger guard before update on people for each row execute function refuse_secret()`,
    skipped: [['note', 'rejected', 'raised by a trigger or function: no hidden notes']],
  },
  {
    name: 'a deferred constraint trigger',
    bad: { level: 1, note: 'hidden' },
    before: `create constraint trigger guard after update on people deferrable initially deferred for each row execute function refuse_secret()`,
    skipped: [['note', 'rejected', 'raised by a trigger or function: no hidden notes']],
  },
  {
    name: 'a deferred constraint of another table that a trigger writes',
    bad: { level: 1, note: 'twice' },
    before: `create trigger guard after update on people for each row execute function write_log()`,
    skipped: [['note', 'unique', 'log_pkey']],
  },
  {
    name: 'a foreign key of another table that refers to the earlier value',
    outputs: [output('phone', 'phone', { policy: 'always' })],
    bad: { phone: '+46' },
    before: `update people set phone = '2' where id = 2; insert into offices values (1, '2')`,
    skipped: [['phone', 'foreign_key', 'offices_phone_fkey']],
  },
  {
    name: 'a touched column whose expression fails',
    touch: { touched_at: 'now()', score: '1 / (t.id - 2)', 'data.note': `'x'::text` },
    bad: { level: 1 },
    skipped: [['score', 'touch_failed', 'division by zero (22012)']],
  },
  {
    name: 'a key inside jsonb that is touched and fails',
    touch: { touched_at: 'now()', 'data.ratio': '1 / (t.id - 2)', 'data.note': `'x'::text` },
    bad: { level: 1 },
    skipped: [['data.ratio', 'touch_failed', 'division by zero (22012)']],
  },
  {
    name: 'a touched column that breaks a constraint',
    touch: { touched_at: 'now()', confidence: '($confidence * 100)::int * (t.id - 1)' },
    bad: { level: 1 },
    skipped: [['confidence', 'check', 'people_confidence_check']],
  },
  {
    name: 'three cells for three reasons',
    outputs: [
      output('phone', 'phone'),
      output('level', 'level'),
      output('score', 'score', { sql: '$value::int' }),
      output('note', 'note'),
    ],
    touch: { touched_at: 'now()' },
    bad: { phone: '+47', level: 99, score: 'many', note: 'fine' },
    skipped: [
      ['phone', 'unique'],
      ['level', 'check'],
      ['score', 'sql_failed'],
    ],
  },
]

const FUNCTIONS = `
  create or replace function set_null() returns trigger language plpgsql as $$ begin new.rank := null; return new; end $$;
  create or replace function refuse_secret() returns trigger language plpgsql as $$
    begin
      if new.note = 'secret' then raise 'no secrets' using column = 'note'; end if;
      if new.note = 'hidden' then raise 'no hidden notes'; end if;
      return new;
    end $$;
  create or replace function write_log() returns trigger language plpgsql as $$
    begin
      if new.note = 'twice' then insert into log values ('a'), ('a'); end if;
      return new;
    end $$;`

describe('a cell that the database rejects costs no other cell', () => {
  test.each(misfits)('$name', async ({ outputs, bad, skipped, before = '', touch = {} }) => {
    await database.query(FUNCTIONS + before)
    const source = await open(outputs ?? Object.keys(bad).map((name) => output(name, name)), { touch })
    const results = await write(database, source, ['1', '2', '3'], (key: string) =>
      key === '2' ? { title: 'CTO', ...bad } : { title: 'CTO' },
    )
    expect(results.map(({ outcome }) => outcome)).toEqual(['written', 'written', 'written'])
    expect(results[1]?.skipped).toHaveLength(skipped.length)
    for (const [column, reason, detail] of skipped)
      expect(results[1]?.skipped).toContainEqual(
        expect.objectContaining({ column, reason, ...(detail !== undefined && { detail }) }),
      )
    const names = new Set(results[1]?.skipped.map(({ column }) => column))
    const written = [...source.outputs, ...source.touches].map(({ column }) => column)
    expect(Object.keys(results[1]?.after ?? {}).toSorted()).toEqual(
      written.filter((column) => !names.has(column)).toSorted(),
    )
    expect(await row(2, 'title')).toEqual({ title: 'CTO' })
    expect(await row(3, 'title')).toEqual({ title: 'CTO' })
  })
})

const outputsWithMisfits = [
  output('phone', 'phone'),
  output('level', 'level'),
  output('score', 'score', { sql: '$value::int' }),
  output('country', 'country', { sql: 'upper($value)' }),
  output('note', 'note'),
]

test('a preview shows the cells that fit, and skips those whose expression fails', async () => {
  const source = await open(outputsWithMisfits, { touch: { touched_at: 'now()', low: '1 / (t.id - 2)' } })
  const batch = await prepare(database, source, ['1', '2'], { title: 'CTO', score: 'many', note: 'x' })
  const results = await transact(database, (tx) => writeBatch(tx, source, batch, { preview: true }))
  const score = { column: 'score', reason: 'sql_failed' }
  expect(results).toMatchObject([
    { outcome: 'written', after: { title: 'CTO', note: 'x', low: -1 }, skipped: [score] },
    { outcome: 'written', after: { title: 'CTO', note: 'x' }, skipped: [score, { column: 'low' }] },
  ])
  expect(await row(2, 'title')).toEqual({ title: null })
})

test('a skipped cell has the constraint that rejects what its expression gave', async () => {
  const source = await open(outputsWithMisfits)
  const [result] = await write(database, source, ['1'], { country: 'xx', score: 'many', level: 99 })
  expect(result?.skipped.toSorted((a, b) => (a.column < b.column ? -1 : 1))).toEqual([
    { column: 'country', reason: 'foreign_key', detail: 'countries (id), people_country_fkey' },
    { column: 'level', reason: 'check', detail: 'people_level_check' },
    { column: 'score', reason: 'sql_failed', detail: 'invalid input syntax for type integer (22P02)' },
  ])
})

test('a cell that the policy protects is protected, whatever its value', async () => {
  await database.query(`update people set country = 'NO', score = 1 where id = 1`)
  const source = await open(outputsWithMisfits)
  const batch = await prepare(database, source, ['1'], {
    title: 'CTO',
    country: 'xx',
    score: 'many',
    phone: '+47',
  })
  const misfits = ['level', 'score']
  const results = await transact(database, (tx) =>
    writeBatch(
      tx,
      source,
      batch.map((one) => ({ ...one, misfits })),
    ),
  )
  expect(results).toMatchObject([
    { outcome: 'written', protectedColumns: ['score', 'country'], skipped: [{ column: 'phone' }] },
  ])
})

test('a cell left out with another of its group is skipped too', async () => {
  const group = { group: 'region' }
  const source = await open([
    output('region_country', 'country', { ...group, sql: `nullif($value, 'XX')` }),
    output('region', 'region', group),
  ])
  const [nothing] = await write(database, source, ['1'], { title: 'CTO', country: 'XX', region: '03' })
  expect(nothing?.skipped.toSorted((a, b) => (a.column < b.column ? -1 : 1))).toMatchObject([
    { column: 'region', reason: 'group_incomplete' },
    { column: 'region_country', reason: 'no_value' },
  ])
  await database.query(`
    insert into regions values ('SE', '03'); update people set region_country = 'SE' where id = 2`)
  const [typed] = await write(database, source, ['2'], { title: 'CTO', country: 'NO', region: '03' })
  expect(typed).toMatchObject({
    after: { title: 'CTO' },
    protectedColumns: ['region_country'],
    skipped: [{ column: 'region', reason: 'group_incomplete' }],
  })
})

test('a trigger may need the time that a deferred constraint gives it', async () => {
  await database.query(`
    create table visits (person int, office int references offices deferrable initially deferred);
    create or replace function visit() returns trigger language plpgsql as $$
      begin
        insert into visits values (new.id, new.id);
        if new.title is distinct from 'lost' then insert into offices (id) values (new.id); end if;
        return new;
      end $$;
    create trigger visit before update on people for each row execute function visit()`)
  try {
    const source = await open([output('note', 'note')])
    expect(await write(database, source, ['1', '2'], { title: 'CTO' })).toMatchObject([
      { outcome: 'written', skipped: [] },
      { outcome: 'written', skipped: [] },
    ])
    const results = await write(database, source, ['3', '4', '5'], (key: string) => ({
      title: key === '4' ? 'lost' : 'CTO',
      note: 'x',
    }))
    expect(results.map(({ after }) => after)).toEqual([
      { title: 'CTO', note: 'x' },
      { note: 'x' },
      { title: 'CTO', note: 'x' },
    ])
    expect(results[1]?.skipped).toMatchObject([{ column: 'title', reason: 'foreign_key' }])
  } finally {
    await database.query('drop table visits')
  }
})

test('180 rows with bad cells among 300 take fewer than 20 statements, and lose nothing else', async () => {
  await database.query(`insert into people (id, email) select n, 'p' || n from generate_series(1001, 1300) n`)
  const source = await open(outputsWithMisfits, { touch: { touched_at: 'now()', low: '1 / (t.id % 3)' } })
  const keys = Array.from({ length: 300 }, (_, n) => String(n + 1001))
  const record = (key: string): object => ({
    title: 'CTO',
    note: 'x',
    ...(Number(key) % 5 === 0 && { phone: '+47', country: 'xx' }),
    ...(Number(key) % 7 === 0 && { score: 'many' }),
  })
  const batch = await prepare(database, source, keys, record)
  database.statements()
  const results = await transact(database, (tx) => writeBatch(tx, source, batch))
  expect(database.statements().length).toBeLessThan(20)
  expect(results.every(({ outcome }) => outcome === 'written')).toBe(true)
  for (const { key, skipped } of results)
    expect(skipped.map(({ column }) => column).toSorted()).toEqual([
      ...(Number(key) % 5 === 0 ? ['country'] : []),
      ...(Number(key) % 3 === 0 ? ['low'] : []),
      ...(Number(key) % 5 === 0 ? ['phone'] : []),
      ...(Number(key) % 7 === 0 ? ['score'] : []),
    ])
  const rows = await database.query(
    `select count(*)::int as n from people where id > 1000 and title = 'CTO' and note = 'x' and touched_at is not null`,
  )
  expect(rows).toEqual([{ n: 300 }])
})

test('a cell of a partition is found by the constraint of the partition', async () => {
  await database.query(`
    drop table if exists parts;
    create table parts (id int primary key, email text, title text, level int) partition by range (id);
    create table low_parts partition of parts for values from (1) to (10);
    alter table low_parts add constraint low_level check (level < 10);
    insert into parts values (1, 'a'), (2, 'b')`)
  const outputs = [output('title', 'title'), output('level', 'level')]
  const source = await openSource(database.db, mapping({ table: 'parts', outputs }))
  const results = await write(database, source, ['1', '2'], { title: 'CTO', level: 11 })
  const skipped = [{ column: 'level', reason: 'check', detail: 'low_level' }]
  expect(results).toMatchObject([
    { outcome: 'written', skipped },
    { outcome: 'written', skipped },
  ])
})

test('a row level policy costs the cell that it does not allow', async () => {
  const source = await open([output('note', 'note'), output('country', 'country')])
  await database.query(`
    drop role if exists clerk_of_cells; create role clerk_of_cells; grant all on people to clerk_of_cells; grant select on countries to clerk_of_cells;
    alter table people enable row level security;
    create policy everything on people using (true) with check (note is distinct from 'theirs')`)
  const batch = await prepare(database, source, ['1'], { title: 'CTO', note: 'theirs', country: 'NO' })
  const results = await transact(database, async (tx) => {
    await sql`set local role clerk_of_cells`.execute(tx)
    return await writeBatch(tx, source, batch)
  })
  expect(results).toMatchObject([
    { outcome: 'written', after: { title: 'CTO', country: 'NO' }, skipped: [{ column: 'note' }] },
  ])
  await database.query('drop owned by clerk_of_cells; drop role clerk_of_cells')
})
