import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { verifyProposedSource } from '../../../src/init/verify.ts'
import type { Proposal, ProposedSource } from '../../../src/init/proposal.ts'
import { proposeForTables } from '../../../src/init/propose.ts'
import { openDatabase } from '../../../src/store/open.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { takeSure } from './source-keys.ts'

let database: TestDatabase
beforeEach(async () => {
  database = await createTestDatabase()
})
afterEach(() => database.drop())

async function proposeFor(sql: string, names: string[] = []): Promise<Proposal> {
  await database.query(sql)
  const proposal = await proposeForTables(database.db, names)
  for (const source of proposal.sources)
    expect(await verifyProposedSource(database.db, source)).toMatchObject({ source })
  return proposal
}

/** What is proposed to a role that has fewer rights. */
async function proposeAs(role: string): Promise<Proposal> {
  const url = new URL(database.url)
  url.searchParams.set('options', `-c role=${role}`)
  const db = openDatabase({ url: url.href })
  try {
    return await proposeForTables(db, [])
  } finally {
    await db.destroy()
  }
}

const sourceOf = ({ sources }: Proposal, name: string): ProposedSource => {
  const found = sources.find((source) => source.name === name)
  if (!found) throw new Error(`no source ${name} among ${sources.map((source) => source.name).join(', ')}`)
  return found
}
const inputsOf = (source: ProposedSource): Record<string, string> =>
  Object.fromEntries(source.inputs.map(({ input, sql }) => [input, sql.replaceAll(/\s+/g, ' ')]))
const outputsOf = (source: ProposedSource): Record<string, string> =>
  Object.fromEntries(source.outputs.map(({ column, field }) => [column, field]))

