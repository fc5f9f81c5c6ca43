import { describe, expect, onTestFinished, test, vi } from 'vitest'
import type { ExhaustedFor, LimitUsage } from '../../../../src/domain/rate-status.ts'
import type { Priority } from '../../../../src/domain/run.ts'
import { Limiter, type LimiterOptions } from '../../../../src/service/rate-limit/limiter.ts'
import type { Permits } from '../../../../src/service/rate-limit/permits.ts'

/** A limiter, and a service of one endless window that counts calls. */
function limited(limit: number, options: Partial<LimiterOptions> = {}) {
  const limiter = new Limiter({ ...options })
  onTestFinished(() => limiter.stop())
  let used = 0
  /** Makes the calls of these permits and answers them. */
  const call = (permits: Permits, count = permits.count): void => {
    const calls = Array.from({ length: count }, () => permits.use())
    for (const one of calls) one.sent(0)
    for (const one of calls)
      one.answered({
        status: 200,
        at: 0,
        headers: {
          'x-ratelimit-limit': String(limit),
          'x-ratelimit-remaining': String(limit - ++used),
          'x-ratelimit-reset': String(Math.ceil(Date.now() / 1000) + 60),
        },
      })
  }
  return { limiter, call, used: () => used }
}

/**
 * For the rest of the test no timer fires by itself. Call after `limited`, which stops the limiter by real ones.
 * @returns lets Bottleneck's own timers fire, which wait for no time
 */
function fakeTimers(): () => Promise<unknown> {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  return () => vi.advanceTimersByTimeAsync(20)
}

/** As many as are granted without an answer. */
async function takeAll(limiter: Limiter, priority: Priority): Promise<number> {
  let count = 0
  for (;;) {
    const soon = AbortSignal.timeout(100)
    const permits = await limiter.acquire(1_000, priority, soon).catch(() => null)
    if (permits === null) return count
    count += permits.count
  }
}

/** Enough answers to know that all carry headers: until then more calls are reserved. */
async function learn(limited: { limiter: Limiter; call: (permits: Permits) => void }, priority: Priority) {
  for (let index = 0; index < 8; index++) limited.call(await limited.limiter.acquire(1, priority))
}

