import { describe, expect, test } from 'vitest'
import { plainService } from '../../../../bench/rate/virtual/cases.ts'
import type { ServiceSettings } from '../../../support/simulated-service/service.ts'
import { plainSimulation, simulate } from '../../../support/simulated-service/simulate.ts'
import type { SimulationSettings } from '../../../support/simulated-service/simulate.ts'

const plain: ServiceSettings = { ...plainService, windowMs: 2000 }

const counters: ServiceSettings['counter'][] = [
  'first-request',
  'on-the-clock',
  'sliding-log',
  'token-bucket',
]
const resets: ServiceSettings['reset'][] = ['up', 'delay-up']

/** It uses a fifth of the limit, evenly; seeds are fixed, because no rule holds for every random sequence. */
const shared = counters.flatMap((counter) =>
  [2000, 10_000].flatMap((windowMs) => resets.map((reset) => ({ counter, windowMs, reset }))),
)

describe('beside another client of the key', () => {
  test.each(shared)('at most two calls are refused in any ten seconds: %o', (service) => {
    const rejected = [1, 2].map(
      (seed) =>
        simulate({
          ...plainSimulation,
          seed,
          otherClientShare: 0.2,
          durationMs: 60_000,
          service: { ...plain, ...service, skewMs: seed * 20_300 },
        }).mostRejected,
    )
    expect(Math.max(...rejected)).toBeLessThanOrEqual(2)
  })

  test('800 calls at 50 in 2 s beside 5 a second are all made', () => {
    for (let seed = 1; seed <= 10; seed++) {
      const settings = {
        ...plainSimulation,
        seed,
        otherClientShare: 0.2,
        mostCalls: 800,
        durationMs: 120_000,
      }
      const { mostRejected, accepted } = simulate({ ...settings, service: plain })
      expect(mostRejected).toBeLessThanOrEqual(2)
      expect(accepted).toBeGreaterThan(790)
    }
  })
})

describe('another client of the key is said to be there', () => {
  const windows = [
    [1_000, 20],
    [2_000, 50],
    [10_000, 50],
    [60_000, 600],
  ] as const
  const cases = counters
    .filter((counter) => counter !== 'token-bucket')
    .flatMap((counter) => windows.map(([windowMs, limit]) => ({ counter, windowMs, limit })))
  /** When it was said, in milliseconds since the start. */
  const listTimes = (service: Partial<ServiceSettings>, isOtherClientCalling: (ms: number) => boolean) =>
    [1, 2].map(
      (seed) =>
        simulate({
          ...plainSimulation,
          seed,
          otherClientShare: 0.2,
          isOtherClientCalling,
          durationMs: 400_000,
          service: { ...plain, ...service, skewMs: seed * 20_300 },
        }).shared,
    )

  test.each(cases)(
    'until our own calls show that it is gone, and not for as long as room is left: %o',
    (one) => {
      for (const times of listTimes(one, (ms) => ms < 100_000)) {
        expect(times.length).toBeGreaterThan(0)
        expect(times.length).toBeLessThanOrEqual(2)
        expect(times.at(-1)?.to).toBeGreaterThan(100_000)
        // A minute at most, and what a used-up window has left: while we make no calls, nothing ends.
        expect(times.at(-1)?.to).toBeLessThan(100_000 + Math.max(75_000, one.windowMs * 1.6))
      }
    },
  )

  test.each(cases)('without a break once it has come back: %o', (one) => {
    // Three seconds of each fifteen.
    for (const times of listTimes(one, (ms) => ms < 200_000 && ms % 15_000 < 3_000)) {
      expect(times.length).toBeLessThanOrEqual(4)
      expect(times.at(-1)?.to).toBeLessThan(Infinity)
    }
  })

  test.each(cases)('never where there is none: %o', (one) => {
    expect(listTimes(one, () => false)).toEqual([[], []])
  })
})

describe('a ban: 403 to every call after a 429', () => {
  /** A service without Reset, so that one call is refused, and that bans for one 429. */
  const banned = (ban: Partial<NonNullable<ServiceSettings['ban']>>): SimulationSettings => ({
    ...plainSimulation,
    durationMs: 3_600_000,
    mostCalls: 4000,
    service: {
      ...plain,
      windowMs: 10_000,
      reset: 'none',
      ban: { above: 0, forMs: 300_000, retryAfter: false, ...ban },
    },
  })
  const forbidden = ({ timeline }: ReturnType<typeof simulate>): number[] =>
    timeline.entries.flatMap(({ arrival, sentAt }) => (arrival?.status === 403 ? [sentAt] : []))

  test('is waited out with pauses that grow, one call after each, and calling goes on by itself', () => {
    const outcome = simulate(banned({}))
    const [first = 0, ...others] = forbidden(outcome)
    // Calls in flight when it began are refused too; then one call after 30 s, 60 s, 120 s and 240 s.
    const probes = others.filter((at) => at > first + 5000)
    expect(probes.length).toBeGreaterThan(1)
    expect(probes.length).toBeLessThanOrEqual(4)
    expect(outcome.accepted).toBeGreaterThan(3900)
    expect(outcome.model.isBanned).toBe(false)
  })

  test('is tried once Retry-After has passed, if that is stated', () => {
    const outcome = simulate(banned({ retryAfter: true }))
    const [first = 0, ...others] = forbidden(outcome)
    expect(others.filter((at) => at > first + 5000)).toEqual([])
    expect(outcome.accepted).toBeGreaterThan(3900)
  })
})
