import { describe, expect, test } from 'vitest'
import { isEachCasePlayed, isEachLongCasePlayed, someOf } from '../../../support/quota-runs.ts'
import { type Outcome, plainSimulation, simulate } from '../../../support/simulated-service/simulate.ts'
import type { SimulationSettings } from '../../../support/simulated-service/simulate.ts'
import type { ServiceSettings } from '../../../support/simulated-service/service.ts'
import { plainService } from '../../../../bench/rate/virtual/cases.ts'

type Limit = Pick<ServiceSettings, 'counter' | 'limit' | 'windowMs'>

const counters = ['first-request', 'on-the-clock', 'sliding-log', 'token-bucket'] as const
const [SECOND, MINUTE, HOUR, DAY] = [1000, 60_000, 3_600_000, 86_400_000] as const

/** About 3,600 calls a second. */
const play = (service: Limit, rest: Partial<SimulationSettings> & { readonly durationMs: number }): Outcome =>
  simulate({
    ...plainSimulation,
    mostCalls: Number.POSITIVE_INFINITY,
    concurrency: 32,
    before: [3, 5],
    after: [3, 5],
    lag: [0.5, 1],
    ...rest,
    service: { ...plainService, ...service },
  })

/** How a run finds its key: a run before may have used a share of the limit, and begun a window. */
interface Situation {
  readonly used: number
  /** How much of a window is over. */
  readonly at: number
  /** Another client makes fifty calls a second. */
  readonly isShared: boolean
}

const situations: readonly Situation[] = [
  { used: 0, at: 0, isShared: false },
  ...[0, 0.25, 0.5, 0.75, 0.99].map((at) => ({ used: 0.4, at, isShared: false })),
  { used: 0, at: 0, isShared: true },
  ...[0, 0.5, 0.99].map((at) => ({ used: 0.4, at, isShared: true })),
]

const settingsOf = ({ limit, windowMs }: Limit, { used, at, isShared }: Situation) => ({
  otherClientShare: isShared ? (50 * windowMs) / SECOND / limit : 0,
  ...(used > 0 && { usedBefore: { calls: Math.floor(used * limit), ms: at * windowMs } }),
})

describe('a limit that is not reached costs nothing', () => {
  /** About 5,000 calls, made without a limit; more than 16,384 with `FILLRATE_QUOTA_RUNS=500`. */
  const durationMs = isEachCasePlayed ? 7_000 : 1_500
  const unlimited = play({ counter: 'first-request', limit: 1e12, windowMs: MINUTE }, { durationMs }).accepted
  let turn = 0

  describe.each([2, 10, 100, 10_000])('at %i times of what is asked for', (share) => {
    test.each(counters)('as %s', (counter) => {
      for (const windowMs of [10 * SECOND, 61 * SECOND, HOUR, DAY])
        for (const situation of someOf(situations, turn++)) {
          const limit = { counter, limit: unlimited * share, windowMs }
          // The calls of the run before are played one by one.
          if (situation.used * limit.limit > (isEachLongCasePlayed ? 3e6 : 2e5)) continue
          const { rejected, accepted } = play(limit, { durationMs, ...settingsOf(limit, situation) })
          const isUnhindered = accepted >= 0.97 * unlimited
          expect({ limit, situation, accepted, rejected, isUnhindered }).toMatchObject({
            rejected: 0,
            isUnhindered: true,
          })
        }
    })
  })

  test.each(counters)(
    'and one that is just what is asked for is used in its first window, as %s',
    (counter) => {
      for (const windowMs of someOf([MINUTE, HOUR, DAY], counters.indexOf(counter)))
        for (const limit of [1000, unlimited]) {
          const { rejected, accepted } = play({ counter, limit, windowMs }, { durationMs: 1.1 * durationMs })
          expect(rejected).toBe(0)
          expect(accepted).toBeGreaterThanOrEqual(0.99 * limit)
        }
    },
  )
})

