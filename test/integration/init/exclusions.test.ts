import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { ProposedSource } from '../../../src/init/proposal.ts'
import { proposeForTables } from '../../../src/init/propose.ts'
import { verifyProposedSource } from '../../../src/init/verify.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { readKeys, takeSure } from './source-keys.ts'

let database: TestDatabase
beforeEach(async () => {
  database = await createTestDatabase()
})
afterEach(() => database.drop())

/** The source of a table, and the keys of the rows that it reads. */
async function propose(sql: string, table: string): Promise<{ source: ProposedSource; keys: number[] }> {
  await database.query(sql)
  const { sources, possible } = await proposeForTables(database.db, [])
  const source = [...sources, ...possible.map((one) => one.source)].find((one) => one.table === table)
  if (!source) throw new Error(`no source of ${table}`)
  expect(await verifyProposedSource(database.db, source)).toMatchObject({ source: { name: source.name } })
  const settled = takeSure(source)
  return { source: settled, keys: await readKeys(database, settled) }
}

const contacts = (columns: string, flag: string): string => `
  create table contacts (id int primary key, email text, title text, ${columns});
  insert into contacts select n, 'c' || n || '@c.example', null, ${flag} from generate_series(1, 20) n`

describe('rows that are left out', () => {
  test.each([
    ['do_not_call boolean not null', 'n = 1'],
    ['"doNotContact" boolean', 'n = 1'],
    ['donotcall varchar(3)', "case when n = 1 then '1' else '0' end"],
    ['email_opt_out smallint', 'case when n = 1 then 1 end'],
    ['has_opted_out_of_email boolean', 'n = 1'],
    ['unsubscribed_at timestamptz', 'case when n = 1 then now() end'],
    ['blocked boolean default false', 'n = 1'],
    ['is_test boolean', 'n = 1'],
    ['anonymised_at timestamp', 'case when n = 1 then now() end'],
    ['is_active char(1)', "case when n = 1 then 'N' else 'Y' end"],
    ['enabled int not null', '(n <> 1)::int'],
    ['status text', "case when n = 1 then 'Do Not Contact' when n % 2 = 0 then 'New' else 'Open' end"],
    ['is_staff boolean', 'n = 1'],
    ['is_admin_hidden int', '(n = 1)::int'],
    ['left_company int not null', '(n = 1)::int'],
    ['priv smallint not null', '(n = 1)::int'],
    ['status text', "case when n = 1 then 'blocklisted' else 'enabled' end"],
    ['opted_in boolean', 'n <> 1'],
    ['hasoptedoutofemail boolean', 'n = 1'],
    ['werbesperre boolean', 'n = 1'],
    ['"gelöscht_am" date', 'case when n = 1 then current_date end'],
    ['rgpd_oppose char(1)', "case when n = 1 then 'O' else 'N' end"],
    ['merged_into_id int', 'case when n = 1 then 2 end'],
    ['duplicate_of_c text', "case when n = 1 then '003A0000001' end"],
    ['no_contactar boolean', 'n = 1'],
    ['privatperson boolean', 'n = 1'],
    ['actif boolean', 'n <> 1'],
    ['isconverted boolean', 'n = 1'],
    ['unsubscribed_on text', "case when n = 1 then '2024-01-01' when n % 2 = 0 then ' ' else '' end"],
    ['gdpr_erasure_requested_at timestamptz', 'case when n = 1 then now() end'],
  ])('%s', async (column, flag) => {
    const { keys } = await propose(contacts(column, flag), 'contacts')
    expect(keys).toEqual(Array.from({ length: 19 }, (_, n) => n + 2))
  })

  test.each([
    ['no_of_calls int', 'n % 2', 'no_of_calls is not set'],
    ['phone_no text', "'+47 900 00 ' || n"],
    ['lead_status text', "case when n % 2 = 0 then 'Dead' else 'New' end", 'lead_status is Dead'],
    ['lead_status text', "case when n % 2 = 0 then 'No contact' else 'New' end", 'lead_status is No contact'],
    ['vip boolean', 'n = 1'],
    ['kind text', "case when n < 5 then 'candidate' else 'customer' end", 'kind is candidate'],
    ['is_company_admin boolean', 'n = 1', 'is_company_admin is set'],
    ['email_invalido char(1)', "case when n < 5 then 'S' else 'N' end", 'email_invalido is set'],
    ['stage text', "case when n < 5 then 'Demo' else 'New' end", 'stage is Demo'],
    ['days_left int', '(n = 1)::int', 'days_left is set'],
  ])('but not by %s', async (column, flag, asked = '') => {
    const { keys, source } = await propose(contacts(column, flag), 'contacts')
    expect(keys).toHaveLength(20)
    expect(source.questions.map(({ when }) => when).join()).toBe(asked)
  })

  test('on a list of people not to contact, by key or by address', async () => {
    const { keys } = await propose(
      `${contacts('x int', 'n')};
       create table contact_donotcontact (id serial primary key, contact_id int references contacts, channel text);
       insert into contact_donotcontact (contact_id) values (1);
       create table mail_blacklist (id serial primary key, email text, active boolean);
       insert into mail_blacklist (email, active) values ('C2@c.example', true), ('c3@c.example', false)`,
      'contacts',
    )
    expect(keys).toEqual(Array.from({ length: 18 }, (_, n) => n + 3))
  })

  test('on a list, whenever they were put there; a company by its site is asked about', async () => {
    const sql = `${contacts('x int', 'n')};
      create table companies (id int primary key, name text, website text, industry text);
      insert into companies select n, 'C' || n, 'https://www.c' || n || '.example/about', null from generate_series(1, 20) n;
      create table blocked_emails (id serial primary key, email text, domain text, blocked_at timestamptz, lifted_at timestamptz);
      insert into blocked_emails (email, domain, blocked_at, lifted_at) values ('c1@c.example', null, now(), null),
        ('c2@c.example', null, now(), now()), (null, 'c3.example', now(), null), (null, 'c4.example', now(), now())`
    expect((await propose(sql, 'contacts')).keys).toEqual(Array.from({ length: 19 }, (_, n) => n + 2))
    const { source, keys } = await propose('', 'companies')
    expect(keys).toHaveLength(20)
    expect(source.questions).toMatchObject([
      { when: 'it is listed in blocked_emails', leftOut: 1, isLeftOut: true },
    ])
  })

  test('by what a mirror without keys says of the company, and by a list of hosts alone', async () => {
    const { keys } = await propose(
      `${contacts('company_id text', "'k' || n")};
       create table companies (id text, name text, website text, status text, do_not_prospect boolean);
       insert into companies select 'k' || n, 'C' || n, 'c' || n || '.example', 'Customer', n = 1 from generate_series(1, 20) n;
       update contacts set email = 'p' || id || '@h' || id || '.example';
       create table dnc_domains (id serial primary key, domain text, created_at timestamptz);
       insert into dnc_domains (domain) values ('h2.example')`,
      'contacts',
    )
    expect(keys).toEqual(Array.from({ length: 18 }, (_, n) => n + 3))
  })

  test('who refuse one purpose of several, or want to be erased: each is a question', async () => {
    const { source, keys } = await propose(
      `${contacts('x int', 'n')};
       create table toestemmingen (id serial primary key, contact_id int references contacts, doel text, gegeven boolean);
       insert into toestemmingen (contact_id, doel, gegeven) select n, doel, n <> case doel when 'mail' then 1 else 2 end
         from generate_series(1, 20) n, unnest(array['mail', 'phone']) doel;
       create table datarequests (id serial primary key, contact_id int references contacts, kind text);
       insert into datarequests (contact_id, kind) select n, case when n > 16 then 'erasure' else 'access' end from generate_series(11, 20) n`,
      'contacts',
    )
    expect(source.questions).toMatchObject([
      { when: 'it is listed in toestemmingen for mail', leftOut: 1, isLeftOut: true },
      { when: 'it is listed in toestemmingen for phone', leftOut: 1, isLeftOut: true },
    ])
    expect(keys).toEqual(Array.from({ length: 16 }, (_, n) => n + 1))
  })

  test('whose company is gone: a question; whose company has a site on a list: no question', async () => {
    const { source, keys } = await propose(
      `${contacts('company_id int, company_website text', "n, 'https://h' || n || '.example'")};
       create table companies (id int primary key, name text, website text, industry text, discarded_at date);
       insert into companies select n, 'C' || n, 'c' || n || '.example', null, case when n = 1 then current_date end
         from generate_series(1, 20) n;
       create table blocked_domains (id serial primary key, domain text);
       insert into blocked_domains (domain) values ('h2.example')`,
      'contacts',
    )
    expect(source.questions).toMatchObject([
      { when: 'companies: discarded_at is set', leftOut: 1, isLeftOut: true },
    ])
    expect(keys).toEqual([1, ...Array.from({ length: 18 }, (_, n) => n + 3)])
  })

  test('on a list of their own tenant or of all, by its key or not; a list of hosts is a question', async () => {
    const { source, keys } = await propose(
      `${contacts('client_id int', '1 + n % 2')};
       update contacts set email = 'p' || id || '@h' || id || '.example';
       create table clients (id int primary key, name text);
       insert into clients values (1, 'One'), (2, 'Two');
       create table suppressions (suppression_id serial primary key, email text, client_id int);
       insert into suppressions (email, client_id) values ('p1@h1.example', null), ('p2@h2.example', 1), ('p3@h3.example', 1);
       create table deals (id int primary key, client_id int);
       create table competitor_domains (domain text);
       insert into competitor_domains values ('h4.example')`,
      'contacts',
    )
    expect(keys).toEqual(Array.from({ length: 17 }, (_, n) => n + 4).toSpliced(0, 0, 3))
    expect(source.questions.map(({ when }) => when)).toContain('it is listed in competitor_domains')
  })

  test('by what a link leads to, whatever the list is called', async () => {
    const { keys } = await propose(
      `${contacts('x int', 'n')};
       create table kenmerken (id int primary key, naam text);
       insert into kenmerken values (1, 'Niet benaderen'), (2, 'Relatiegeschenk');
       create table contact_kenmerken (contact_id int references contacts, kenmerk_id int references kenmerken,
         primary key (contact_id, kenmerk_id));
       insert into contact_kenmerken select n, 1 + n % 2 from generate_series(1, 20) n`,
      'contacts',
    )
    expect(keys).toEqual(Array.from({ length: 10 }, (_, n) => 2 * n + 1))
  })

  test('on a list until a day to come, and not once it is past', async () => {
    const { keys } = await propose(
      `${contacts('x int', 'n')};
       create table suppressions (id serial primary key, email text, valid_until timestamptz);
       insert into suppressions (email, valid_until) values ('c1@c.example', null),
         ('c2@c.example', now() + interval '1 year'), ('c3@c.example', now() - interval '1 year')`,
      'contacts',
    )
    expect(keys).toEqual(Array.from({ length: 18 }, (_, n) => n + 3))
  })

  test('who have unsubscribed from a list', async () => {
    const { keys } = await propose(
      `${contacts('x int', 'n')};
       create table contact_lists (contact_id int references contacts, list_id int, status text, primary key (contact_id, list_id));
       insert into contact_lists select n, l, case when n = 1 and l = 2 then 'unsubscribed' else 'confirmed' end
         from generate_series(1, 20) n, generate_series(1, 2) l`,
      'contacts',
    )
    expect(keys).toEqual(Array.from({ length: 19 }, (_, n) => n + 2))
  })

  test('of a deleted parent with the same key; other tenants are asked about', async () => {
    const { source, keys } = await propose(
      `create table accounts (id int primary key, name text);
       insert into accounts values (1, 'One'), (2, 'Two');
       create table users (id int primary key, email text, password_hash text, account_id int references accounts);
       create table entities (id int primary key, deleted int not null);
       insert into entities select n, (n = 5)::int from generate_series(1, 40) n;
       create table contacts (id int primary key references entities, account_id int references accounts, name text,
         email text, title text);
       insert into contacts select n, 1 + (n > 30)::int, 'N', 'c' || n || '@c.example' from generate_series(1, 40) n`,
      'contacts',
    )
    expect(keys).toEqual(Array.from({ length: 40 }, (_, n) => n + 1).filter((n) => n !== 5))
    expect(source.questions).toMatchObject([
      {
        about: 'account_id',
        when: 'rows of another account than the largest: do you mean only the rows of that one (account_id = 1), or of all?',
        keep: 't.account_id = 1',
      },
    ])
    expect(source.joins).toBeNull()
    expect(source.inputs.map(({ input }) => input)).not.toContain('company')
  })

  test('of staff, among users who are customers', async () => {
    const { keys } = await propose(
      `create table organizations (id int primary key, name text, website text);
       insert into organizations select n, 'O ' || n, 'o' || n || '.example' from generate_series(1, 20) n;
       create table users (id int primary key, organization_id int references organizations, email text, first_name text, last_name text, phone text, password text);
       create table roles (id int primary key, name text);
       insert into roles values (1, 'Admin'), (2, 'Agent'), (3, 'Customer');
       create table users_roles (user_id int references users, role_id int references roles);
       insert into users select n, 1 + n % 20, 'u' || n || '@u.example', 'F', 'L' from generate_series(1, 30) n;
       insert into users_roles select n, case when n < 3 then n else 3 end from generate_series(1, 30) n`,
      'users',
    )
    expect(keys).toEqual(Array.from({ length: 28 }, (_, n) => n + 3))
  })
})

