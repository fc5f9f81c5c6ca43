import { describe, expect, test } from 'vitest'
import { exhaustedForMs } from '../../../../src/service/rate-limit/exhaustion.ts'
import { RateLimitModel } from '../../../../src/service/rate-limit/model.ts'
import { SECOND_WINDOWS } from './ledger-script.ts'
import { describeModels } from '../../../support/simulated-service/describe-models.ts'

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
    expect(model.stallReason(T0)).toBe(null)
    call(model, 0, 200, headers(9))
    expect(model).toMatchObject({ limit: 10, windowMs: null })
    expect(model.state(T0 + 20)).toBe('calibrating')
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
    const model = new RateLimitModel(T0 + 5000)
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

describe('what the previous leader knew', () => {
  test('of a ban is the ban of this one', () => {
    expect(new RateLimitModel(null, { wasBanned: true }).state(T0)).toBe('banned')
  })
})

describe('the window', () => {
  const play = (calls: readonly (readonly [number, number])[]): RateLimitModel => {
    const model = new RateLimitModel()
    for (const [at, used] of calls) call(model, at, 200, headers(10 - used))
    return model
  }

  test('is measured until its length is bounded, though only fixed windows are possible', () => {
    const model = play(SECOND_WINDOWS.slice(0, 5))
    expect(describeModels(model)).toMatch(
      /fixed \d+\.\.Infinity, sliding contradicted .*, bucket contradicted/,
    )
    expect(model.state(T0 + 1060)).toBe('calibrating')
  })

  test('is a fixed one once nothing else is possible: what is charged to it is used', () => {
    const model = play(SECOND_WINDOWS)
    expect(model.state(T0 + 2100)).toBe('fixed_window')
    expect(model.windowUsed(T0 + 2100)).toBe(1)
    model.sent(T0 + 2100)
    expect(model.windowUsed(T0 + 2110)).toBe(2)
    expect(model.nextWindowAt(T0 + 2110)).toBeGreaterThan(T0 + 3070)
  })

  test('has used what is in flight while nothing is known of it', () => {
    const [cold, measured] = [new RateLimitModel(), play([[0, 1]])]
    for (const model of [cold, measured]) {
      model.sent(T0 + 30)
      expect(model.windowUsed(T0 + 40)).toBe(1)
    }
  })

  test('is renewed at Reset, at the end of a cooldown, or at no known time', () => {
    const model = new RateLimitModel()
    call(model, 0, 200, { 'x-ratelimit-reset': '5' })
    expect(model.nextWindowAt(T0 + 30)).toBe(null)
    call(model, 100, 200, headers(9, 10, { 'x-ratelimit-reset': '5' }))
    expect(model.nextWindowAt(T0 + 130)).toBe(T0 + 120 + 5000 + 1002)
    call(model, 200, 429, { 'retry-after': '20' })
    expect(model.nextWindowAt(T0 + 230)).toBe(T0 + 20_220)
    expect(model.exhaustedUntil(T0 + 230)).toBe(T0 + 20_220)
  })

  test('is bounded by the instants of Reset, but not by those of a refusal', () => {
    const reset = (seconds: number) => ({ 'x-ratelimit-reset': String(T0 / 1000 + seconds) })
    const [accepted, refused] = [new RateLimitModel(), new RateLimitModel()]
    for (const model of [accepted, refused]) call(model, 0, 200, headers(9, 10, reset(4)))
    call(accepted, 1000, 200, headers(8, 10, reset(9)))
    call(refused, 1000, 429, headers(8, 10, reset(9)))
    expect(describeModels(accepted)).toMatch(/fixed \d+\.\.6000/)
    expect(describeModels(refused)).toMatch(/fixed \d+\.\.Infinity/)
  })
})

