import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readGuide, writeGuideConfig } from '../../support/guide.ts'
import { openCommandLine } from '../cli/command-line.ts'

// docs/guides/tenants.md: sources made by one function keep their budgets beside that of the run, and the bill of each is right.

const { database, cli, here, sandbox } = await openCommandLine({
  prepare: (pool) =>
    pool.query(`
      create schema app;
      create table app.contacts (
        id int primary key, tenant_id int not null, email text, title text, phone text, deleted_at timestamptz);
      create table app.accounts (id int primary key, tenant_id int not null, website text, industry text);
      -- The first three people are known to each tenant.
      insert into app.contacts (id, tenant_id, email)
        select tenant * 100 + n, tenant, 'person' || case when n > 3 then tenant * 100 else 0 end + n || '@example.com'
          from (values (1, 30), (2, 12), (3, 3)) v (tenant, people), generate_series(1, people) n;
      insert into app.accounts (id, tenant_id, website)
        select tenant * 100 + n, tenant, 'https://account' || tenant * 100 + n || '.example'
          from generate_series(1, 3) tenant, generate_series(1, 6) n`),
  service: { notFoundShare: 0, missingShare: 0 },
})
const [config = ''] = readGuide('tenants').configs
await rm(join(cli.folder, 'fillrate.config.json'))
await writeGuideConfig(cli.folder, config)

const LIMITS: Readonly<Record<string, number>> = {
  acme_contacts: 20,
  acme_accounts: 5,
  globex_contacts: 8,
  globex_accounts: 2,
  initech_contacts: 8,
  initech_accounts: 2,
}

interface Amount {
  readonly lookups: number
  readonly cost: { readonly amount: number } | null
}
interface Bill {
  readonly total: Amount
  readonly sources: readonly (Amount & { readonly source: string })[]
}

async function json<Shape>(...words: string[]): Promise<Shape> {
  const { stdout, stderr } = await here([...words, '--json'], { LOG_LEVEL: 'silent' })
  return JSON.parse(stdout === '' ? stderr : stdout) as Shape
}

const readBill = (...words: string[]): Promise<Bill> => json('bill', ...words)

const lookupsBySource = ({ sources }: Bill): Record<string, number> =>
  Object.fromEntries(sources.map(({ source, lookups }) => [source, lookups]))

interface Run {
  readonly status: string
  readonly lookups: { readonly requested: number }
  readonly rows_by_source: Readonly<Record<string, { readonly enriched: number }>>
}

test('each source stops at its own budget, all together at that of the run, and the bill adds up', async () => {
  const plan = await json<{ sources: { source: string }[] }>('plan')
  expect(plan.sources.map(({ source }) => source).toSorted()).toEqual(Object.keys(LIMITS).toSorted())

  const run = await json<Run>('run', '--route', 'sync')
  expect(run).toMatchObject({ status: 'budget_reached' })
  const bill = await readBill()
  const billed = lookupsBySource(bill)
  const over = Object.entries(LIMITS).filter(([source, limit]) => (billed[source] ?? 0) > limit)
  expect(over).toEqual([])
  // No tenant is left out for the size of another one.
  const enriched = Object.keys(LIMITS).filter((source) => (run.rows_by_source[source]?.enriched ?? 0) > 0)
  expect(enriched).toEqual(Object.keys(LIMITS))
  expect(run.lookups.requested).toBeLessThanOrEqual(40)
  expect(bill.total).toMatchObject({ lookups: run.lookups.requested })
  expect(bill.total.cost?.amount).toBeCloseTo(run.lookups.requested * 0.1)
  expect(bill.sources.reduce((sum, { lookups }) => sum + lookups, 0)).toBe(bill.total.lookups)
  const { calls } = sandbox.stats()
  expect(calls.accepted).toBe(bill.total.lookups)

  // The same figures in the other reports.
  const status = await json<{ spend: { sources: Bill['sources'] } }>('status')
  expect(lookupsBySource({ total: bill.total, sources: status.spend.sources })).toEqual(billed)
})

test('the whole budget holds where the sources together may spend more', async () => {
  const before = (await readBill()).total.lookups
  const run = await json<Run>('run', '--route', 'sync', '--budget', '6')
  expect(run).toMatchObject({ status: 'budget_reached', lookups: { requested: 6 } })
  expect((await readBill()).total.lookups).toBe(before + 6)
})

test('a tenant by pattern: a run, its bill, and a file with a line for each day, source and endpoint', async () => {
  const before = lookupsBySource(await readBill())
  expect(Object.keys((await json<Run>('run', 'acme_*', '--route', 'sync')).rows_by_source)).toEqual(
    expect.arrayContaining(['acme_contacts']),
  )
  const acme = await readBill('acme_*', '--since', '1d')
  const all = await readBill()
  const after = lookupsBySource(all)
  expect(acme.sources.map(({ source }) => source).toSorted()).toEqual(['acme_accounts', 'acme_contacts'])
  expect(acme.total.lookups).toBe((after['acme_contacts'] ?? 0) + (after['acme_accounts'] ?? 0))
  expect(after['globex_contacts']).toBe(before['globex_contacts'])
  expect((await readBill('acme_*', '--until', '2020-01-01')).sources).toEqual([])
  expect((await here(['bill', 'acme_*'])).stdout).toMatch(/acme_contacts +30 +30 +0 +3\.00 EUR/)

  expect((await here(['bill', '--csv', 'bill.csv'])).code).toBe(0)
  const [header = '', ...lines] = (await readFile(join(cli.folder, 'bill.csv'), 'utf8')).trim().split('\r\n')
  const column = (name: string): number => header.split(',').indexOf(name)
  const fromFile: Record<string, number> = {}
  for (const fields of lines.map((line) => line.split(','))) {
    const source = fields[column('source')] ?? ''
    fromFile[source] = (fromFile[source] ?? 0) + Number(fields[column('lookups')])
  }
  expect(fromFile).toEqual(after)
})

test('a person whom several tenants have is paid once, by the one that asked first', async () => {
  for (let n = 0; n < 4; n++) await json('run', '--route', 'sync')
  const { total } = await readBill()
  // 27 + 9 people of one tenant, 3 of all, and 18 accounts.
  expect(total.lookups).toBe(36 + 3 + 18)
  expect(await database.count('app.contacts where title is null and phone is null')).toBe(0)
})

test('a tenant that has left stays on the bill, and an unknown name is refused', async () => {
  await writeGuideConfig(cli.folder, config.replace(/^.*initech.*\n/m, ''))
  expect((await here(['source', 'retire', 'initech_contacts', '--yes'])).code).toBe(0)
  expect((await readBill('initech_*')).total.lookups).toBeGreaterThan(0)
  const refused = await here(['bill', 'acmee_contacts'])
  expect([refused.code, refused.stderr.includes('acme_contacts')]).toEqual([2, true])
  expect((await here(['bill', '--since', 'tomorrow'])).code).toBe(2)
})
