import { describe, expect, test } from 'vitest'
import { RateLimitModel } from '../../../../src/service/rate-limit/model.ts'

const T0 = Date.UTC(2026, 10, 22, 12, 0, 0)

const headers = (remaining: number, limit = 10, more: Record<string, string> = {}) => ({
  date: new Date(T0).toUTCString(),
  'x-ratelimit-limit': String(limit),
  'x-ratelimit-remaining': String(remaining),
  ...more,
})

/** One call that is granted, sent and answered after 20 ms. */
function call(model: RateLimitModel, at: number, status: number, head: Record<string, string>): void {
  model.grant(1, T0 + at)
  model.answered(model.sent(T0 + at), { status, headers: head }, T0 + at + 20)
}

describe('the state', () => {
  test('is cold until a limit is stated, then calibrating', () => {
    const model = new RateLimitModel()
    expect(model.state(T0)).toBe('cold')
    expect(model.grantable(T0)).toBe(1)
    call(model, 0, 200, headers(9))
    expect(model).toMatchObject({ limit: 10, windowMs: null })
    expect(model.state(T0 + 20)).toBe('calibrating')
  })

  test('is unlimited after a hundred answers without a limit', () => {
    const model = new RateLimitModel()
    for (let at = 0; at < 100; at++) call(model, at * 30, 200, {})
    expect(model.state(T0 + 3000)).toBe('unlimited')
    expect(model.grantable(T0 + 3000)).toBe(Number.POSITIVE_INFINITY)
  })

  test('is cooldown after a 429, and banned after a 403 that follows', () => {
    const model = new RateLimitModel()
    call(model, 0, 429, { 'retry-after': '2' })
    expect(model.state(T0 + 100)).toBe('cooldown')
    expect(model.grantable(T0 + 100)).toBe(0)
    expect(model.nextCheckAt(T0 + 100)).toBe(T0 + 2020)
    call(model, 2100, 403, {})
    expect(model).toMatchObject({ isBanned: true, throttled: 1 })
    expect(model.grantable(T0 + 2200)).toBe(0)
    expect(model.grantable(T0 + 33_000)).toBe(1)
    call(model, 33_000, 200, headers(9))
    expect(model.isBanned).toBe(false)
  })

  test('is cooldown while the previous leader may have exhausted the limit', () => {
    const model = new RateLimitModel(null, T0 + 5000)
    expect(model.state(T0)).toBe('cooldown')
    expect(model.stallReason(T0)).toMatch(/previous leader may have used up the limit/)
    expect(model.grantable(T0 + 5000)).toBe(1)
  })

  test('a 403 is a pause if it states Retry-After, and nothing of the rate otherwise', () => {
    const [paused, plain] = [new RateLimitModel(), new RateLimitModel()]
    call(paused, 0, 403, { 'retry-after': '3' })
    call(plain, 0, 403, {})
    expect(paused.state(T0 + 100)).toBe('cooldown')
    expect(plain.state(T0 + 100)).toBe('cold')
  })
})

describe('the limit', () => {
  test('is what the latest header states', () => {
    const model = new RateLimitModel()
    call(model, 0, 200, headers(9))
    call(model, 100, 200, headers(97, 100))
    expect(model.limit).toBe(100)
    expect(model.remaining(T0 + 200)).toBe(97)
  })

  test('is one more than Remaining if Limit is not stated', () => {
    const model = new RateLimitModel()
    call(model, 0, 200, { 'x-ratelimit-remaining': '49' })
    expect(model.limit).toBe(50)
  })

  test('that was cut below what is counted is waited out', () => {
    const model = new RateLimitModel()
    call(model, 0, 200, headers(5, 10, { 'x-ratelimit-reset': String(T0 / 1000 + 8) }))
    call(model, 100, 200, headers(0, 4, { 'x-ratelimit-reset': String(T0 / 1000 + 8) }))
    expect(model.state(T0 + 200)).toBe('cooldown')
    expect(model.stallReason(T0 + 200)).toMatch(/the limit was cut/)
  })

  test('that is left of is spent, but for the calls that measure the window', () => {
    const model = new RateLimitModel()
    call(model, 0, 200, headers(99, 100))
    expect(model.grantable(T0 + 30)).toBe(99 - 24)
    expect(model.grantable(T0 + 30, 10)).toBe(99 - 24 - 10)
  })

  test('that is exhausted is tried with one call once Reset has certainly passed', () => {
    const model = new RateLimitModel()
    call(model, 0, 200, headers(0, 1, { 'x-ratelimit-reset': '5' }))
    const at = model.nextCheckAt(T0 + 100) ?? 0
    expect(at - T0).toBeGreaterThan(5000)
    expect(at - T0).toBeLessThan(6100)
    expect(model.grantable(at - 1)).toBe(0)
    expect(model.grantable(at)).toBe(1)
  })
})

describe('for the next leader', () => {
  test('the limit is exhausted no longer than the furthest Reset, and not at all if half of it is left', () => {
    const model = new RateLimitModel()
    expect(model.exhaustedUntil(T0)).toBe(null)
    call(model, 0, 200, headers(6, 10, { 'x-ratelimit-reset': '5' }))
    expect(model.exhaustedUntil(T0 + 20)).toBe(null)
    call(model, 30, 200, headers(4, 10, { 'x-ratelimit-reset': '5' }))
    const until = (model.exhaustedUntil(T0 + 50) ?? 0) - T0
    expect(until).toBeGreaterThan(5000)
    expect(until).toBeLessThan(7200)
  })

  test('without a Reset it is exhausted for a minute at most', () => {
    const model = new RateLimitModel()
    call(model, 0, 200, headers(1))
    expect((model.exhaustedUntil(T0 + 20) ?? 0) - T0).toBeLessThanOrEqual(60_020)
  })
})

test('a policy’s w= is the first length that is tried', () => {
  const probeAt = (policy: string): number => {
    const model = new RateLimitModel()
    for (const [index, remaining] of [9, 8, 7, 6, 5, 4, 3, 2].entries()) {
      const head = { 'ratelimit-limit': '10', 'ratelimit-remaining': String(remaining) }
      call(model, index * 25, 200, { ...head, ...(policy && { 'ratelimit-policy': policy }) })
    }
    return (model.nextCheckAt(T0 + 200) ?? 0) - T0
  }
  expect(probeAt('10;w=1')).toBeGreaterThan(900)
  expect(probeAt('')).toBeLessThan(500)
})
