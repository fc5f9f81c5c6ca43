import { describe, expect, test } from 'vitest'
import { ClockOffset, ResetTimer } from '../../../../src/service/rate-limit/reset-timer.ts'

const delay = (ms: number) => ({ kind: 'delay', ms, precision: 1000 }) as const
const instant = (at: number) => ({ kind: 'instant', at, precision: 1000 }) as const

/** An instant that is stated to the millisecond, without the margin of a timer. */
function locate(clock: ClockOffset, at: number) {
  const { earliest, latest } = clock.locate({ kind: 'instant', at, precision: 0 }, 0) ?? {}
  return { earliest, latest: (latest ?? 0) - 2 }
}

describe('the offset of the clocks', () => {
  test('is bounded by the second in Date, between sending and receiving', () => {
    const clock = new ClockOffset()
    clock.record(90_000, 10, 110)
    expect(locate(clock, 100_000)).toEqual({
      earliest: 100_000 - (90_000 + 1050 - 10),
      latest: 100_000 - (90_000 - 110),
    })
    expect(clock.serviceTime(200)).toBe(90_090)
  })

  test('is narrowed by each answer, and widened by the drift of the clocks', () => {
    const clock = new ClockOffset()
    clock.record(90_000, 0, 100)
    clock.record(91_000, 900, 1000)
    expect(locate(clock, 0).latest).toBeCloseTo(-90_000)
    clock.record(100_000, 10_000, 10_900)
    expect(locate(clock, 0).latest).toBeCloseTo(-90_000 + 9900 * 0.0002)
  })

  test('is learnt anew when a clock was set', () => {
    const clock = new ClockOffset()
    clock.record(90_000, 0, 100)
    clock.record(500_000, 1000, 1100)
    expect(locate(clock, 0).latest).toBe(-(500_000 - 1100))
  })
})

describe('a Reset', () => {
  const create = () => new ResetTimer(new ClockOffset())

  test('may have been rounded by a second either way', () => {
    const timer = create()
    timer.record(delay(5000), 0, 100)
    expect(timer.earliestReset).toBe(4100)
    expect(timer.latestReset).toBe(6102)
    expect(timer.furthest).toBe(6002)
    expect(timer.certainFurthest).toBe(4000)
  })

  test('that is an instant is compared with our clock by the offset, never directly', () => {
    const clock = new ClockOffset()
    clock.record(90_000, 0, 0)
    const timer = new ResetTimer(clock)
    timer.record(instant(95_000), 0, 0)
    expect(timer.latestReset).toBe(6002)
    expect(timer.earliestReset).toBe(5000 - 1000 - 1050)
  })

  test('that is an instant counts without a Date only if it is plausible on our clock', () => {
    const timer = create()
    timer.record(instant(5000), 0, 0)
    expect(timer.latestReset).toBe(7002)
    expect(timer.earliestReset).toBe(Number.NEGATIVE_INFINITY)
    timer.record(instant(10 * 24 * 3_600_000), 10, 10)
    expect(timer.latestReset).toBe(null)
  })

  test('promises one call, which is taken by granting it or by an answer that states no Reset', () => {
    for (const take of ['consume', 'onUninformativeAnswer'] as const) {
      const timer = create()
      timer.record(delay(5000), 0, 100)
      expect(timer.nextAttempt(null)).toEqual({ at: 6102, isFromHeader: true })
      timer[take](200)
      expect(timer.nextAttempt(null)).toBe(null)
    }
  })

  test('of calls in flight together the later one counts', () => {
    const timer = create()
    timer.record(delay(5000), 50, 100)
    timer.record(delay(2000), 60, 110)
    expect(timer.latestReset).toBe(6102)
    timer.record(delay(2000), 200, 250)
    expect(timer.latestReset).toBe(3252)
    timer.record(delay(5000), 210, 260)
    expect(timer.latestReset).toBe(6262)
  })

  test('is forgotten with all lengths if delays turn out to be milliseconds', () => {
    const timer = create()
    timer.record(delay(5_000_000), 0, 100)
    timer.onUnitIsMs()
    expect(timer).toMatchObject({ furthest: 0, certainFurthest: 0, latestReset: null })
  })
})

describe('without a Reset', () => {
  test('a call is tried after a silence that doubles with each attempt', () => {
    const timer = new ResetTimer(new ClockOffset())
    timer.onUninformativeAnswer(100)
    expect(timer.nextAttempt(0)).toEqual({ at: 1100, isFromHeader: false })
    timer.consume(1100)
    expect(timer.nextAttempt(0)?.at).toBe(3100)
    timer.onIdle()
    expect(timer.nextAttempt(0)?.at).toBe(2100)
  })

  test('not before the window can be over', () => {
    const timer = new ResetTimer(new ClockOffset())
    timer.onUninformativeAnswer(0)
    expect(timer.nextAttempt(8000)?.at).toBe(8000)
  })
})
