import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  recordOf,
  startBulkService,
  type BulkBehaviour,
  type BulkService,
  type SubmittedBulk,
} from '../../support/bulk-service.ts'
import { createCommandLine, type CommandLine } from '../../support/cli.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

// Services that number, order and name as the documentation leaves open, through the command line.

let database: TestDatabase
const opened: CommandLine[] = []
beforeEach(async () => {
  database = await createTestDatabase()
})
afterEach(async () => {
  await Promise.all(opened.splice(0).map((one) => one.remove()))
  await database.drop()
})

/** A table of people without a title, and the command line of a user who fills it from this service. */
async function setUp(
  table: string,
  people: number,
  behaviour: BulkBehaviour,
  bulk: object = { grace: '0s' },
): Promise<{ service: BulkService; cli: CommandLine }> {
  await database.pool.query(`create table ${table} (id int primary key, email text, title text, phone text)`)
  await database.pool.query(
    `insert into ${table} (id, email) select n, 'p' || n || '@x.example' from generate_series(1, $1::int) n`,
    [people],
  )
  const service = await startBulkService(behaviour)
  const source = {
    kind: 'person',
    table,
    inputs: { email: 't.email' },
    outputs: { title: 'title', phone: 'phone' },
  }
  const cli = await createCommandLine(database.url, service, {
    sources: { [table]: source },
    bulk,
    budget: people,
  })
  opened.push(cli)
  return { service, cli }
}

interface Report {
  readonly rows: Readonly<Record<string, number>>
  readonly lookups: Readonly<Record<string, number>>
  readonly requests: Readonly<Record<string, number>>
}
async function run(cli: CommandLine): Promise<Report> {
  const { code, stdout, stderr } = await cli.run('run', '--route', 'bulk', '--wait', '30s', '--json')
  expect(code, stderr + stdout).toBe(0)
  return JSON.parse(stdout) as Report
}
const query = async <Row extends object>(text: string): Promise<Row[]> =>
  (await database.pool.query<Row>(text)).rows
/** Rows with the title of their own address, of another one, and without. */
const titles = async (table: string): Promise<object | undefined> =>
  (
    await query(
      `select count(*) filter (where title = 'Title of ' || email)::int as own,
              count(*) filter (where title <> 'Title of ' || email or phone <> 'Phone of ' || email)::int as others,
              count(*) filter (where title is null)::int as blank from ${table}`,
    )
  )[0]
const most = (counts: ReadonlyMap<string, number>): number => Math.max(0, ...counts.values())

const named = (emails: readonly string[]): object[] =>
  emails.map((email) => ({ request_id: email, data: recordOf(email) }))
const completed = (job: SubmittedBulk, event: string, emails: readonly string[] = job.emails): object => ({
  event_id: event,
  job_id: `job-${job.nth}`,
  status: 'completed',
  results: named(emails),
})

test('a service that numbers its events by job is paid once for each input', async () => {
  const { service, cli } = await setUp('people', 250, { deliver: (job, post) => post(completed(job, '1')) })
  const report = await run(cli)
  expect(service.receipts).toEqual(['accepted', 'accepted', 'accepted'])
  expect(report).toMatchObject({ rows: { enriched: 250 }, requests: { bulk: 3, person: 0 } })
  expect(service.billed.size).toBe(250)
  expect(most(service.billed)).toBe(1)
})

test('what a service adds under the same event_id is stored, and what it only repeats is not', async () => {
  const { service, cli } = await setUp(
    'people',
    100,
    {
      deliver: async (job, post) => {
        const half = completed(job, 'e', job.emails.slice(0, 50))
        for (const event of [half, half, completed(job, 'e')]) await post(event)
      },
    },
    { grace: '10m' },
  )
  const report = await run(cli)
  expect(service.receipts).toEqual(['accepted', 'duplicate', 'accepted'])
  expect(report).toMatchObject({ rows: { enriched: 100 }, requests: { person: 0 } })
  expect(most(service.billed)).toBe(1)
})

test('two services on one database, with the same numbers for jobs and events, are each paid once', async () => {
  const behaviour: BulkBehaviour = { deliver: (job, post) => post(completed(job, `event-${job.nth}`)) }
  const [one, two] = [await setUp('people', 100, behaviour), await setUp('clients', 100, behaviour)]
  const reports = await Promise.all([run(one.cli), run(two.cli)])
  expect(reports).toMatchObject([{ rows: { enriched: 100 } }, { rows: { enriched: 100 } }])
  for (const { service } of [one, two]) expect(most(service.billed)).toBe(1)
  expect([await titles('people'), await titles('clients')]).toMatchObject([{ own: 100 }, { own: 100 }])
})

test('a repeated delivery of an old job is no answer to a refresh', async () => {
  const deliveredAll = (): Promise<number> =>
    query<{ count: number }>(
      `select count(*)::int as count from fillrate.deliveries where state = 'received'`,
    ).then(([row]) => row?.count ?? 0)
  let first: SubmittedBulk | null = null
  const answer = (job: SubmittedBulk, title: string): object => ({
    event_id: `event-${job.nth}`,
    job_id: `job-${job.nth}`,
    status: 'completed',
    results: job.emails.map((email) => ({ request_id: email, data: { title, confidence: 0.9 } })),
  })
  const { service, cli } = await setUp('people', 100, {
    deliver: async (job, post) => {
      if (first === null) {
        first = job
        return post(answer(job, 'old'))
      }
      // To the address of the old job, of which another process has the port now.
      const old = new URL(new URL(first.webhookUrl).pathname, job.webhookUrl).href
      await post({ ...answer(first, 'old'), attempt: 2 }, old)
      await expect.poll(deliveredAll, { timeout: 10_000 }).toBe(0)
      return post(answer(job, 'new'))
    },
  })
  await run(cli)
  await query('update fillrate.lookups set refresh_at = now(); update fillrate.rows set due_at = now()')
  await query('update people set title = null')
  const report = await run(cli)
  expect(service.receipts).toEqual(['accepted', 'accepted', 'accepted'])
  expect(await query('select title, count(*)::int as count from people group by 1')).toEqual([
    { title: 'new', count: 100 },
  ])
  expect(report).toMatchObject({ rows: { enriched: 100 }, requests: { bulk: 1, person: 0 } })
})
