import type { Bout } from './bout.ts'
import { medianOf, timesAsFast } from './table.ts'

export interface Goal {
  readonly text: string
  readonly measured: string
  readonly met: boolean
}

/** Issue 2's goals against what was measured without latency. Pure. */
export function goalsOf(speed: readonly Bout[], large: readonly Bout[] | null): Goal[] {
  const sync = timesAsFast(speed, 'sync')
  const bulk = timesAsFast(speed, 'bulk')
  const statements = medianOf(speed, 'bulk', (bout) => bout.statementsPer1000)
  return [
    { text: 'sync is at least as fast as the plain script', measured: `${sync.toFixed(2)}×`, met: sync >= 1 },
    { text: 'bulk is at least 5 times as fast', measured: `${bulk.toFixed(2)}×`, met: bulk >= 5 },
    {
      text: 'bulk sends fewer than 60 statements per 1,000 rows',
      measured: statements.toFixed(1),
      met: statements < 60,
    },
    ...(large === null ? [] : (['sync', 'bulk'] as const).map((route) => memoryGoal(route, speed, large))),
  ]
}

/** The garbage collector's own leeway between two runs of the same size. */
const LEEWAY = 1.15

function memoryGoal(route: 'sync' | 'bulk', small: readonly Bout[], large: readonly Bout[]): Goal {
  const [before = 0, after = 0] = [small, large].map((bouts) =>
    medianOf(bouts, route, (bout) => bout.peakBytes),
  )
  const growth = after / before
  return {
    text: `${route}: the peak memory does not grow with ten times the rows`,
    measured: `${growth.toFixed(2)}×`,
    met: growth <= LEEWAY,
  }
}
