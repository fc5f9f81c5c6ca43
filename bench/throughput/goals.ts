import type { Bout } from './bout.ts'
import { medianOf, timesAsFast } from './table.ts'

export interface Goal {
  readonly text: string
  readonly measured: string
  readonly met: boolean
}

/** The bouts of one latency of the service. */
export interface Speed {
  readonly latencyMs: number
  readonly bouts: readonly Bout[]
}

/** The goals against what was measured, at each latency by itself. Pure. */
export function goalsOf(speeds: readonly Speed[], large: readonly Bout[] | null): Goal[] {
  const atEach = speeds.flatMap(({ latencyMs, bouts }) => {
    const at = `at ${latencyMs} ms`
    const sync = timesAsFast(bouts, 'sync')
    const bulk = timesAsFast(bouts, 'bulk')
    const statements = medianOf(bouts, 'bulk', (bout) => bout.statementsPer1000)
    return [
      {
        text: `${at}: sync is at least as fast as the plain script`,
        measured: `${sync.toFixed(2)}×`,
        met: sync >= 1,
      },
      { text: `${at}: bulk is at least 5 times as fast`, measured: `${bulk.toFixed(2)}×`, met: bulk >= 5 },
      {
        text: `${at}: bulk sends fewer than 60 statements per 1,000 rows`,
        measured: statements.toFixed(1),
        met: statements < 60,
      },
    ]
  })
  const small = speeds[0]?.bouts ?? []
  return [
    ...atEach,
    ...(large === null ? [] : (['sync', 'bulk'] as const).map((route) => memoryGoal(route, small, large))),
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