describe('tables', () => {
  test('of names in PascalCase, linked without foreign keys, with a custom suffix', async () => {
    const proposal = await proposeFor(`
      create table "Account" ("Id" varchar(18) primary key, "Name" varchar(255), "Website" varchar(255), "Industry" varchar(40),
        "NumberOfEmployees" int, "BillingCity" varchar(40), "BillingCountry" varchar(80), "ShippingCity" varchar(40),
        "IsDeleted" boolean not null default false, "ParentId" varchar(18));
      create table "Contact" ("Id" varchar(18) primary key, "AccountId" varchar(18), "Salutation" varchar(40),
        "FirstName" varchar(40), "LastName" varchar(80), "Email" varchar(80), "Title" varchar(128), "Phone" varchar(40),
        "AssistantPhone" varchar(40), "LinkedIn_URL__c" varchar(255), "IsDeleted" boolean not null default false,
        "LastModifiedDate" timestamptz);
      create index on "Contact" ("LastModifiedDate");
      insert into "Account" ("Id", "Name", "Website") select '001' || n, 'Acme', 'acme' || n || '.example' from generate_series(1, 30) n;
      insert into "Contact" ("Id", "AccountId", "FirstName", "LastName", "Email")
        select '003' || n, '001' || n % 30 + 1, 'Ann', 'Bee', case when n % 3 > 0 then 'ann' || n || '@acme.example' end
          from generate_series(1, 60) n`)
    const contact = sourceOf(proposal, 'Contact')
    expect(contact).toMatchObject({
      where: `t."IsDeleted" is not true
and not exists (select from "Account" e where e."Id" = t."AccountId" and e."IsDeleted" is true)`,
      changedAt: 't."LastModifiedDate"',
      joins: 'left join "Account" a on a."Id" = t."AccountId" and a."IsDeleted" is not true',
    })
    expect(inputsOf(contact)).toEqual({
      email: 't."Email"',
      linkedin_url: 't."LinkedIn_URL__c"',
      name: `concat_ws(' ', t."FirstName", t."LastName")`,
      company: 'a."Name"',
    })
    expect(outputsOf(contact)).toEqual({ Title: 'title', Phone: 'phone', LinkedIn_URL__c: 'linkedin' })
    expect(contact.sample).toEqual({ rows: 60, identifiedBy: { email: 40, name_company: 20 } })
    expect(outputsOf(sourceOf(proposal, 'Account'))).toEqual({
      Industry: 'industry',
      NumberOfEmployees: 'employee_count',
      BillingCity: 'location.city',
      BillingCountry: 'location.country',
    })
  })

  test('of leads make two sources, people and companies', async () => {
    const proposal = await proposeFor(`
      create table leads (id serial primary key, first_name text, last_name text, email text, title text, company text,
        website text, industry text, employees int, city text);
      insert into leads (last_name, email, company, website)
        select 'L', 'l' || n || '@a.example', 'A', 'a' || n || '.example' from generate_series(1, 20) n`)
    expect(outputsOf(sourceOf(proposal, 'leads'))).toEqual({ title: 'title', company: 'company.name' })
    expect(outputsOf(sourceOf(proposal, 'leads_companies'))).toEqual({
      industry: 'industry',
      employees: 'employee_count',
      city: 'location.city',
    })
  })

  test('of both kinds are split by a type column', async () => {
    const proposal = await proposeFor(`
      create type kind as enum ('individual', 'business');
      create table customers (no text not null unique, kind kind not null, name text, email text, job_title text, phone text,
        website text, sector text);
      insert into customers (no, kind, email) select n, 'individual', 'c' || n || '@c.example' from generate_series(1, 10) n;
      insert into customers (no, kind, email) select n, 'business', 'c@c' || n || '.example' from generate_series(11, 20) n`)
    expect(sourceOf(proposal, 'customers_people')).toMatchObject({
      key: ['no'],
      where: "t.kind = 'individual'",
    })
    const companies = sourceOf(proposal, 'customers_companies')
    expect(companies).toMatchObject({ key: ['no'], where: "t.kind = 'business'" })
    expect(inputsOf(companies)).toEqual({
      domain: "coalesce(nullif(btrim(t.website), ''), split_part(t.email, '@', 2))",
    })
  })

  test('with email addresses in another table', async () => {
    const proposal = await proposeFor(`
      create table persons (id uuid primary key default gen_random_uuid(), given_name text, surname text, job_title text);
      create table person_emails (id serial primary key, person_id uuid references persons, address text, is_primary boolean,
        deleted_at timestamptz);
      insert into persons (surname) select 'S' || n from generate_series(1, 20) n;
      insert into person_emails (person_id, address) select id, surname || '@s.example' from persons`)
    expect(inputsOf(sourceOf(proposal, 'persons'))).toEqual({
      email:
        '(select e.address from person_emails e where e.person_id = t.id and e.deleted_at is null ' +
        'order by e.is_primary desc nulls last, e.id limit 1)',
    })
  })

  test('with companies whose key is called as their table is spelled', async () => {
    const proposal = await proposeFor(`
      create table clientcorporation (id int primary key, name text, website text, industry text);
      create table clientcontact (id int primary key, "clientCorporationId" int, "firstName" text, "lastName" text, occupation text);
      insert into clientcorporation select n, 'C' || n, 'c' || n || '.example' from generate_series(1, 20) n;
      insert into clientcontact select n, n, 'F' || n, 'L' || n from generate_series(1, 20) n`)
    expect(inputsOf(sourceOf(proposal, 'clientcontact')).company).toBe('a.name')
  })

  test('with the company in a document, whose place is not that of the person', async () => {
    const proposal = await proposeFor(`
      create table lead (id int primary key, email text, first_name text, last_name text, city text, company jsonb);
      insert into lead select n, 'p' || n || '@c' || n || '.example', 'F' || n, 'L' || n, 'Oslo', jsonb_build_object('name', 'C' || n,
        'city', 'Bergen', 'phone', '+47 55 00 00 ' || 10 + n, 'website', 'c' || n || '.example', 'number_of_employees', n, 'annual_revenue', n) from generate_series(1, 20) n`)
    expect(inputsOf(sourceOf(proposal, 'lead')).company).toBe("t.company ->> 'name'")
    expect(outputsOf(sourceOf(proposal, 'lead'))).not.toHaveProperty('company.phone')
    expect(outputsOf(sourceOf(proposal, 'lead_companies'))).toMatchObject({ 'company.city': 'location.city' })
  })

  test('whose title and profile show people, and whose state is none of a country', async () => {
    const proposal = await proposeFor(`
      create table contact_enrichment (contact_id text primary key, email text, job_title text, linkedin_url text, state text);
      insert into contact_enrichment select 'c' || n, 'p' || n || '@c.example', null, null,
        case when n < 10 then 'pending' else 'done' end from generate_series(1, 30) n;
      create table sites (id text primary key, domain text, name text, industry text, state text);
      insert into sites select 's' || n, 's' || n || '.example', 'S' || n, null,
        case when n < 10 then 'pending' else 'done' end from generate_series(1, 30) n;
      create table cases (id int primary key, email text, first_name text, last_name text, title text);
      insert into cases select n, 'p' || n || '@c.example', 'F', 'L' || n from generate_series(1, 30) n`)
    expect(proposal.sources.map(({ name }) => name).sort()).toEqual(['contact_enrichment', 'sites'])
    expect(outputsOf(sourceOf(proposal, 'sites'))).not.toHaveProperty('state')
  })

  test('with what refers to the whole of which they are a part', async () => {
    const proposal = await proposeFor(`
      create table status_item (id text primary key, description text);
      insert into status_item values ('A', 'Enabled'), ('D', 'Disabled');
      create table party (party_id int primary key, status_id text references status_item);
      create table person (party_id int primary key references party, first_name text, last_name text, job_title text);
      create table contact_mech (id int primary key, contact_mech_type_id text, info_string text);
      create table party_contact_mech (party_id int references party, contact_mech_id int references contact_mech, thru_date date,
        primary key (party_id, contact_mech_id));
      insert into party select n, case when n = 1 then 'D' else 'A' end from generate_series(1, 20) n;
      insert into person select n, 'F' || n, 'L' || n from generate_series(1, 20) n;
      insert into contact_mech select n, case n % 2 when 0 then 'EMAIL_ADDRESS' else 'WEB_ADDRESS' end,
        case n % 2 when 0 then 'p' || n || '@s.example' else 'https://s' || n || '.example' end from generate_series(2, 41) n;
      insert into party_contact_mech select n / 2, n from generate_series(2, 41) n`)
    const person = sourceOf(proposal, 'person')
    expect(inputsOf(person)).toEqual({
      email:
        '(select e.info_string from party_contact_mech l join contact_mech e on e.id = l.contact_mech_id ' +
        'where l.party_id = t.party_id and (l.thru_date <= now()) is not true ' +
        "and e.contact_mech_type_id = 'EMAIL_ADDRESS' order by l.party_id, l.contact_mech_id limit 1)",
    })
    expect(takeSure(person).where).toBe(
      'not exists (select from party l join status_item e on e.id = l.status_id where ' +
        "l.party_id = t.party_id and e.description = 'Disabled')",
    )
  })

  test('with arrays, and lists inside jsonb', async () => {
    const proposal = await proposeFor(`
      create table people (id int primary key, name text, emails text[], phones text[], data jsonb);
      insert into people select n, 'N', array['p' || n || '@p.example'], null, '{"links": ["x"], "title": null}' from generate_series(1, 9) n;
      create table companies (id int primary key, name text, attributes jsonb, tech_stack jsonb);
      insert into companies select n, 'C', jsonb_build_object('domains', jsonb_build_array('c' || n || '.example')), '[]' from generate_series(1, 9) n`)
    expect(inputsOf(sourceOf(proposal, 'people'))).toEqual({ email: 't.emails[1]' })
    expect(outputsOf(sourceOf(proposal, 'people'))).toEqual({ phones: 'phone', 'data.title': 'title' })
    expect(inputsOf(sourceOf(proposal, 'companies'))).toEqual({ domain: "t.attributes -> 'domains' ->> 0" })
    expect(outputsOf(sourceOf(proposal, 'companies'))).toEqual({ tech_stack: 'technologies' })
  })

  test('without rows are classified by their names', async () => {
    const proposal = await proposeFor(`
      create table companies (id int primary key, name text, domain text, industry text, is_archived boolean);
      create table contacts (id int primary key, company_id int, email text, full_name text, job_title text, linkedin text)`)
    const contacts = sourceOf(proposal, 'contacts')
    expect(inputsOf(contacts)).toEqual({
      email: 't.email',
      linkedin_url: 't.linkedin',
      name: 't.full_name',
      company: 'a.name',
    })
    expect(outputsOf(contacts)).toEqual({ job_title: 'title', linkedin: 'linkedin' })
    expect(sourceOf(proposal, 'companies').where).toBe('t.is_archived is not true')
  })
})

