import { createHmac } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { FAULT_MEANINGS, type FaultName, Opportunity } from '../../../src/sandbox/options.ts'
import {
  bulk,
  company,
  connectionLost,
  emailsFrom,
  idle,
  person,
  sandboxWith,
  startReceiver,
  submit,
  type Received,
} from './support.ts'

const isSigned = ({ body, signature }: Received) =>
  signature === createHmac('sha256', 'sandbox-webhook-secret').update(body).digest('hex')

/** Whether the fault is injected, for each of many inputs. */
function draw(fault: FaultName, { share = 0.5, count = 200, nth = 0, seed = 1 } = {}): boolean[] {
  const settings = { seed, faults: { [fault]: share }, plan: null }
  return emailsFrom(count).map((email) => {
    const point = { endpoint: 'POST /v1/person', inputs: [email], nth } as const
    return new Opportunity(
      point,
      () => settings,
      () => {},
    ).injects(fault)
  })
}

describe('the draw of a fault', () => {
  it.each(Object.keys(FAULT_MEANINGS) as FaultName[])(
    'injects %s at its share, never at 0 and always at 1',
    (fault) => {
      const made = (share: number) => draw(fault, { share, count: 1_000 }).filter(Boolean).length
      expect([made(0), made(1)]).toEqual([0, 1_000])
      expect(Math.abs(made(0.2) - 200)).toBeLessThan(60)
    },
  )

  it('depends on the try, the fault and the seed only', () => {
    expect(draw('500')).toEqual(draw('500'))
    expect(draw('500', { nth: 1 })).not.toEqual(draw('500'))
    expect(draw('503')).not.toEqual(draw('500'))
    expect(draw('500', { seed: 2 })).not.toEqual(draw('500'))
  })

  it('is overridden by the plan', async () => {
    const seen: string[] = []
    const sandbox = await sandboxWith({
      faults: { 500: 1 },
      plan: (fault, { inputs, nth }) => {
        if (fault !== '500') return undefined
        seen.push(`${inputs[0]} ${nth}`)
        return nth === 0 ? undefined : false
      },
    })
    expect((await person(sandbox, 'A@acme.com')).status).toBe(500)
    expect((await person(sandbox, 'a@acme.com')).status).not.toBe(500)
    expect(seen).toEqual(['a@acme.com 0', 'a@acme.com 1'])
  })
})

describe('faults of calls', () => {
  it('answer 500 and 503, and do no work', async () => {
    const sandbox = await sandboxWith()
    const answered = []
    for (const fault of ['500', '503'] as const) {
      sandbox.configure({ faults: { [fault]: 1 } })
      for (const response of [await person(sandbox, 'a@acme.com'), await company(sandbox, 'acme.com')]) {
        answered.push(response.status)
        expect(response.json()).toHaveProperty(['error', 'code'])
      }
    }
    expect(answered).toEqual([500, 500, 503, 503])
    const { inputs, faults } = sandbox.stats()
    expect(inputs).toMatchObject({ distinct: 2, requested_singly: 0, max_requested: 0 })
    expect(faults).toEqual({ 500: 2, 503: 2 })
  })

  it('drop the connection after the call is counted and processed: its answer is lost', async () => {
    const sandbox = await sandboxWith({ limit: 10, windowMs: 60_000, faults: { 'drop-after': 1 } })
    await expect(person(sandbox, 'a@acme.com')).rejects.toThrow(connectionLost)
    sandbox.configure({ faults: {} })
    await person(sandbox, 'a@acme.com')
    const { calls, inputs } = sandbox.stats()
    expect(calls.accepted).toBe(2)
    expect(inputs).toMatchObject({
      requested_singly: 1,
      unanswered: 1,
      max_requested: 1,
      max_paid: 2,
    })
  })

  it('lose the 202 of a job that is processed', async () => {
    const receiver = await startReceiver()
    const sandbox = await sandboxWith({ faults: { 'drop-after': 1 } })
    await expect(bulk(sandbox, emailsFrom(3), receiver.url)).rejects.toThrow(connectionLost)
    await idle(sandbox)
    expect(receiver.received[0]?.event.results).toHaveLength(3)
    expect(sandbox.stats().inputs).toMatchObject({ requested_in_bulk: 3, unanswered: 0 })
  })

  it('answer 200 with what is not a record', async () => {
    const sandbox = await sandboxWith({ faults: { 'not-a-record': 1 } })
    const responses = await Promise.all(emailsFrom(60).map((email) => person(sandbox, email)))
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200]))
    const isRecord = ({ text }: { text: string }) => {
      try {
        const { id, confidence } = Object(JSON.parse(text)) as Record<string, unknown>
        return typeof id === 'string' && typeof confidence === 'number'
      } catch {
        return false
      }
    }
    expect(responses.filter(isRecord)).toEqual([])
    expect(new Set(responses.map(({ text }) => text)).size).toBe(5)
    expect(sandbox.stats().inputs.requested_singly).toBe(0)
  })
})

