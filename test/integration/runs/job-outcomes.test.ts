import { pino } from 'pino'
import { describe, expect, test } from 'vitest'
import { readConditions } from '../../../src/store/conditions.ts'
import { deleteExpired } from '../../../src/store/retention.ts'
import type { BulkEndpoint, PollEndpoint, ServiceDefinition } from '../../../src/domain/service/adapter.ts'
import { cancelJob } from '../../../src/actions/cancel.ts'
import type { JobInputs, ServiceAnswer, ServiceFailure } from '../../../src/domain/service/messages.ts'
import { runExitCode } from '../../../src/runs/report.ts'
import { expireDeadlines } from '../../chaos/fixture.ts'
import { useTestDatabase } from '../../support/database.ts'
import { countTitles, createPeopleTable, openService } from '../../support/people-table.ts'
import { type Answer, playService, type PaidService } from '../../support/paid-services.ts'

// Services that say in a body what others say by a status, and jobs whose results name nothing.

const database = useTestDatabase()

const toTitle = (email: string): object => ({ title: `Title of ${email}` })

/** The error in the body of a 200, and what it means. */
const readError = ({ body }: ServiceAnswer): ServiceFailure | undefined => {
  const { error } = (body ?? {}) as { error?: string }
  switch (error) {
    case 'too many':
      return { outcome: 'rate_limited', retryAfterMs: 50 }
    case 'maintenance':
      return { outcome: 'transient', retryAfterMs: 50 }
    case 'no credits':
      return { outcome: 'out_of_credits' }
    default:
      return undefined
  }
}

const PERSON = {
  path: '/person',
  record: { confidence: null },
  read: readError,
} as const satisfies ServiceDefinition['person']

const inOrder = ({ body }: ServiceAnswer, { emails }: JobInputs) => ({
  outcome: 'results' as const,
  delivery: {
    results: emails.map((email, n) => ({
      request_id: email,
      data: (body as { people: (object | null)[] }).people[n] ?? null,
    })),
  },
})

/** Ten in a call, with the results in the answer, in order and without names. */
const ANSWERING: ServiceDefinition = {
  name: 'In the answer',
  person: PERSON,
  bulk: {
    path: '/bulk',
    size: 10,
    results: 'answer',
    read: (answer, job) => readError(answer) ?? inOrder(answer, job),
  },
  fields: { person: { title: 'text' } },
}

/** Jobs of as many emails, whose results are fetched. */
const fetched = (size: number, poll: Partial<PollEndpoint> = {}): ServiceDefinition => ({
  name: 'Fetched',
  person: PERSON,
  bulk: { path: '/bulk', size },
  poll: { path: '/jobs/{job_id}', after: '300ms', ...poll },
  fields: { person: { title: 'text' } },
})

const toResult = (email: string): object => ({ request_id: email, data: toTitle(email) })

interface Sent {
  readonly email?: string
  readonly emails?: readonly string[]
}

/** Answers as it should, unless `odd` answers in its place. It bills what it answers. */
const playAnswering = (odd: (sent: Sent, nth: number) => Answer | null): Promise<PaidService> => {
  let nth = 0
  return playService(({ body }, bill) => {
    const sent = body as Sent
    const answer = odd(sent, ++nth)
    if (answer !== null) return answer
    bill(...(sent.emails ?? [sent.email ?? '']))
    return sent.emails ? { body: { people: sent.emails.map(toTitle) } } : { body: toTitle(sent.email ?? '') }
  })
}

