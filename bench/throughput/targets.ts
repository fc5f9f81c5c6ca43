import type { Measurement } from './measurement.ts'
import { medianOf, timesAsFast } from './table.ts'

export interface TargetResult {
  readonly text: string
  readonly measured: string
  readonly met: boolean
}

/** The measurements at one latency of the service. */
export interface LatencyResults {
  readonly latencyMs: number
  readonly measurements: readonly Measurement[]
}

/** Compares the measurements with the targets, at each latency separately. Pure. */
export function checkTargets(
  results: readonly LatencyResults[],
  large: readonly Measurement[] | null,
): TargetResult[] {
  const atEach = results.flatMap(({ latencyMs, measurements }) => {
    const at = `at ${latencyMs} ms`
    const sync = timesAsFast(measurements, 'sync')
    const bulk = timesAsFast(measurements, 'bulk')
    const statements = medianOf(measurements, 'bulk', (measurement) => measurement.statementsPer1000)
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
  const small = results[0]?.measurements ?? []
  return [
    ...atEach,
    ...(large === null
      ? []
      : (['sync', 'bulk'] as const).map((route) => checkMemoryTarget(route, small, large))),
  ]
}

/** How much the peak memory of two equal runs may differ, by garbage collection. */
const TOLERANCE = 1.15

function checkMemoryTarget(
  route: 'sync' | 'bulk',
  small: readonly Measurement[],
  large: readonly Measurement[],
): TargetResult {
  const [before = 0, after = 0] = [small, large].map((measurements) =>
    medianOf(measurements, route, (measurement) => measurement.peakBytes),
  )
  const growth = after / before
  return {
    text: `${route}: the peak memory does not grow with ten times the rows`,
    measured: `${growth.toFixed(2)}×`,
    met: growth <= TOLERANCE,
  }
}
