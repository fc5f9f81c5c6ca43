import { afterEach, beforeEach, expect, test } from 'vitest'
import { proposeForTables } from '../../../src/init/propose.ts'
import type { ProposedSource } from '../../../src/init/proposal.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

let database: TestDatabase
beforeEach(async () => {
  database = await createTestDatabase()
})
afterEach(() => database.drop())

async function proposeFirms(columns: string, values: string): Promise<ProposedSource> {
  await database.query(`
    create table firms (id int primary key, name text, website text, ${columns});
    insert into firms select n, 'Firm ' || n, 'firm' || n || '.example', ${values} from generate_series(1, 40) n`)
  const { sources } = await proposeForTables(database.db, [])
  const source = sources.find(({ table }) => table === 'firms')
  if (!source) throw new Error('no source of firms')
  return source
}

const CODES = `
  create table codes (list varchar(12), code varchar(6), meaning varchar(60), primary key (list, code));
  insert into codes values ('SECTOR', 'A', 'Banking'), ('SECTOR', 'B', 'Energy'), ('SECTOR', 'C', 'Retail'),
    ('SIZE', 'A', '1-10'), ('SIZE', 'B', '11-50'), ('SIZE', 'C', '51-200'), ('SIZE', 'D', 'more than 200'),
    ('COUNTRY', 'A', 'Norwegen'), ('COUNTRY', 'B', 'Schweden'), ('COUNTRY', 'C', 'Spanien')`

test('a column of codes is filled by the list of its name, in a table of many lists', async () => {
  await database.query(CODES)
  const { outputs } = await proposeFirms(
    'sector_code varchar(6), size_code varchar(6), city text, country_code varchar(6)',
    `chr(65 + n % 3), chr(65 + n % 4), case when n % 2 = 0 then 'Oslo' end, chr(65 + n % 3)`,
  )
  const sqlOf = Object.fromEntries(outputs.map(({ column, sql }) => [column, sql]))
  for (const [column, list] of Object.entries({
    sector_code: 'SECTOR',
    size_code: 'SIZE',
    country_code: 'COUNTRY',
  }))
    expect(sqlOf[column]).toContain(`r.list = '${list}'`)
  const mapOf = Object.fromEntries(outputs.map(({ column, map }) => [column, map]))
  expect(mapOf['size_code']).toMatchObject({ '1-10': '1-10', '11-50': '11-50', '51-200': '51-200' })
  expect(mapOf['country_code']).toMatchObject({ Norway: 'Norwegen', Sweden: 'Schweden', Spain: 'Spanien' })
  // The city and the country are of one place, whatever the key of the country is called.
  expect(outputs.filter(({ group }) => group === 'address').map(({ column }) => column)).toEqual([
    'city',
    'country_code',
  ])
})

test('a number is filled by the table of its name, though no key is declared', async () => {
  await database.query(`
    create table customlist_industry (id bigint primary key, name text);
    insert into customlist_industry values (1, 'Banking'), (2, 'Energy'), (3, 'Retail'), (4, 'Insurance');
    create table customlist_colour (id bigint primary key, name text);
    insert into customlist_colour values (1, 'red'), (2, 'green'), (3, 'blue'), (4, 'white')`)
  const { outputs } = await proposeFirms('custentity_industry bigint', '1 + n % 4')
  expect(outputs.find(({ column }) => column === 'custentity_industry')?.sql).toContain(
    'from customlist_industry r',
  )
})

test('a list of another name, or without a value of the column, is not taken for its list', async () => {
  await database.query(CODES)
  const { outputs } = await proposeFirms(
    'industry_code varchar(6), colour_code varchar(6), city text',
    `chr(67 + n % 3), chr(65 + n % 3), case when n % 2 = 0 then 'Oslo' end`,
  )
  expect(outputs.filter(({ sql }) => sql?.includes('codes'))).toEqual([])
})