describe('columns', () => {
  test('are filled according to their types and names', async () => {
    const proposal = await proposeFor(`
      create type level as enum ('Executive', 'Manager', 'Other');
      create table contacts (id int primary key, email text, seniority level, phone varchar(6), job_title varchar(80),
        department text check (department in ('Sales', 'IT')));
      create table companies (id int primary key, name text, domain text, company_size text, size_band text check (size_band in ('1-10', '11-50')),
        annual_revenue_cents bigint, technologies text, country char(2), sector int, city text,
        founded date, search text generated always as (name) stored)`)
    const [contacts, companies] = [sourceOf(proposal, 'contacts'), sourceOf(proposal, 'companies')]
    const output = (source: ProposedSource, column: string) =>
      source.outputs.find((one) => one.column === column)
    expect(output(contacts, 'seniority')?.map).toMatchObject({ c_suite: 'Executive', manager: 'Manager' })
    expect(output(contacts, 'department')?.map).toMatchObject({ sales: 'Sales', it: 'IT' })
    expect(contacts.skippedColumns).toMatchObject([
      { column: 'phone', reason: 'holds 6 characters, which is too short for phone' },
    ])
    expect(companies.skippedColumns.find(({ column }) => column === 'company_size')).toMatchObject({
      output: { field: 'employee_range' },
    })
    expect(output(companies, 'city')).toMatchObject({ field: 'location.city' })
    expect(companies.skippedColumns.map(({ column }) => column).sort()).toEqual([
      'annual_revenue_cents',
      'company_size',
      'country',
      'technologies',
    ])
    expect(Object.keys(outputsOf(companies))).not.toContain('sector')
  })

  test('that this role may not update or read are skipped', async () => {
    await database.query(`
      create table contacts (id int primary key, email text, title text, phone text, department text, salary text);
      insert into contacts select n, 'c' || n || '@c.example' from generate_series(1, 9) n`)
    const role = `clerk_${database.url.slice(-12)}`
    await database.query(`
      create role ${role};
      grant select (id, email, title, phone), update (title) on contacts to ${role}`)
    try {
      const proposal = await proposeAs(role)
      const contacts = sourceOf(proposal, 'contacts')
      expect(outputsOf(contacts)).toEqual({ title: 'title' })
      expect(contacts.skippedColumns).toEqual([
        { column: 'phone', reason: 'may not be updated by this role' },
      ])
    } finally {
      await database.query(`drop owned by ${role}; drop role ${role}`)
    }
  })

  test('a role that may read some columns is told what they say', async () => {
    await database.query(`
      create table contacts (id int primary key, email text, title text, opted_out boolean, phase text, secret text);
      insert into contacts select n, 'c' || n || '@c.example', null, n = 1, case when n < 4 then 'odd' else 'round' end from generate_series(1, 20) n`)
    const role = `clerk_${database.url.slice(-12)}`
    await database.query(
      `create role ${role}; grant select (id, email, title, opted_out, phase), update (title) on contacts to ${role}`,
    )
    try {
      const [all, some] = [await proposeForTables(database.db, []), await proposeAs(role)]
      expect(some.sources).toEqual(all.sources)
      expect(some.sources[0]?.questions.map(({ when }) => when)).toEqual(['phase is odd', 'opted_out is set'])
    } finally {
      await database.query(`drop owned by ${role}; drop role ${role}`)
    }
  })

  test('a role with the least privileges is told the same, and what it may not read', async () => {
    await database.query(`
      create table accounts (id int primary key, name text, plan text);
      create table users (id int primary key, account_id int references accounts, email text, password_hash text);
      create table companies (id int primary key, account_id int references accounts, name text, website text, industry text);
      create table contacts (id int primary key, account_id int references accounts, company_id int references companies,
        owner_id int references users, full_name text, email text, job_title text);
      create table leads (id int primary key, email text, company text, title text);
      create table seniorities (slug text primary key, label text);
      create table prospects (id int primary key, email text, title text, seniority text references seniorities);
      create table consents (contact_id int references contacts, state text);
      create table email_suppressions (email text);
      insert into accounts select n, 'Tenant ' || n from generate_series(1, 3) n;
      insert into companies select n, 1 + n % 3, 'C ' || n, 'c' || n || '.example' from generate_series(1, 40) n;
      insert into contacts select n, 1 + n % 3, n, null, 'N ' || n, case when n % 3 = 0 then 'c' || n || '@c.example' end
        from generate_series(1, 40) n`)
    const role = `clerk_${database.url.slice(-12)}`
    await database.query(
      `create role ${role}; grant select, update on contacts, companies, prospects to ${role}`,
    )
    try {
      const [all, least] = [await proposeForTables(database.db, []), await proposeAs(role)]
      const told = (proposal: Proposal, name: string): unknown => {
        const { inputs, joins, outputs } = sourceOf(proposal, name)
        return { inputs, joins, outputs }
      }
      for (const name of ['contacts', 'companies']) expect(told(least, name)).toEqual(told(all, name))
      // The tenant is not the employer, whether its table may be read or not.
      expect(inputsOf(sourceOf(least, 'contacts'))['company']).toBe('a.name')
      expect(sourceOf(least, 'contacts').joins).toContain('companies a')
      expect(least.unread.map(({ table, why }) => `${table}: ${why?.split(':')[0]}`).toSorted()).toEqual([
        'public.accounts: the tenants that the rows of contacts belong to, by account_id',
        'public.consents: it may say who must not be contacted',
        'public.email_suppressions: it may say who must not be contacted',
        'public.seniorities: it lists the values of seniority',
      ])
      // `--json` has them as they are.
      expect(least.skippedTables).toEqual([
        { table: 'public.leads', reason: expect.stringContaining('it may hold people or companies') },
      ])
    } finally {
      await database.query(`drop owned by ${role}; drop role ${role}`)
    }
  })

  test('of the same name are chosen by their values', async () => {
    const proposal = await proposeFor(`
      create table contacts (id int primary key, email text, email_address text, title text, job_title text, website text);
      insert into contacts select n, 'see notes', 'c' || n || '@c.example', 'Mr', null, null from generate_series(1, 9) n`)
    const contacts = sourceOf(proposal, 'contacts')
    expect(inputsOf(contacts)).toEqual({ email: 't.email_address' })
    expect(outputsOf(contacts)).toEqual({ job_title: 'title' })
  })
})