describe('an error in the body of a 200 to a bulk call', () => {
  test.each([
    ['too many', { throttled: 3, retried: 0 }],
    ['maintenance', { throttled: 0, retried: 3 }],
  ])(
    '%s: the job is posted again, nothing is asked singly, and nothing is in doubt',
    async (error, counted) => {
      const { name, sources } = await createPeopleTable(database, 60)
      const service = await playAnswering((_, nth) => (nth <= 3 ? { body: { error } } : null))
      await using fillrate = await openService(database, ANSWERING, sources, service)
      const report = await fillrate.run({ budget: 'unlimited', waitMs: 60_000 })
      expect(report).toMatchObject({
        status: 'completed',
        rows: { enriched: 60 },
        lookups: { requested: 60, in_doubt: 0 },
        requests: { person: 0, bulk: 9, ...counted },
      })
      expect([...service.billed.values()].filter((times) => times !== 1)).toEqual([])
      expect(await countTitles(database, name)).toEqual({ own: 60, others: 0 })
    },
  )

  test('one that its reader fails on is kept whole, and its inputs are in doubt once and asked singly once', async () => {
    const { name, sources } = await createPeopleTable(database, 10)
    const odd = { strange: 'x'.repeat(100_000) }
    const service = await playAnswering(({ emails }) => (emails ? { body: odd } : null))
    await using fillrate = await openService(database, ANSWERING, sources, service)
    const first = await fillrate.run({ budget: 'unlimited', waitMs: 0 })
    expect(first).toMatchObject({ rows: { waiting: 10 }, requests: { person: 0 }, lookups: { in_doubt: 0 } })
    const { rows } = await database.pool.query<{ state: string; reason: string; body: string }>(
      `select d.state, d.reason, convert_from(d.raw, 'UTF8') as body from fillrate.deliveries d
         join fillrate.jobs j on j.key = d.job_key where j.run_id = $1`,
      [first.run],
    )
    expect(rows.length).toBeGreaterThan(0)
    expect(JSON.parse(rows[0]?.body ?? '')).toEqual(odd)
    expect(rows[0]?.state).toBe('quarantined')
    expect(rows[0]?.reason).toContain("what the service's reader fails on (TypeError)")

    await expireDeadlines(database)
    const second = await fillrate.run({ budget: 'unlimited', waitMs: 30_000 })
    expect(second).toMatchObject({ status: 'completed', rows: { enriched: 10 }, lookups: { in_doubt: 10 } })
    expect(service.calls.get('/person')).toBe(10)
    expect(await countTitles(database, name)).toEqual({ own: 10, others: 0 })
  })

  test('of a status that is an error its reader is not believed, whether it fails or finds no results', async () => {
    for (const read of [
      ANSWERING.bulk?.read,
      ({ body }: ServiceAnswer) => ({
        outcome: 'results' as const,
        delivery: { results: (body as { results?: unknown }).results ?? [] },
      }),
    ]) {
      const { sources } = await createPeopleTable(database, 20)
      const service = await playService(({ body }, bill) => {
        const { emails, email = '' } = body as Sent
        if (service503-- > 0) return { status: 503, body: {} }
        bill(...(emails ?? [email]))
        const results = (emails ?? []).map(toResult)
        return { body: { people: (emails ?? []).map(toTitle), results, ...toTitle(email) } }
      })
      let service503 = 2
      const definition = {
        ...ANSWERING,
        bulk: { ...ANSWERING.bulk, path: '/bulk', read },
      } as ServiceDefinition
      await using fillrate = await openService(database, definition, sources, service)
      const report = await fillrate.run({ budget: 'unlimited', waitMs: 60_000 })
      expect(report).toMatchObject({
        rows: { enriched: 20 },
        lookups: { in_doubt: 0 },
        requests: { person: 0 },
      })
    }
  })
})