test('addresses of companies in a table of their own, which may be those of deliveries, are no source', async () => {
  await propose(
    `create table companies (id int primary key, name text, website text, industry text);
     insert into companies select n, 'N ' || n, 'n' || n || '.example', null from generate_series(1, 40) n;
     create table company_addresses (id int primary key, company_id int references companies, city text, country text);
     insert into company_addresses select n, n, null, null from generate_series(1, 40) n`,
    'companies',
  )
  await expect(propose('select', 'company_addresses')).rejects.toThrow('no source')
})

test('codes of a list that no key leads to are not filled', async () => {
  const { source } = await propose(
    `create table codes (list varchar(12), code varchar(6), meaning text, primary key (list, code));
     insert into codes values ('SECTOR', 'A', 'Banking'), ('SECTOR', 'B', 'Energy'), ('COUNTRY', 'A', 'Norwegen'), ('COUNTRY', 'B', 'Schweden');
     create table firms (id int primary key, name text, website text, sector_code varchar(6), country_code varchar(6), city text);
     insert into firms select n, 'F', 'f' || n || '.example', chr(65 + n % 2), chr(65 + n % 2), null from generate_series(1, 40) n`,
    'firms',
  )
  expect(source.outputs.map(({ column }) => column)).toEqual(['city'])
})