test('the employer is a row of the only customers, whatever the key is called', async () => {
  const proposal = await proposeFor(`
    create table customer (id bigint primary key, firma text, url text, industry text);
    create table contact (id bigint primary key, first_name text, last_name text, title text, company bigint);
    insert into customer select 900 + n, 'C' || n, 'c' || n || '.example', null from generate_series(1, 20) n;
    insert into contact select n, 'F' || n, 'L' || n, null, 900 + n from generate_series(1, 20) n`)
  expect(sourceOf(proposal, 'contact')).toMatchObject({ joins: 'left join customer a on a.id = t.company' })
  expect(inputsOf(sourceOf(proposal, 'contact'))['company']).toBe('a.firma')
})

test('whom users invite is not their employer', async () => {
  const proposal = await proposeFor(`
    create table companies (id int primary key, name text, website text, industry text);
    create table contacts (id int primary key, email text, first_name text, last_name text, title text);
    create table a_invitations (id int primary key, contact_id int references contacts, company_id int references companies);
    create table memberships (id int primary key, contact_id int references contacts, company_id int references companies);
    insert into companies select n, 'C' || n, 'c' || n || '.example', null from generate_series(1, 20) n;
    insert into contacts select n, 'p' || n || '@c.example', 'F' || n, 'L' || n, null from generate_series(1, 20) n`)
  expect(inputsOf(sourceOf(proposal, 'contacts'))['company']).toContain('from memberships l')
})

