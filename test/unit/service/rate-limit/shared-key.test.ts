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

/** It spends a fifth of the key, evenly; what is random has fixed seeds, because no rule holds against any luck. */
const shared = counters.flatMap((counter) =>
  [2000, 10_000].flatMap((windowMs) => resets.map((reset) => ({ counter, windowMs, reset }))),
)

describe('beside another client of the key', () => {
  test.each(shared)('no more than two calls are refused in any ten seconds: %o', (service) => {
    const refused = [1, 2].map(
      (seed) =>
        simulate({
          ...plainSimulation,
          seed,
          foreignShare: 0.2,
          durationMs: 60_000,
          service: { ...plain, ...service, skewMs: seed * 20_300 },
        }).mostRefused,
    )
    expect(Math.max(...refused)).toBeLessThanOrEqual(2)
  })

  test('800 calls at 50 in 2 s beside 5 a second are all made', () => {
    for (let seed = 1; seed <= 10; seed++) {
      const settings = { ...plainSimulation, seed, foreignShare: 0.2, mostCalls: 800, durationMs: 120_000 }
      const { mostRefused, accepted } = simulate({ ...settings, service: plain })
      expect(mostRefused).toBeLessThanOrEqual(2)
      expect(accepted).toBeGreaterThan(790)
    }
  })
})

describe('a ban: 403 to every call, after calls were refused for the rate', () => {
  /** A service that tells no Reset, so that a call is refused once, and that bans for one refusal. */
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
    // What was on the wire when it began is refused with it; then one call after 30 s, 60 s, 120 s and 240 s.
    const probes = others.filter((at) => at > first + 5000)
    expect(probes.length).toBeGreaterThan(1)
    expect(probes.length).toBeLessThanOrEqual(4)
    expect(outcome.accepted).toBeGreaterThan(3900)
    expect(outcome.model.isBanned).toBe(false)
  })

  test('of which Retry-After tells the end is tried when that has come', () => {
    const outcome = simulate(banned({ retryAfter: true }))
    const [first = 0, ...others] = forbidden(outcome)
    expect(others.filter((at) => at > first + 5000)).toEqual([])
    expect(outcome.accepted).toBeGreaterThan(3900)
  })
})
