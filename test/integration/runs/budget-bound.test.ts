import fc from 'fast-check'
import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { readRequest } from '../../../src/actions/service-cases.ts'
import { defineService, type ServiceDefinition } from '../../../src/domain/service/adapter.ts'
import type { ServiceAnswer } from '../../../src/domain/service/messages.ts'
import { useTestDatabase } from '../../support/database.ts'
import { answerJson, listenOnLoopback } from '../../support/loopback.ts'
import { createPeopleTable, openService } from '../../support/people-table.ts'

// What was billed, and what may still be billed by calls under way, is never more than the budget, whatever answers say of their cost.

const database = useTestDatabase()

/** A service that states what each answer has cost. */
const define = (credits: ServiceDefinition['credits'], hasJobs = false): ServiceDefinition =>
  defineService({
    name: 'Stated',
    person: {
      path: '/person',
      inputs: ['email'],
      record: { confidence: null },
      read: ({ status, body }: ServiceAnswer) => (status === 200 ? readReply(body as Reply) : undefined),
    },
    ...(hasJobs && {
      bulk: {
        path: '/jobs',
        size: 10,
        results: 'answer',
        read: ({ body }: ServiceAnswer) => {
          const { rows } = body as { rows?: readonly (Reply & { email: string })[] }
          if (rows === undefined) return undefined
          const results = rows.map(({ email, found, cost }) => ({
            request_id: email,
            data: found ? RECORD : null,
            credits: cost,
          }))
          return { outcome: 'results', delivery: { status: 'completed', results } }
        },
      },
    }),
    ...(credits && { credits }),
    fields: { person: { title: 'text' } },
  })

const RECORD = { title: 'analyst' }
const readReply = ({ found, cost }: Reply) =>
  found
    ? ({ outcome: 'found', record: RECORD, confidence: 1, credits: cost } as const)
    : ({ outcome: 'not_found', credits: cost } as const)

interface Reply {
  readonly found: boolean
  readonly cost: number
  /** The service has worked, and its answer does not arrive. */
  readonly isLost?: boolean
}

/** @param reply to the nth input, from 1 on */
async function openStand(reply: (nth: number) => Reply, latencyMs = 0) {
  let calls = 0
  let billed = 0
  const server = createServer((request, response) => {
    void readRequest(request).then(async ({ body }) => {
      const { email, emails = [email ?? ''] } = body as { email?: string; emails?: string[] }
      const replies = emails.map((one) => ({ email: one, ...reply(++calls) }))
      for (const { cost } of replies) billed += cost
      if (latencyMs > 0) await sleep(latencyMs)
      if (replies[0]?.isLost === true) return void request.socket.destroy()
      answerJson(response, 200, email === undefined ? { rows: replies } : (replies[0] ?? {}))
    })
  })
  const { url, close } = await listenOnLoopback(server)
  onTestFinished(close)
  return { url, calls: () => calls, billed: () => Math.round(billed * 1e6) / 1e6 }
}

async function open(
  service: ServiceDefinition,
  stand: { readonly url: string },
  rows: readonly number[],
  { concurrency = 4, ...config }: { readonly concurrency?: number; readonly [key: string]: unknown } = {},
) {
  const tables = await Promise.all(rows.map((count) => createPeopleTable(database, count)))
  const sources = Object.assign({}, ...tables.map((table) => table.sources)) as object
  const fillrate = await openService(database, service, sources, stand, {
    concurrency,
    config: { attempts: 1, bulk: { grace: '0s', minimum: 2 }, ...config },
  })
  onTestFinished(() => fillrate.close())
  return fillrate
}

test('an answer that states 44 times the cost counts from then on: only what was on the wire is beyond the budget', async () => {
  const stand = await openStand(() => ({ found: true, cost: 44 }), 5)
  const fillrate = await open(define({ most: 1 }), stand, [400])
  const report = await fillrate.run({ budget: 100, route: 'sync' })
  expect(report.status).toBe('budget_reached')
  // Four slots, and as many answers that wait to be stored.
  expect(stand.calls()).toBeLessThanOrEqual(8)
  expect(report.spend).toMatchObject({ credits: stand.billed() })
  // The next run knows.
  const before = stand.billed()
  const next = await fillrate.run({ budget: 100, route: 'sync' })
  expect(stand.billed() - before).toBe(88)
  expect(next.reason).toContain(
    'Stopped at the budget of 100 lookups; an answer has stated a cost of 44 lookups',
  )
})

