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

interface SpeedTargets {
  /** Multiples of the plain script, with start-up. */
  readonly sync: number
  readonly bulk: number
}

/** Statements for 1,000 rows in bulk. */
const MAX_STATEMENTS = 25

/** The slower the service, the more both routes gain from what the script does not have: bulk, and answers stored together. */
const speedTargets = (latencyMs: number): SpeedTargets => {
  if (latencyMs < 20) return { sync: 0.8, bulk: 1.5 }
  return latencyMs < 100 ? { sync: 0.95, bulk: 4 } : { sync: 1, bulk: 15 }
}

/** Compares the measurements with the targets, at each latency separately. Pure. */
export function checkTargets(
  results: readonly LatencyResults[],
  large: readonly Measurement[] | null,
): TargetResult[] {
  const atEach = results.flatMap(({ latencyMs, measurements }) => {
    const at = `at ${latencyMs} ms`
    const targets = speedTargets(latencyMs)
    const statements = medianOf(measurements, 'bulk', (measurement) => measurement.statementsPer1000)
    return [
      ...(['sync', 'bulk'] as const).map((route) => {
        const speed = timesAsFast(measurements, route)
        return {
          text: `${at}: ${route} is ${targets[route]} times as fast as the plain script`,
          measured: `${speed.toFixed(2)}×`,
          met: speed >= targets[route],
        }
      }),
      {
        text: `${at}: bulk sends at most ${MAX_STATEMENTS} statements for 1,000 rows`,
        measured: statements.toFixed(1),
        met: statements <= MAX_STATEMENTS,
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
