import fc from 'fast-check'
import { expect, it } from 'vitest'
import { RateLimit } from '../../../src/sandbox/windows.ts'

const rules = fc.record({
  limit: fc.integer({ min: 1, max: 20 }),
  windowMs: fc.integer({ min: 1, max: 5_000 }),
  banAfter: fc.constant(null),
  banMs: fc.constant(0),
})
const waits = fc.array(fc.oneof(fc.integer({ min: 0, max: 50 }), fc.integer({ min: 0, max: 9_000 })), {
  minLength: 1,
  maxLength: 200,
})

const firstCall = 1_700_000_000_123

interface CountedCall {
  readonly now: number
  readonly isAccepted: boolean
  readonly remaining: number
  readonly startsAt: number
  readonly endsAt: number
}

function takeAll(gaps: readonly number[], applied: Parameters<RateLimit['count']>[2]): CountedCall[] {
  const rateLimit = new RateLimit()
  let now = firstCall
  return gaps.map((gap) => {
    now += gap
    const { isAccepted, headers } = rateLimit.count('key', now, applied)
    const { starts_at: startsAt = 0, ends_at: endsAt = 0 } = rateLimit.windows.at(-1) ?? {}
    return { now, isAccepted, remaining: Number(headers['X-RateLimit-Remaining']), startsAt, endsAt }
  })
}

/** The calls of each window, in order. */
function byWindow(calls: readonly CountedCall[]): CountedCall[][] {
  return [...Map.groupBy(calls, ({ startsAt }) => startsAt).values()]
}

const startOf = (calls: readonly CountedCall[]) => calls[0]?.startsAt ?? Number.NaN

it('fixed windows accept exactly the limit, start with a call, have their length and never overlap', () => {
  fc.assert(
    fc.property(rules, waits, (applied, gaps) => {
      const windows = byWindow(takeAll(gaps, applied))
      for (const calls of windows) {
        const wanted = calls.map((_, at) => Math.max(0, applied.limit - at - 1))
        expect(calls.map(({ remaining }) => remaining)).toEqual(wanted)
        expect(calls.map(({ isAccepted }) => isAccepted)).toEqual(calls.map((_, at) => at < applied.limit))
        for (const { now, startsAt, endsAt } of calls) {
          expect(endsAt - startsAt).toBe(applied.windowMs)
          expect(now).toBeGreaterThanOrEqual(startsAt)
          expect(now).toBeLessThan(endsAt)
        }
      }
      expect(windows.map(startOf)).toEqual(windows.map((calls) => calls[0]?.now))
      for (const [at, calls] of windows.slice(1).entries())
        expect(startOf(calls)).toBeGreaterThanOrEqual(startOf(windows[at] ?? []) + applied.windowMs)
    }),
  )
  expect.hasAssertions()
})
