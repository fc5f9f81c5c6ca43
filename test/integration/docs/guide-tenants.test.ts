import { expect, test } from 'vitest'
import { codeBlocks } from '../../support/code-blocks.ts'
import { readGuide, writeGuideConfig } from '../../support/guide.ts'
import { openCommandLine } from '../cli/command-line.ts'

// docs/guides/tenants.md: sources made by one function share the budget of a run, a tenant's run has its own, and the bill of each is right.

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
await writeGuideConfig(cli.folder, config)

const SOURCES = ['acme', 'globex', 'initech'].flatMap((name) => [`${name}_contacts`, `${name}_accounts`])

type Bill = Readonly<Record<string, number>>

async function json<Shape>(...words: string[]): Promise<Shape> {
  const { stdout, stderr } = await here([...words, '--json'], { LOG_LEVEL: 'silent' })
  return JSON.parse(stdout === '' ? stderr : stdout) as Shape
}

/** The lookups of each source, by the query of docs/operations.md. */
async function readBill(): Promise<Bill> {
  const query = codeBlocks().find(({ code }) => code.includes('from fillrate.spend'))?.code ?? ''
  const bill: Record<string, number> = {}
  for (const { source, lookups } of await database.query<{ source: string; lookups: number }>(query))
    bill[source] = (bill[source] ?? 0) + Number(lookups)
  return bill
}

const sumOf = (bill: Bill): number => Object.values(bill).reduce((sum, lookups) => sum + lookups, 0)

interface Run {
  readonly status: string
  readonly lookups: { readonly requested: number }
  readonly rows_by_source: Readonly<Record<string, { readonly enriched: number }>>
}

test('the sources of all tenants share the budget of the run, and the bill adds up', async () => {
  const plan = await json<{ sources: { source: string }[] }>('plan')
  expect(plan.sources.map(({ source }) => source).toSorted()).toEqual(SOURCES.toSorted())

  const run = await json<Run>('run', '--route', 'sync')
  expect(run).toMatchObject({ status: 'budget_reached', lookups: { requested: 40 } })
  const billed = await readBill()
  // No tenant is left out for the size of another one.
  const enriched = SOURCES.filter((source) => (run.rows_by_source[source]?.enriched ?? 0) > 0)
  expect(enriched).toEqual(SOURCES)
  expect(sumOf(billed)).toBe(run.lookups.requested)
  expect(sandbox.stats().calls.accepted).toBe(sumOf(billed))

  // The same sum in the status.
  const { spend } = await json<{ spend: { today: { lookups: number } } }>('status')
  expect(spend.today.lookups).toBe(sumOf(billed))
})

test('a tenant by pattern: a run with its own budget, and its bill', async () => {
  const before = await readBill()
  const run = await json<Run>('run', 'acme_*', '--route', 'sync', '--budget', '3')
  expect(run).toMatchObject({ status: 'budget_reached', lookups: { requested: 3 } })
  expect(Object.keys(run.rows_by_source)).toEqual(expect.arrayContaining(['acme_contacts']))
  const after = await readBill()
  expect(after['acme_contacts']).toBeGreaterThan(before['acme_contacts'] ?? 0)
  expect(after['globex_contacts']).toBe(before['globex_contacts'])
})

test('a person whom several tenants have is paid once, by the one that asked first', async () => {
  for (let n = 0; n < 4; n++) await json('run', '--route', 'sync')
  // 27 + 9 people of one tenant, 3 of all, and 18 accounts.
  expect(sumOf(await readBill())).toBe(36 + 3 + 18)
  expect(await database.count('app.contacts where title is null and phone is null')).toBe(0)
})

test('a tenant that has left stays on the bill', async () => {
  await writeGuideConfig(cli.folder, config.replace(/^.*initech.*\n/m, ''), 'left.ts')
  expect((await here(['status', '--config', 'left.ts'])).stdout).toMatch(/Retired +initech_accounts/)
  expect((await readBill())['initech_accounts']).toBeGreaterThan(0)
})
