import { expect, test } from 'vitest'
import { OWN_TABLES } from '../../../src/store/erase.ts'
import { crmConfig } from '../../support/crm.ts'
import { openCommandLine } from '../cli/command-line.ts'

// Tables whose rows another statement may stand for: only the locked row is written and restored, or `check` says why not.

const { contacts } = crmConfig.sources
const outputs = { title: { field: 'title', policy: 'always' } }
const source = (table: string, more: object = {}): object => ({
  ...contacts,
  table,
  outputs,
  touch: {},
  ...more,
})
const sources = {
  people: source('crm.people'),
  parts: source('crm.parts', { where: `t.region = 'a'` }),
}

const { database, cli, here } = await openCommandLine({
  prepare: (pool) =>
    pool.query(`
    create schema crm;
    create table fillrate.people (id int primary key, email text, title text);
    create table crm.people (id int primary key, email text, title text);
    insert into crm.people (id, email) values (1, 'ada@example.com');
    create table crm.family (id int primary key, email text, title text);
    create table crm.archive (primary key (id)) inherits (crm.family);

    create table crm.parts (id int, region text, email text, title text, primary key (id, region)) partition by list (region);
    create table crm.parts_a (title text, email text, region text not null, id int not null);
    alter table crm.parts attach partition crm.parts_a for values in ('a');
    create table crm.parts_b partition of crm.parts for values in ('b');
    insert into crm.parts values (1, 'a', 'parta@example.com', 'typed a'), (1, 'b', 'partb@example.com', 'typed b');

    create table crm.ruled (id int primary key, email text, title text);
    create table crm.ruled_log (id int, title text);
    create rule log as on update to crm.ruled do also insert into crm.ruled_log values (new.id, new.title);
    create table crm.shown (id int primary key, email text, title text);
    create view crm.shown_view as select * from crm.shown;
    create function crm.instead() returns trigger language plpgsql as $$ begin
      update crm.shown set title = new.title; return new; end $$;
    create trigger instead instead of update on crm.shown_view for each row execute function crm.instead();
    create foreign data wrapper nothing;
    create server nowhere foreign data wrapper nothing;
    create foreign table crm.foreign_table (id int, email text, title text) server nowhere`),
  service: { missingShare: 0, notFoundShare: 0 },
  config: { sources },
})
const fillrate = (line: string, env: NodeJS.ProcessEnv = {}) => here(line.split(' '), env)
/** The title of the one row of each table. */
const titles = async (): Promise<Record<string, string | null>> => {
  const rows = await database.query<{ of: string; title: string | null }>(`
    select tableoid::regclass::text as of, title from crm.people
    union all select tableoid::regclass::text, title from crm.parts`)
  return Object.fromEntries(rows.map(({ of, title }) => [of, title]))
}

const REFUSED = [
  [
    'a table in the schema of Fillrate',
    'fillrate.people',
    {},
    /'fillrate.people', which is in the schema 'fillrate'/,
  ],
  [
    'a table whose key others repeat that inherit from it',
    'crm.family',
    {},
    /'crm.family', from which crm.archive inherits/,
  ],
  ['a rule that adds to updates', 'crm.ruled', {}, /'crm.ruled', whose rule log rewrites updates/],
  ['a view with an INSTEAD OF trigger', 'crm.shown_view', { key: 'id' }, /'crm.shown_view', a view/],
  ['a foreign table', 'crm.foreign_table', { key: 'id' }, /'crm.foreign_table', a foreign table/],
] as const

test.each(REFUSED)('`check` refuses %s', async (_, table, more, message) => {
  await cli.configure({ sources: { one: source(table, more) }, budget: 'unlimited' })
  const { code, stdout, stderr } = await fillrate('check')
  expect((stdout + stderr).replaceAll(/\s+/g, ' ')).toMatch(message)
  expect(code).toBe(2)
})

test('`forget` changes no table of the user in the schema of Fillrate, and names it', async () => {
  await cli.configure({ sources, budget: 'unlimited' })
  const tables = await database.pool.query<{ name: string }>(
    `select relname as name from pg_class
      where relnamespace = 'fillrate'::regnamespace and relkind in ('r', 'p') and relname !~ '^(migrations|people$)' order by 1`,
  )
  expect(tables.rows.map(({ name }) => name)).toEqual([...OWN_TABLES].sort())
  await database.query(`insert into fillrate.people values (1, 'named@example.com', 'of named@example.com')`)
  const { code, stdout, stderr } = await fillrate('forget --email named@example.com --yes')
  expect(await database.query('select email, title from fillrate.people')).toEqual([
    { email: 'named@example.com', title: 'of named@example.com' },
  ])
  expect(stdout + stderr).toMatch(/people\.email/)
  expect(code).toBe(1)
  await database.query('truncate fillrate.people')
})

test('of a partitioned table, only the row that was looked up is written, restored and written again', async () => {
  await cli.configure({ sources, budget: 'unlimited' })
  const before = await titles()
  const others = { 'crm.parts_b': 'typed b' }
  expect(before).toEqual({ ...others, 'crm.people': null, 'crm.parts_a': 'typed a' })
  expect(await fillrate('run --route sync')).toMatchObject({ code: 0 })
  const written = await titles()
  expect(written).toMatchObject(others)
  expect([written['crm.people'], written['crm.parts_a']]).not.toContain(null)
  expect(written['crm.parts_a']).not.toBe('typed a')
  expect(await fillrate('undo 1 --yes')).toMatchObject({ code: 0 })
  expect(await titles()).toEqual(before)
  for (const name of Object.keys(sources)) expect(await fillrate(`remap ${name}`)).toMatchObject({ code: 0 })
  expect(await titles()).toMatchObject(others)
})

test('rights to columns alone are enough for a role', async () => {
  await cli.configure({ sources, budget: 'unlimited' })
  const role = `columns_${Date.now()}`
  const url = Object.assign(new URL(database.url), { username: role, password: 'x' })
  await database.query(`
    create role ${role} login password 'x'; grant usage on schema crm, fillrate to ${role};
    grant select, insert, update, delete on all tables in schema fillrate to ${role};
    grant usage on all sequences in schema fillrate to ${role};
    grant select (id, email, title), update (title) on crm.people to ${role};
    grant select (id, region, email, title), update (title) on crm.parts to ${role}`)
  try {
    const { stdout } = await fillrate('check', { DATABASE_URL: url.href })
    expect(stdout.replaceAll(/\s+/g, ' ')).toMatch(/✓ source people.*✓ source parts/)
    expect(stdout).not.toContain('missing privileges')
  } finally {
    await database.query(`drop owned by ${role}; drop role ${role}`)
  }
})