describe('the limit', () => {
  test('is one more than Remaining if Limit is not stated', () => {
    const model = new RateLimitModel()
    call(model, 0, 200, { 'x-ratelimit-remaining': '49' })
    expect(model.limit).toBe(50)
  })

  test('that is left of is spent, but for the calls that measure the window', () => {
    const model = new RateLimitModel()
    call(model, 0, 200, headers(99, 100))
    expect(model.grantable(T0 + 30)).toBe(99 - 24)
    expect(model.grantable(T0 + 30, 0.1)).toBe(99 - 24 - 10)
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

describe('when nothing is left', () => {
  const exhausted = (limit: number): RateLimitModel => {
    const model = new RateLimitModel()
    call(model, 0, 200, headers(0, limit, { 'x-ratelimit-reset': '2.001' }))
    return model
  }
  const DUE = T0 + 20 + 2001 + 3

  test('one call is tried once Reset has passed, unless one is pending that will show more', () => {
    const model = exhausted(10)
    expect(model.nextCheckAt(T0 + 30)).toBe(DUE)
    expect([DUE - 1, DUE].map((at) => model.grantable(at))).toEqual([0, 1])
    model.calls.grant(1, DUE)
    expect(model.grantable(DUE)).toBe(0)
  })

  test('a call that is due and was given back unsent may be made after all, after a silence', () => {
    const model = exhausted(1)
    model.grant(1, DUE)
    expect(model.grantable(DUE)).toBe(0)
    model.calls.release(1)
    expect(model.grantable(model.nextCheckAt(DUE) ?? 0)).toBe(1)
  })
})

describe('a limit that changes', () => {
  test('is waited out only if nothing is left of the new one', () => {
    const reset = { 'x-ratelimit-reset': '8' }
    const cut = (remaining: number): RateLimitModel => {
      const model = new RateLimitModel()
      call(model, 0, 200, headers(9, 10, reset))
      call(model, 100, 200, headers(remaining, 5, reset))
      return model
    }
    expect([3, 0].map((left) => cut(left).state(T0 + 200))).toEqual(['calibrating', 'cooldown'])
    expect(cut(0).stallReason(T0 + 200)).toMatch(/the limit was cut/)
  })

  test('makes a rate that was measured by the former one void', () => {
    const model = new RateLimitModel()
    for (const [at, remaining] of [
      [0, 3],
      [200, 3],
      [400, 3],
    ] as const)
      call(model, at, 200, headers(remaining))
    expect(describeModels(model)).not.toMatch(/bucket 0\.\.Infinity/)
    call(model, 500, 200, headers(93, 100))
    expect(describeModels(model)).toMatch(/bucket 0\.\.Infinity/)
  })

  test('is none any more if its headers are constants', () => {
    const model = new RateLimitModel()
    for (const at of [0, 100, 200]) call(model, at, 200, headers(0, 50))
    expect(model.limit).toBe(50)
    call(model, 300, 200, headers(0, 50))
    expect(model.limit).toBe(null)
    expect(model.grantable(T0 + 330)).toBeGreaterThanOrEqual(1)
  })
})

describe('a call that was refused', () => {
  test('though a header had allowed it shows another client', () => {
    const model = new RateLimitModel()
    call(model, 0, 200, headers(9))
    call(model, 100, 429, { 'retry-after': '1' })
    expect(model.isShared).toBe(true)
    call(model, 2000, 429, { 'retry-after': '1' })
    // Two within ten seconds: none in these.
    expect(model.nextCheckAt(T0 + 2100)).toBe(T0 + 120 + 10_000)
  })

  test('in flight when the limit was cut shows nothing', () => {
    const model = new RateLimitModel()
    call(model, 0, 200, headers(9))
    const late = model.sent(T0 + 90)
    call(model, 100, 200, headers(3, 5))
    model.answered(late, { status: 429, headers: {} }, T0 + 150)
    expect(model.isShared).toBe(false)
  })
})

describe('which answers are counted', () => {
  test('4xx are told from 429', () => {
    const model = new RateLimitModel()
    call(model, 0, 404, {})
    call(model, 100, 429, {})
    expect(model.calls.clientErrors).toBe(1)
  })
})

test('a delay that turns out to be in milliseconds leaves nothing of what was read before', () => {
  const model = new RateLimitModel()
  const delays = [9_000_000, 8_950_000, 8_900_000, 8_850_000]
  for (const [index, delay] of delays.entries())
    call(model, index * 50, 200, headers(3 - index, 4, { 'x-ratelimit-reset': String(delay / 1000) }))
  expect(model.nextWindowAt(T0 + 200)).toBeLessThan(T0 + 10_000)
  call(model, 9500, 200, headers(0, 4, {}))
  expect(model.nextCheckAt(T0 + 9600)).toBeLessThan(T0 + 30_000)
})

test('several calls are tried after a silence if headers are missing, but no more than were used at a Reset', () => {
  const model = new RateLimitModel()
  call(model, 0, 200, headers(35, 40, { 'x-ratelimit-reset': '5' }))
  call(model, 30, 200, headers(0, 40))
  for (let index = 2; index < 10; index++) call(model, index * 30, 200, {})
  const at = model.nextCheckAt(T0 + 400) ?? 0
  expect(model.grantable(at)).toBe(5)
})

describe('for the next leader', () => {
  test('the limit is not exhausted while a call is left and none is pending', () => {
    const model = new RateLimitModel()
    call(model, 0, 200, headers(4, 10, { 'x-ratelimit-reset': '5' }))
    expect(model.exhaustedUntil(T0 + 20)).not.toBe(null)
    expect(exhaustedForMs(model, T0 + 20)).toBe(null)
    model.sent(T0 + 30)
    expect(exhaustedForMs(model, T0 + 40)).toBeGreaterThan(1000)
  })

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

test('an answer that states nothing may be of a call that was counted after one that does', () => {
  const model = new RateLimitModel()
  const [late, silent] = [model.sent(T0), model.sent(T0 + 1)]
  model.answered(silent, { status: 200, headers: {} }, T0 + 20)
  model.answered(late, { status: 200, headers: headers(5) }, T0 + 30)
  expect(model.remaining(T0 + 30)).toBe(4)
})
