import type pg from 'pg'

// What the user of a released version has: the tables and the configuration. Both belong to the dumps, so a change here
// requires that all dumps are made again (scripts/release-dumps.ts).

/** Valid in every version since 1.0.0, as docs/versions.md promises. */
export const RELEASED_CONFIG = {
  sources: {
    contacts: {
      kind: 'person',
      table: 'crm.contacts',
      inputs: { email: 't.email', linkedin_url: 't.linkedin' },
      cascade: true,
      follow: true,
      outputs: {
        title: 'title',
        phone: 'phone',
        seniority: 'seniority',
        company: { field: 'company.name', policy: 'tracked' },
        'attributes.department': 'department',
      },
      touch: { enriched_at: 'now()' },
    },
    accounts: {
      kind: 'company',
      table: 'crm.accounts',
      inputs: { domain: 't.website' },
      changedAt: 't.updated_at',
      outputs: { industry: 'industry', employees: 'employee_count' },
    },
  },
  service: { concurrency: 16 },
  budget: 'unlimited',
} as const

/** Creates the tables. `seniority` is too short for some values, every seventh title was typed, every third person has a profile. */
export async function createReleasedCrm(pool: pg.Pool, contacts: number, accounts: number): Promise<void> {
  await pool.query(`
    create schema crm;
    create table crm.accounts (
      id int primary key, website text, industry text, employees int, updated_at timestamptz not null default now());
    create table crm.contacts (
      id int primary key, email text, linkedin text, title text, phone text, seniority varchar(7), company text,
      attributes jsonb not null default '{"team": "sales"}', enriched_at timestamptz);
    create schema service;
    create table service.asked (input text primary key, tried int, single int, bulk int, unanswered int);`)
  await insertAccounts(pool, 1, accounts)
  await insertContacts(pool, 1, contacts)
}

/** In one statement, so that live sync takes more than 100 for an import. */
export const insertContacts = (pool: pg.Pool, first: number, last: number): Promise<unknown> =>
  pool.query(
    `insert into crm.contacts (id, email, linkedin, title)
     select n, case when n % 10 = 0 then 'Person' || n - 1 || '@Example.com' else 'person' || n || '@example.com' end,
            case when n % 3 = 0 then 'https://www.linkedin.com/in/person-' || n end, case when n % 7 = 0 then 'typed by hand' end
       from generate_series($1::int, $2::int) n`,
    [first, last],
  )

const insertAccounts = (pool: pg.Pool, first: number, last: number): Promise<unknown> =>
  pool.query(
    `insert into crm.accounts (id, website)
     select n, 'https://www.company' || n || '.example/about' from generate_series($1::int, $2::int) n`,
    [first, last],
  )
