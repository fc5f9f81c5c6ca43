import { afterAll, beforeAll, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { createPrompt, type Prompt } from './prompt.ts'

// A role that may not read what decides who is left out: tenants, consents. What init says of it, and in which order.

const copies = Array.from({ length: 9 }, (_, n) => `contacts_${n}`)
let database: TestDatabase
let prompt: Prompt
let role: string
beforeAll(async () => {
  database = await createTestDatabase()
  role = `reader_${database.url.slice(-12)}`
  await database.query(`
    drop schema fillrate cascade;
    create table organizations (id int primary key, name text, plan text, suspended_at timestamptz);
    create table companies (id int primary key, organization_id int references organizations, name text, website text);
    create table contacts (id int primary key, organization_id int references organizations, company_id int references companies,
      full_name text, email text, title text, phone text, metadata jsonb, seniority text);
    create table email_suppressions (email text);
    create table waitlist (id int primary key, email text, name text, company text, role text);
    create table leads (id int primary key, email text, full_name text, company text, job_title text);
    create schema backup;
    create table backup.consents (contact_id int, state text);
    ${copies.map((name) => `create table backup.${name} (id int primary key, email text);`).join('\n')}
    alter table organizations enable row level security;
    insert into organizations select n, 'O ' || n from generate_series(1, 4) n;
    insert into companies select n, 1 + n % 4, 'C ' || n, 'c' || n || '.example' from generate_series(1, 20) n;
    insert into contacts (id, organization_id, company_id, full_name, email)
      select n, 1 + n % 4, 1 + n % 20, 'N ' || n, 'n' || n || '@c.example' from generate_series(1, 40) n;
    create role ${role} login password 'reader';
    grant select on contacts, companies, leads to ${role};
    grant update (title) on contacts to ${role};
    grant update (job_title) on leads to ${role}`)
  prompt = await createPrompt(
    Object.assign(new URL(database.url), { username: role, password: 'reader' }).href,
  )
})
afterAll(async () => {
  await prompt.remove()
  await database.query(`drop owned by ${role}; drop role ${role}`)
  await database.drop()
})

test('all that decides who is left out is named, with why and with the SQL to paste', async () => {
  const { stdout, stderr } = await prompt.run(['--yes'])
  expect(stderr).toBe('')
  const shown = stdout.replaceAll(/\s+/g, ' ')
  expect(shown).toContain('public.email_suppressions: it may say who must not be contacted')
  expect(shown).toContain(
    'public.organizations: the tenants that the rows of contacts belong to, by organization_id: which are suspended or a demo decides who is left out',
  )
  expect(shown.indexOf('public.organizations:')).toBeLessThan(shown.indexOf('contacts people in contacts'))
  expect(shown).toContain('public.waitlist: it may hold people or companies')
  expect(shown).not.toContain('backup.')
  expect(stdout.split('\n')).toEqual(
    expect.arrayContaining([
      `  GRANT SELECT ON public.organizations TO ${role};`,
      `  GRANT UPDATE (seniority, phone) ON contacts TO ${role};`,
      `  CREATE POLICY ${role}_select ON public.organizations FOR SELECT TO ${role} USING (true);`,
    ]),
  )
  const text = await prompt.read('fillrate.config.ts')
  expect(text.match(/reviewed: false/g)).toHaveLength(2)
  expect(text.match(/email_suppressions/g)).toHaveLength(1)
  expect(text).toContain('minConfidence')
})

test('with --json', async () => {
  const { stdout } = await prompt.run(['--json', '--out', 'other.config.ts'])
  const { skipped_tables: skipped, grants } = JSON.parse(stdout) as {
    skipped_tables: { table: string; reason: string }[]
    grants: string[]
  }
  expect(skipped.map(({ table }) => table)).toEqual(
    expect.arrayContaining(['public.email_suppressions', 'public.organizations', 'public.waitlist']),
  )
  expect(skipped.flatMap((one) => Object.keys(one)).every((name) => /^(?:table|reason)$/.test(name))).toBe(
    true,
  )
  expect(grants).toContain(`GRANT SELECT ON public.organizations TO ${role};`)
})

test('of a named table that may not be read, init and --explain say so, and what it takes', async () => {
  for (const words of [['waitlist'], ['--explain', 'waitlist']]) {
    const { code, stdout } = await prompt.run([...words, '--out', 'named.config.ts'])
    expect(code).toBe(1)
    expect(stdout).toMatch(/this role may not read|may not read it/)
    expect(stdout).toContain(`  GRANT SELECT ON public.waitlist TO ${role};`)
    expect(stdout).not.toContain('To propose a certain table')
  }
  const { stdout } = await prompt.run(['--explain', 'waitlist', '--json'])
  expect(JSON.parse(stdout)).toMatchObject({
    explained: [{ table: 'public.waitlist', verdict: 'this role may not read it' }],
  })
})
