import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { readRequest } from '../../../src/actions/case-messages.ts'
import { defineService, type ServiceDefinition } from '../../../src/domain/service/adapter.ts'
import type { ServiceAnswer } from '../../../src/domain/service/messages.ts'
import { useTestDatabase } from '../../support/database.ts'
import { answerJson, listenOnLoopback } from '../../support/loopback.ts'
import { createPeopleTable, openService } from '../../support/people-table.ts'

// What was billed, and what may still be billed by calls under way, is never more than the budget, whatever answers say of their cost.

const database = useTestDatabase()

/** A service that states what each answer has cost. */
const define = (credits: ServiceDefinition['credits']): ServiceDefinition =>
  defineService({
    name: 'Stated',
    person: {
      path: '/person',
      inputs: ['email'],
      record: { confidence: null },
      read: ({ status, body }: ServiceAnswer) => {
        const { title, cost } = (body ?? {}) as { title?: string; cost?: number }
        if (status !== 200) return undefined
        return title === undefined
          ? { outcome: 'not_found', credits: cost }
          : { outcome: 'found', record: { title }, confidence: 1, credits: cost }
      },
    },
    ...(credits && { credits }),
    fields: { person: { title: 'text' } },
  })

interface Reply {
  readonly found: boolean
  readonly cost: number
  /** The service has worked, and its answer does not arrive. */
  readonly isLost?: boolean
}

/** @param reply to the nth call, from 1 on */
async function openStand(reply: (nth: number) => Reply, latencyMs = 0) {
  let calls = 0
  let billed = 0
  const server = createServer((request, response) => {
    void readRequest(request).then(async () => {
      const { found, cost, isLost } = reply(++calls)
      billed += cost
      if (latencyMs > 0) await sleep(latencyMs)
      if (isLost) return void request.socket.destroy()
      answerJson(response, 200, { ...(found && { title: 'analyst' }), cost })
    })
  })
  const { url, close } = await listenOnLoopback(server)
  onTestFinished(close)
  return { url, calls: () => calls, billed: () => Math.round(billed * 1e6) / 1e6 }
}

async function open(
  service: ServiceDefinition,
  stand: { readonly url: string },
  rows: number,
  { concurrency = 4, ...config }: { readonly concurrency?: number; readonly [key: string]: unknown } = {},
) {
  const { sources } = await createPeopleTable(database, rows)
  const fillrate = await openService(database, service, sources, stand, {
    concurrency,
    config: { attempts: 1, ...config },
  })
  onTestFinished(() => fillrate.close())
  return fillrate
}

test('an answer that states 44 times the cost counts from then on: only what was on the wire is beyond the budget', async () => {
  const stand = await openStand(() => ({ found: true, cost: 44 }), 5)
  const fillrate = await open(define({ most: 1 }), stand, 400)
  const report = await fillrate.run({ budget: 100, route: 'sync' })
  expect(report.status).toBe('budget_reached')
  // Four slots, and as many answers that wait to be stored.
  expect(stand.calls()).toBeLessThanOrEqual(8)
  expect(report.spend).toMatchObject({ credits: stand.billed() })
  // The next run knows.
  const before = stand.billed()
  await fillrate.run({ budget: 100, route: 'sync' })
  expect(stand.billed() - before).toBe(88)
})

test('calls whose answers are lost are paid by a budget in money, and shown', async () => {
  const stand = await openStand((nth) => ({ found: true, cost: 1, isLost: nth % 2 === 0 }))
  const price = { currency: 'EUR', lookup: 0.1 }
  const budget = { amount: 0.4, currency: 'EUR' }
  const fillrate = await open(define(undefined), stand, 40, { price, budget, attempts: 2 })
  const report = await fillrate.run({ route: 'sync' })
  expect(stand.calls()).toBe(4)
  expect(report).toMatchObject({ status: 'budget_reached', spend: { lookups: 2, in_doubt: 2 } })
  expect(report.reason).toContain('Stopped at the budget of 4 lookups')
})

test.each([8, 30, 100, 200])(
  'of %i for a service that bills hits alone, all is spent to within one lookup',
  async (amount) => {
    const stand = await openStand((nth) => ({ found: nth % 10 < 3, cost: nth % 10 < 3 ? 1 : 0 }))
    const price = { currency: 'EUR', lookup: 1 }
    const budget = { amount, currency: 'EUR' }
    const fillrate = await open(define({ most: 1 }), stand, 1_000, { price, budget, concurrency: 16 })
    const report = await fillrate.run({ route: 'sync' })
    expect(stand.billed()).toBeLessThanOrEqual(amount)
    expect(stand.billed()).toBeGreaterThan(amount - 1)
    expect(report.spend.cost).toEqual({ amount: stand.billed(), currency: 'EUR' })
  },
)
