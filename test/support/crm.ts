import type pg from 'pg'
import type { TestDatabase } from './clone.ts'

/** Creates a small CRM with predictable counts: every 10th row shares the address of the row before it. */
export async function createCrm(pool: pg.Pool, people: number, companies = 0): Promise<void> {
  await pool.query(`
    create schema crm;
    create table crm.accounts (
      id bigint generated always as identity primary key, website text, industry text, employees integer
    );
    create table crm.contacts (
      id bigint generated always as identity primary key,
      email text, first_name text, last_name text, linkedin text,
      title text, phone text, seniority text, company text, enriched_at timestamptz
    );`)
  await pool.query(
    `insert into crm.contacts (email, first_name, last_name, title)
     select case when n % 10 = 0 then 'Person' || (n - 1) || '@Example.com' else 'person' || n || '@example.com' end,
            'Ada', 'Nr ' || n, case when n % 7 = 0 then 'typed by hand' end
       from generate_series(1, $1::int) n`,
    [people],
  )
  await pool.query(
    `insert into crm.accounts (website)
     select 'https://www.company' || n || '.example/about' from generate_series(1, $1::int) n`,
    [companies],
  )
}

/** A source of people who are looked up by their email. */
export const personSource = <const Outputs extends object, const More extends object>(
  table: string,
  outputs: Outputs,
  more?: More,
) => ({ kind: 'person', table, inputs: { email: 't.email' }, outputs, ...(more as More) }) as const

type Policy = 'blank' | 'tracked' | 'always'

/** Sources of people of whom one service knows titles, and the next one phones. @param when in which rows the next one is called */
export const twoStepSources = (ofAcme: Policy, ofBeta: Policy, when: 'blank' | 'miss' = 'blank') => ({
  people: personSource(
    'people',
    {
      title: { acme: { field: 'title', policy: ofAcme } },
      seniority: { acme: { field: 'seniority', policy: ofAcme } },
      phone: { beta: { field: 'phone', policy: ofBeta } },
    },
    { services: ['acme', { name: 'beta', when }] },
  ),
})

/** A user's configuration for this CRM. */
export const crmConfig = {
  sources: {
    contacts: {
      kind: 'person',
      table: 'crm.contacts',
      inputs: { email: 't.email' },
      outputs: { title: 'title', phone: 'phone', seniority: 'seniority', company: 'company.name' },
      touch: { enriched_at: 'now()' },
    },
  },
  budget: 'unlimited',
} as const

export const withAccounts = {
  ...crmConfig,
  sources: {
    ...crmConfig.sources,
    accounts: {
      kind: 'company',
      table: 'crm.accounts',
      inputs: { domain: 't.website' },
      outputs: { industry: 'industry', employees: 'employee_count' },
    },
  },
} as const

/** The same with changes to its source. */
export const withContacts = (changes: object): object => ({
  ...crmConfig,
  sources: { contacts: { ...crmConfig.sources.contacts, ...changes } },
})

/** How many of its rows have which state. */
export async function countStates({ query }: Pick<TestDatabase, 'query'>): Promise<Record<string, number>> {
  const rows = await query<{ state: string; count: number }>(
    `select state, count(*)::int as count from fillrate.rows where source = 'contacts' group by state`,
  )
  return Object.fromEntries(rows.map(({ state, count }) => [state, count]))
}

/** Counts the distinct addresses of incomplete rows with plain SQL. */
export async function distinctEmails(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    `select count(distinct lower(trim(email)))::int as count from crm.contacts
      where title is null or phone is null or seniority is null or company is null`,
  )
  return rows[0]?.count ?? 0
}

/** A checksum of all typed values. */
export async function typedCells(pool: pg.Pool): Promise<string> {
  const { rows } = await pool.query<{ sum: string }>(
    `select md5(string_agg(id || ':' || title, ',' order by id)) as sum from crm.contacts where id % 7 = 0`,
  )
  return rows[0]?.sum ?? ''
}

/** Creates a table of so many people, whose addresses alone are known. @param columns beside their title */
export const withPeople =
  (count: number, columns = '') =>
  async ({ pool }: Pick<TestDatabase, 'pool'>): Promise<void> => {
    await pool.query(`
      create table people (id int primary key, email text, title text ${columns && `, ${columns}`});
      insert into people select n, 'p' || n || '@example.com' from generate_series(1, ${count}) n`)
  }
