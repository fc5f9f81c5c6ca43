import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import type { RunReport } from '../../../src/domain/report/run.ts'
import { openApp } from '../../../src/app.ts'
import { parseConfig } from '../../../src/config/load.ts'
import {
  recordOf,
  startBulkService,
  type BulkBehaviour,
  type BulkService,
  type SubmittedBulk,
} from '../../support/bulk-service.ts'
import { createCommandLine, type CommandLine } from '../../support/cli.ts'
import { useFreshDatabase } from '../../support/database.ts'
import { environmentFor, runRequest } from '../../support/environment.ts'
import { personSource } from '../../support/crm.ts'

// Services that number, order and name as the documentation leaves open, through the command line.

const database = useFreshDatabase()

const sourceOf = (table: string) => personSource(table, { title: 'title', phone: 'phone' })

/** A table of people without a title, and the command line of a user who fills it from this service. */
async function setUp(
  table: string,
  people: number,
  behaviour: BulkBehaviour,
  bulk: object = { grace: '0s' },
): Promise<{ service: BulkService; cli: CommandLine }> {
  await database.query(`create table ${table} (id int primary key, email text, title text, phone text)`)
  await database.query(
    `insert into ${table} (id, email) select n, 'p' || n || '@x.example' from generate_series(1, $1::int) n`,
    [people],
  )
  const service = await startBulkService(behaviour)
  const cli = await createCommandLine(database.url, service, {
    sources: { [table]: sourceOf(table) },
    bulk,
    // What is requested singly is paid once more.
    budget: 2 * people,
  })
  onTestFinished(() => cli.remove())
  return { service, cli }
}

async function run(cli: CommandLine): Promise<RunReport> {
  const { code, stdout, stderr } = await cli.run('run', '--route', 'bulk', '--wait', '30s', '--json')
  if (code !== 0) throw new Error(`exit ${code}: ${stderr}${stdout}`)
  return JSON.parse(stdout) as RunReport
}
/** Rows with the title of their own address, of another one, and without. */
const titles = async (table: string): Promise<object | undefined> =>
  (
    await database.query(
      `select count(*) filter (where title = 'Title of ' || email)::int as own,
              count(*) filter (where title <> 'Title of ' || email or phone <> 'Phone of ' || email)::int as others,
              count(*) filter (where title is null)::int as blank from ${table}`,
    )
  )[0]
const most = (counts: ReadonlyMap<string, number>): number => Math.max(0, ...counts.values())

const deliveryStates = (): Promise<object[]> =>
  database.query(
    `select state, count(*)::int as count, sum(quarantined_results)::int as quarantined
       from fillrate.deliveries group by state order by state`,
  )
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
    database
      .query<{ count: number }>(
        `select count(*)::int as count from fillrate.deliveries where state = 'received'`,
      )
      .then(([row]) => row?.count ?? 0)
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
      await expect.poll(deliveredAll).toBe(0)
      return post(answer(job, 'new'))
    },
  })
  await run(cli)
  await database.query(
    'update fillrate.lookups set refresh_at = now(); update fillrate.rows set due_at = now()',
  )
  await database.query('update people set title = null')
  const report = await run(cli)
  expect(service.receipts).toEqual(['accepted', 'accepted', 'accepted'])
  expect(await database.query('select title, count(*)::int as count from people group by 1')).toEqual([
    { title: 'new', count: 100 },
  ])
  expect(report).toMatchObject({ rows: { enriched: 100 }, requests: { bulk: 1, person: 0 } })
})

const inTheirOwnOrder = (emails: readonly string[]): string[] =>
  emails.toSorted((a, b) => (a.split('').toReversed().join('') < b.split('').toReversed().join('') ? -1 : 1))
const opaque = (job: SubmittedBulk, email: string): string => `r${(job.emails.indexOf(email) * 7919) % 1009}`