describe('the limiter', () => {
  test('serves urgent calls first, then normal, then low, and of one priority the first to come', async () => {
    const { limiter, call } = limited(100)
    const first = await limiter.acquire(1, 'low')
    const served: string[] = []
    const wait = (priority: Priority, nth: number): Promise<unknown> =>
      limiter.acquire(1, priority).then((permits) => {
        served.push(`${priority} ${nth}`)
        call(permits)
      })
    const all = ['low', 'normal', 'urgent', 'low', 'urgent'] as const
    const waiting = all.map(wait)
    call(first)
    await Promise.all(waiting)
    expect(served).toEqual(['urgent 2', 'urgent 4', 'normal 1', 'low 0', 'low 3'])
  })

  test('says how long no call was answered: one that is refused again ends no wait', async () => {
    const { limiter } = limited(100)
    const answer = (permits: Permits, status: number): void =>
      permits.use().answered({ status, at: 0, headers: status === 429 ? { 'retry-after': '1' } : {} })
    answer(await limiter.acquire(1, 'normal'), 429)
    const [first, second] = [limiter.acquire(1, 'normal'), limiter.acquire(1, 'normal')]
    answer(await first, 429)
    expect(limiter.state().stalledForMs).toBeGreaterThan(900)
    answer(await second, 200)
    expect(limiter.state().stalledForMs).toBe(null)
  })

  test('keeps a share for urgent calls after the first one', async () => {
    const service = limited(100, { reserve: 0.1 })
    const { limiter } = service
    await learn(service, 'urgent')
    const most = await takeAll(limiter, 'low')
    // Besides the share, some calls are reserved to measure the window.
    expect(most).toBeGreaterThan(73)
    expect(most).toBeLessThanOrEqual(82)
    expect(await takeAll(limiter, 'urgent')).toBeGreaterThanOrEqual(5)
  })

  test('keeps no share if no call was urgent', async () => {
    const service = limited(100, { reserve: 0.1 })
    await learn(service, 'low')
    expect(await takeAll(service.limiter, 'low')).toBeGreaterThan(83)
  })

  test('rejects what can never be granted: no permits, an aborted signal, after the stop', async () => {
    const { limiter } = limited(100)
    expect(() => limiter.acquire(0, 'normal')).toThrow('acquire needs 1 permit or more, not 0')
    const aborted = AbortSignal.abort(new Error('given up'))
    await expect(limiter.acquire(1, 'normal', aborted)).rejects.toThrow('given up')
    await limiter.stop()
    const soon = AbortSignal.timeout(1000)
    await expect(limiter.acquire(1, 'normal', soon)).rejects.toThrow('the limiter is stopped')
  })

  test('gives back the permit of an acquire that was aborted before its turn', async () => {
    const { limiter } = limited(100)
    const settle = fakeTimers()
    const gone = new AbortController()
    const held = await limiter.acquire(1, 'normal')
    const next = limiter.acquire(1, 'normal', gone.signal)
    held.release()
    gone.abort(new Error('given up'))
    await expect(next).rejects.toThrow('given up')
    await settle()
    const granted: number[] = []
    void limiter.acquire(1, 'normal').then(({ count }) => granted.push(count))
    await settle()
    expect(granted).toEqual([1])
  })

  test('grants without a turn where a limit leaves enough and nothing waits', async () => {
    const service = limited(100)
    await learn(service, 'normal')
    const granted: number[] = []
    void service.limiter.acquire(7, 'normal').then(({ count }) => granted.push(count))
    await Promise.resolve()
    await Promise.resolve()
    expect(granted).toEqual([7])
  })

  test('grants without a turn where there is no limit', async () => {
    const { limiter } = limited(100)
    for (let answers = 0; answers < 100;) {
      const permits = await limiter.acquire(100, 'normal')
      const calls = Array.from({ length: permits.count }, () => permits.use())
      for (const one of calls) one.answered({ status: 200, at: 0, headers: {} })
      answers += permits.count
    }
    expect(limiter.state().state).toBe('unlimited')
    const granted: number[] = []
    void limiter.acquire(7, 'normal').then(({ count }) => granted.push(count))
    await Promise.resolve()
    await Promise.resolve()
    expect(granted).toEqual([7])
  })

  test('sets a timer only for an acquire that waits, and if a moment is known; an answer needs none', async () => {
    const { limiter } = limited(100)
    const settle = fakeTimers()
    const first = limiter.acquire(1, 'normal')
    await settle()
    const inFlight = (await first).use()
    inFlight.sent(0)
    expect(vi.getTimerCount()).toBe(0)
    const granted: number[] = []
    void limiter.acquire(1, 'normal').then(({ count }) => granted.push(count))
    await settle()
    expect(vi.getTimerCount()).toBe(0)
    inFlight.answered({ status: 200, at: 0, headers: {} })
    await settle()
    expect(granted).toEqual([1])
    expect(vi.getTimerCount()).toBe(0)
  })

  test('makes the last free call only after the exhaustion is persisted', async () => {
    const notes: { exhaustedFor: ExhaustedFor; done: () => void }[] = []
    const { limiter, call } = limited(1, {
      persistExhaustion: (exhaustedFor) =>
        new Promise((done) => notes.push({ exhaustedFor, done: () => done() })),
    })
    // Before the first answer there is nothing to persist.
    call(await limiter.acquire(1, 'normal'))
    const waiting = new AbortController()
    const second = limiter.acquire(1, 'normal', waiting.signal).catch(() => null)
    await expect.poll(() => notes.length).toBe(1)
    expect(notes[0]?.exhaustedFor.all).toBeGreaterThan(50_000)
    expect(limiter.exhaustedFor().all).toBeGreaterThan(50_000)
    waiting.abort()
    expect(await second).toBe(null)
  })

  test('makes no call while the previous leader may have exhausted the limit', async () => {
    const { limiter } = limited(100, { exhaustedFor: { all: 60_000 } })
    expect(await takeAll(limiter, 'urgent')).toBe(0)
    void limiter.acquire(1, 'urgent').catch(() => {})
    expect(limiter.state()).toMatchObject({ state: 'cooldown', throttled: 0 })
    expect(limiter.state().stallReason).toMatch(/previous leader may have used up the limit: waiting until/)
    expect(limiter.state().nextWindowInMs).toBeGreaterThan(50_000)
  })

  test('persists no exhaustion if Remaining never falls', async () => {
    const notes: ExhaustedFor[] = []
    const limiter = new Limiter({
      persistExhaustion: (exhaustedFor) => Promise.resolve(void notes.push(exhaustedFor)),
    })
    onTestFinished(() => limiter.stop())
    for (let index = 0; index < 40; index++) {
      const permits = await limiter.acquire(32, 'normal')
      const calls = Array.from({ length: permits.count }, () => permits.use())
      for (const call of calls) call.sent(0)
      expect(limiter.exhaustedFor()).toEqual({})
      for (const call of calls)
        call.answered({
          status: 200,
          at: 0,
          headers: {
            'x-ratelimit-limit': '1000000',
            'x-ratelimit-remaining': '999999',
            'x-ratelimit-reset': String(Math.ceil(Date.now() / 60_000) * 60),
          },
        })
    }
    expect(notes).toEqual([])
    expect(limiter.exhaustedFor()).toEqual({})
  })

  test('keeps a documented limit from the first call on, and says what it waits for', async () => {
    const usages: LimitUsage[] = []
    const { limiter, call } = unstated({
      documented: {
        limits: [{ calls: 3, windowMs: 60_000, endpoint: null }],
        persist: (usage) => Promise.resolve(void usages.push(usage)),
      },
    })
    for (let n = 0; n < 3; n++) call(await limiter.acquire(1, 'normal'))
    const waiting = new AbortController()
    const fourth = limiter.acquire(1, 'normal', waiting.signal).catch(() => null)
    await expect
      .poll(() => limiter.state().stallReason)
      .toMatch(/^the documented limit of 3 calls in 1 min is used up: waiting until \d\d:/)
    expect(limiter.state()).toMatchObject({ state: 'documented', limit: 3, windowMs: 60_000, windowUsed: 3 })
    expect(limiter.state().nextWindowInMs).toBeGreaterThan(50_000)
    // Each call was noted before it was made.
    const callsOf = (usage: LimitUsage | null): number =>
      (usage?.windows[0]?.calls ?? []).reduce((sum, [, calls]) => sum + calls, usage?.reserved ?? 0)
    const noted = usages.map(callsOf)
    expect(noted.slice(0, 3).every((count, index) => count > index)).toBe(true)
    expect([callsOf(limiter.usage()), limiter.usage()?.reserved]).toEqual([3, 0])
    waiting.abort()
    expect(await fourth).toBe(null)
  })

  test('an endpoint that has used up its limit holds up no other, and headers may be stricter', async () => {
    const { limiter, call } = unstated({
      documented: {
        limits: [
          { calls: 1, windowMs: 60_000, endpoint: 'company' },
          { calls: 50, windowMs: 60_000, endpoint: 'person' },
        ],
      },
    })
    call(await limiter.acquire(1, 'normal', undefined, 'company'))
    const waiting = new AbortController()
    const company = limiter.acquire(1, 'urgent', waiting.signal, 'company').catch(() => null)
    for (let n = 0; n < 5; n++) call(await limiter.acquire(1, 'low', undefined, 'person'))
    const permits = await limiter.acquire(1, 'low', undefined, 'person')
    const headers = { 'x-ratelimit-limit': '7', 'x-ratelimit-remaining': '0' }
    permits.use().answered({ status: 200, at: 0, headers })
    const person = limiter.acquire(1, 'low', waiting.signal, 'person').catch(() => null)
    await expect.poll(() => limiter.state().stallReason).toMatch(/^rate limit reached: waiting/)
    expect(limiter.state()).toMatchObject({ state: 'calibrating', limit: 7 })
    waiting.abort()
    expect(await Promise.all([company, person])).toEqual([null, null])
  })
})

/** A limiter of a service that states nothing. */
function unstated(options: LimiterOptions) {
  const limiter = new Limiter(options)
  onTestFinished(() => limiter.stop())
  const call = (permits: Permits): void => {
    permits.use().answered({ status: 200, at: 0, headers: {} })
    permits.release()
  }
  return { limiter, call }
}
