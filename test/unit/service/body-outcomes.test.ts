import { describe, expect, onTestFinished, test } from 'vitest'
import type { ServiceAnswer, ServiceFailure } from '../../../src/domain/service/messages.ts'
import { createService } from '../../../src/domain/service/service.ts'
import { Breaker } from '../../../src/service/breaker.ts'
import {
  OutOfCreditsError,
  RateLimitedError,
  type ServiceError,
  UnauthorizedError,
} from '../../../src/service/errors.ts'
import { Limiter } from '../../../src/service/rate-limit/limiter.ts'
import { clientOf, serve } from './loopback-service.ts'

/** What counts is in the body: the status is 200, whatever happened. */
const service = createService({
  name: 'In the body',
  person: {
    path: '/find',
    read: readCode,
  },
  bulk: { path: '/bulk', results: 'answer', read: readCode },
  poll: { path: '/jobs/{job_id}', read: readCode },
})

function readCode({ body }: ServiceAnswer): ServiceFailure | undefined {
  switch ((body as { code?: string }).code) {
    case 'KEY':
      return { outcome: 'unauthorized' }
    case 'DOWN':
      return { outcome: 'transient', reason: 'down for maintenance', retryAfterMs: 80_000 }
    case 'SLOW_DOWN':
      return { outcome: 'rate_limited', retryAfterMs: 90_000 }
    case 'BROKE':
      return { outcome: 'out_of_credits' }
    case 'WRONG':
      return { outcome: 'rejected', reason: 'no such input' }
    case 'STRANGE':
      return { outcome: 'unreadable', reason: 'strange words' }
    default:
      return undefined
  }
}

const ENDPOINTS = ['person', 'bulk', 'poll'] as const
type Endpoint = (typeof ENDPOINTS)[number]

async function open(answer: { status?: number; code: string }) {
  const stand = await serve((_, response) => {
    response.writeHead(answer.status ?? 200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ code: answer.code }))
  })
  const client = clientOf(stand, { service, apiKey: 'old' })
  const limiter = new Limiter({})
  onTestFinished(() => limiter.stop())
  const call = async (endpoint: Endpoint = 'person'): Promise<unknown> => {
    const permits = await limiter.acquire(1, 'normal')
    const observer = permits.use()
    const emails = ['ada@example.com']
    const calls = {
      person: () => client.enrichPerson({ email: 'ada@example.com' }, { observer }),
      bulk: () => client.submitBulk({ emails, webhookUrl: null }, { observer }),
      poll: () => client.fetchJob({ jobId: 'j', emails }, { observer }),
    }
    return calls[endpoint]()
      .catch((error: unknown) => error)
      .finally(() => observer.end())
  }
  return { stand, client, limiter, call }
}

describe('what a body says in place of its status', () => {
  test.each(ENDPOINTS)('too many calls of %s: the limiter pauses as after a 429', async (endpoint) => {
    const { limiter, call } = await open({ code: 'SLOW_DOWN' })
    expect(await call(endpoint)).toBeInstanceOf(RateLimitedError)
    expect(limiter.state()).toMatchObject({ state: 'cooldown', throttled: 1 })
    expect(limiter.state().nextWindowInMs).toBeGreaterThan(80_000)
  })

  test('a refused key: no further call is sent, and no answer accepts it before', async () => {
    const { stand, call } = await open({ code: 'KEY' })
    const client = clientOf(stand, { service, apiKey: 'old' })
    expect(await call()).toBeInstanceOf(UnauthorizedError)
    expect(await call()).toBeInstanceOf(UnauthorizedError)
    expect(stand.received.map(({ headers }) => headers['authorization'])).toEqual(['Bearer old'])
    await expect(client.enrichPerson({ email: 'ada@example.com' })).rejects.toThrow('rejected the API key')
    client.resetKey()
    await expect(client.enrichPerson({ email: 'ada@example.com' })).rejects.toThrow('rejected the API key')
    expect(client.isKeyRejected).toBe(true)
  })

  test.each(ENDPOINTS)('each other failure of %s is the error of its status', async (endpoint) => {
    const found: Record<string, unknown> = {}
    for (const code of ['DOWN', 'WRONG', 'BROKE', 'STRANGE', 'KEY']) {
      const { call } = await open({ code })
      const { name, status, retryAfterMs, message } = (await call(endpoint)) as ServiceError
      found[code] = [name, status, retryAfterMs, message.replace(/^.*?: /, '')]
    }
    expect(found).toEqual({
      DOWN: ['UnavailableError', 503, 80_000, 'down for maintenance'],
      WRONG: ['UnprocessableError', 422, null, 'no such input'],
      BROKE: ['OutOfCreditsError', 402, null, 'the service says that the account has no credits left'],
      STRANGE: ['MalformedResponseError', 200, null, 'the service answered 200 with strange words'],
      KEY: ['UnauthorizedError', 401, null, expect.stringContaining('rejected the API key')],
    })
  })

  test.each([
    ['person', { outcome: 'pending' }],
    ['person', { outcome: 'found' }],
    ['bulk', { outcome: 'found', record: {} }],
    ['bulk', { outcome: 'results' }],
    ['poll', { outcome: 'accepted', jobId: 'j' }],
  ] as const)('a reader of %s in JavaScript that returns %o is at fault', async (endpoint, reading) => {
    const read = (): never => reading as never
    const { stand } = await open({ code: '' })
    const client = clientOf(stand, {
      service: createService({
        name: 'Of another kind',
        person: { path: '/find', read },
        bulk: { path: '/bulk', results: 'answer', read },
        poll: { path: '/jobs/{job_id}', read },
      }),
    })
    const emails = ['ada@example.com']
    const calls = {
      person: () => client.enrichPerson({ email: 'ada@example.com' }),
      bulk: () => client.submitBulk({ emails, webhookUrl: null }),
      poll: () => client.fetchJob({ jobId: 'j', emails }),
    }
    await expect(calls[endpoint]()).rejects.toThrow("what the service's reader fails on (TypeError)")
  })

  test('no credits: no key is rejected, and the limiter sees no 429', async () => {
    const { limiter, call, client } = await open({ status: 429, code: 'BROKE' })
    expect(await call()).toBeInstanceOf(OutOfCreditsError)
    expect(client.isKeyRejected).toBe(false)
    expect(limiter.state()).toMatchObject({ throttled: 0 })
  })

  test('an outage: the circuit counts it', async () => {
    const { client } = await open({ code: 'DOWN' })
    const breaker = new Breaker()
    const lookup = { id: 1, attempts: 0 }
    for (let n = 0; n < 40 && breaker.state === 'closed'; n++)
      await breaker
        .execute(() => client.enrichPerson({ email: `${n}@example.com` }), { ...lookup, id: n })
        .catch(() => {})
    expect(breaker.state).toBe('open')
  })
})
