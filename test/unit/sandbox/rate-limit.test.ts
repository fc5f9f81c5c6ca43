import { beforeEach, afterEach, describe, expect, it, vi } from 'vitest'
import { bulk, call, person, sandboxWith, startReceiver } from './support.ts'
import type { Response } from './support.ts'

// Only Date is faked: timers and sockets run normally.
const start = Date.UTC(2026, 0, 1, 12, 0, 0, 250)
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'], now: start })
})
afterEach(() => {
  vi.useRealTimers()
})

const limitOf = ({ headers }: Response) => [
  headers['x-ratelimit-limit'],
  headers['x-ratelimit-remaining'],
  headers['x-ratelimit-reset'],
]
const reset = (ms: number) => String(Math.ceil((start + ms) / 1000))

describe('the rate limit', () => {
  it('is sent on every response, and enforced with 429', async () => {
    const sandbox = await sandboxWith({ limit: 3, windowMs: 2_000 })
    const responses = []
    for (let at = 0; at < 4; at += 1) responses.push(await person(sandbox, `a${at}@acme.com`))
    expect(responses.map(limitOf)).toEqual(
      ['2', '1', '0', '0'].map((remaining) => ['3', remaining, reset(2_000)]),
    )
    const [refused] = responses.slice(-1)
    expect(refused?.status).toBe(429)
    expect(refused?.headers['retry-after']).toBe('2')
    expect(refused?.json()).toMatchObject({ error: { code: 'rate_limited' } })
    expect(responses[0]?.headers['retry-after']).toBeUndefined()
  })

  it('starts a new window with the first call after the previous one', async () => {
    const sandbox = await sandboxWith({ limit: 1, windowMs: 2_000 })
    await person(sandbox, 'a@acme.com')
    vi.setSystemTime(start + 1_999)
    expect((await person(sandbox, 'b@acme.com')).status).toBe(429)
    vi.setSystemTime(start + 3_000)
    const again = await person(sandbox, 'b@acme.com')
    expect(again.status).not.toBe(429)
    expect(limitOf(again)).toEqual(['1', '0', reset(5_000)])
    expect(sandbox.stats().windows).toEqual([
      { starts_at: start, ends_at: start + 2_000, limit: 1, accepted: 1, refused: 1, is_banned: false },
      {
        starts_at: start + 3_000,
        ends_at: start + 5_000,
        limit: 1,
        accepted: 1,
        refused: 0,
        is_banned: false,
      },
    ])
    expect(sandbox.stats().calls).toEqual({ accepted: 2, refused: 1 })
  })

  it('counts each key separately', async () => {
    const sandbox = await sandboxWith({ limit: 1, windowMs: 60_000, keys: ['key-one', 'key-two'] })
    const other = { headers: { authorization: 'Bearer key-two' }, body: { email: 'a@acme.com' } }
    await person(sandbox, 'a@acme.com')
    expect((await person(sandbox, 'a@acme.com')).status).toBe(429)
    expect((await call(sandbox, '/v1/person/enrich', other)).status).not.toBe(429)
    expect(sandbox.stats().windows.map(({ accepted, refused }) => [accepted, refused])).toEqual([
      [1, 1],
      [1, 0],
    ])
  })

  it('counts a bulk call as one, and answers of every status', async () => {
    const receiver = await startReceiver()
    const sandbox = await sandboxWith({ limit: 10, windowMs: 60_000 })
    expect(limitOf(await bulk(sandbox, ['a@acme.com', 'b@acme.com'], receiver.url))[1]).toBe('9')
    expect(limitOf(await person(sandbox, 'invalid'))[1]).toBe('8')
    expect(limitOf(await call(sandbox, '/v1/person/enrich', { text: '{' }))[1]).toBe('7')
    await call(sandbox, '/v1/person/enrich', { body: {}, headers: {} })
    expect(limitOf(await person(sandbox, 'a@acme.com'))[1]).toBe('6')
  })

  it('can change at run time', async () => {
    const sandbox = await sandboxWith({ limit: 1, windowMs: 60_000 })
    await person(sandbox, 'a@acme.com')
    sandbox.configure({ limit: 5 })
    expect(limitOf(await person(sandbox, 'a@acme.com'))).toEqual(['5', '3', reset(60_000)])
    expect(sandbox.stats().windows).toMatchObject([{ limit: 5, accepted: 2 }])
  })
  it('bans a key that continues after 429s: 403 without a Retry-After, until the ban is over', async () => {
    const sandbox = await sandboxWith({ limit: 1, windowMs: 2_000, banAfter: 1, banMs: 10_000 })
    const answers = []
    for (const ms of [0, 100, 200, 10_100, 10_200]) {
      vi.setSystemTime(start + ms)
      const response = await person(sandbox, 'a@acme.com')
      answers.push([response.status, response.headers['retry-after']])
    }
    expect(answers).toEqual([
      [200, undefined],
      [429, '2'],
      [403, undefined],
      [403, undefined],
      [200, undefined],
    ])
  })
})
