import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { plainService } from '../../../../bench/rate/virtual/cases.ts'
import { exhaustedForMs } from '../../../../src/service/rate-limit/exhaustion.ts'
import { TRANSIT_MS } from '../../../../src/service/rate-limit/model.ts'
import { propertyRuns } from '../../../support/quota-runs.ts'
import { service } from '../../../support/simulated-service/arbitrary.ts'
import { plainSimulation, simulate } from '../../../support/simulated-service/simulate.ts'
import type { SimulationSettings } from '../../../support/simulated-service/simulate.ts'
import { describeModels } from '../../../support/simulated-service/describe-models.ts'

const numRuns = propertyRuns(200)

/** Small bursts, each followed by a rest of up to some hundred windows, and then more calls than some windows permit. */
const life: fc.Arbitrary<SimulationSettings> = fc
  .record({
    service: service.filter(({ limit }) => limit <= 200),
    seed: fc.integer({ min: 1, max: 1_000_000 }),
    bursts: fc.array(
      fc.record({
        share: fc.double({ min: 0, max: 0.4, noNaN: true }),
        rest: fc.oneof(
          fc.double({ min: 0.1, max: 3, noNaN: true }),
          fc.double({ min: 3, max: 600, noNaN: true }),
        ),
      }),
      { minLength: 1, maxLength: 8 },
    ),
  })
  .map(({ service, seed, bursts }) => {
    const { limit, windowMs } = service
    let at = 0
    const small = bursts.map(({ share, rest }) => {
      const burst = { at, calls: Math.ceil(limit * share) }
      at += rest * windowMs + 10_000
      return burst
    })
    return {
      ...plainSimulation,
      service: { ...service, headerShare: 1, faultShare: 0 },
      seed,
      bursts: [...small, { at, calls: 3 * limit + 1 }],
      durationMs: at + 20 * windowMs + 60_000,
    }
  })

/**
 * The furthest that Reset lies ahead is a window. It may be rounded up by a second, is treated as rounded down by a
 * second, and the service's clock is known to a second and a little more; without a Date it is assumed to be right to a
 * second. A call and its answer take up to 200 ms.
 */
function longestOf({ service: { windowMs, date, skewMs } }: SimulationSettings): number {
  return windowMs * 1.001 + 1000 + 1000 + (date ? 1300 : 1000 + Math.max(0, skewMs)) + 400
}

/** A burst across the end of a window, after one call: it was taken for two windows that began within it, and 50 calls were refused. */
const acrossTheEnd: SimulationSettings = {
  ...plainSimulation,
  seed: 761_579,
  durationMs: 135_540,
  bursts: [
    { at: 0, calls: 1 },
    { at: 35_540, calls: 226 },
  ],
  service: { ...plainService, counter: 'on-the-clock', limit: 75, windowMs: 2000, date: false, missShare: 0 },
}

describe('a long-lived process with a few calls now and then', () => {
  it('never waits for longer than Reset says, and gets no 429, when there is much to call', () => {
    fc.assert(
      fc.property(life, (settings) => {
        const outcome = simulate(settings)
        const { endedAt } = outcome
        const exhaustedFor = exhaustedForMs(outcome.model, endedAt) ?? 0
        // A call on the way may begin a window a second later.
        const isLate =
          outcome.longestWait > longestOf(settings) || exhaustedFor > longestOf(settings) + TRANSIT_MS
        if (outcome.rejected === 0 && !isLate && !outcome.isDeadlocked) return
        throw new Error(
          `429s: ${outcome.rejected}, waited ${outcome.longestWait} ms\n${JSON.stringify(settings)}\n` +
            `${describeModels(outcome.model)}\n${outcome.timeline.print()}`,
        )
      }),
      { numRuns, examples: [[acrossTheEnd]] },
    )
  })

  it('does not take a bound of a window for its length', () => {
    const bursts = Array.from({ length: 12 }, (_, index) => ({ at: index * 360_000, calls: 5 }))
    const service = { ...plainService, limit: 60, windowMs: 3000 }
    const { model } = simulate({ ...plainSimulation, service, bursts, durationMs: 5_000_000 })
    expect(model.windowMs).toBe(null)
    const busy = simulate({ ...plainSimulation, service, durationMs: 30_000 })
    expect(busy.model.windowMs).toBe(3000)
  })
})