test('a table whose name does not say what its rows are is a question beside a larger one', async () => {
  const columns = 'id int primary key, email text, last_name text, phone text, title text'
  const { sources, possible } = await proposeFor(`
    create table contacts (${columns});
    create table underwriters (${columns});
    insert into contacts select n, 'c' || n || '@c.example', 'L' || n, '+1 555 0100', null from generate_series(1, 60) n;
    insert into underwriters select n, 'u' || n || '@u.example', 'L' || n, '+1 555 0100', null from generate_series(1, 30) n`)
  expect(sources.map(({ table }) => table)).toEqual(['contacts'])
  expect(possible).toMatchObject([
    { source: { table: 'underwriters' }, reason: expect.stringContaining('does not say') as string },
  ])
})

test('a lead is a person, whether a business or a private one', async () => {
  const proposal = await proposeFor(`
    create table lead (id int primary key, is_business boolean not null, company_name text, contact_name text, email text, phone text, website text);
    insert into lead select n, n % 10 <> 0, 'C' || n, 'P ' || n, 'c' || n || '@c.example', null, null from generate_series(1, 40) n`)
  expect(inputsOf(sourceOf(proposal, 'lead'))).toMatchObject({ email: 't.email', company: 't.company_name' })
  expect(sourceOf(proposal, 'lead').questions).toMatchObject([{ when: 'is_business is not set', leftOut: 4 }])
})

