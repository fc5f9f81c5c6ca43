import fc from 'fast-check'
import { describe, it } from 'vitest'
import { simulation } from '../../../support/simulated-service/arbitrary.ts'
import { simulate } from '../../../support/simulated-service/simulate.ts'
import type { Outcome, SimulationSettings } from '../../../support/simulated-service/simulate.ts'

const numRuns = Number(process.env['FILLRATE_QUOTA_RUNS'] ?? 250)

/** What a failing case is told with: the service, and the calls around the first refusal. */
const story = (settings: SimulationSettings, outcome: Outcome): string =>
  [
    JSON.stringify(settings),
    `accepted ${outcome.accepted}, refused ${outcome.refused}, longest silence ${outcome.longestSilence} ms`,
    outcome.model.describe(),
    outcome.timeline.print(),
  ].join('\n')

describe('a key that nobody else uses', () => {
  it('is never refused, whatever the service counts and says', () => {
    fc.assert(
      fc.property(simulation, (settings) => {
        const outcome = simulate(settings)
        if (outcome.refused > 0 || outcome.isDeadlocked) throw new Error(story(settings, outcome))
      }),
      { numRuns },
    )
  })
})
