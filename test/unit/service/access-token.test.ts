import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { AccessToken, parseTokenLife, type IssuedToken } from '../../../src/service/access-token.ts'

const HOUR = 3_600_000

/** A token endpoint in virtual time: requests wait until the test answers them. */
class Endpoint {
  now = 0
  requests = 0
  /** Requests without an answer. */
  open: { resolve: (token: IssuedToken) => void; reject: (error: unknown) => void; at: number }[] = []
  /** Until when each token is valid, reckoned from its request: the earliest time of its issue. */
  readonly validUntil = new Map<string, number>()
  readonly token = new AccessToken({
    now: () => this.now,
    request: () => {
      this.requests++
      return new Promise((resolve, reject) => this.open.push({ resolve, reject, at: this.now }))
    },
  })

  issue(lifeMs: number, text = `token-${this.requests}`): Promise<void> {
    const request = this.open.shift()
    if (request === undefined) throw new Error('nothing was requested')
    this.validUntil.set(text, request.at + lifeMs)
    request.resolve({ text, lifeMs })
    return settled()
  }

  fail(error: unknown = new Error('away')): Promise<void> {
    this.open.shift()?.reject(error)
    return settled()
  }
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** An endpoint whose first token is held. */
async function withToken(lifeMs: number): Promise<Endpoint> {
  const endpoint = new Endpoint()
  const first = endpoint.token.get()
  await endpoint.issue(lifeMs)
  await first
  return endpoint
}

describe('the life of a token', () => {
  test('it is not used in the last minute of an hour, nor in the last twentieth of a shorter life', async () => {
    for (const [lifeMs, unusedMs] of [
      [HOUR, 60_000],
      [60_000, 3_000],
    ] as const) {
      const endpoint = await withToken(lifeMs)
      endpoint.now = lifeMs - unusedMs - 1
      expect(endpoint.token.get()).toBe('token-1')
      expect(endpoint.requests).toBe(1)
      endpoint.now = lifeMs - unusedMs
      const next = endpoint.token.get()
      await endpoint.issue(lifeMs)
      expect(await next).toBe('token-2')
    }
  })

  test('a request that fails is repeated after a pause that doubles', async () => {
    const endpoint = new Endpoint()
    const requestedAt: number[] = []
    for (; endpoint.now < 40_000; endpoint.now += 100) {
      const before = endpoint.requests
      const call = Promise.resolve(endpoint.token.get())
      if (endpoint.requests > before) requestedAt.push(endpoint.now)
      await Promise.all([endpoint.fail(), expect(call).rejects.toThrow('away')])
    }
    expect(requestedAt).toEqual([0, 1_000, 3_000, 7_000, 15_000, 23_000, 31_000, 39_000])
  })

  test('a failed request waits as long as its answer says, and the calls meanwhile fail in the same way', async () => {
    const endpoint = new Endpoint()
    const away = Object.assign(new Error('busy'), { retryAfterMs: 90_000 })
    const first = Promise.resolve(endpoint.token.get())
    await Promise.all([endpoint.fail(away), expect(first).rejects.toBe(away)])
    endpoint.now = 89_999
    await expect(endpoint.token.get()).rejects.toBe(away)
    expect(endpoint.requests).toBe(1)
    endpoint.now = 90_000
    const again = endpoint.token.get()
    await endpoint.issue(HOUR)
    expect(await again).toBe('token-2')
  })

  test.each([
    [3600, HOUR],
    ['3600', HOUR],
    [0.5, 500],
    [undefined, HOUR],
    [null, HOUR],
    ['', HOUR],
    [0, HOUR],
    [-1, HOUR],
    [Number.NaN, HOUR],
    ['soon', HOUR],
    [{}, HOUR],
    // Milliseconds, or a date.
    [3_600_000, 24 * HOUR],
    [1_795_651_200, 24 * HOUR],
  ])('expires_in %j is a life of %d ms', (expiresIn, lifeMs) => {
    expect(parseTokenLife(expiresIn)).toBe(lifeMs)
  })
})

describe('a token that the service refuses', () => {
  test('is replaced once for all calls that were made with it', async () => {
    const endpoint = await withToken(HOUR)
    endpoint.token.accept('token-1')
    expect([endpoint.token.refuse('token-1'), endpoint.token.refuse('token-1')]).toEqual([true, true])
    const calls = [endpoint.token.get(), endpoint.token.get()]
    await endpoint.issue(HOUR)
    expect(await Promise.all(calls)).toEqual(['token-2', 'token-2'])
    // A late answer to a call with the first one.
    expect(endpoint.token.refuse('token-1')).toBe(true)
    expect(endpoint.token.get()).toBe('token-2')
    expect(endpoint.requests).toBe(2)
  })

  test('shows that the client is refused if it took the place of a refused one, and none was accepted since', async () => {
    const endpoint = await withToken(HOUR)
    for (const isAccepted of [true, false]) {
      expect(endpoint.token.refuse(`token-${endpoint.requests}`)).toBe(true)
      const next = endpoint.token.get()
      await endpoint.issue(HOUR)
      if (isAccepted) endpoint.token.accept(await next)
    }
    expect(endpoint.token.refuse('token-3')).toBe(false)
  })
})

/** A step of a history. Times are shares of a token's life. */
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('wait' as const),
      share: fc.integer({ min: 0, max: 30 }).map((percent) => percent / 100),
    }),
  },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('call' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('issue' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('fail' as const),
      retryAfterMs: fc.constantFrom(null, 500, 30_000),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constantFrom('accept' as const, 'refuse' as const, 'forget' as const) }),
  },
)

test('whatever the order of calls and answers, a call has a valid token or none, and one request is on its way', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1_000, max: 100_000_000 }),
      fc.array(step, { minLength: 1, maxLength: 60 }),
      async (lifeMs, steps) => {
        const endpoint = new Endpoint()
        const used: string[] = []
        /** Notes the token of each call, and that it is valid at this moment. */
        const use = (text: string): void => {
          expect(endpoint.now).toBeLessThan(endpoint.validUntil.get(text) ?? 0)
          used.push(text)
        }
        const calls: Promise<unknown>[] = []
        const errors: string[] = []
        for (const one of steps) {
          if (one.do === 'wait') {
            endpoint.now += one.share * lifeMs
            // An answer takes less than the life of its token.
            const [late] = endpoint.open
            if (late !== undefined && endpoint.now - late.at > 0.6 * lifeMs) {
              endpoint.now = Math.min(endpoint.now, late.at + 0.9 * lifeMs)
              await endpoint.issue(lifeMs)
            }
          } else if (one.do === 'call') {
            const token = endpoint.token.get()
            if (typeof token === 'string') use(token)
            else calls.push(token.then(use, (error: unknown) => errors.push(String(error))))
          } else if (one.do === 'issue') {
            if (endpoint.open.length > 0) await endpoint.issue(lifeMs)
          } else if (one.do === 'fail')
            await endpoint.fail(Object.assign(new Error('away'), { retryAfterMs: one.retryAfterMs }))
          else if (one.do === 'forget') endpoint.token.forget()
          else endpoint.token[one.do](used.at(-1) ?? 'none')
          expect(endpoint.open.length).toBeLessThanOrEqual(1)
        }
        while (endpoint.open.length > 0) await endpoint.issue(lifeMs)
        await Promise.all(calls)
        expect(errors.filter((error) => error !== 'Error: away')).toEqual([])
      },
    ),
    { numRuns: 500 },
  )
})
