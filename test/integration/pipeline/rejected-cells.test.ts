import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { startHarness, type Harness } from '../../support/harness.ts'
import { runProgram } from '../../support/program.ts'

const contacts = {
  sources: {
    contacts: {
      kind: 'person',
      table: 'contacts',
      inputs: { email: 't.email' },
      outputs: {
        title: 'title',
        // Each is the same for every row.
        phone: { field: 'phone', sql: `'+47 22 00 00 00'` },
        company: 'company.name',
        seniority: { field: 'seniority', sql: `case when t.id % 5 = 0 then ($value || '1')::int else 1 end` },
      },
      touch: { enriched_at: 'now()', score: '100 / (t.id % 7)' },
    },
  },
  budget: 'unlimited',
} as const

let harness: Harness
afterEach(() => harness.close())

async function startWithContacts(): Promise<void> {
  harness = await startHarness({
    config: contacts,
    sandbox: { missingShare: 0, notFoundShare: 0 },
    prepare: async ({ pool }) => {
      await pool.query(`
        create table contacts (
          id int primary key, email text, title text, phone text unique,
          company text constraint nothing_for_the_fourth check (id <> 4 or company is null), seniority int, enriched_at timestamptz, score int);
        insert into contacts (id, email, title, seniority)
          select n, 'p' || n || '@example.com', case when n = 3 then 'typed' end, case when n in (3, 10) then 9 end from generate_series(1, 40) n`)
    },
  })
}

const table = () =>
  harness.scalar<string>('select md5(string_agg(c::text, $$|$$ order by id)) from contacts c')

test('each bad cell is skipped, listed and counted, and no other cell is lost', async () => {
  await startWithContacts()
  const before = await table()
  const report = await harness.run()
  expect(report.rows).toMatchObject({ picked: 40, enriched: 40, write_rejected: 0 })
  expect(
    await harness.scalar(
      `select json_build_object(
         'title', count(title), 'phone', array_agg(id) filter (where phone is not null),
         'company', count(company), 'seniority', count(seniority), 'stamp', count(enriched_at), 'score', count(score)) from contacts`,
    ),
  ).toEqual({
    title: 40,
    phone: [expect.any(Number)],
    company: 39,
    // Every fifth row fails; the tenth has a typed value.
    seniority: 33,
    stamp: 40,
    score: 35,
  })
  const cells = await harness.scalar<Record<string, number>>(
    `select json_object_agg("column" || ' ' || reason, n) from (
       select "column", reason, count(*)::int as n from fillrate.skipped_cells group by 1, 2) as c`,
  )
  expect(cells).toEqual({
    'phone unique': 39,
    'company check': 1,
    'seniority sql_failed': 7,
    'score touch_failed': 5,
  })
  expect(report.cells.skipped).toBe(52)
  expect(report.cells.protected).toBe(3)
  expect(
    await harness.scalar(
      `select bool_and(c.value = l.record::jsonb -> 'phone') from fillrate.skipped_cells c
         join fillrate.rows r using (source, key) join fillrate.lookups l on l.id = r.lookup_id where c."column" = 'phone'`,
    ),
  ).toBe(true)

  expect((await harness.run()).rows.picked).toBe(0)
  const undone = await harness.undo(report.run)
  expect(undone.changes).toMatchObject({ restored: 40, rejected: 0 })
  expect(await table()).toBe(before)
})

test('a row of which every cell is rejected is write_rejected, with its cells', async () => {
  await startWithContacts()
  await harness.query(`
    create function refuse() returns trigger language plpgsql as $$ begin raise 'closed'; end $$;
    create trigger refuse before update on contacts for each row when (old.id = 8) execute function refuse()`)
  const report = await harness.run()
  expect(report.rows).toMatchObject({ enriched: 39, write_rejected: 1 })
  expect(
    await harness.scalar(
      `select json_agg(c."column" || ' ' || c.reason order by 1) from fillrate.skipped_cells c where key = '8'`,
    ),
  ).toEqual(
    expect.arrayContaining(['company rejected', 'phone rejected', 'title rejected', 'seniority rejected']),
  )
  expect(await harness.scalar(`select reason from fillrate.rows where key = '8'`)).toContain(
    'raised by a trigger or function: closed',
  )
})