test('guests are a question, and a publication that may be meant is an employer', async () => {
  const { sources, possible } = await proposeFor(`
    create table outlets (id int primary key, name text, website text, country text);
    create table clients (id int primary key, name text, website text, industry text);
    create table journalists (id int primary key, first_name text, last_name text, email text, phone text, title text, outlet_id int references outlets);
    create table guests (id int primary key, first_name text, last_name text, email text, phone text);
    insert into outlets select n, 'O' || n, 'o' || n || '.example', null from generate_series(1, 20) n;
    insert into clients select n, 'C' || n, 'c' || n || '.example', null from generate_series(1, 30) n;
    insert into journalists select n, 'F' || n, 'L' || n, 'p' || n || '@o.example', null, null, n from generate_series(1, 20) n;
    insert into guests select n, 'F' || n, 'L' || n, 'g' || n || '@g.example', null from generate_series(1, 20) n`)
  expect(sources.map(({ table }) => table)).toEqual(['journalists', 'clients'])
  expect(possible.map(({ source }) => source.table).toSorted()).toEqual(['guests', 'outlets'])
  expect(sources[0]?.joins).toContain('left join outlets a on a.id = t.outlet_id')
})

test('a Dutch name has its infix', async () => {
  const proposal = await proposeFor(`
    create table contactpersonen (id int primary key, voornaam text, tussenvoegsel text, achternaam text, email text, bedrijfsnaam text, functie text);
    insert into contactpersonen select n, 'V' || n, 'van', 'A' || n, 'c' || n || '@c.example', 'B' || n, null from generate_series(1, 20) n`)
  expect(inputsOf(sourceOf(proposal, 'contactpersonen'))['name']).toBe(
    "concat_ws(' ', t.voornaam, t.tussenvoegsel, t.achternaam)",
  )
})

test('a table of addresses of which nothing else is told is a question', async () => {
  const { sources, possible } = await proposeFor(`
    create table vk7 (id int primary key, email text, title text);
    insert into vk7 select n, 'c' || n || '@c.example', null from generate_series(1, 60) n`)
  expect(sources).toEqual([])
  expect(possible).toMatchObject([
    { source: { table: 'vk7', kind: 'person' }, reason: 'its rows have addresses, and nothing says whose' },
  ])
})

describe('skipped tables and the reasons', () => {
  const misses: Record<string, [sql: string, why: string]> = {
    'a view': [
      'create table base (id int); create view contacts as select 1 as id, null::text as email, null::text as title',
      'a view',
    ],
    'a table without a key': [
      'create table contacts (email text, title text)',
      'no primary key and no unique index',
    ],
    'a copy of the past': [
      'create table contacts_backup (id int primary key, first_name text, last_name text, email text, title text, company_name text)',
      "'backup'",
    ],
    'the users of an application': [
      'create table members (id int primary key, email text, name text, title text, password_hash text)',
      'sign in to your software',
    ],
    'your own staff': [
      'create table employees (id int primary key, first_name text, last_name text, email text, job_title text, department text)',
      'your own staff, or sign in',
    ],
    'no identifier': [
      'create table contacts (id int primary key, first_name text, last_name text, title text)',
      'nothing identifies its rows',
    ],
    'no usable identifier': [
      `create table contacts (id int primary key, email text, title text); insert into contacts select n, null from generate_series(1, 9) n`,
      'none of 9 sampled rows has a usable email',
    ],
    'nothing to fill': [
      'create table subscribers (id int primary key, email text, name text, first_name text, last_name text)',
      'no column to fill',
    ],
  }
  test.each(Object.entries(misses))('%s', async (_, [sql, why]) => {
    const proposal = await proposeFor(sql)
    expect(proposal.sources).toEqual([])
    expect([...proposal.skippedTables, ...proposal.possible]).toEqual([
      expect.objectContaining({ reason: expect.stringContaining(why) }),
    ])
  })

  test('weak evidence gives no proposal', async () => {
    const { sources, skippedTables } = await proposeFor(`
      create table orders (id int primary key, email text, phone text, city text, state text, country text, title text);
      create table events (id int primary key, email text, name text, title text, department text);
      create table products (id int primary key, name text, title text, url text, industry text);
      insert into orders select n, 'o' || n || '@o.example', null, null, 'paid', null, 'Order' from generate_series(1, 20) n`)
    expect(sources).toEqual([])
    expect(skippedTables.length).toBeLessThan(3)
  })

  test('a named table gets the most likely kind', async () => {
    const { sources } = await proposeFor(
      `create table attendance (id int primary key, email text, department text)`,
      ['attendance'],
    )
    expect(sources).toMatchObject([{ name: 'attendance', kind: 'person' }])
  })
})

