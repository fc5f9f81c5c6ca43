import fc from 'fast-check'
import { describe, it } from 'vitest'
import { propertyRuns } from '../../../support/quota-runs.ts'
import { simulation } from '../../../support/simulated-service/arbitrary.ts'
import { simulate } from '../../../support/simulated-service/simulate.ts'
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

describe('a key that no other client uses', () => {
  it('never gets a 429, however the service counts and whatever its headers state', () => {
    fc.assert(
      fc.property(simulation, (settings) => {
        const outcome = simulate(settings)
        if (outcome.rejected > 0 || outcome.isDeadlocked) throw new Error(report(settings, outcome))
      }),
      { numRuns },
    )
  })
})
