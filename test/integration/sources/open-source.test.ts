import { sql } from 'kysely'
import { beforeAll, describe, expect, test } from 'vitest'
import type { SourceMapping } from '../../../src/domain/mapping.ts'
import { checkWhere } from '../../../src/sources/check/expressions.ts'
import { pageQuery } from '../../../src/sources/page.ts'
import { type SourceProblem, SourceProblems } from '../../../src/sources/problems.ts'
import { openSource } from '../../../src/sources/source.ts'
import { writeBatch } from '../../../src/sources/write/write.ts'
import { openDatabase } from '../../../src/store/open.ts'
import { useTestDatabase } from '../../support/database.ts'
import { mapping, output } from './mapping.ts'
import { readPage } from './writing.ts'

const database = useTestDatabase()

beforeAll(async () => {
  await database.query(`
    create schema crm;
    create type crm.stage as enum ('Lead', 'Customer');
    create domain crm.short as varchar(5) check (value <> 'bad');
    create table crm.accounts (id int primary key, name text);
    create table crm."Contacts" (
      id uuid primary key default gen_random_uuid(), "firstName" text, email text, "order" text, stage crm.stage,
      code crm.short, amount numeric(6,2), attributes jsonb, plain text, account_id int, number int generated always as identity,
      search text generated always as (lower(email)) stored, updated_at timestamptz);
    create view crm.people as select * from crm."Contacts";
    create table no_key (email text, title text);
    create table two_keys (code text not null unique, email text, title text);`)
})
const contacts = (options: Partial<SourceMapping> = {}): SourceMapping =>
  mapping({ name: 'contacts', table: 'crm."Contacts"', outputs: [output('plain', 'title')], ...options })

async function problems(options: Partial<SourceMapping>): Promise<readonly SourceProblem[]> {
  const error: unknown = await openSource(database.db, contacts(options)).catch((error: unknown) => error)
  if (!(error instanceof SourceProblems)) throw error instanceof Error ? error : new Error('it was opened')
  return error.problems
}

describe('a valid mapping', () => {
  test('is opened with its real types, outside the search path, in mixed case', async () => {
    const source = await openSource(
      database.db,
      contacts({
        joins: 'left join crm.accounts a on a.id = t.account_id',
        inputs: { email: 't.email', name: `concat(t."firstName", t."order")`, company: 'a.name' },
        outputs: [
          output('order', 'title'),
          output('stage', 'seniority', { map: { c: 'Customer' } }),
          output('code', 'phone'),
          output('amount', 'n', { sql: '$value::numeric * 2' }),
          output('attributes.x', 'department'),
          output('firstName', 'name.first'),
        ],
        touch: { updated_at: 'now()' },
      }),
    )
    expect(source.keyColumns).toMatchObject([{ name: 'id', type: 'uuid' }])
    expect(source.outputs.map(({ attribute, type, fit }) => [attribute, type.name, fit])).toEqual([
      ['order', 'text', { kind: 'text', maxLength: null }],
      ['stage', 'crm.stage', { kind: 'enum', labels: ['Lead', 'Customer'] }],
      ['code', 'crm.short', { kind: 'text', maxLength: 5 }],
      ['amount', 'numeric(6,2)', { kind: 'numeric', precision: 6, scale: 2 }],
      ['attributes', 'jsonb', { kind: 'jsonb' }],
      ['firstName', 'text', { kind: 'text', maxLength: null }],
    ])
  })

  test('may be opened in a transaction, which a problem does not abort', async () => {
    await database.db.transaction().execute(async (tx) => {
      await expect(openSource(tx, contacts({ where: ['t.nothing'] }))).rejects.toThrow(SourceProblems)
      await expect(openSource(tx, contacts())).resolves.toMatchObject({ name: 'contacts' })
    })
  })
})

describe('a table', () => {
  test('that is missing, in these letters, is named', async () => {
    expect(await problems({ table: 'crm.contacts' })).toMatchObject([
      {
        source: 'contacts',
        place: 'table',
        found: "'crm.contacts', which this database does not have",
        expected: expect.stringContaining('in double quotes where it has capitals') as string,
      },
    ])
  })

  test('a view is rejected', async () => {
    expect(await problems({ table: 'crm.people' })).toMatchObject([
      {
        place: 'table',
        found: `'crm.people', a view`,
        todo: expect.stringContaining('Name the underlying table') as string,
      },
    ])
  })
})

test('a database that cannot store every character is rejected', async () => {
  const name = `latin_${database.url.slice(-12)}`
  await database.query(`create database ${name} encoding 'LATIN1' template template0 locale 'C'`)
  const url = new URL(database.url)
  url.pathname = `/${name}`
  const db = openDatabase({ url: url.href, max: 1 })
  try {
    await sql`create table public.people (id int primary key, email text, title text)`.execute(db)
    await expect(openSource(db, mapping())).rejects.toThrow('a database in LATIN1')
  } finally {
    await db.destroy()
    await database.query(`drop database ${name} with (force)`)
  }
})

