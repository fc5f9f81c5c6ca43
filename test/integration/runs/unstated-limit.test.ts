import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
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
  expect(warnings).toEqual([expect.stringContaining('fewer than the documented 200 calls in 1 s')])
})
