import { resolve } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { ServiceDefinition } from '../../../src/domain/service/adapter.ts'
import { expireDeadlines, expireLeases } from '../../chaos/fixture.ts'
import { createCommandLine } from '../../support/cli.ts'
import { useTestDatabase } from '../../support/database.ts'
import PAGED from '../../support/paged-service.ts'
import { type Answer, playService } from '../../support/paid-services.ts'
import { countTitles, createPeopleTable, openService } from '../../support/people-table.ts'

// Jobs whose results are fetched page by page.

const database = useTestDatabase()

const PAGE = 7

interface PagedJob {
  readonly emails: readonly string[]
  /** The pages that were fetched, by their first row. */
  readonly fetched: number[]
}

interface Behaviour {
  /** What it does in place of a page. @param nth poll of the job, from 1 */
  readonly odd?: (job: PagedJob, from: number, nth: number) => Answer | 'never' | null
  /** Rows of a page. Default: those of its emails, in their order. */
  readonly rows?: (job: PagedJob) => readonly object[]
}

/** Bills each email of a job, and answers singles. */
async function openPaged({ odd, rows }: Behaviour = {}) {
  const jobs: PagedJob[] = []
  const singles: string[] = []
  const { url } = await playService(({ path, query, body }) => {
    if (path === '/person') {
      const { email } = body as { email: string }
      singles.push(email)
      return { body: { title: `Title of ${email}` } }
    }
    if (path === '/jobs') {
      const { emails } = body as { emails: string[] }
      return { body: { job_id: String(jobs.push({ emails, fetched: [] })) } }
    }
    const job = jobs[Number(path.slice('/jobs/'.length)) - 1]
    if (job === undefined) return { status: 404, body: {} }
    const from = Number(query['after'] ?? 0)
    job.fetched.push(from)
    const strange = odd?.(job, from, job.fetched.length) ?? null
    if (strange === 'never') return new Promise(() => {})
    if (strange !== null) return strange
    const all = rows?.(job) ?? job.emails.map((email) => ({ title: `Title of ${email}` }))
    const next = from + PAGE < all.length ? String(from + PAGE) : null
    return { body: { rows: all.slice(from, from + PAGE), next, total: job.emails.length / 2 } }
  })
  return { url, jobs, singles }
}

const open = (service: ServiceDefinition, sources: object, paged: { readonly url: string }) =>
  openService(database, service, sources, paged, { config: { bulk: { grace: '0s', minimum: 2 } } })

const pagesLeft = (): Promise<number> => database.count(`fillrate.deliveries where state = 'partial'`)
const creditsOf = async (name: string): Promise<unknown> =>
  (
    await database.query(
      `select trim_scale(sum(credits))::text as credits, trim_scale(sum(credits_in_doubt))::text as in_doubt
         from fillrate.spend where source = $1`,
      [name],
    )
  )[0]

