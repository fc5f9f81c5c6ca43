import { describe, expect, onTestFinished, test } from 'vitest'
import { createService } from '../../../src/domain/service/service.ts'
import { Breaker } from '../../../src/service/breaker.ts'
import { BannedError, RateLimitedError, UnauthorizedError } from '../../../src/service/errors.ts'
import { Limiter } from '../../../src/service/rate-limit/limiter.ts'
import { clientOf, serve } from './loopback-service.ts'

/** What counts is in the body: the status is 200, whatever happened. */
const service = createService({
  name: 'In the body',
  statuses: { 418: 'banned' },
  person: {
    path: '/find',
    read: ({ body }) => {
      switch ((body as { code?: string }).code) {
        case 'KEY':
          return { outcome: 'unauthorized' }
        case 'DOWN':
          return { outcome: 'transient', reason: 'down for maintenance' }
        case 'SLOW_DOWN':
          return { outcome: 'rate_limited', retryAfterMs: 90_000 }
        case 'BANNED':
          return { outcome: 'banned', retryAfterMs: 600_000 }
        default:
          return undefined
      }
    },
  },
})

async function open(answer: { status?: number; code: string }) {
  const stand = await serve((_, response) => {
    response.writeHead(answer.status ?? 200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ code: answer.code }))
  })
  const client = clientOf(stand, { service, apiKey: ['old', 'new'] })
  const limiter = new Limiter({})
  onTestFinished(() => limiter.stop())
  const call = async (): Promise<unknown> => {
    const permits = await limiter.acquire(1, 'normal')
    const observer = permits.use()
    return client
      .enrichPerson({ email: 'ada@example.com' }, { observer })
      .catch((error: unknown) => error)
      .finally(() => observer.end())
  }
  return { stand, client, limiter, call }
}

describe('what a body says in place of its status', () => {
  test('too many calls: the limiter pauses as after a 429', async () => {
    const { limiter, call } = await open({ code: 'SLOW_DOWN' })
    expect(await call()).toBeInstanceOf(RateLimitedError)
    expect(limiter.state()).toMatchObject({ state: 'cooldown', throttled: 1 })
    expect(limiter.state().nextWindowInMs).toBeGreaterThan(80_000)
  })

  test.each([{ code: 'BANNED' }, { status: 418, code: '' }])(
    'a ban, in the body or by status: %o',
    async (answer) => {
      const { limiter, call, client } = await open(answer)
      expect(await call()).toBeInstanceOf(BannedError)
      expect(limiter.state()).toMatchObject({ state: 'banned', throttled: 0 })
      expect(limiter.state().nextWindowInMs).toBeGreaterThan(answer.code === 'BANNED' ? 590_000 : 20_000)
      expect(client.allKeysRejected).toBe(false)
    },
  )

  test('a refused key: the next call uses the next one, and no answer accepts it before', async () => {
    const accepted: string[] = []
    const { stand, call } = await open({ code: 'KEY' })
    const client = clientOf(stand, { service, apiKey: 'old', onKeyAccepted: (id) => accepted.push(id) })
    expect(await call()).toBeInstanceOf(UnauthorizedError)
    expect(await call()).toBeInstanceOf(UnauthorizedError)
    expect(stand.received.map(({ headers }) => headers['authorization'])).toEqual([
      'Bearer old',
      'Bearer new',
    ])
    await expect(client.enrichPerson({ email: 'ada@example.com' })).rejects.toThrow('rejected the API key')
    client.resetKeys()
    await expect(client.enrichPerson({ email: 'ada@example.com' })).rejects.toThrow('rejected the API key')
    expect(accepted).toEqual([])
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