test('a table is found by its name as it is spelled, without quotes', async () => {
  await database.query('create table "Contact" (id int primary key, email text, title text)')
  for (const name of ['Contact', 'public.Contact', '"Contact"']) {
    const { sources } = await proposeForTables(database.db, [name], () => {})
    expect(sources).toMatchObject([{ name: 'Contact', table: '"Contact"' }])
  }
})

test('of 300 tables, people, companies and what has to do with them are read, and no row of more than 200', async () => {
  await database.query(`
    create table z_accounts (id int primary key, name text, website text, industry text);
    create table z_contacts (id int primary key, z_account_id int, first_name text, last_name text, title text);
    create table z_emails (id int primary key, z_contact_id int, email text);
    create table z_unsubscribed (id int primary key, z_contact_id int);
    insert into z_accounts select n, 'Acme ' || n, 'acme' || n || '.example', null from generate_series(1, 20) n;
    insert into z_contacts select n, n % 20 + 1, 'Ann', 'Bee', null from generate_series(1, 40) n;
    insert into z_emails select n, n, 'ann' || n || '@acme.example' from generate_series(1, 40) n;
    insert into z_unsubscribed select n, n from generate_series(1, 5) n;
    do $$ begin
      for n in 1..296 loop
        execute format('create table ledger_%s (id int primary key, amount int, booked_on date, note text)', n);
      end loop;
    end $$`)
  const chosen: string[] = []
  database.statements()
  const proposal = await proposeForTables(database.db, [], ({ name }) => chosen.push(name))
  const statements = database.statements()
  expect(chosen).toHaveLength(200)
  const read = new Set(statements.flatMap((sql) => sql.match(/\bledger_\d+/g) ?? []))
  expect([...read].toSorted()).toEqual(chosen.filter((name) => name.startsWith('ledger_')).toSorted())
  expect(proposal.examined.tables).toBe(300)
  expect(inputsOf(sourceOf(proposal, 'z_accounts'))).toEqual({ domain: 't.website' })
  const contacts = sourceOf(proposal, 'z_contacts')
  expect(inputsOf(contacts)).toMatchObject({
    email: expect.stringContaining('from z_emails e where e.z_contact_id = t.id'),
    company: 'a.name',
  })
  expect(takeSure(contacts).where).toContain('from z_unsubscribed ')
})

test('an empty database has nothing', async () => {
  expect(await proposeFor('select 1')).toEqual({
    sources: [],
    possible: [],
    skippedTables: [],
    unread: [],
    role: 'postgres',
    explained: [],
    examined: { tables: 0, schemas: [] },
  })
})

test('a large table is sampled throughout, and repeatably', async () => {
  const sql = `
    create table contacts (id int primary key, email text, title text, tenant_id int);
    insert into contacts select n, case when n > 25000 then 'c' || n || '@c.example' end, null, n % 3 from generate_series(1, 50000) n;
    analyze contacts`
  const first = await proposeFor(sql)
  const { sample, questions, where } = sourceOf(first, 'contacts')
  expect(sample.rows).toBeGreaterThan(100)
  expect(sample.identifiedBy['email']).toBeGreaterThan(20)
  expect(where).toBeNull()
  expect(questions).toMatchObject([
    { about: 'tenant_id', keep: expect.stringMatching(/^t\.tenant_id = [012]$/), isLeftOut: false },
  ])
  expect(await proposeFor('select 1')).toEqual(first)
})

test('sources of schemas with the same tables are named after the schema', async () => {
  await database.query(`
    do $$ declare tenant text; begin
      foreach tenant in array array['acme', 'globex'] loop
        execute format('create schema %1$I
          create table contacts (id int primary key, email text, full_name text, job_title text)', tenant);
        execute format('insert into %1$I.contacts select n, ''c'' || n || ''@acme.example'', ''Ann Bee'' from generate_series(1, 20) n', tenant);
      end loop;
    end $$`)
  const { sources } = await proposeForTables(database.db, [], () => {})
  expect(sources.map(({ name }) => name)).toEqual(['acme_contacts', 'globex_contacts'])
})
