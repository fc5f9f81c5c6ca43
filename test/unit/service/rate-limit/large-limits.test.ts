import { describe, expect, test } from 'vitest'
import type { CounterKind } from '../../../support/simulated-service/counters.ts'
import { type Outcome, plainSimulation, simulate } from '../../../support/simulated-service/simulate.ts'
import { plainService } from '../../../../bench/rate/virtual/cases.ts'

/** About 3,000 calls a second. */
function play(
  counter: CounterKind,
  limit: number,
  windowMs: number,
  rest: { readonly durationMs: number },
): Outcome {
  return simulate({
    ...plainSimulation,
    concurrency: 32,
    before: [3, 5],
    after: [3, 5],
    lag: [0.5, 1],
    ...rest,
    service: { ...plainService, counter, limit, windowMs },
  })
}

describe('a limit of more calls than are remembered one by one', () => {
  for (const counter of ['first-request', 'on-the-clock', 'token-bucket'] as const)
    test(`is used, as ${counter}, and our own calls are not another client's`, () => {
      const outcome = play(counter, 20_000, 10_000, { durationMs: 25_000 })
      expect(outcome.rejected).toBe(0)
      expect(outcome.model.isShared).toBe(false)
      expect(outcome.accepted).toBeGreaterThan(0.99 * 20_000 * (25_000 / 10_000))
    })
})

describe('a limit that is never reached costs nothing', () => {
  /** About 4,000 calls, made without a limit; more than 16,384 in `npm run test:quota`. */
  const durationMs = process.env['FILLRATE_QUOTA_RUNS'] === undefined ? 1_500 : 7_000
  const unlimited = play('first-request', 1e12, 60_000, { durationMs }).accepted

  test.each([2, 10, 10_000])('at %i times of what is asked for', (share) => {
    for (const windowMs of [10_000, 61_000, 86_400_000])
      for (const counter of ['first-request', 'on-the-clock', 'sliding-log', 'token-bucket'] as const) {
        const { rejected, accepted, model } = play(counter, unlimited * share, windowMs, { durationMs })
        const isUnhindered = accepted >= 0.97 * unlimited
        expect({ counter, windowMs, rejected, isShared: model.isShared, isUnhindered }).toEqual({
          counter,
          windowMs,
          rejected: 0,
          isShared: false,
          isUnhindered: true,
        })
      }
  })
})
