import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase, useTestDatabase } from '../../support/database.ts'
import { DRAFT as CONFIG, createFolder, type InitFolder } from '../../support/init-folder.ts'

const database = useTestDatabase()
let folder: InitFolder
beforeAll(async () => {
  await database.query(`
    create schema crm;
    create table crm.accounts (id int primary key, name text, website text, industry text);
    create table crm.contacts (id int primary key, account_id int references crm.accounts, first_name text, last_name text,
      email text, title text, phone text, prefs jsonb, deleted_at timestamptz);
    create table crm.contact_consents (contact_id int references crm.contacts, withdrawn_at date);
    create table crm.empty_contacts (id int primary key, email text, title text, deleted_at timestamptz);
    insert into crm.accounts select n, 'Acme ' || n, 'acme' || n || '.example', case when n % 4 = 0 then 'Paper' end
      from generate_series(1, 20) n;
    insert into crm.contacts (id, account_id, first_name, last_name, email, title, prefs, deleted_at)
      select n, n % 20 + 1, 'Secret', 'Person', 'secret.person' || n || '@acme.example', case when n % 2 = 0 then 'Buyer' end,
             jsonb_build_object('opt_out', n <= 3), case when n = 9 then now() end
        from generate_series(1, 40) n;
    insert into crm.contact_consents select n % 4 + 1, '2025-01-01' from generate_series(1, 8) n`)
})
beforeEach(async () => {
  folder = await createFolder(database.url)
})
afterEach(() => folder.remove())

