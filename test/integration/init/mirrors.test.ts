import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Proposal } from '../../../src/init/proposal.ts'
import { proposeForTables } from '../../../src/init/propose.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { readKeys, takeSure } from './source-keys.ts'

let database: TestDatabase
beforeEach(async () => {
  database = await createTestDatabase()
})
afterEach(() => database.drop())

async function propose(sql: string): Promise<Proposal> {
  await database.query(sql)
  return proposeForTables(database.db, [])
}

const from = (first: number): number[] => Array.from({ length: 21 - first }, (_, n) => first + n)

/** Rows of a mirror have no key: the next load would overwrite what is written to them. */
const MIRROR = `
  create schema crm_mirror;
  create table crm_mirror.persons (id int, email text, first_name text, last_name text, org_name text, job_title text, is_deleted boolean);
  insert into crm_mirror.persons select n, 'p' || n || '@x.example', 'F', 'L', 'C', null, n = 1 from generate_series(1, 20) n;`

test('a table beside a mirror is filled for the rows whose key it has', async () => {
  const { sources } = await propose(`${MIRROR}
    create table person_writeback (person_id int primary key, job_title text, phone text, enriched_at timestamptz);
    insert into person_writeback select n, null, null, null from generate_series(1, 20) n`)
  expect(sources).toMatchObject([
    {
      table: 'person_writeback',
      joins: 'join crm_mirror.persons o on o.id = t.person_id',
      outputs: [
        { column: 'job_title', field: 'title' },
        { column: 'phone', field: 'phone' },
      ],
      freshness: 'enriched_at',
    },
  ])
  expect(sources[0]?.inputs).toContainEqual({ input: 'email', sql: 'o.email' })
  const [source] = sources
  expect(source && (await readKeys(database, takeSure(source), 'person_id'))).toEqual(from(2))
})

test('what a model with the same key says of a row counts, though no index says that it is one', async () => {
  const { sources } = await propose(`
    create table contacts (contact_key text primary key, id int, email text, title text);
    insert into contacts select md5(n::text), n, 'p' || n || '@x.example', null from generate_series(1, 20) n;
    create schema marts;
    create table marts.dim_contacts (contact_key text, is_deleted boolean, merged_into_contact_key text);
    insert into marts.dim_contacts select md5(n::text), n = 1, case when n = 2 then md5('3') end from generate_series(1, 20) n`)
  const [source] = sources
  expect(source && (await readKeys(database, takeSure(source)))).toEqual(from(3))
})

test('what is loaded into a raw schema is no source beside what is made of it', async () => {
  const columns = '(id int primary key, email text, first_name text, last_name text, title text)'
  const { sources, possible } = await propose(`
    create schema raw_hubspot;
    create table raw_hubspot.contact ${columns};
    create table contacts ${columns};
    insert into raw_hubspot.contact select n, 'p' || n || '@x.example', 'F', 'L' from generate_series(1, 20) n;
    insert into contacts select * from raw_hubspot.contact`)
  expect(sources.map(({ table }) => table)).toEqual(['contacts'])
  expect(possible).toMatchObject([{ source: { table: 'raw_hubspot.contact' } }])
  await database.query('drop table contacts')
  const { sources: alone } = await proposeForTables(database.db, [])
  expect(alone.map(({ table }) => table)).toEqual(['raw_hubspot.contact'])
})

test('what a connector loads is not written where your own columns are beside it, though it has keys', async () => {
  const { sources } = await propose(`
    create schema copper;
    create table copper.people (id int primary key, first_name text, last_name text, title text, company_name text, _fivetran_synced timestamptz);
    create table copper.people_email (index int, people_id int, email text, _fivetran_synced timestamptz, primary key (index, people_id));
    create table copper.people_social (index int, people_id int, url text, category text, _fivetran_synced timestamptz, primary key (index, people_id));
    create table copper.company (id int primary key, name text, email_domain text, industry text, _fivetran_synced timestamptz);
    create table person_profile (people_id int primary key, title text, linkedin_url text);
    create table account_profile (company_id int primary key, industry text, linkedin_url text);
    insert into copper.people select n, 'F' || n, 'L' || n, null, 'C' || n, now() from generate_series(1, 40) n;
    insert into copper.people_email select 1, n, 'p' || n || '@c.example', now() from generate_series(1, 40) n;
    insert into copper.people_social select 1, n, 'https://www.linkedin.com/in/p-' || n, 'linkedin', now() from generate_series(1, 40) n;
    insert into copper.company select n, 'C' || n, 'c' || n || '.example', null, now() from generate_series(1, 40) n;
    insert into person_profile select n, null, null from generate_series(1, 40) n;
    insert into account_profile select n, null, null from generate_series(1, 40) n`)
  expect(sources.map(({ table }) => table)).toEqual(['person_profile', 'account_profile'])
  const [people, companies] = sources
  expect(people?.inputs.map(({ input }) => input)).toEqual(['email', 'linkedin_url', 'name', 'company'])
  expect(people?.inputs.find(({ input }) => input === 'linkedin_url')?.sql).toMatch(
    /coalesce\(nullif\(btrim\(t\.linkedin_url\), ''\), \(select e\.url[\s\S]+copper\.people_social e/,
  )
  // A company's page is filled, and identifies no one.
  expect(companies?.inputs).toEqual([{ input: 'domain', sql: 'o.email_domain' }])
  expect(companies?.outputs).toContainEqual(
    expect.objectContaining({ column: 'linkedin_url', field: 'social.linkedin' }),
  )
})