describe('faults of deliveries', () => {
  it('lose a delivery', async () => {
    const receiver = await startReceiver()
    const sandbox = await sandboxWith({ faults: { lost: 1 } })
    await submit(sandbox, ['a@acme.com'], receiver.url)
    await idle(sandbox)
    expect(receiver.received).toEqual([])
    expect(sandbox.stats()).toMatchObject({ jobs: { completed: 0 }, faults: { lost: 1 } })
  })

  it('deliver before the 202 is answered', async () => {
    const { promise: arrived, resolve: arrive } = Promise.withResolvers<string>()
    const { promise: acknowledged, resolve: acknowledge } = Promise.withResolvers<number>()
    const receiver = await startReceiver(({ event }) => {
      arrive(event.job_id)
      return acknowledged
    })
    const sandbox = await sandboxWith({ faults: { early: 1 }, jobDelayMs: 3_600_000 })
    const answer = submit(sandbox, ['a@acme.com'], receiver.url)
    const jobId = await arrived
    expect(sandbox.stats().requests).toEqual({})
    acknowledge(200)
    expect(await answer).toBe(jobId)
    await idle(sandbox)
    expect(sandbox.stats().jobs.completed).toBe(1)
    expect(receiver.received).toHaveLength(1)
  })

  it('deliver twice with one event_id', async () => {
    const receiver = await startReceiver()
    const sandbox = await sandboxWith({ faults: { duplicate: 1 } })
    await submit(sandbox, ['a@acme.com'], receiver.url)
    await idle(sandbox)
    expect(receiver.received).toHaveLength(2)
    expect(receiver.received[0]?.body).toEqual(receiver.received[1]?.body)
    expect(receiver.received.every(isSigned)).toBe(true)
    expect(sandbox.stats()).toMatchObject({
      jobs: { completed: 1 },
      deliveries: { answers: { 200: 2 } },
    })
  })

  it('sign wrongly first, then correctly', async () => {
    const receiver = await startReceiver((delivery) => (isSigned(delivery) ? 200 : 401))
    const sandbox = await sandboxWith({ faults: { 'bad-signature': 1 } })
    for (const email of emailsFrom(20)) {
      await submit(sandbox, [email], receiver.url)
      await idle(sandbox)
    }
    expect(receiver.received.map(isSigned)).toEqual(Array.from({ length: 40 }, (_, at) => at % 2 === 1))
    expect(sandbox.stats().deliveries).toMatchObject({
      badly_signed: 20,
      badly_signed_accepted: 0,
      answers: { 200: 20, 401: 20 },
    })
  })

  it('count a receiver that accepts a bad signature', async () => {
    const receiver = await startReceiver()
    const sandbox = await sandboxWith({ faults: { 'bad-signature': 1 } })
    await submit(sandbox, ['a@acme.com'], receiver.url)
    await idle(sandbox)
    expect(sandbox.stats().deliveries).toMatchObject({ badly_signed: 1, badly_signed_accepted: 1 })
  })
})

describe('faults of jobs', () => {
  it('fail a job without results, or with some', async () => {
    const receiver = await startReceiver()
    const sandbox = await sandboxWith({ faults: { 'job-failed': 1 }, notFoundShare: 0, requestIds: 'email' })
    await submit(sandbox, emailsFrom(40), receiver.url)
    await idle(sandbox)
    expect(receiver.received[0]?.event).toMatchObject({ status: 'failed', results: [] })
    sandbox.configure({ failedResults: 'part' })
    await submit(sandbox, emailsFrom(40), receiver.url)
    await idle(sandbox)
    const { status, results = [] } = receiver.received[1]?.event ?? {}
    expect(status).toBe('failed')
    expect(results.length).toBeGreaterThan(5)
    expect(results.length).toBeLessThan(35)
    for (const { request_id: id, data } of results) expect(data?.email).toBe(id)
    expect(sandbox.stats().jobs).toMatchObject({ failed: 2, completed: 0 })
  })

  it('omit results, add foreign ones, and shuffle them', async () => {
    const receiver = await startReceiver()
    const sandbox = await sandboxWith({ requestIds: 'email', notFoundShare: 0 })
    const emails = emailsFrom(100)
    const deliver = async (...faults: (readonly [FaultName, number])[]) => {
      sandbox.configure({ faults: Object.fromEntries(faults) })
      await submit(sandbox, emails, receiver.url)
      await idle(sandbox)
      return receiver.received.at(-1)?.event.results.map((result) => result.request_id) ?? []
    }
    const known = new Set(emails)
    const missing = await deliver(['missing-result', 0.3])
    expect(missing).toEqual(emails.filter((email) => missing.includes(email)))
    expect(Math.abs(missing.length - 70)).toBeLessThan(20)
    expect(sandbox.stats().faults).toEqual({ 'missing-result': 100 - missing.length })
    const foreign = await deliver(['foreign-result', 1])
    expect(foreign.slice(0, 100)).toEqual(emails)
    expect(foreign.length).toBeGreaterThan(100)
    expect(foreign.slice(100).filter((email) => known.has(email))).toEqual([])
    const shuffled = await deliver(['shuffle', 1])
    expect(shuffled).not.toEqual(emails)
    expect(shuffled.toSorted()).toEqual(emails.toSorted())
  })
})