describe('what is written', () => {
  test('one file, with every source unread and no value of a row', async () => {
    const { code, stdout, stderr } = await folder.init()
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toContain('Wrote fillrate.config.ts')
    const text = await folder.read(CONFIG)
    expect(text.match(/^ +reviewed: false,$/gm)).toHaveLength(2)
    expect(text).toContain("title: 'title', // filled in 50.0% of the sampled rows")
    expect(text).toMatch(/where: \[\n +"t\.prefs ->> 'opt_out' is distinct from 'true'", \/\/ leaves out 3\n/)
    expect(text).toContain("'t.deleted_at is null', // leaves out 1\n")
    expect(text).toContain(
      "// 'not exists (select from crm.contact_consents x where x.contact_id = t.id and x.withdrawn_at <= now())', // leaves out 4\n",
    )
    for (const shown of [stdout, text]) expect(shown).not.toMatch(/secret|buyer/i)
  })

  test('nothing over a table without rows, and why', async () => {
    const { code, stdout } = await folder.init('crm.empty_contacts')
    expect(code).toBe(1)
    expect(stdout).toContain('crm.empty_contacts: it has no rows, so nothing was measured')
    expect(stdout).toContain('Nothing was written.')
    expect(await readdir(folder.path)).toEqual([])
  })

  test.each([
    ['a table', 'accounts'],
    ['a table with its schema', 'crm.accounts'],
  ])('only %s that is named', async (_, name) => {
    expect(await folder.init(name)).toMatchObject({ code: 0 })
    const text = await folder.read(CONFIG)
    expect(text).toContain('accounts: {')
    expect(text).not.toContain('contacts: {')
  })

  test('the tables of a schema that is named', async () => {
    expect(await folder.init('crm')).toMatchObject({ code: 0 })
    expect((await folder.read(CONFIG)).match(/reviewed: false,/g)).toHaveLength(2)
  })
})

describe('an existing file', () => {
  test('is never overwritten, and the error comes first', async () => {
    await writeFile(join(folder.path, CONFIG), 'mine')
    const { code, stdout, stderr } = await folder.run('init')
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toMatch(/fillrate\.config\.ts\n +found +fillrate\.config\.ts is in this folder/)
    expect(await folder.read(CONFIG)).toBe('mine')
  })

  test('with another extension would be ignored', async () => {
    await writeFile(join(folder.path, 'fillrate.config.json'), '{}')
    const { code, stderr } = await folder.init()
    expect(code).toBe(2)
    expect(stderr).toContain('fillrate.config.json is in this folder')
    expect(await readdir(folder.path)).toEqual(['fillrate.config.json'])
  })
})

test('refuses a missing table', async () => {
  const { code, stderr } = await folder.init('crm.contcts')
  expect(code).toBe(2)
  expect(stderr).toContain('no such table or schema')
  expect(await readdir(folder.path)).toEqual([])
})

test('a database without a table of people or companies', async () => {
  const other = await createTestDatabase()
  const empty = await createFolder(other.url)
  try {
    expect((await empty.init()).stdout).toContain('This role may read no table of this database')
    await other.query(
      'create table invoices (id int primary key, total numeric); insert into invoices values (1, 2)',
    )
    const { code, stdout } = await empty.init()
    expect(code).toBe(1)
    expect(stdout.replaceAll(/\s+/g, ' ')).toContain(
      'No table that could be read holds email addresses, profiles or domains in at least half of its sampled rows',
    )
  } finally {
    await empty.remove()
    await other.drop()
  }
})

describe('what a table holds', () => {
  let other: TestDatabase
  let ours: InitFolder
  beforeAll(async () => {
    other = await createTestDatabase()
    ours = await createFolder(other.url)
  })
  afterAll(async () => {
    await ours.remove()
    await other.drop()
  })

  test('hosts of private mailboxes are no domain of a company', async () => {
    await other.query(`
      create table clients (id int primary key, name text, domain text, website text, industry text);
      insert into clients select n, 'C' || n, (array['gmail.com', 'outlook.com', 'gmx.de', 'acme' || n || '.example'])[1 + n % 4],
                                 case when n % 4 > 0 then 'https://c' || n || '.example' end
        from generate_series(1, 40) n;
      create table shops (id int primary key, name text, domain text, industry text);
      insert into shops select n, 'S' || n, 'gmail.com' from generate_series(1, 40) n`)
    const { stdout } = await ours.init()
    const text = await ours.read(CONFIG)
    expect(text).toContain("domain: 't.website', // usable in 75.0% of the sampled rows")
    expect(text).not.toContain('shops: {')
    expect(stdout).toContain('shops: fewer than half of its sampled rows hold')
  })

  test('a condition that would leave no row is not in force', async () => {
    await other.query(`
      create table people (id int primary key, email text, title text, deleted boolean default true, unsubscribed boolean);
      insert into people (id, email) select n, 'p' || n || '@p.example' from generate_series(1, 20) n`)
    await ours.init('people')
    const text = await ours.read(CONFIG)
    expect(text).toContain("    'people': {".replaceAll("'", ''))
    expect(text).toContain("// 't.deleted is not true', // leaves out 20")
    // None has it yet, and its name says what it is for.
    expect(text).toMatch(/^ +'t\.unsubscribed is not true', \/\/ leaves out 0$/m)
  })

  test('a table that is locked is named, and does not hold up the others', async () => {
    await other.query(
      'create table locked (id int primary key, email text); insert into locked values (1, null)',
    )
    const client = await other.pool.connect()
    try {
      await client.query('begin; lock table locked in access exclusive mode')
      const { code, stdout } = await ours.init('locked', 'people')
      expect(code).toBe(0)
      expect(stdout).toContain('locked: its rows could not be read within five seconds')
      expect(await ours.read(CONFIG)).toContain('people: {')
    } finally {
      await client.query('rollback')
      client.release()
    }
  })
})

describe('a role with few rights', () => {
  let other: TestDatabase
  let ours: InitFolder
  let role: string
  beforeAll(async () => {
    other = await createTestDatabase()
    role = `reader_${other.url.slice(-12)}`
    await other.query(`
      drop schema fillrate cascade;
      create table contacts (id int primary key, email text, title text, phone text, do_not_contact boolean);
      create table contact_consents (contact_id int references contacts, withdrawn_at date);
      create table waitlist (id int primary key, email text);
      create table invoices (id int primary key, total numeric);
      create schema hidden;
      create table hidden.partners (id int primary key, website text);
      create table leads (id int primary key, email text, title text);
      alter table leads enable row level security;
      insert into contacts select n, 'n' || n || '@c.example' from generate_series(1, 40) n;
      insert into leads select n, 'l' || n || '@c.example' from generate_series(1, 40) n;
      create role ${role} login password 'reader';
      grant select (id, email, title, phone) on contacts to ${role};
      grant update (title) on contacts to ${role};
      grant select on leads to ${role}`)
    ours = await createFolder(Object.assign(new URL(other.url), { username: role, password: 'reader' }).href)
  })
  afterAll(async () => {
    await ours.remove()
    await other.query(`drop owned by ${role}; drop role ${role}`)
    await other.drop()
  })

  test('is given the statements for what it may not read or write, and nothing that does not matter', async () => {
    const { code, stdout } = await ours.init()
    expect(code).toBe(0)
    const text = await ours.read(CONFIG)
    for (const statement of [
      `GRANT SELECT ON public.contact_consents TO ${role};`,
      `GRANT SELECT ON public.waitlist TO ${role};`,
      `GRANT USAGE ON SCHEMA hidden TO ${role};`,
      `GRANT SELECT ON hidden.partners TO ${role};`,
      `CREATE POLICY ${role}_select ON public.leads FOR SELECT TO ${role} USING (true);`,
    ]) {
      expect(stdout.split('\n')).toContain(`  ${statement}`)
      expect(text).toContain(`//   ${statement}\n`)
    }
    expect(stdout).toMatch(/GRANT SELECT \(do_not_contact\)[^\n]* ON public\.contacts/)
    expect(stdout).toMatch(/GRANT [^\n]*UPDATE \(phone\)[^\n]* ON (?:public\.)?contacts/)
    expect(stdout).not.toContain('invoices')
  })

  test('is given them once as much when it has run them', async () => {
    const { stdout } = await ours.init()
    for (const statement of stdout.match(/^ {2}(?:GRANT|CREATE POLICY) .*;$/gm) ?? [])
      await other.query(statement)
    const again = await ours.init()
    expect(again.stdout).not.toContain('GRANT SELECT')
    expect(await ours.read(CONFIG)).toContain("'t.do_not_contact is not true', // leaves out 0")
  })
})
