import { pino } from 'pino'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { readRateLimits } from '../../../src/actions/status.ts'
import { defineService } from '../../../src/domain/service/adapter.ts'
import { createFillrate } from '../../../src/fillrate.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { answerJson, type LoopbackService, startLoopback } from '../../support/loopback.ts'
import { createCounter } from '../../support/simulated-service/counters.ts'

const PEOPLE = 160
const LIMIT = 20
const WINDOW_MS = 2_000

let database: TestDatabase
const counter = createCounter('first-request', LIMIT, WINDOW_MS)
/** Of each window: calls that were refused in it. */
const refused = new Map<number, number>()
let service: LoopbackService
beforeAll(async () => {
  database = await createTestDatabase()
  await database.query(`
    create table contacts (id int primary key, email text, title text);
    insert into contacts select n, 'p' || n || '@x.example' from generate_series(1, ${PEOPLE}) n`)
  service = await startLoopback((_, response) => {
    const now = Date.now()
    const { accepted, window, retryAt } = counter.arrive(now)
    if (!accepted) refused.set(window, (refused.get(window) ?? 0) + 1)
    const wait = String(Math.ceil((retryAt - now) / 1000))
    setTimeout(
      () =>
        accepted
          ? answerJson(response, 404, { error: 'no match' })
          : answerJson(response, 429, { error: 'too many' }, { 'retry-after': wait }),
      20,
    )
  })
})
afterAll(async () => {
  await service.close()
  await database.drop()
})

test('a documented limit that is too high is learnt from the refusals, and shown', async () => {
  const lines: string[] = []
  await using fillrate = await createFillrate({
    log: pino({ level: 'warn' }, { write: (line) => lines.push(line) }),
    config: {
      service: {
        adapter: defineService({
          name: 'Overstated',
          person: { path: '/person', inputs: ['email'] },
          rate: { limit: `${LIMIT * 10} per second` },
          fields: { person: { title: 'text' } },
        }),
        concurrency: 16,
      },
      sources: {
        contacts: {
          kind: 'person',
          table: 'contacts',
          inputs: { email: 't.email' },
          outputs: { title: 'title' },
        },
      },
    },
    env: {
      DATABASE_URL: database.url,
      FILLRATE_BASE_URL: service.url,
      FILLRATE_API_KEY: 'key',
    },
  })
  expect(await fillrate.run({ budget: 'unlimited' })).toMatchObject({ status: 'completed' })
  // 30 before, because each window was tried anew.
  const [, ...later] = [...refused].toSorted(([a], [b]) => a - b)
  expect(later.reduce((sum, [, count]) => sum + count, 0)).toBeLessThanOrEqual(10)
  const rows = await database.query<{ limit: string }>('select "limit" from fillrate.rate_limits')
  // On a slow machine, the calls of two windows may be answered within a second.
  expect(Number(rows[0]?.limit)).toBeLessThanOrEqual(2 * LIMIT)
  const warnings = lines.filter((line) => line.includes('rate_limit_learnt'))
  expect(warnings).toEqual([
    expect.stringMatching(/stated 200 calls in 1 s, the service grants about \d+: change `rate\.limit`/),
  ])
})

test('a limit that is stated six times too high is found within three windows, kept and said once', async () => {
  await database.query(`
    create table leads (id int primary key, email text, title text);
    insert into leads select n, 'l' || n || '@x.example' from generate_series(1, ${PEOPLE}) n`)
  const windows = createCounter('first-request', LIMIT, WINDOW_MS)
  const calls: { readonly accepted: boolean; readonly window: number }[] = []
  const limited = await startLoopback((_, response) => {
    const { accepted, window } = windows.arrive(Date.now())
    calls.push({ accepted, window })
    // A service that says it in a body, and does not say until when.
    const answer = accepted ? { person: { title: 'CTO' } } : { error: 'rate_limit' }
    setTimeout(() => answerJson(response, 200, answer), 20)
  })
  onTestFinished(limited.close)
  const lines: string[] = []
  const settings = {
    log: pino({ level: 'warn' }, { write: (line: string) => lines.push(line) }),
    config: {
      service: {
        adapter: defineService({
          name: 'Six times',
          person: {
            path: '/person',
            inputs: ['email'],
            record: { wrappers: ['person'] },
            read: ({ body }) =>
              body !== null && typeof body === 'object' && 'error' in body
                ? { outcome: 'rate_limited' as const }
                : undefined,
          },
          rate: { limit: `${LIMIT * 6} per 2 seconds` },
          fields: { person: { title: 'text' } },
        }),
        concurrency: 16,
      },
      sources: {
        leads: {
          kind: 'person' as const,
          table: 'leads',
          inputs: { email: 't.email' },
          outputs: { title: 'title' },
        },
      },
    },
    env: { DATABASE_URL: database.url, FILLRATE_BASE_URL: limited.url, FILLRATE_API_KEY: 'key' },
  }
  const refusedAfter = (window: number): number =>
    calls.filter((one) => !one.accepted && one.window > window).length
  {
    await using fillrate = await createFillrate(settings)
    expect(await fillrate.run({ budget: 'unlimited' })).toMatchObject({ status: 'completed' })
  }
  // A probe in flight from time to time.
  expect(refusedAfter(3)).toBeLessThanOrEqual(10)
  const { hostname, port } = new URL(limited.url)
  const known = (await readRateLimits(database.db)).find(({ scope }) => scope.includes(`${hostname}:${port}`))
  expect(known?.status?.overstated).toMatchObject({ endpoint: null, calls: LIMIT * 6, windowMs: WINDOW_MS })
  // On a slow machine, the calls of two windows may be answered within the time of one.
  expect(known?.status?.overstated?.granted).toBeLessThanOrEqual(2 * LIMIT)

  // The next process begins with it, and does not say it again.
  await database.query(
    `insert into leads select n, 'l' || n || '@x.example' from generate_series(${PEOPLE + 1}, ${PEOPLE + 60}) n`,
  )
  const before = calls.filter(({ accepted }) => !accepted).length
  {
    await using fillrate = await createFillrate(settings)
    expect(await fillrate.run({ budget: 'unlimited' })).toMatchObject({ status: 'completed' })
  }
  const all = calls.filter(({ accepted }) => !accepted).length
  expect(all - before).toBeLessThanOrEqual(5)
  expect(lines.filter((line) => line.includes('rate_limit_learnt'))).toHaveLength(1)
  const [spend] = await database.query<{ lookups: number; in_doubt: number }>(`
    select sum(lookups)::int as lookups, sum(in_doubt)::int as in_doubt from fillrate.spend where source = 'leads'`)
  expect(spend).toEqual({ lookups: PEOPLE + 60, in_doubt: 0 })
  expect(calls.length - all).toBe(PEOPLE + 60)
})
