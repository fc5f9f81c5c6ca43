import { createHmac } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import {
  call,
  connectionLost,
  emailsFrom,
  endOf,
  idle,
  person,
  sandboxWith,
  startReceiver,
  submit,
} from './support.ts'
import type { Received } from './support.ts'

const signatureOf = (body: Buffer, secret: string) => createHmac('sha256', secret).update(body).digest('hex')

describe('a delivery', () => {
  it('holds one result per input, signed over its bytes', async () => {
    const receiver = await startReceiver()
    const sandbox = await sandboxWith({ webhookSecret: 'a secret' })
    const emails = emailsFrom(100)
    const jobId = await submit(sandbox, emails, `${receiver.url}/7?x=1`)
    await idle(sandbox)
    expect(receiver.received).toHaveLength(1)
    const [delivery] = receiver.received as [Received]
    expect(delivery.path).toBe('/hook/7?x=1')
    expect(delivery.contentType).toBe('application/json')
    expect(delivery.signature).toBe(signatureOf(delivery.body, 'a secret'))
    expect(Object.keys(delivery.event)).toEqual(['event_id', 'job_id', 'status', 'results'])
    expect(delivery.event).toMatchObject({ job_id: jobId, status: 'completed' })
    expect(delivery.event.results).toHaveLength(100)
    expect(new Set(delivery.event.results.map((result) => result.request_id)).size).toBe(100)
  })

  it('gives the records that single lookups give, and nothing usable for those not found', async () => {
    const receiver = await startReceiver()
    const sandbox = await sandboxWith({ notFoundShare: 0.4, requestIds: 'email' })
    const emails = emailsFrom(60)
    await submit(sandbox, emails, receiver.url)
    await idle(sandbox)
    const results = receiver.received[0]?.event.results ?? []
    const single = await Promise.all(emails.map((email) => person(sandbox, email)))
    const records = single.map((response) => (response.status === 404 ? 'none' : response.json()))
    expect(results.map(({ data }) => (data?.confidence === undefined ? 'none' : data))).toEqual(records)
    const none = results
      .filter(({ data }) => data?.confidence === undefined)
      .map(({ data }) => JSON.stringify(data))
    expect(new Set(none.map((data) => data.slice(0, 5)))).toEqual(new Set(['null', '{}', '{"ema']))
  })

  it('is retried with the same bytes until acknowledged', async () => {
    const answers = [500, 'hang', 302, 204] as const
    const receiver = await startReceiver((_, before) => answers[before] ?? 200)
    const sandbox = await sandboxWith({ retryDelaysMs: [1, 1, 1, 1] })
    await submit(sandbox, emailsFrom(3), receiver.url)
    await idle(sandbox)
    const bodies = receiver.received.map(({ body, signature }) => `${signature} ${body.toString()}`)
    expect(bodies).toHaveLength(4)
    expect(new Set(bodies).size).toBe(1)
    expect(sandbox.stats().deliveries.answers).toEqual({ 500: 1, timeout: 1, 302: 1, 204: 1 })
  })
})

it('cuts calls, jobs and retries off at once when it closes', async () => {
  const receiver = await startReceiver(() => 500)
  const sandbox = await sandboxWith({ retryDelaysMs: [3_600_000] })
  await submit(sandbox, ['a@acme.com'], receiver.url)
  await expect.poll(() => receiver.received.length).toBe(1)
  sandbox.configure({ jobDelayMs: 3_600_000 })
  await submit(sandbox, ['b@acme.com'], receiver.url)
  sandbox.configure({ latencyAfterMs: 3_600_000 })
  const last = endOf(person(sandbox, 'c@acme.com'))
  await expect.poll(() => sandbox.stats().inputs.distinct).toBe(3)
  await sandbox.close()
  expect(await last).toBe('cut')
  await expect(person(sandbox, 'a@acme.com')).rejects.toThrow(connectionLost)
  await sandbox.close()
})

describe('a single lookup answered 202', () => {
  it('is delivered as a job of one to its webhook URL', async () => {
    const receiver = await startReceiver()
    const sandbox = await sandboxWith({ notFoundShare: 0 })
    const record = (await person(sandbox, 'a@acme.com')).json()
    sandbox.configure({ faults: { 202: 1 } })
    const body = { email: 'a@acme.com', webhook_url: receiver.url }
    const response = await call(sandbox, '/v1/person/enrich', { body })
    expect(response.status).toBe(202)

    await idle(sandbox)
    expect(receiver.received.map(({ event }) => event.results.map(({ data }) => data))).toEqual([[record]])
  })
})