test('further columns in a table with the same key, known by their values', async () => {
  const { source } = await propose(
    `create table contacts (id int primary key, first_name text, last_name text, email text, company text, title text);
     insert into contacts select n, 'F', 'L', case when n % 40 > 0 then 'c' || n || '@c.example' end, 'C', null from generate_series(1, 80) n;
     create table contact_more (id int primary key references contacts, cf_1 text, cf_2 text);
     insert into contact_more select n, case when n % 3 = 0 then 'https://linkedin.com/in/p-' || n end, 'note' from generate_series(1, 80) n`,
    'contact_more',
  )
  expect(source.outputs).toMatchObject([{ column: 'cf_1', field: 'linkedin' }])
  expect(source.inputs.map(({ input }) => input).toSorted()).toEqual([
    'company',
    'email',
    'linkedin_url',
    'name',
  ])
})

test('contacts with a password for a portal are no staff', async () => {
  const { keys } = await propose(
    `create table users (id int primary key, email text, password text);
     insert into users values (1, 'me@ours.example', 'x');
     create table client_contacts (id int primary key, user_id int references users, first_name text, last_name text, email text,
       phone text, password text);
     insert into client_contacts select n, 1, 'F', 'L', 'c' || n || '@c.example' from generate_series(1, 20) n`,
    'client_contacts',
  )
  expect(keys).toHaveLength(20)
  const visitors = await propose(
    `create table besucher (id int primary key, vorname text, nachname text, email text, firma text, funktion text, password text);
     insert into besucher select n, 'F', 'L', 'b' || n || '@b.example', 'C' from generate_series(1, 20) n`,
    'besucher',
  )
  expect(visitors.keys).toHaveLength(20)
})

