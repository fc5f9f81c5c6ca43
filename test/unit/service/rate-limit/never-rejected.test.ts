import fc from 'fast-check'
import { describe, it } from 'vitest'
import { propertyRuns } from '../../../support/quota-runs.ts'
import { simulation } from '../../../support/simulated-service/arbitrary.ts'
import { plainSimulation, simulate } from '../../../support/simulated-service/simulate.ts'
import type { Outcome, SimulationSettings } from '../../../support/simulated-service/simulate.ts'
import { describeModels } from '../../../support/simulated-service/describe-models.ts'

const numRuns = propertyRuns(60)

/** The report of a failing case: the service, and the calls around the first 429. */
const report = (settings: SimulationSettings, outcome: Outcome): string =>
  [
    JSON.stringify(settings),
    `accepted ${outcome.accepted}, 429s: ${outcome.rejected}, longest silence ${outcome.longestSilence} ms`,
    describeModels(outcome.model),
    outcome.timeline.print(),
  ].join('\n')

/** A miss, which may not be counted, is the first call of a window: it got a 429 once. */
const uncountedFirst: SimulationSettings = {
  ...plainSimulation,
  seed: 595_376,
  durationMs: 3000,
  before: [13, 45],
  after: [1, 135],
  lag: [11, 30],
  service: {
    counter: 'first-request',
    limit: 3,
    windowMs: 500,
    reset: 'ms',
    retryAfter: 'seconds',
    date: true,
    skewMs: 0,
    faultShare: 0,
    faults: 'counted',
    missShare: 0.125,
    misses: 'counted',
    headerShare: 1,
    change: null,
  },
}

describe('a key that no other client uses', () => {
  it('never gets a 429, however the service counts and whatever its headers state', () => {
    fc.assert(
      fc.property(simulation, (settings) => {
        const outcome = simulate(settings)
        if (outcome.rejected > 0 || outcome.isDeadlocked) throw new Error(report(settings, outcome))
      }),
      { numRuns, examples: [[uncountedFirst]] },
    )
  })
})
