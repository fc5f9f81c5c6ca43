import { afterAll, beforeAll, expect, test } from 'vitest'
import { runProgram } from '../../support/program.ts'
import { startHarness, type Harness } from '../../support/harness.ts'

const config = {
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

let harness: Harness
beforeAll(async () => {
  harness = await startHarness({
    config,
    sandbox: { missingShare: 0, notFoundShare: 0 },
    prepare: async ({ pool }) => {
      await pool.query(`
        create table industries (id int primary key, name text);
        insert into industries values (1, 'Software'), (2, 'Retail'), (3, 'Banking');
        create table companies (id int primary key, domain text, name text, slug varchar(17), founded smallint, industry_id int references industries);
        insert into companies select n, 'company' || n || '.example', null, null, null, null from generate_series(1, 40) n`)
    },
  })
})
afterAll(() => harness.close())

test('a cell whose own expression yields no value, or too long a one, is reported with its reason', async () => {
  const { url } = harness.database
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

  const ended = await runProgram({ cwd: '/', env: { DATABASE_URL: url } }, 'failures', '--json')
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