test('once a constraint is dropped, remap writes the cells that it had cost, without a call', async () => {
  await startWithContacts()
  await harness.run()
  const calls = harness.calls()
  await harness.query(
    'alter table contacts drop constraint contacts_phone_key, drop constraint nothing_for_the_fourth',
  )
  const { report } = await harness.remap('contacts')
  expect(report?.rows).toMatchObject({ write_rejected: 0 })
  expect(await harness.scalar('select count(phone)::int from contacts')).toBe(40)
  expect(await harness.scalar('select count(company)::int from contacts')).toBe(40)
  expect(await harness.count(`fillrate.skipped_cells where "column" in ('phone', 'company')`)).toBe(0)
  expect(harness.calls()).toBe(calls)
})

test('a row that is enriched stays so when remap cannot write its other cell either', async () => {
  await startWithContacts()
  await harness.run()
  const cells = `select json_agg(c order by key, "column") from (select key, "column", reason from fillrate.skipped_cells where reason <> 'touch_failed') as c`
  const before = await harness.scalar(cells)
  const { report } = await harness.remap('contacts')
  expect(report?.rows).toMatchObject({ write_rejected: 0 })
  expect(await harness.scalar(cells)).toEqual(before)
})

const companies = {
  sources: {
    companies: {
      kind: 'company',
      table: 'companies',
      inputs: { domain: 't.domain' },
      outputs: {
        // No such row, and too long after the expression.
        industry_id: { field: 'industry', sql: '(select id from industries where name = $value)' },
        slug: { field: 'name', sql: 'repeat(lower($value), 2)' },
        founded: 'founded_year',
        name: 'name',
      },
    },
  },
  budget: 'unlimited',
} as const

test('a cell whose own expression yields no value, or too long a one, is reported with its reason', async () => {
  harness = await startHarness({
    config: companies,
    sandbox: { missingShare: 0, notFoundShare: 0 },
    prepare: async ({ pool }) => {
      await pool.query(`
        create table industries (id int primary key, name text);
        insert into industries values (1, 'Software'), (2, 'Retail'), (3, 'Banking');
        create table companies (id int primary key, domain text, name text, slug varchar(17), founded smallint, industry_id int references industries);
        insert into companies select n, 'company' || n || '.example', null, null, null, null from generate_series(1, 40) n`)
    },
  })
  const report = await harness.run()
  expect(report.rows).toMatchObject({ picked: 40, enriched: 40 })
  const { industry, slug } = await harness.scalar<Record<string, number>>(
    `select json_build_object(
       'industry', count(*) filter (where l.record ->> 'industry' not in (select name from industries)),
       'slug', count(*) filter (where 2 * char_length(l.record ->> 'name') > 17))
       from fillrate.rows r join fillrate.lookups l on l.id = r.lookup_id`,
  )
  expect(industry).toBeGreaterThan(5)
  expect(slug).toBeGreaterThan(1)
  expect(report.cells.skipped).toBe((industry ?? 0) + (slug ?? 0))
  expect(await harness.count('companies where industry_id is null')).toBe(industry)
  expect(await harness.count('companies where slug is null')).toBe(slug)

  const cwd = await mkdtemp(join(tmpdir(), 'fillrate-failures-'))
  await writeFile(join(cwd, 'fillrate.config.json'), JSON.stringify(companies))
  const ended = await runProgram({ cwd, env: { DATABASE_URL: harness.database.url } }, 'failures', '--json')
  await rm(cwd, { recursive: true })
  const { total, cells } = JSON.parse(ended.stdout) as { total: number; cells: object[] }
  expect(total).toBe(0)
  expect(cells).toHaveLength(2)
  expect(cells).toContainEqual(
    expect.objectContaining({
      source: 'companies',
      column: 'industry_id',
      reason: 'no_value',
      detail: null,
      rows: industry,
    }),
  )
  expect(cells).toContainEqual(
    expect.objectContaining({ source: 'companies', column: 'slug', reason: 'too_long', rows: slug }),
  )
  expect(report.skipped_cells).toEqual(expect.arrayContaining(cells))
})
