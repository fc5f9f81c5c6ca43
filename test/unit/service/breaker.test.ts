import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { Breaker } from '../../../src/service/breaker.ts'
import type { BreakerState } from '../../../src/service/breaker.ts'
import {
  AbortedError,
  BadRequestError,
  CircuitOpenError,
  ConnectionError,
  MalformedResponseError,
  OutOfCreditsError,
  RateLimitedError,
  ServerError,
  TimeoutError,
  UnavailableError,
  UnexpectedStatusError,
} from '../../../src/service/errors.ts'
import { rejection } from './loopback-service.ts'

const endpoint = 'GET /v1/company/enrich'
const fault = (): Promise<never> => Promise.reject(new ServerError('it failed', { endpoint, status: 500 }))
const fine = (): Promise<string> => Promise.resolve('fine')

const failTimes = async (breaker: Breaker, times: number): Promise<void> => {
  for (let i = 0; i < times; i++) await rejection(breaker.execute(fault), ServerError)
}

beforeEach(() => {
  // Only the clock: the breaker sets no timer.
  vi.useFakeTimers({ toFake: ['Date'], now: 0 })
  onTestFinished(() => void vi.useRealTimers())
})

describe('the breaker', () => {
  test('opens after consecutive faults, rejects without calling, and closes after a successful probe', async () => {
    const breaker = new Breaker({ failureThreshold: 3 })
    await failTimes(breaker, 2)
    expect([breaker.state, breaker.nextProbeAt]).toEqual(['closed', null])
    await failTimes(breaker, 1)
    expect([breaker.state, breaker.nextProbeAt]).toEqual(['open', 5_000])

    vi.setSystemTime(4_000)
    const call = vi.fn<typeof fine>(fine)
    const error = await rejection(breaker.execute(call), CircuitOpenError)
    expect(error).toMatchObject({ action: 'release', maybeSent: false, retryAfterMs: 1_000 })
    expect(call).not.toHaveBeenCalled()

    vi.setSystemTime(5_000)
    const seen: BreakerState[] = []
    const probe = (): Promise<string> => {
      seen.push(breaker.state)
      return fine()
    }
    expect(await breaker.execute(probe)).toBe('fine')
    expect([breaker.state, breaker.nextProbeAt]).toEqual(['closed', null])
    expect(await breaker.execute(probe)).toBe('fine')
    expect(seen).toEqual(['half_open', 'closed'])
  })

  test('lengthens the pause to eight seconds, and resets it once closed', async () => {
    const breaker = new Breaker({ failureThreshold: 1 })
    const pauses: number[] = []
    await failTimes(breaker, 1)
    for (let i = 0; i < 6; i++) {
      const next = breaker.nextProbeAt ?? 0
      pauses.push(next - Date.now())
      vi.setSystemTime(next)
      if (i < 5) await failTimes(breaker, 1)
    }
    expect(pauses).toEqual([5_000, 8_000, 8_000, 8_000, 8_000, 8_000])
    await breaker.execute(fine)
    await failTimes(breaker, 1)
    expect((breaker.nextProbeAt ?? 0) - Date.now()).toBe(5_000)
  })

  test('takes Retry-After as a lower bound of the pause', async () => {
    const breaker = new Breaker({ failureThreshold: 1 })
    const unavailable = new UnavailableError('later', { endpoint, status: 503, retryAfterMs: 90_000 })
    await rejection(
      breaker.execute(() => Promise.reject(unavailable)),
      UnavailableError,
    )
    expect(breaker.nextProbeAt).toBe(90_000)
    vi.setSystemTime(89_999)
    await rejection(breaker.execute(fine), CircuitOpenError)
    vi.setSystemTime(90_000)
    await failTimes(breaker, 1)
    expect(breaker.nextProbeAt).toBe(98_000)
  })

  test('lets one call probe and rejects the others at once', async () => {
    const breaker = new Breaker({ failureThreshold: 1 })
    await failTimes(breaker, 1)
    vi.setSystemTime(5_000)
    const probe = Promise.withResolvers<string>()
    const probing = breaker.execute(() => probe.promise)
    expect(breaker.state).toBe('half_open')
    await rejection(breaker.execute(fine), CircuitOpenError)
    probe.resolve('alive')
    expect(await probing).toBe('alive')
    expect(await breaker.execute(fine)).toBe('fine')
  })

  test('counts every fault of the service', async () => {
    const breaker = new Breaker({ failureThreshold: 5, idleFailureThreshold: 5 })
    for (const error of [
      new ServerError('', { endpoint, status: 502 }),
      new UnavailableError('', { endpoint, status: 503 }),
      new TimeoutError('', { endpoint }),
      new ConnectionError('', { endpoint }),
    ]) {
      await rejection(
        breaker.execute(() => Promise.reject(error)),
        error.constructor as typeof ServerError,
      )
    }
    expect(breaker.state).toBe('closed')
    const last = new MalformedResponseError('', { endpoint, status: 200, body: Buffer.alloc(0) })
    await rejection(
      breaker.execute(() => Promise.reject(last)),
      MalformedResponseError,
    )
    expect(breaker.state).toBe('open')
  })

  test('takes a 4xx as a sign of life: it never opens the circuit and resets the count', async () => {
    const breaker = new Breaker({ failureThreshold: 2 })
    const limited = new RateLimitedError('', { endpoint, status: 429 })
    const badRequest = new BadRequestError('', { endpoint, status: 400 })
    for (let i = 0; i < 5; i++) {
      await failTimes(breaker, 1)
      await rejection(
        breaker.execute(() => Promise.reject(limited)),
        RateLimitedError,
      )
      await failTimes(breaker, 1)
      await rejection(
        breaker.execute(() => Promise.reject(badRequest)),
        BadRequestError,
      )
    }
    expect(breaker.state).toBe('closed')
  })

  test('ignores aborted calls, and stays open after an aborted probe', async () => {
    const breaker = new Breaker({ failureThreshold: 2 })
    const abort = (): Promise<never> => Promise.reject(new AbortedError('', { endpoint, maybeSent: true }))
    await failTimes(breaker, 1)
    await rejection(breaker.execute(abort), AbortedError)
    await rejection(breaker.execute(abort), AbortedError)
    expect(breaker.state).toBe('closed')
    await failTimes(breaker, 1)
    expect(breaker.state).toBe('open')
    vi.setSystemTime(5_000)
    await rejection(breaker.execute(abort), AbortedError)
    expect([breaker.state, breaker.nextProbeAt]).toEqual(['open', 13_000])
  })

  test('restores a circuit that another process opened: single probes, growing pauses', async () => {
    const before = new Breaker({ failureThreshold: 1 })
    await failTimes(before, 1)
    vi.setSystemTime(2_000)
    const kept = before.snapshot()
    expect(kept).toEqual({
      probeInMs: 3_000,
      backoffMs: 5_000,
      reason: expect.any(String),
      cause: expect.any(String),
    })

    const breaker = new Breaker()
    if (kept !== null) breaker.restore(kept)
    expect([breaker.state, breaker.nextProbeAt]).toEqual(['open', 5_000])
    await rejection(breaker.execute(fine), CircuitOpenError)
    vi.setSystemTime(5_000)
    await failTimes(breaker, 1)
    expect([breaker.state, breaker.nextProbeAt]).toEqual(['open', 13_000])
    expect(breaker.snapshot()).toEqual({ ...kept, probeInMs: 8_000, backoffMs: 8_000 })
    vi.setSystemTime(13_000)
    expect(await breaker.execute(fine)).toBe('fine')
    expect([breaker.state, breaker.snapshot()]).toEqual(['closed', null])
    expect(await breaker.execute(fine)).toBe('fine')
    await failTimes(breaker, 3)
    expect([breaker.state, breaker.nextProbeAt]).toEqual(['open', 18_000])
  })

  test('opens after three consecutive faults if no other call is in flight, else after ten', async () => {
    const alone = new Breaker()
    await failTimes(alone, 2)
    expect(alone.state).toBe('closed')
    await failTimes(alone, 1)
    expect(alone.state).toBe('open')

    const busy = new Breaker()
    const other = Promise.withResolvers<string>()
    const onItsWay = busy.execute(() => other.promise)
    await failTimes(busy, 9)
    expect(busy.state).toBe('closed')
    await failTimes(busy, 1)
    expect(busy.state).toBe('open')
    other.resolve('late')
    await onItsWay
  })

  test('never opens for an input that fails while others succeed', async () => {
    const breaker = new Breaker({ failureThreshold: 3 })
    const bad = [1, 2, 3, 4, 5].map((id) => ({ id, attempts: 0 }))
    for (const subject of bad) {
      await rejection(breaker.execute(fault, subject), ServerError)
      await breaker.execute(fine, { id: 100, attempts: 0 })
    }
    for (let round = 0; round < 3; round++)
      for (const subject of bad) await rejection(breaker.execute(fault, subject), ServerError)
    expect(breaker.state).toBe('closed')
  })

  test('opens if connections fail, whatever the input and other responses', async () => {
    const breaker = new Breaker()
    const refuseConnection = (): Promise<never> =>
      Promise.reject(new ConnectionError('', { endpoint, maybeSent: false }))
    for (let i = 0; i < 3; i++)
      await rejection(breaker.execute(refuseConnection, { id: 1, attempts: 4 }), ConnectionError)
    expect(breaker.state).toBe('open')
  })
})

