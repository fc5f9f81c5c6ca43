import { describe, expect, test } from 'vitest'
import { AllowanceMeter, stallReason } from '../../../../src/service/rate-limit/state.ts'

describe('why calls wait', () => {
  const still = { now: 0, at: null, hasPending: false, wasRejected: false, wasDecreased: false }
  const at = Date.UTC(2026, 10, 22, 12, 30, 5)

  test.each([
    [{ state: 'banned', at }, /banned the key.*until 12:30:05 UTC, then one test call/],
    [{ state: 'cooldown', at, wasRejected: true }, /refused a call \(429\): paused until 12:30:05 UTC/],
    [{ state: 'cooldown', wasDecreased: true }, /the limit was cut/],
    [{ state: 'cooldown' }, /the previous leader may have used up the limit/],
    [{ state: 'cold' }, /waiting for the first responses/],
    [{ state: 'unlimited' }, /waiting for the first responses/],
    [{ state: 'calibrating', at }, /until 12:30:05 UTC \(measuring the window length\)/],
    [{ state: 'fixed_window', hasPending: true }, /first response in a new window/],
    [{ state: 'fixed_window', hasPending: true, at }, /the next window until 12:30:05 UTC/],
    [{ state: 'sliding' }, /earlier calls to expire$/],
  ] as const)('is said in words: %o', (context, words) => {
    expect(stallReason({ ...still, ...context })).toMatch(words)
  })

  test('names no time that has passed, nor one beyond the calendar', () => {
    const context = { ...still, state: 'cooldown', wasRejected: true } as const
    expect(stallReason({ ...context, at: 10, now: 20 })).toBe('the service refused a call (429): paused')
    expect(stallReason({ ...context, at: 1e18 })).toBe('the service refused a call (429): paused')
  })
})

describe('what the limit would have allowed', () => {
  test('is counted while there was work only', () => {
    const meter = new AllowanceMeter()
    meter.update(0, true, 10, 1000)
    meter.update(2000, false, 10, 1000)
    meter.update(9000, true, 10, 1000)
    expect(meter.total(9500)).toBe(25)
  })

  test('is known for earlier time too once the length is, and by each limit for its own time', () => {
    const meter = new AllowanceMeter()
    meter.update(0, true, 10, null)
    expect(meter.total(1000)).toBe(null)
    meter.update(1000, true, 10, 1000)
    expect(meter.total(1000)).toBe(10)
    meter.update(2000, true, 20, 1000)
    expect(meter.total(3000)).toBe(40)
  })
})