describe('results in pages', () => {
  test('are one delivery: their order counts over all pages, and each page is fetched once', async () => {
    const { name, sources } = await createPeopleTable(database, 120)
    const service = await openPaged({
      odd: (_, __, nth) => (nth === 3 ? { status: 503, body: {} } : null),
    })
    await using fillrate = await open(PAGED, sources, service)
    const report = await fillrate.run({ budget: 'unlimited', waitMs: 60_000 })
    expect(report).toMatchObject({ status: 'completed', rows: { enriched: 120 }, lookups: { in_doubt: 0 } })
    expect(await countTitles(database, name)).toEqual({ own: 120, others: 0 })
    expect(service.singles).toEqual([])
    for (const { emails, fetched } of service.jobs)
      expect([...new Set(fetched)]).toEqual(
        Array.from({ length: Math.ceil(emails.length / PAGE) }, (_, n) => n * PAGE),
      )
    expect(await pagesLeft()).toBe(0)
    // The sum that each page states is that of the job.
    expect(await creditsOf(name)).toEqual({ credits: '60', in_doubt: '0' })
    expect(report.spend.credits).toBe(60)
  })

  test('in which one is missing give nobody the record of another', async () => {
    const { name, sources } = await createPeopleTable(database, 50)
    const service = await openPaged({
      rows: ({ emails }) => emails.toSpliced(20, 1).map((email) => ({ title: `Title of ${email}` })),
    })
    await using fillrate = await open(PAGED, sources, service)
    const report = await fillrate.run({ budget: 'unlimited', waitMs: 60_000 })
    expect(report).toMatchObject({ status: 'completed', rows: { enriched: 50 } })
    expect(await countTitles(database, name)).toEqual({ own: 50, others: 0 })
    expect(service.singles).toHaveLength(50)
  })

  test.each<[string, NonNullable<Behaviour['odd']>, number]>([
    // A cursor that leads to its own page, or in a circle.
    ['the same page', () => ({ body: { rows: [{ title: 'x' }], next: '7' } }), 40],
    [
      'a circle',
      (_, from) => ({ body: { rows: [{ title: `x${from}` }], next: from === 7 ? '14' : '7' } }),
      40,
    ],
    ['empty pages', (_, from) => ({ body: { rows: [], next: String(from + 1) } }), 40],
    // As many pages as there are inputs are fetched at once.
    [
      'pages without end',
      (_, from) => ({ body: { rows: [{ title: `x${from}` }], next: String(from + 1) } }),
      40,
    ],
  ])(
    '%s: it is fetched at growing intervals, and its inputs are requested once it has expired',
    async (_, odd, most) => {
      const { name, sources } = await createPeopleTable(database, 10)
      const service = await openPaged({ odd })
      await using fillrate = await open(PAGED, sources, service)
      const first = await fillrate.run({ budget: 'unlimited', waitMs: 2_000 })
      expect(first).toMatchObject({ rows: { waiting: 10 } })
      expect(service.jobs).toHaveLength(1)
      expect(service.jobs[0]?.fetched.length).toBeLessThanOrEqual(most)
      await expireDeadlines(database)
      const second = await fillrate.run({ budget: 'unlimited', waitMs: 30_000 })
      expect(second).toMatchObject({ status: 'completed', rows: { enriched: 10 } })
      expect(await countTitles(database, name)).toEqual({ own: 10, others: 0 })
      expect(service.singles).toHaveLength(10)
      expect(await pagesLeft()).toBe(0)
    },
  )

  test('of a job that is gone after the first page: what came is used, and the rest is requested once', async () => {
    const { name, sources } = await createPeopleTable(database, 20)
    const named: ServiceDefinition = {
      ...PAGED,
      bulk: { path: '/jobs', size: 50 },
      poll: {
        ...PAGED.poll,
        path: '/jobs/{job_id}',
        read: (answer, job) => {
          const reading = PAGED.poll?.read?.(answer, job)
          if (reading?.outcome !== 'more' && reading?.outcome !== 'results') return reading
          const from = Number(job.cursor ?? 0)
          const results = (reading.delivery.results as object[]).map((result, n) => ({
            ...result,
            request_id: job.emails[from + n],
          }))
          return { ...reading, delivery: { results } }
        },
      },
    }
    const service = await openPaged({ odd: (_, from) => (from > 0 ? { status: 410, body: {} } : null) })
    await using fillrate = await open(named, sources, service)
    const report = await fillrate.run({ budget: 'unlimited', waitMs: 60_000 })
    expect(report).toMatchObject({ status: 'completed', rows: { enriched: 20 } })
    expect(await countTitles(database, name)).toEqual({ own: 20, others: 0 })
    expect(service.singles).toHaveLength(20 - PAGE)
  })
})

test('after a SIGKILL between two pages the next process goes on where it was: nothing is lost, nothing is counted twice', async () => {
  const { name, sources } = await createPeopleTable(database, 50)
  // The third page is never answered, until the process is dead.
  let isHanging = true
  const service = await openPaged({
    odd: (_, from) => (from === 2 * PAGE && isHanging ? 'never' : null),
  })
  const adapter = resolve('test/support/paged-service.ts')
  const target = { url: service.url, keys: ['key-1'], webhookSecret: '' }
  const cli = await createCommandLine(database.url, target, {
    service: { adapter, concurrency: 2 },
    sources,
    bulk: { grace: '0s', minimum: 2 },
    budget: 'unlimited',
  })
  onTestFinished(() => cli.remove())
  const killed = cli.startWith({ FILLRATE_WEBHOOK_SECRET: undefined }, 'run', '--json')
  await expect.poll(() => service.jobs[0]?.fetched).toEqual([0, PAGE, 2 * PAGE])
  killed.child.kill('SIGKILL')
  await killed.ended
  expect(await pagesLeft()).toBe(2)

  isHanging = false
  await expireLeases(database)
  await database.query(`update fillrate.jobs set poll_at = now() where state = 'submitted'`)
  const next = await cli.runWith({ FILLRATE_WEBHOOK_SECRET: undefined }, 'run', '--json')
  expect(JSON.parse(next.stdout)).toMatchObject({
    status: 'completed',
    rows: { waiting: 0 },
  })
  expect(await countTitles(database, name)).toEqual({ own: 50, others: 0 })
  // Each page but the one on the wire was fetched once.
  expect(service.jobs).toHaveLength(1)
  expect(service.jobs[0]?.fetched).toEqual([0, 1, 2, 2, 3, 4, 5, 6, 7].map((page) => page * PAGE))
  expect(service.singles).toEqual([])
  expect(await pagesLeft()).toBe(0)
  expect(await creditsOf(name)).toEqual({ credits: '25', in_doubt: '0' })
})