describe('a limit of more calls than are remembered one by one', () => {
  const binding = [
    { limit: 20_000, windowMs: 10 * SECOND, windows: 4.3 },
    { limit: 100_000, windowMs: MINUTE, windows: 4.3 },
    { limit: 100_000, windowMs: HOUR, windows: 4.3 },
    { limit: 200_000, windowMs: DAY, windows: 4.3 },
  ]
  const alone = situations.filter(({ isShared }) => !isShared)

  test.each(counters)('is used, and our own calls are not another client’s, as %s', (counter) => {
    const turn = 1 + 2 * counters.indexOf(counter)
    for (const [n, { windows, ...limit }] of (isEachLongCasePlayed ? binding : binding.slice(0, 1)).entries())
      for (const situation of n === 0 && isEachLongCasePlayed
        ? alone
        : alone.slice((turn + n) % 6, ((turn + n) % 6) + 1)) {
        const service = { counter, ...limit }
        const durationMs = windows * limit.windowMs
        const { rejected, model, ...rest } = play(service, { durationMs, ...settingsOf(service, situation) })
        expect({ limit, situation, rejected, isShared: model.isShared }).toMatchObject({
          rejected: 0,
          isShared: false,
        })
        // A bucket holds some of what it was given in this time at its end.
        const least = counter === 'token-bucket' ? 0.96 : 0.99
        expect(rest.steadyUtilisation).toBeGreaterThan(least)
      }
  })

  /** Ten million calls are played only as far as they matter: those of the run before are counted, and not made. */
  test.each(someOf(counters, 0))(
    'ten million an hour, nearly used up by the run before, as %s',
    (counter) => {
      const [limit, left, durationMs] = [10_000_000, 10_000, 12_000]
      const service = { counter, limit, windowMs: HOUR }
      const usedBefore = { calls: limit - left, ms: HOUR - 6_000 }
      const { rejected, accepted, model } = play(service, { durationMs, usedBefore })
      expect({ rejected, isShared: model.isShared }).toEqual({ rejected: 0, isShared: false })
      // The next window begins after 6 s, and is used two seconds later at the latest. What a sliding log has counted last
      // stays, and a bucket gets 2,778 a second.
      const next = {
        'first-request': 4 * 3_500,
        'on-the-clock': 0,
        'sliding-log': 0,
        'token-bucket': 9 * 2_700,
      }
      expect(accepted).toBeGreaterThanOrEqual(0.99 * (left + next[counter]))
    },
  )

  /** Call by call. */
  test.runIf(isEachLongCasePlayed)('ten million a day are used', () => {
    const service = { counter: 'first-request', limit: 10_000_000, windowMs: DAY } as const
    const { rejected, accepted } = play(service, { durationMs: 0.9 * DAY })
    expect(rejected).toBe(0)
    expect(accepted).toBeGreaterThan(0.99 * 10_000_000)
  })
})

describe('a large limit, and another client that uses a fifth of it', () => {
  const limits = [
    { limit: 5_000, windowMs: 10 * SECOND },
    { limit: 20_000, windowMs: 30 * SECOND },
    { limit: 50_000, windowMs: HOUR },
  ]

  test.each(counters.filter((counter) => counter !== 'token-bucket'))(
    'most is used, and at most two calls are refused in ten seconds, as %s',
    (counter) => {
      for (const limit of isEachLongCasePlayed ? limits : limits.slice(0, 1)) {
        const durationMs = 6 * limit.windowMs
        const outcome = play({ counter, ...limit }, { durationMs, otherClientShare: 0.2 })
        expect(outcome.mostRejected).toBeLessThanOrEqual(2)
        const used = (outcome.accepted / limit.limit) * (limit.windowMs / durationMs)
        expect(used).toBeGreaterThan(counter === 'sliding-log' ? 0.7 : 0.9)
      }
    },
  )
})