test.each<[string, Pick<BulkBehaviour, 'accept'>, (job: SubmittedBulk, email: string) => object]>([
  ['opaque identifiers', {}, (job, email) => ({ request_id: opaque(job, email), data: recordOf(email) })],
  ['no identifiers', {}, (_, email) => ({ data: recordOf(email) })],
  [
    'the identifiers of a sorted list in the 202',
    {
      accept: (job) => ({
        job_id: `job-${job.nth}`,
        request_ids: job.emails.map((email) => opaque(job, email)).sort(),
      }),
    },
    (job, email) => ({ request_id: opaque(job, email), data: recordOf(email) }),
  ],
])(
  'records in the order in which they were ready, with %s, are quarantined, and their inputs asked singly',
  async (_, accept, toResult) => {
    // Where no result ever named an input, it would be the description's fault.
    const first = Promise.withResolvers<void>()
    const { service, cli } = await setUp('people', 200, {
      ...accept,
      deliver: async (job, post) => {
        if (job.nth === 1) {
          await post(completed(job, 'event-1'))
          return first.resolve()
        }
        await first.promise
        const results = inTheirOwnOrder(job.emails).map((email) => toResult(job, email))
        await post({ event_id: 'event-2', job_id: 'job-2', status: 'completed', results })
      },
    })
    const report = await run(cli)
    expect(await titles('people')).toEqual({ own: 200, others: 0, blank: 0 })
    expect(await deliveryStates()).toEqual([
      { state: 'quarantined', count: 1, quarantined: 100 },
      { state: 'settled', count: 1, quarantined: 0 },
    ])
    expect([service.asked.size, most(service.asked)]).toEqual([100, 1])
    expect(report).toMatchObject({ lookups: { in_doubt: 100 }, requests: { bulk: 2, person: 100 } })
    expect((await cli.run('status')).stdout).toContain('100 results matched no input and were not used')
  },
)

test('the inputs of a job that the service reports as failed are asked singly without a wait', async () => {
  const { service, cli } = await setUp(
    'people',
    200,
    {
      deliver: (job, post) =>
        post({ ...completed(job, 'e', job.nth === 1 ? job.emails.slice(0, 50) : []), status: 'failed' }),
    },
    {},
  )
  const report = await run(cli)
  expect(report).toMatchObject({ rows: { enriched: 200 }, requests: { bulk: 2, person: 150 } })
  expect([service.asked.size, most(service.asked)]).toEqual([150, 1])
})

const NO_ANSWERS: readonly object[] = [
  { code: 500 },
  { status: 'pending' },
  { error: 'timeout' },
  { found: false, error: 'upstream' },
  { found: false, status: 503 },
]

test('outages and results that are not ready are no misses: their inputs are asked again, once', async () => {
  const { service, cli } = await setUp('people', 100, {
    deliver: (job, post) =>
      post({
        ...completed(job, 'e'),
        results: job.emails.map((email, n) =>
          n < 50
            ? { request_id: email, data: null, ...NO_ANSWERS[n % 5] }
            : { request_id: email, data: null },
        ),
      }),
  })
  const report = await run(cli)
  expect(report).toMatchObject({ rows: { enriched: 50, not_found: 50 }, requests: { bulk: 1, person: 50 } })
  expect([service.asked.size, most(service.asked)]).toEqual([50, 1])
})

test('what is pending in one delivery is taken from the next', async () => {
  const pending = (email: string): object => ({ request_id: email, data: null, status: 'pending' })
  const { service, cli } = await setUp(
    'people',
    100,
    {
      deliver: async (job, post) => {
        const [ready, late] = [job.emails.slice(0, 50), job.emails.slice(50)]
        await post({ ...completed(job, 'e'), results: [...named(ready), ...late.map(pending)] })
        await expect
          .poll(async () => (await database.query(`select from people where title is not null`)).length)
          .toBe(50)
        await post({ ...completed(job, 'e'), results: named(late) })
      },
    },
    { grace: '10m' },
  )
  const report = await run(cli)
  expect(report).toMatchObject({ rows: { enriched: 100 }, requests: { bulk: 1, person: 0 } })
  expect(service.asked.size).toBe(0)
})

test('a run says truly what its jobs wait for', async () => {
  const shown = new Set<string | null>()
  const isShown = async (text: string): Promise<void> => await expect.poll(() => [...shown]).toContain(text)
  const { service } = await setUp('people', 100, {
    deliver: async (job, post) => {
      await isShown('a job waits for its delivery')
      await post(completed(job, 'e', job.emails.slice(0, 50)))
      await isShown('a finished job waits for its missing results')
      await post(completed(job, 'e', job.emails.slice(50)))
    },
  })
  const app = await openApp({
    config: parseConfig({ sources: { people: sourceOf('people') }, budget: 'unlimited' }, null),
    environment: environmentFor(database.url, service),
    log: pino({ level: 'silent' }),
  })
  const shows = runRequest({ route: 'bulk', onProgress: ({ stallReason }) => shown.add(stallReason) })
  const report = await app.run(shows).finally(() => app.close())
  expect(report).toMatchObject({ rows: { enriched: 100 }, requests: { person: 0 } })
})