test('a table of sites and profiles without a type: each by its host', async () => {
  const { source } = await propose(
    `create table contacts (id int primary key, name text, email text, title text);
     insert into contacts select n, 'N', case when n % 2 = 0 then 'c' || n || '@c.example' end, null from generate_series(1, 40) n;
     create table websites (id int primary key, contact_id int references contacts, url text);
     insert into websites select n, n, 'https://c' || n || '.example' from generate_series(1, 40) n;
     insert into websites select 40 + n, n, 'https://www.linkedin.com/in/p-' || n from generate_series(1, 20) n`,
    'contacts',
  )
  expect(source.inputs.find(({ input }) => input === 'linkedin_url')?.sql).toContain(
    "e.url ~* 'linkedin[.]com/in/'",
  )
})

test('what is written in another form than the column holds is a comment, with the reason', async () => {
  const { source } = await propose(
    `create table companies (id int primary key, name text, website text, employees int, technologies text, country text,
       state text, founded_year int, enriched_at timestamptz);
     insert into companies select n, 'C', 'c' || n || '.example', (array[1, 10, 50])[1 + n % 3],
       e'---\\n- Go\\n- React\\n', 'Norge', 'TX', null from generate_series(1, 30) n`,
    'companies',
  )
  expect(source.freshness).toBe('enriched_at')
  expect(source.outputs.map(({ column }) => column)).toEqual(['founded_year', 'country'])
  expect(source.skippedColumns.map(({ column, reason }) => `${column} ${reason}`).sort()).toEqual([
    'employees holds few different numbers: codes, perhaps',
    'state holds abbreviations, the record has names',
    'technologies is a list in a text',
  ])
})