describe('a key', () => {
  test.each([
    [
      { table: 'no_key', outputs: [] },
      'nothing, and public.no_key has no primary key',
      'The table has no unique index',
    ],
    [{ table: 'two_keys', outputs: [] }, 'has no primary key', 'Set `key` to code, which is unique.'],
    [{ key: ['email'] }, 'email, on which there is no unique index', 'create unique index concurrently'],
    [{ key: ['Id'] }, `'Id', which is not a column`, `Did you mean 'id'?`],
  ])('%j', async (options, found, todo) => {
    const [problem] = await problems(options)
    expect(problem?.place).toBe('key')
    expect(problem?.found).toContain(found)
    expect(problem?.todo).toContain(todo)
  })

  test('may hold more columns than the unique index', async () => {
    const source = await openSource(
      database.db,
      contacts({ table: 'two_keys', key: ['email', 'code'], outputs: [output('title', 'title')] }),
    )
    expect(source.keyOrder.map((column) => column.name)).toEqual(['email', 'code'])
  })
})

describe('outputs', () => {
  test.each([
    ['plian', `'plian', which is not a column`, `Did you mean 'plain'?`],
    ['firstname', `'firstname', which is not a column`, `Did you mean 'firstName'?`],
    ['id', `a column of the key`, ''],
    ['number', 'an identity column', 'name another'],
    ['search', 'a generated column', 'name another'],
    ['plain.x', `a key inside 'plain', which is text`, 'one that is jsonb'],
  ])('%s is rejected', async (column, found, todo) => {
    const [problem, ...more] = await problems({ outputs: [output(column, 'title')] })
    expect(more).toEqual([])
    expect(problem?.place).toBe(`outputs.${column}`)
    expect(problem?.found).toContain(found)
    expect(problem?.todo).toContain(todo)
  })

  test.each([
    'lower(trim(t.email))',
    't."email"',
    'EMAIL',
    `nullif(t . email, '') -- t.plain`,
    `t.plain || t.email`,
  ])(
    'the column behind the input %s may be filled where it is blank, under no other policy',
    async (email) => {
      const inputs = { email }
      await openSource(database.db, contacts({ inputs, outputs: [output('email', 'email')] }))
      for (const policy of ['tracked', 'always'] as const)
        expect(await problems({ inputs, outputs: [output('email', 'email', { policy })] })).toMatchObject([
          {
            place: 'outputs.email',
            found: `policy '${policy}' for a column that the input 'email' is read from`,
          },
        ])
    },
  )

  test('a json key that an input is read from is rejected under another policy, its siblings are not', async () => {
    const inputs = { email: `t.attributes ->> 'email'` }
    const policy = 'tracked'
    expect(
      await problems({ inputs, outputs: [output('attributes.email', 'email', { policy })] }),
    ).toHaveLength(1)
    await openSource(
      database.db,
      contacts({ inputs, outputs: [output('attributes.phone', 'phone', { policy })] }),
    )
  })

  test('an expression with a sub-select names the columns of another table', async () => {
    const inputs = { email: '(select email from two_keys where code = t.plain limit 1)' }
    const opened = openSource(
      database.db,
      contacts({ inputs, outputs: [output('email', 'email', { policy: 'always' })] }),
    )
    await expect(opened).resolves.toMatchObject({ name: 'contacts' })
  })

  test('map values that the column cannot hold are rejected', async () => {
    expect(
      await problems({
        outputs: [
          output('stage', 'seniority', { map: { a: 'Lead', b: 'lead', c: 'Custommer' } }),
          output('account_id', 'seniority', { map: { a: 'high', b: 3 } }),
          output('code', 'seniority', { map: { a: 'too long' } }),
        ],
      }),
    ).toMatchObject([
      { place: 'outputs.stage.map.b' },
      { place: 'outputs.stage.map.c', expected: 'one of Lead, Customer' },
      { place: 'outputs.account_id.map.a', found: `'high', which does not fit: the value is not an integer` },
      {
        place: 'outputs.code.map.a',
        found: `'too long', which does not fit: the text is longer than the column allows`,
      },
    ])
  })
})

test('the condition of a run is checked before the run starts', async () => {
  const source = await openSource(database.db, contacts())
  await expect(checkWhere(database.db, source, 't.plain is null -- yet')).resolves.toBeUndefined()
  await expect(checkWhere(database.db, source, 't.plian is null')).rejects.toThrow(
    /contacts\.--where\nt\.plian is null\n\^\n/,
  )
  await expect(checkWhere(database.db, source, 'true) or (true')).rejects.toThrow(/closes nothing/)
})

