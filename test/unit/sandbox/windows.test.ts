import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { limitHeaders, retryAfterHeader, consume } from '../../../src/sandbox/windows.ts'
import type { WindowDecision, RateWindow, WindowRules } from '../../../src/sandbox/windows.ts'

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

function takeAll(gaps: readonly number[], applied: WindowRules): { now: number; verdict: WindowDecision }[] {
  let window: RateWindow | undefined
  let now = firstCall
  return gaps.map((gap) => {
    now += gap
    const verdict = consume(window, now, applied)
    window = verdict.window
    return { now, verdict }
  })
}

/** The calls of each window, in order. */
function byWindow(calls: ReturnType<typeof takeAll>): ReturnType<typeof takeAll>[] {
  return [...Map.groupBy(calls, ({ verdict }) => verdict.window.startsAt).values()]
}

const startOf = (calls: ReturnType<typeof takeAll>) => calls[0]?.verdict.window.startsAt ?? Number.NaN

describe('fixed windows', () => {
  it('accept exactly the limit', () => {
    fc.assert(
      fc.property(rules, waits, (applied, gaps) => {
        for (const calls of byWindow(takeAll(gaps, applied))) {
          const wanted = calls.map((_, at) => Math.max(0, applied.limit - at - 1))
          expect(calls.map(({ verdict }) => verdict.remaining)).toEqual(wanted)
          expect(calls.map(({ verdict }) => verdict.accepted)).toEqual(
            calls.map((_, at) => at < applied.limit),
          )
        }
      }),
    )
    expect.hasAssertions()
  })

  it('contain their calls, have the right length, and never overlap', () => {
    fc.assert(
      fc.property(rules, waits, (applied, gaps) => {
        const windows = byWindow(takeAll(gaps, applied))
        for (const { now, verdict } of windows.flat()) {
          expect(verdict.window.endsAt - verdict.window.startsAt).toBe(applied.windowMs)
          expect(now).toBeGreaterThanOrEqual(verdict.window.startsAt)
          expect(now).toBeLessThan(verdict.window.endsAt)
        }
        for (const [at, calls] of windows.slice(1).entries()) {
          expect(startOf(calls)).toBeGreaterThanOrEqual(startOf(windows[at] ?? []) + applied.windowMs)
        }
      }),
    )
    expect.hasAssertions()
  })

  it('start with the first call after the last window', () => {
    fc.assert(
      fc.property(rules, waits, (applied, gaps) => {
        const windows = byWindow(takeAll(gaps, applied))
        expect(windows.map(startOf)).toEqual(windows.map((calls) => calls[0]?.now))
      }),
    )
    expect.hasAssertions()
  })

  it('follow a limit that changes within one', () => {
    const base = { windowMs: 1_000, banAfter: null, banMs: 0 }
    const first = consume(undefined, 0, { ...base, limit: 2 })
    const second = consume(first.window, 1, { ...base, limit: 2 })
    expect(consume(second.window, 2, { ...base, limit: 2 }).accepted).toBe(false)
    expect(consume(second.window, 2, { ...base, limit: 3 })).toMatchObject({ accepted: true, remaining: 0 })
  })

  it('ban a key that continues after rejections', () => {
    const applied = {
      windowMs: 10,
      limit: 1,
      banAfter: 1,
      banMs: 100,
    } as const
    const calls = takeAll([0, 1, 1, 48, 51, 1], applied).map(({ verdict }) => verdict)
    expect(calls.map((verdict) => verdict.accepted)).toEqual([true, false, false, false, false, true])
    expect(calls[3]?.resetsAt).toBe(firstCall + 102)
  })
})

describe('headers', () => {
  const window = { startsAt: 0, endsAt: 1_700_000_001_250, used: 3, refused: 0, bannedUntil: 0 }
  const verdict = { accepted: true, window, limit: 10, remaining: 7, resetsAt: window.endsAt }

  it('round Reset and Retry-After up', () => {
    expect(limitHeaders(verdict)).toEqual({
      'X-RateLimit-Limit': '10',
      'X-RateLimit-Remaining': '7',
      'X-RateLimit-Reset': '1700000002',
    })
    expect(retryAfterHeader(verdict, 1_700_000_000_000)).toEqual({ 'Retry-After': '2' })
  })
})