describe('results in order, without names', () => {
  /** @param toRecord what is known of a person */
  async function playJobs(toRecord: (email: string) => object, first: (polls: number) => Answer | null) {
    const jobs = new Map<string, { emails: readonly string[]; polls: number }>()
    return playService(({ path, body }, bill) => {
      if (path === '/bulk') {
        const { emails = [] } = body as Sent
        bill(...emails)
        const id = `j-${jobs.size + 1}`
        jobs.set(id, { emails, polls: 0 })
        return { body: { job_id: id } }
      }
      if (path === '/person') throw new Error('asked singly')
      const job = jobs.get(path.slice('/jobs/'.length))
      if (job === undefined) return { status: 404, body: {} }
      return first(++job.polls) ?? { body: { status: 'completed', results: job.emails.map(toRecord) } }
    })
  }

  test.each<[string, (email: string) => object, Partial<BulkEndpoint>, NonNullable<PollEndpoint['read']>]>([
    [
      'declared as such',
      toTitle,
      { ordered: true },
      (answer) => {
        const { results } = (answer.body ?? {}) as { results?: object[] }
        const delivery = { results: results?.map((data) => ({ data })) }
        return readError(answer) ?? (results && { outcome: 'results', delivery })
      },
    ],
    [
      'named by the reader, where the records name other addresses',
      (email) => ({ ...toTitle(email), email: `private-${email}` }),
      {},
      (answer, { emails, jobId }) => {
        const { results } = (answer.body ?? {}) as { results?: object[] }
        if (!jobId.startsWith('j-')) throw new Error('another job')
        const named = results?.map((data, n) => ({ request_id: emails[n], data }))
        return readError(answer) ?? (results && { outcome: 'results', delivery: { results: named } })
      },
    ],
  ])(
    'fetched and %s: each is used for its input, and a failed poll is repeated',
    async (_, toRecord, bulk, read) => {
      const { name, sources } = await createPeopleTable(database, 40)
      const service = await playJobs(toRecord, (polls) =>
        polls === 1 ? { body: { error: 'too many' } } : null,
      )
      const definition = {
        ...fetched(10, { after: '100ms', read }),
        bulk: { path: '/bulk', size: 10, ...bulk },
        fields: { person: { title: 'text', email: 'text' } },
      } as const
      await using fillrate = await openService(database, definition, sources, service)
      const report = await fillrate.run({ budget: 'unlimited', waitMs: 60_000 })
      expect(report).toMatchObject({
        status: 'completed',
        rows: { enriched: 40 },
        lookups: { requested: 40, in_doubt: 0 },
        requests: { person: 0 },
      })
      expect([...service.billed.values()].filter((times) => times !== 1)).toEqual([])
      expect(await countTitles(database, name)).toEqual({ own: 40, others: 0 })
    },
  )
})

describe('results that name no input, as no results of the service ever did', () => {
  // No results of another service were read.
  const database = useTestDatabase()
  const unnamed = (email: string): object => ({ data: toTitle(email) })

  async function setUp() {
    const { name, sources } = await createPeopleTable(database, 30)
    const jobs: (readonly string[])[] = []
    const service = await playService(({ path, body }, bill) => {
      const { emails, email = '' } = body as Sent
      if (path.startsWith('/jobs/'))
        return { body: { status: 'completed', results: jobs[Number(path.slice(6)) - 1]?.map(unnamed) } }
      bill(...(emails ?? [email]))
      return { body: emails ? { job_id: String(jobs.push(emails)) } : toTitle(email) }
    })
    const run = async (bulk: Partial<BulkEndpoint> = {}) => {
      const definition = { ...fetched(10, { after: '50ms' }), bulk: { path: '/bulk', size: 10, ...bulk } }
      await using fillrate = await openService(database, definition, sources, service)
      return await fillrate.run({ budget: 'unlimited', waitMs: 20_000 })
    }
    return { name, service, run }
  }

  test('a run ends with what to mend, again and again without a call, until they are read: free', async () => {
    const { name, service, run } = await setUp()
    const first = await run()
    expect(first).toMatchObject({ status: 'misconfigured', rows: { waiting: 30 }, requests: { person: 0 } })
    expect(first.reason).toMatch(/those of job \S+ name none of its inputs.*Correct how the description/)
    expect(runExitCode(first)).toBe(2)
    const [overdue] = await readConditions(database.db, { schedules: null })
    expect(overdue).toMatchObject({ kind: 'jobs_overdue', details: { cause: 'unread' } })
    expect(await run()).toMatchObject({ status: 'misconfigured', requests: { person: 0, bulk: 0 } })
    // What is paid for is kept until it is read, however old it is.
    await deleteExpired(database.db, 'deliveries', -60_000, 500)
    expect(await run({ ordered: true })).toMatchObject({ status: 'completed', rows: { enriched: 30 } })
    expect([...service.billed.values()].filter((times) => times !== 1)).toEqual([])
    expect(await countTitles(database, name)).toEqual({ own: 30, others: 0 })
  })

  test('a job whose results are given up has its inputs requested singly', async () => {
    await database.pool.query(`delete from fillrate.deliveries`)
    const { service, run } = await setUp()
    await run()
    const unread = await database.pool.query<{ key: string }>(
      `select key from fillrate.jobs where state = 'unread'`,
    )
    for (const { key } of unread.rows)
      expect(await cancelJob({ db: database.db, log: pino({ level: 'silent' }) }, key)).toMatchObject({
        state: 'expired',
        requeued: 10,
        possibly_billed: 10,
      })
    const report = await run({ ordered: true })
    expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0 } })
    expect(report.requests.person).toBe(10 * unread.rows.length)
    expect(service.billed.size).toBe(30)
  })
})