describe('an expression that the database rejects is shown with a caret', () => {
  const joins = (sql: string) => ({ joins: sql })
  const where = (sql: string) => ({ where: [sql] })
  const further = (sql: string) => ({ where: ['true', sql] })
  const email = (sql: string) => ({ inputs: { email: sql } })
  const plain = (sql: string) => ({ outputs: [output('plain', 'title', { sql })] })
  const touch = (sql: string) => ({ touch: { plain: sql }, outputs: [output('code', 'title')] })

  /** Each with a caret before what is at fault. */
  test.each<[string, string, (sql: string) => Partial<SourceMapping>]>([
    ['joins', 'left join crm.accounts a on ^a.idd = t.account_id', joins],
    ['joins', 'left join ^crm.acounts a on true', joins],
    ['where', "t.plain = 'ø' and ^t.emial is null", where],
    ['inputs.email', 't.email ^||| t.plain', email],
    ['inputs.name', '/* é */ lower(^t.firstName)', (name) => ({ inputs: { name } })],
    ['inputs.email', '^unnest(array[t.email])', email],
    ['outputs.plain.sql', 'upper($value) + ^$valeu', plain],
    ['outputs.plain.sql', "'$value' || $value || ^t.nothing", plain],
    ['touch.plain', 'lower(^$value)', touch],
    ['touch.plain', '^lwer(t.email)', touch],
    ['where', 'true^; drop table x', where],
    ['where[1]', 'true^) or (true', further],
    ['where[1]', '^t.emial is null', (sql) => ({ where: ['t.plain is null', sql] })],
    ['where', 'true^) or (true', where],
  ])('%s: %s', async (place, marked, optionsOf) => {
    const sql = marked.replace('^', '')
    const [problem, ...more] = await problems(optionsOf(sql))
    expect(more).toEqual([])
    expect(problem?.place).toBe(place)
    expect(problem?.found).toContain(`${sql}\n${' '.repeat(marked.indexOf('^'))}^\n`)
  })

  test.each<[string, Partial<SourceMapping>, string]>([
    [
      'outputs.account_id.sql',
      { outputs: [output('account_id', 'title', { sql: 'now()' })] },
      'cannot cast type',
    ],
    ['joins', { joins: 'left join crm.accounts a on true where false' }, "'where' does not belong to a join"],
  ])('or with what is wrong: %s %j', async (place, options, found) => {
    const [problem, ...more] = await problems(options)
    expect(more).toEqual([])
    expect(problem?.place).toBe(place)
    expect(problem?.found).toContain(found)
  })

  test('all at once, with other problems', async () => {
    const places = (
      await problems({
        key: ['email'],
        where: ['t.nothing'],
        inputs: { email: 't.mail' },
        outputs: [output('plain', 'title', { sql: 'x($value)' }), output('none', 'title')],
        touch: { gone: 'now()' },
      })
    ).map((problem) => problem.place)
    expect(places.toSorted()).toEqual([
      'inputs.email',
      'key',
      'outputs.none',
      'outputs.plain.sql',
      'touch.gone',
      'where',
    ])
  })

  test('a touched column of another type than its expression', async () => {
    expect(await problems({ touch: { updated_at: '$confidence' } })).toMatchObject([
      {
        place: 'outputs',
        found: expect.stringContaining('"updated_at" is of type timestamp with time zone') as string,
      },
    ])
  })

  test('the message has the place, what was found with a caret, expected and to do', async () => {
    const error: unknown = await openSource(database.db, contacts({ where: ['t.emial is null'] })).catch(
      (e: unknown) => e,
    )
    expect(String(error)).toBe(
      `SourceProblems: sources.contacts.where
t.emial is null
^
column t.emial does not exist
expected: SQL over t and the joins that Postgres accepts
to do: Perhaps you meant to reference the column "t.email".`,
    )
  })
})

describe('privileges', () => {
  test('that are missing are named; the required ones are enough', async () => {
    const role = `clerk_${database.url.slice(-12)}`
    await database.query(`
      create role ${role} login password 'x';
      grant usage on schema crm to ${role};
      grant select (id, email, plain), update (plain) on crm."Contacts" to ${role}`)
    const url = new URL(database.url)
    url.username = role
    url.password = 'x'
    const db = openDatabase({ url: url.href, max: 1 })
    try {
      await database.query(`insert into crm."Contacts" (email) values ('a@x.no')`)
      const source = await openSource(db, contacts())
      const page = pageQuery(source, { after: null, limit: 5, where: null })
      const rows = await readPage(db, source, page)
      const batch = rows.map((row) => ({
        key: row.key,
        inputHash: row.input_hash,
        values: { plain: 'CTO' },
        lastWritten: null,
        confidence: null,
      }))
      const results = await db.transaction().execute((tx) => writeBatch(tx, source, batch))
      expect(results).toMatchObject([{ outcome: 'written', after: { plain: 'CTO' } }])

      const error: unknown = await openSource(
        db,
        contacts({
          inputs: { email: 't."firstName"' },
          outputs: [output('code', 'title')],
          touch: { updated_at: 'now()' },
        }),
      ).catch((error: unknown) => error)
      expect(error).toBeInstanceOf(SourceProblems)
      const found = (error as SourceProblems).problems.map(({ place, found, todo }) => [place, found, todo])
      expect(found).toContainEqual([
        'outputs.code',
        `the role ${role} lacks UPDATE (code) on crm."Contacts"`,
        `GRANT UPDATE (code) ON crm."Contacts" TO ${role};`,
      ])
      expect(found.map(([place]) => place)).toEqual(
        expect.arrayContaining(['outputs.code', 'touch.updated_at', 'inputs.email']) as string[],
      )
    } finally {
      await db.destroy()
      await database.query(`drop owned by ${role}; drop role ${role}`)
    }
  })
})