describe('an account without credits', () => {
  const HOUR = 3_600_000
  const subject = { id: 1, attempts: 0, kind: 'email' }
  const broke = (): Promise<never> =>
    Promise.reject(new OutOfCreditsError('no credits', { endpoint, status: 402 }))

  test('opens the circuit at once, for an hour, and only an answer closes it', async () => {
    const breaker = new Breaker()
    await breaker.execute(fine, subject)
    await rejection(breaker.execute(broke, subject), OutOfCreditsError)
    expect([breaker.state, breaker.nextProbeAt, breaker.isOutOfCredits]).toEqual(['open', HOUR, true])
    // A lookup that is refused waits no hour: a run that begins may find credits before.
    const refused = await rejection(breaker.execute(fine, subject), CircuitOpenError)
    expect(refused.retryAfterMs).toBe(1_000)

    vi.setSystemTime(HOUR)
    await rejection(breaker.execute(broke, subject), OutOfCreditsError)
    expect(breaker.nextProbeAt).toBe(2 * HOUR)
    expect(breaker.snapshot()).toEqual({
      probeInMs: HOUR,
      backoffMs: HOUR,
      reason: null,
      cause: 'out_of_credits',
    })

    // Neither says anything about credits; each is tried again sooner.
    vi.setSystemTime(2 * HOUR)
    const limited = new RateLimitedError('slow down', { endpoint, status: 429, retryAfterMs: 60_000 })
    await rejection(
      breaker.execute(() => Promise.reject(limited), subject),
      RateLimitedError,
    )
    expect([breaker.isOutOfCredits, breaker.nextProbeAt]).toEqual([true, 2 * HOUR + 60_000])
    vi.setSystemTime(2 * HOUR + 60_000)
    await rejection(breaker.execute(fault, subject), ServerError)
    expect(breaker.isOutOfCredits).toBe(true)
    expect((breaker.nextProbeAt ?? 0) - Date.now()).toBeLessThanOrEqual(8_000)

    vi.setSystemTime(breaker.nextProbeAt ?? 0)
    expect(await breaker.execute(fine, subject)).toBe('fine')
    expect([breaker.state, breaker.isOutOfCredits]).toEqual(['closed', false])
    await rejection(breaker.execute(fault, subject), ServerError)
    expect(breaker.state).toBe('closed')
  })

  test('is inherited, probed at once for a run that begins, and does not stop what costs nothing', async () => {
    const breaker = new Breaker()
    breaker.restore({ probeInMs: HOUR / 2, backoffMs: HOUR, reason: null, cause: 'out_of_credits' })
    expect([breaker.isOutOfCredits, breaker.nextProbeAt]).toEqual([true, HOUR / 2])
    expect(await breaker.execute(fine)).toBe('fine')
    expect(breaker.state).toBe('open')
    breaker.probe()
    await rejection(breaker.execute(broke, subject), OutOfCreditsError)
    expect(breaker.nextProbeAt).toBe(HOUR)
    breaker.probe()
    expect(await breaker.execute(fine, subject)).toBe('fine')
    expect(breaker.state).toBe('closed')
    breaker.probe()
    expect([breaker.state, breaker.nextProbeAt]).toEqual(['closed', null])
  })

  test('is what a 402 says once it is proved to be about the endpoint, and not about one input', async () => {
    const breaker = new Breaker()
    const unpaid = (): Promise<never> =>
      Promise.reject(
        new UnexpectedStatusError('payment required', { endpoint, status: 402, action: 'abort_run' }),
      )
    const stops: string[] = []
    for (let id = 1; id <= 3; id++)
      await breaker.execute(unpaid, { ...subject, id }).catch((error: Error) => stops.push(error.name))
    expect(stops).toEqual(['UnexpectedStatusError', 'UnexpectedStatusError', 'OutOfCreditsError'])
    expect([breaker.isOutOfCredits, breaker.nextProbeAt]).toEqual([true, HOUR])
  })
})