test('a private company is no private person, though its table is a mirror', async () => {
  await database.query(`
    create schema mirror;
    create table mirror.accounts (id int primary key, name text, domain text, company_type text, _fivetran_synced timestamptz);
    create table mirror.people (id int primary key, account_id int, email text, first_name text, last_name text, _fivetran_synced timestamptz);
    create table account_master (account_id int primary key, industry text);
    create table people_master (person_id int primary key, phone text);
    insert into mirror.accounts select n, 'A' || n, 'a' || n || '.example', case when n < 8 then 'Private' else 'Public' end, now() from generate_series(1, 20) n;
    insert into mirror.people select n, n, 'p' || n || '@a.example', 'F', 'L', now() from generate_series(1, 20) n;
    insert into account_master select n, null from generate_series(1, 20) n;
    insert into people_master select n, null from generate_series(1, 20) n`)
  const { sources } = await proposeForTables(database.db, [])
  const people = sources.find(({ table }) => table === 'people_master')
  expect(people?.questions.filter(({ isUnderstood }) => isUnderstood)).toEqual([])
  expect(people?.where).toBeNull()
})

test('whether an inactive customer is meant is a question; an inactive person is not', async () => {
  await database.query(`
    create table customers (id int primary key, name text, website text, industry text, status text);
    insert into customers select n, 'C' || n, 'c' || n || '.example', null, case when n < 5 then 'Inactive' else 'Active' end from generate_series(1, 20) n;
    create table contacts (id int primary key, email text, title text, status text);
    insert into contacts select n, 'p' || n || '@c.example', null, case when n < 5 then 'Inactive' else 'Active' end from generate_series(1, 20) n`)
  const { sources } = await proposeForTables(database.db, [])
  expect(sources.map(({ table, questions }) => [table, questions.map(({ isSure }) => isSure)])).toEqual([
    ['contacts', [true]],
    ['customers', [false]],
  ])
})

