import fc from 'fast-check'
import { describe, it } from 'vitest'
import { propertyRuns } from '../../../support/quota-runs.ts'
import { simulation } from '../../../support/simulated-service/arbitrary.ts'
import { simulate } from '../../../support/simulated-service/simulate.ts'
import type { Outcome, SimulationSettings } from '../../../support/simulated-service/simulate.ts'

const numRuns = propertyRuns(15)

/** Any service whose limit is cut at once, in the middle of a window; all answers state it. */
const cut: fc.Arbitrary<SimulationSettings> = fc
  .record({
    simulated: simulation.filter(({ service }) => service.limit >= 3),
    after: fc.double({ min: 0.2, max: 0.6, noNaN: true }),
    share: fc.double({ min: 0.1, max: 0.8, noNaN: true }),
  })
  .map(({ simulated, after, share }) => {
    const { service, durationMs } = simulated
    const limit = Math.max(1, Math.floor(service.limit * share))
    const change = { afterMs: durationMs * after, limit, isAtOnce: true }
    return {
      ...simulated,
      pauses: [],
      lostShare: 0,
      service: { ...service, headerShare: 1, faults: 'counted', change },
    }
  })

/** Calls refused although they were granted after an answer had stated the new limit. */
function rejectedLate(settings: SimulationSettings, { timeline, startedAt }: Outcome): number {
  const cutAt = startedAt + (settings.service.change?.afterMs ?? 0)
  let statedAt = Number.POSITIVE_INFINITY
  for (const { arrivedAt, endedAt } of timeline.entries)
    if (arrivedAt !== null && arrivedAt >= cutAt && endedAt !== null) statedAt = Math.min(statedAt, endedAt)
  const lastGranted = statedAt + settings.lag[1] + settings.concurrency * 0.05 + 1
  return timeline.entries.filter((entry) => entry.arrival?.status === 429 && entry.sentAt > lastGranted)
    .length
}

describe('a limit that is cut in the middle of a window', () => {
  it('refuses calls in flight before any answer stated it, and none after', () => {
    fc.assert(
      fc.property(cut, (settings) => {
        const outcome = simulate(settings)
        const late = rejectedLate(settings, outcome)
        const isOver = outcome.rejected > settings.concurrency
        if (late === 0 && !isOver && !outcome.isDeadlocked) return
        throw new Error(
          `${late} refused late of ${outcome.rejected}\n${JSON.stringify(settings)}\n${outcome.timeline.print()}`,
        )
      }),
      { numRuns },
    )
  })
})
