import type { ServerResponse } from 'node:http'
import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { readRateLimits } from '../../../src/actions/status.ts'
import { defineService, type ServiceDefinition } from '../../../src/domain/service/adapter.ts'
import { createFillrate } from '../../../src/fillrate.ts'
import { useTestDatabase } from '../../support/database.ts'
import { answerJson, startLoopback } from '../../support/loopback.ts'
import { createPeopleTable, toOptions } from '../../support/people-table.ts'
import { createCounter } from '../../support/simulated-service/counters.ts'

const PEOPLE = 160
const LIMIT = 20
const WINDOW_MS = 2_000

const database = useTestDatabase()

/** A service that states another limit than it grants, and people to look up there. */
async function openOverstated(
  stated: string,
  person: Partial<ServiceDefinition['person']>,
  answer: (response: ServerResponse, arrival: { accepted: boolean; retryInMs: number }) => void,
) {
  const counter = createCounter('first-request', LIMIT, WINDOW_MS)
  const calls: { readonly accepted: boolean; readonly window: number }[] = []
  const service = await startLoopback((_, response) => {
    const now = Date.now()
    const { accepted, window, retryAt } = counter.arrive(now)
    calls.push({ accepted, window })
    setTimeout(() => answer(response, { accepted, retryInMs: retryAt - now }), 20)
  })
  onTestFinished(service.close)
  const { name, sources } = await createPeopleTable(database, PEOPLE)
  const adapter = defineService({
    name: 'Overstated',
    person: { path: '/person', inputs: ['email'], ...person },
    rate: { limit: stated },
    fields: { person: { title: 'text' } },
  })
  const lines: string[] = []
  const options = {
    ...toOptions(database, adapter, sources, service, { concurrency: 16 }),
    log: pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) }),
  }
  return {
    name,
    calls,
    refusedAfter: (before: number): number =>
      calls.filter(({ accepted, window }) => !accepted && window > before).length,
    warnings: () => lines.filter((line) => line.includes('rate_limit_learnt')),
    findKnown: async () =>
      (await readRateLimits(database.db)).find((one) => one.service.includes(new URL(service.url).host)),
    run: async (): Promise<void> => {
      await using fillrate = await createFillrate(options)
      expect(await fillrate.run({ budget: 'unlimited' })).toMatchObject({ status: 'completed' })
    },
  }
}

test('a documented limit that is too high is learnt from the refusals, and shown', async () => {
  const { calls, run, refusedAfter, findKnown, warnings } = await openOverstated(
    `${LIMIT * 10} per second`,
    {},
    (response, { accepted, retryInMs }) =>
      accepted
        ? answerJson(response, 404, { error: 'no match' })
        : answerJson(
            response,
            429,
            { error: 'too many' },
            { 'retry-after': `${Math.ceil(retryInMs / 1000)}` },
          ),
  )
  await run()
  // 30 before, because each window was tried anew.
  const first = Math.min(...calls.filter(({ accepted }) => !accepted).map(({ window }) => window))
  expect(refusedAfter(first)).toBeLessThanOrEqual(10)
  // On a slow machine, the calls of two windows may be answered within a second.
  expect((await findKnown())?.limit).toBeLessThanOrEqual(2 * LIMIT)
  expect(warnings()).toEqual([
    expect.stringMatching(/stated 200 calls in 1 s, the service grants about \d+: change `rate\.limit`/),
  ])
})

test('a limit that is stated six times too high is found within three windows, kept and said once', async () => {
  // A service that says it in a body, and does not say until when.
  const { name, calls, run, refusedAfter, findKnown, warnings } = await openOverstated(
    `${LIMIT * 6} per 2 seconds`,
    {
      record: { wrappers: ['person'] },
      read: ({ body }) =>
        body !== null && typeof body === 'object' && 'error' in body
          ? { outcome: 'rate_limited' as const }
          : undefined,
    },
    (response, { accepted }) =>
      answerJson(response, 200, accepted ? { person: { title: 'CTO' } } : { error: 'rate_limit' }),
  )
  await run()
  // A probe in flight from time to time.
  expect(refusedAfter(3)).toBeLessThanOrEqual(10)
  const overstated = (await findKnown())?.status?.overstated
  expect(overstated).toMatchObject({ endpoint: null, limit: LIMIT * 6, window_ms: WINDOW_MS })
  // On a slow machine, the calls of two windows may be answered within the time of one.
  expect(overstated?.granted).toBeLessThanOrEqual(2 * LIMIT)
  // The next process begins with it, and does not say it again.
  await database.query(
    `insert into ${name} select n, 'l' || n || '@x.example' from generate_series(${PEOPLE + 1}, ${PEOPLE + 60}) n`,
  )
  const countRefused = (): number => calls.filter(({ accepted }) => !accepted).length
  const before = countRefused()
  await run()
  expect(countRefused() - before).toBeLessThanOrEqual(5)
  expect(warnings()).toHaveLength(1)
  const [spend] = await database.query<{ lookups: number; in_doubt: number }>(
    'select sum(lookups)::int as lookups, sum(in_doubt)::int as in_doubt from fillrate.spend where source = $1',
    [name],
  )
  expect(spend).toEqual({ lookups: PEOPLE + 60, in_doubt: 0 })
  expect(calls.length - countRefused()).toBe(PEOPLE + 60)
})
