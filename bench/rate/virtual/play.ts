import { simulate } from '../../../test/support/simulated-service/simulate.ts'
import type { Measured } from '../targets.ts'
import type { VirtualCase } from './cases.ts'

/** Plays a case several times in virtual time, each with other latencies; the mean of all. */
export function playVirtually({ settings }: VirtualCase, times: number): Measured {
  const outcomes = Array.from({ length: times }, (_, index) => simulate({ ...settings, seed: index + 1 }))
  const sum = (of: (outcome: (typeof outcomes)[number]) => number): number =>
    outcomes.reduce((total, outcome) => total + of(outcome), 0)
  return {
    whole: sum((outcome) => outcome.wholeUtilisation) / times,
    steady: sum((outcome) => outcome.steadyUtilisation) / times,
    calls: sum((outcome) => outcome.accepted + outcome.rejected),
    rejected: sum((outcome) => outcome.rejected),
    inTenSeconds: Math.max(...outcomes.map((outcome) => outcome.mostRejected)),
  }
}
