import type { RateTarget } from '../targets.ts'
import { rollingTarget, steadyTarget } from '../targets.ts'
import { hasWindows, kinds, type LimiterName } from './limiters.ts'
import type { ServiceTask } from './service.ts'

export interface HttpCase {
  readonly name: string
  readonly service: ServiceTask
  readonly concurrency: number
  readonly durationMs: number
  readonly target: RateTarget
}

function httpCase(limiter: LimiterName, limit: number, windowMs: number, windows: number): HttpCase {
  const target = hasWindows(limiter)
    ? { steady: limit >= 5000 ? 0.9 : steadyTarget(limit, windowMs), whole: null, rejected: 0 }
    : rollingTarget
  return {
    name: `${limiter}, ${limit.toLocaleString('en')} in ${windowMs / 1000} s (${kinds[limiter]})`,
    service: { limiter, limit, windowMs, before: [2, 20], after: [15, 60] },
    concurrency: limit >= 5000 ? 512 : limit >= 1000 ? 128 : 32,
    durationMs: windows * windowMs,
    target,
  }
}

export const httpCases: readonly HttpCase[] = [
  httpCase('express-rate-limit', 5, 1000, 20),
  httpCase('express-rate-limit', 50, 1000, 20),
  httpCase('express-rate-limit', 50, 2000, 12),
  httpCase('express-rate-limit', 1000, 2000, 10),
  httpCase('express-rate-limit', 200, 10_000, 6),
  httpCase('express-rate-limit', 5000, 1000, 12),
  // Long windows are measured for the cold start alone: 98% of the whole.
  {
    ...httpCase('express-rate-limit', 600, 60_000, 3.1),
    target: { steady: null, whole: 0.98, rejected: 0 },
  },
  httpCase('rate-limiter-flexible', 50, 2000, 12),
  httpCase('rate-limiter-flexible', 200, 5000, 6),
  httpCase('rolling-rate-limiter', 50, 2000, 12),
  httpCase('limiter', 50, 2000, 12),
]