describe('an account without credits', () => {
  // No condition of another service is there.
  const database = useTestDatabase()
  const conditions = async (): Promise<string[]> =>
    (await readConditions(database.db, { schedules: null })).map(({ kind }) => kind)
  const attempts = async (name: string): Promise<unknown> =>
    (
      await database.pool.query(
        `select sum(attempts)::int as attempts, sum(unconfirmed_calls)::int as doubt
           from fillrate.lookups where source = $1 and state = 'pending'`,
        [name],
      )
    ).rows[0]

  test.each([
    ['in a body', { body: { error: 'no credits' } }, ANSWERING],
    [
      'by a status',
      { status: 429, body: {} },
      { ...ANSWERING, statuses: { 429: 'out_of_credits' as const } },
    ],
  ])(
    '%s stops the run as its own budget would, and is one condition until a call is answered',
    async (_, answer, definition) => {
      const { name, sources } = await createPeopleTable(database, 60)
      let left = 20
      const service = await playAnswering(({ emails }) => {
        left -= emails?.length ?? 1
        return left < 0 ? answer : null
      })
      const run = async () => {
        await using fillrate = await openService(database, definition, sources, service)
        return await fillrate.run({ budget: 'unlimited', waitMs: 10_000 })
      }
      const first = await run()
      expect(first).toMatchObject({ status: 'out_of_credits', rows: { enriched: 20, waiting: 40 } })
      expect(first.reason).toMatch(/^The account at 127\.0\.0\.1:\d+ has no credits left/)
      expect(runExitCode(first)).toBe(4)
      expect(await attempts(name)).toEqual({ attempts: 0, doubt: 0 })
      expect(await conditions()).toEqual(['out_of_credits'])

      // A new process, with what the former one has stored: a run that begins lets one call through.
      const before = service.calls.get('/bulk') ?? 0
      expect(await run()).toMatchObject({ status: 'out_of_credits' })
      expect((service.calls.get('/bulk') ?? 0) + (service.calls.get('/person') ?? 0) - before).toBe(1)
      expect(await conditions()).toEqual(['out_of_credits'])

      left = 1_000
      const last = await run()
      expect(last).toMatchObject({ status: 'completed', rows: { waiting: 0 } })
      expect(await countTitles(database, name)).toEqual({ own: 60, others: 0 })
      expect([...service.billed.values()].filter((times) => times !== 1)).toEqual([])
      await expect.poll(conditions).toEqual([])
    },
  )

  test.each([
    ['a credit each', undefined],
    [
      'half a credit a match',
      { most: 0.5, of: (_: string, record: object | null) => (record === null ? 0 : 0.5) },
    ],
  ])(
    'jobs that ended without any, at %s: one stops the run, nothing is counted, and all are made again',
    async (_, credits) => {
      const { name, sources } = await createPeopleTable(database, 60)
      const jobs: { readonly emails: readonly string[]; readonly isPaid: boolean }[] = []
      let isPaid = false
      const service = await playService(({ path, body }, bill) => {
        if (path === '/person') throw new Error('asked singly')
        if (path === '/bulk') {
          const { emails = [] } = body as Sent
          if (isPaid) bill(...emails)
          return { body: { job_id: String(jobs.push({ emails, isPaid })) } }
        }
        const job = jobs[Number(path.slice('/jobs/'.length)) - 1]
        if (job?.isPaid !== true) return { body: { state: 'no credits' } }
        return { body: { status: 'completed', results: job.emails.map(toResult) } }
      })
      const read = ({ body }: ServiceAnswer) =>
        (body as { state?: string }).state === 'no credits' ? ({ outcome: 'unpaid' } as const) : undefined
      const definition = { ...fetched(10, { read }), ...(credits && { credits }) }
      await using fillrate = await openService(database, definition, sources, service)
      const counted = async (): Promise<unknown> =>
        (
          await database.pool.query(
            `select coalesce(sum(lookups), 0)::int as lookups, coalesce(sum(coalesce(credits, lookups)), 0)::float8 as credits,
                    coalesce(sum(coalesce(credits_in_doubt, in_doubt)), 0)::float8 as doubt
               from fillrate.spend where source = $1`,
            [name],
          )
        ).rows[0]
      const stopped = await fillrate.run({ budget: 60, waitMs: 10_000 })
      expect(stopped).toMatchObject({ status: 'out_of_credits', rows: { waiting: 60 } })
      expect(await counted()).toEqual({ lookups: 0, credits: 0, doubt: 0 })
      expect(await attempts(name)).toEqual({ attempts: 0, doubt: 0 })
      isPaid = true
      expect(await fillrate.run({ budget: 60, waitMs: 30_000 })).toMatchObject({
        status: 'completed',
        rows: { enriched: 60 },
      })
      expect(await counted()).toEqual({ lookups: 60, credits: credits ? 30 : 60, doubt: 0 })
      expect([...service.billed.values()].filter((times) => times !== 1)).toEqual([])
      expect(await countTitles(database, name)).toEqual({ own: 60, others: 0 })
    },
  )

  test('a job that ended without any after half of its results: these are used and counted, and the rest is in doubt', async () => {
    const { name, sources } = await createPeopleTable(database, 20)
    let polls = 0
    let isPaid = false
    const service = await playService(({ path, body }, bill) => {
      const { emails = [], email = '' } = body as Sent
      if (path === '/person') {
        if (!isPaid) return { body: { error: 'no credits' } }
        bill(email)
        return { body: toTitle(email) }
      }
      if (path === '/bulk') {
        bill(...emails.slice(0, 10))
        return { body: { job_id: emails.join() } }
      }
      if (++polls > 1) return { body: { state: 'no credits' } }
      const half = decodeURIComponent(path.slice('/jobs/'.length)).split(',').slice(0, 10)
      return { body: { state: 'running', results: half.map(toResult) } }
    })
    const definition = fetched(20, {
      read: ({ body }) => {
        const { state, results } = body as { state: string; results?: object[] }
        return state === 'no credits'
          ? { outcome: 'unpaid' }
          : { outcome: 'results', delivery: { status: 'running', results } }
      },
    })
    await using fillrate = await openService(database, definition, sources, service)
    const stopped = await fillrate.run({ budget: 'unlimited', waitMs: 20_000 })
    expect(stopped).toMatchObject({ status: 'out_of_credits', rows: { enriched: 10, waiting: 10 } })
    isPaid = true
    const report = await fillrate.run({ budget: 'unlimited', waitMs: 20_000 })
    expect(report).toMatchObject({ status: 'completed', rows: { enriched: 10 } })
    expect(await countTitles(database, name)).toEqual({ own: 20, others: 0 })
    expect([...service.billed.values()].filter((times) => times !== 1)).toEqual([])
    expect(await database.count(`fillrate.lookups where source = '${name}' and unconfirmed_calls = 1`)).toBe(
      10,
    )
  })

  test('a job that is paid for is fetched all the same', async () => {
    const { name, sources } = await createPeopleTable(database, 60)
    const jobs: (readonly string[])[] = []
    let polls = 0
    const service = await playService(({ path, body }, bill) => {
      if (path === '/bulk') {
        if (jobs.length === 2) return { body: { error: 'no credits' } }
        const { emails = [] } = body as Sent
        bill(...emails)
        return { body: { job_id: String(jobs.push(emails)) } }
      }
      if (path === '/person') return { body: { error: 'no credits' } }
      if (++polls < 5) return { status: 404, body: {} }
      const emails = jobs[Number(path.slice('/jobs/'.length)) - 1] ?? []
      return { body: { status: 'completed', results: emails.map(toResult) } }
    })
    await using fillrate = await openService(
      database,
      { ...fetched(10), bulk: { path: '/bulk', size: 10, read: readError } },
      sources,
      service,
    )
    const report = await fillrate.run({ budget: 'unlimited', waitMs: 30_000 })
    expect(report).toMatchObject({ status: 'out_of_credits', rows: { enriched: 20, waiting: 40 } })
    expect(await countTitles(database, name)).toEqual({ own: 20, others: 0 })
  })
})