test('calls whose answers are lost are paid by a budget in money, and shown', async () => {
  const stand = await openStand((nth) => ({ found: true, cost: 1, isLost: nth % 2 === 0 }))
  const price = { currency: 'EUR', lookup: 0.1 }
  const budget = { amount: 0.4, currency: 'EUR' }
  const fillrate = await open(define(undefined), stand, [40], { price, budget, attempts: 2 })
  const report = await fillrate.run({ route: 'sync' })
  expect(stand.calls()).toBe(4)
  expect(report).toMatchObject({ status: 'budget_reached', spend: { lookups: 2, in_doubt: 2 } })
  expect(report.reason).toContain('Stopped at the budget of 4 lookups')
})

test('for a service that bills hits alone, all of a budget is spent to within one lookup', async () => {
  const spend = async (amount: number): Promise<void> => {
    const stand = await openStand((nth) => ({ found: nth % 10 < 3, cost: nth % 10 < 3 ? 1 : 0 }))
    const price = { currency: 'EUR', lookup: 1 }
    const budget = { amount, currency: 'EUR' }
    const fillrate = await open(define({ most: 1 }), stand, [1_000], { price, budget, concurrency: 16 })
    const report = await fillrate.run({ route: 'sync' })
    expect(stand.billed()).toBeLessThanOrEqual(amount)
    expect(stand.billed()).toBeGreaterThan(amount - 1)
    expect(report.spend.cost).toEqual({ amount: stand.billed(), currency: 'EUR' })
  }
  // Each of a service of its own, at the same time: a run mostly waits for its answers.
  await Promise.all([8, 30, 100, 200].map(spend))
})

const CASES = Number(process.env['BUDGET_CASES'] ?? 6)
const world = fc.record({
  most: fc.constantFrom(1, 2, 5),
  budget: fc.integer({ min: 10, max: 150 }),
  hits: fc.integer({ min: 1, max: 10 }),
  /** In tenths of the most. */
  costs: fc.array(fc.nat(10), { minLength: 7, maxLength: 7 }),
  lostOf: fc.constantFrom(null, 5, 13),
  hasJobs: fc.boolean(),
  statesAll: fc.boolean(),
  sources: fc.constantFrom([500], [60, 500], [300, 300]),
  concurrency: fc.constantFrom(1, 4, 16),
})

type World = typeof world extends fc.Arbitrary<infer Value> ? Value : never

async function play({
  most,
  budget,
  hits,
  costs,
  lostOf,
  hasJobs,
  statesAll,
  ...rest
}: World): Promise<void> {
  const { sources, concurrency } = rest
  const stand = await openStand((nth) => {
    const found = nth % 10 < hits
    const tenths = found || statesAll ? Math.max(1, costs[nth % 7] ?? 1) : 0
    return { found, cost: (most * tenths) / 10, isLost: lostOf !== null && nth % lostOf === 0 }
  })
  const fillrate = await open(define({ most }, hasJobs), stand, sources, { concurrency })
  const report = await fillrate.run({ budget, waitMs: 20_000 })
  expect(stand.billed()).toBeLessThanOrEqual(budget)
  const { credits = report.spend.lookups, credits_in_doubt: inDoubt = report.spend.in_doubt } = report.spend
  expect(stand.billed()).toBeLessThanOrEqual(credits + inDoubt)
  expect(credits + inDoubt).toBeLessThanOrEqual(budget)
  // Where there is work: all rows may cost less.
  const isReached = report.status === 'budget_reached'
  const least = isReached ? budget - Math.max(most, 0.02 * budget) : 0
  expect(credits + inDoubt).toBeGreaterThanOrEqual(least)
  expect([isReached, report.skipped_over_budget > 0]).not.toEqual([false, true])
}

test('whatever a service bills and loses, the budget is a bound, and nearly all of it is used', async () => {
  const failed: unknown[] = []
  await Promise.all(
    fc.sample(world, CASES).map((one) => play(one).catch((error: unknown) => failed.push([one, error]))),
  )
  expect(failed).toEqual([])
})