test('a flag is read in every spelling that an import has, also in those that no sampled row has', async () => {
  const { source, keys } = await propose(
    contacts(
      'do_not_contact text',
      "case n when 1 then 'TRUE' when 2 then ' yes' else (array['no', 'FALSE', ' '])[n % 3 + 1] end",
    ),
    'contacts',
  )
  expect(keys).toEqual(Array.from({ length: 18 }, (_, n) => n + 3))
  expect(source.where).toBe(
    `(lower(btrim(t.do_not_contact)) in ('true', 't', 'yes', 'y', '1', 'x')) is not true`,
  )
})

describe('lists', () => {
  test('have addresses as people type them', async () => {
    const { keys } = await propose(
      `${contacts('x int', 'null')};
       create table email_suppressions (id int primary key, email text);
       insert into email_suppressions select n, ' C' || n || '@c.example ' from generate_series(1, 2) n`,
      'contacts',
    )
    expect(keys).toEqual(Array.from({ length: 18 }, (_, n) => n + 3))
  })

  test('say by their name what is said of their rows', async () => {
    await database.query(`${contacts('x int', 'null')};
      create table contacts_duplicate_of_lnk (id int primary key, contact_id int references contacts, inv_contact_id int references contacts);
      insert into contacts_duplicate_of_lnk values (1, 1, 3), (2, 2, 4)`)
    const { sources } = await proposeForTables(database.db, [])
    expect(sources[0]?.questions).toMatchObject([
      { when: 'it is listed in contacts_duplicate_of_lnk', leftOut: 2, isLeftOut: true, isUnderstood: true },
    ])
  })
})

test('of very many tables that may list its rows, 64 are counted, and an address elsewhere is found once a row', async () => {
  await database.query(`
    create table contacts (id int primary key, last_name text, title text, opted_out boolean);
    create table contact_emails (id int primary key, contact_id int references contacts, email text);
    insert into contacts select n, 'L' || n, null, n = 1 from generate_series(1, 20) n;
    insert into contact_emails select n, n, 'c' || n || '@c.example' from generate_series(1, 20) n;
    do $$ begin
      for n in 1..80 loop
        execute format('create table odd_%s (id int primary key, contact_id int references contacts, email text)', n);
        execute format('insert into odd_%s values (1, 2, ''c3@c.example'')', n);
      end loop;
    end $$`)
  database.statements()
  const { sources } = await proposeForTables(database.db, [])
  expect(sources[0]).toMatchObject({
    questions: { length: 16 },
    notes: expect.arrayContaining([expect.stringMatching(/Not looked at: \d+ more tables/)]) as string[],
  })
  expect(takeSure(sources[0]!).where).toContain('t.opted_out is not true')
  const measured = database.statements().filter((sql) => /as kept[\s\S]+contacts"? as t\b/.test(sql))
  expect(measured.map((sql) => sql.match(/from contact_emails/g)?.length)).toEqual([1])
})

describe('what is sure about rows', () => {
  const people = (more = ''): string => `
    create table contacts (id int primary key, email text, title text, opted_out boolean, phase text);
    insert into contacts select n, 'c' || n || '@c.example', null, n <= 2, case when n in (3, 4) then 'odd' else 'round' end
      from generate_series(1, 20) n; ${more}`

  test('is a choice after what is not, and no row of it counts for the others', async () => {
    await database.query(people("update contacts set phase = 'odd' where id = 1"))
    const { sources } = await proposeForTables(database.db, [])
    expect(sources).toMatchObject([
      {
        where: null,
        sample: { rows: 18 },
        questions: [
          { when: 'phase is odd', leftOut: 2, isLeftOut: true, isSure: false },
          { when: 'opted_out is set', leftOut: 2, isLeftOut: true, isSure: true },
        ],
      },
    ])
  })

  test('leaves its rows out, too, where it cannot be counted', async () => {
    await database.query(
      people(`create view email_blacklist as
        select n as id, case when 1 / (n - 5) = 0 then 'c' || n || '@c.example' end as email from generate_series(1, 9) n`),
    )
    const { sources } = await proposeForTables(database.db, [])
    expect(sources[0]?.where).toContain('email_blacklist')
  })
})
