import {
  banTarget,
  decreaseTarget,
  noTarget,
  rollingTarget,
  sharedKeyTarget,
  steadyTarget,
  type RateTarget,
} from '../targets.ts'
import type { ServiceSettings } from '../../../test/support/simulated-service/service.ts'
import { plainSimulation } from '../../../test/support/simulated-service/simulate.ts'
import { seeded } from '../../../test/support/simulated-service/random.ts'
import type { Burst, SimulationSettings } from '../../../test/support/simulated-service/simulate.ts'

export interface VirtualCase {
  readonly group: string
  readonly name: string
  readonly windows: number
  readonly settings: Omit<SimulationSettings, 'seed'>
  readonly target: RateTarget
}

export const plainService: ServiceSettings = {
  counter: 'first-request',
  limit: 50,
  windowMs: 10_000,
  reset: 'up',
  skewMs: 0,
  date: true,
  headerShare: 1,
  faultShare: 0,
  faults: 'counted',
  missShare: 0.125,
  misses: 'counted',
  retryAfter: 'seconds',
  change: null,
}

type Changes = Partial<ServiceSettings> &
  Partial<Pick<SimulationSettings, 'otherClientShare' | 'lostShare' | 'before' | 'after'>>

function fixed(
  group: string,
  name: string,
  limit: number,
  windowMs: number,
  changes: Changes = {},
): VirtualCase {
  const windows = changes.ban !== undefined ? 360 : windowMs >= 60_000 ? 12 : 30
  const { otherClientShare = 0, lostShare = 0, before, after, ...service } = changes
  return {
    group,
    name: `${limit.toLocaleString('en')} in ${text(windowMs)}${name === '' ? '' : `, ${name}`}`,
    windows,
    settings: {
      ...plainSimulation,
      ...(before && { before }),
      ...(after && { after }),
      otherClientShare,
      lostShare,
      concurrency: limit >= 5000 ? 1024 : limit >= 1000 ? 256 : 64,
      durationMs: windows * windowMs,
      service: { ...plainService, ...service, limit, windowMs },
    },
    target: {
      steady: steadyTarget(limit, windowMs),
      whole: windowMs >= 60_000 ? 0.98 : null,
      rejected: 0,
    },
  }
}

const withTarget = (target: RateTarget, one: VirtualCase): VirtualCase => ({ ...one, target })
const text = (windowMs: number): string => (windowMs >= 3_600_000 ? '1 h' : `${windowMs / 1000} s`)

const first = 'Windows that the first request starts'
const clock = 'Windows on the clock'
const sliding = 'A sliding log'
const bucket = 'A token bucket'
const odd = 'What headers and clocks do'
const sharedKey = 'Another client spends a fifth of the key'
const ban = 'A ban'

const life = "A week of a daemon's life, then an import"

export const groups = [first, clock, sliding, bucket, odd, sharedKey, ban, life]

/** A few calls every few minutes or hours for a week, and then an import as large as several windows allow. */
function lived(name: string, limit: number, windowMs: number, changes: Changes = {}): VirtualCase {
  const one = fixed(life, name, limit, windowMs, changes)
  const random = seeded(limit + windowMs)
  const bursts: Burst[] = []
  for (let at = 0; at < week; at += random() < 0.5 ? random() * 10 * minute : random() * 180 * minute)
    bursts.push({ at, calls: 1 + Math.floor(random() * 8) })
  const windows = windowMs >= minute ? 12 : 100
  bursts.push({ at: week + minute, calls: windows * limit })
  const durationMs = week + minute + 2 * windows * windowMs
  return {
    ...one,
    settings: { ...one.settings, bursts, durationMs },
    target: {
      steady: null,
      whole: windowMs < 10_000 ? 0.96 : changes.headerShare === undefined ? 0.98 : 0.97,
      rejected: 0,
    },
  }
}

const minute = 60_000
const week = 7 * 24 * 60 * minute

export const cases: readonly VirtualCase[] = [
  fixed(first, '', 1000, 3_600_000),
  fixed(first, '', 60, 60_000),
  fixed(first, '', 600, 60_000),
  fixed(first, '', 5, 10_000),
  fixed(first, '', 50, 10_000),
  fixed(first, '', 1000, 10_000),
  fixed(first, '', 50, 2000),
  fixed(first, '', 1000, 2000),
  withTarget(noTarget, fixed(first, '', 50, 1500)),
  fixed(first, '', 5, 1000),
  fixed(first, '', 50, 1000),
  withTarget(rollingTarget, fixed(first, '', 5000, 1000)),
  withTarget(noTarget, fixed(first, '', 10, 500)),
  fixed(clock, '', 600, 60_000, { counter: 'on-the-clock' }),
  fixed(clock, '', 50, 10_000, { counter: 'on-the-clock' }),
  fixed(clock, '', 50, 2000, { counter: 'on-the-clock' }),
  fixed(clock, '', 50, 1000, { counter: 'on-the-clock' }),
  withTarget(rollingTarget, fixed(sliding, '', 600, 60_000, { counter: 'sliding-log' })),
  withTarget(rollingTarget, fixed(sliding, '', 50, 10_000, { counter: 'sliding-log' })),
  withTarget(rollingTarget, fixed(sliding, '', 50, 2000, { counter: 'sliding-log' })),
  withTarget(rollingTarget, fixed(bucket, '', 600, 60_000, { counter: 'token-bucket' })),
  withTarget(rollingTarget, fixed(bucket, '', 50, 10_000, { counter: 'token-bucket' })),
  withTarget(rollingTarget, fixed(bucket, '', 50, 2000, { counter: 'token-bucket' })),
  fixed(odd, 'clock 90 s ahead', 50, 2000, { skewMs: 90_000 }),
  fixed(odd, 'clock 90.4 s behind', 50, 2000, { skewMs: -90_400 }),
  fixed(odd, 'no `Date`', 50, 2000, { date: false, skewMs: 400 }),
  fixed(odd, 'Reset rounded down', 50, 2000, { reset: 'down' }),
  fixed(odd, 'Reset to the millisecond', 50, 2000, { reset: 'ms' }),
  fixed(odd, 'Reset as seconds from now', 50, 10_000, { reset: 'delay-up' }),
  // The length is learnt some windows later than from all answers.
  withTarget(
    { steady: 0.985, whole: null, rejected: 0 },
    fixed(odd, 'headers on 30% of answers', 50, 10_000, { headerShare: 0.3 }),
  ),
  fixed(odd, '5% of answers 500, counted', 50, 10_000, { faultShare: 0.05 }),
  fixed(odd, '5% of answers 500, not counted', 50, 10_000, { faultShare: 0.05, faults: 'uncounted' }),
  withTarget(noTarget, fixed(odd, '2% of answers lost', 50, 10_000, { lostShare: 0.02 })),
  withTarget(
    noTarget,
    fixed(odd, 'cut to 20 in mid-run', 50, 2000, { change: { afterMs: 31_000, limit: 20 } }),
  ),
  withTarget(
    decreaseTarget,
    fixed(odd, 'cut to 20 within a window', 50, 2000, {
      change: { afterMs: 31_050, limit: 20, isAtOnce: true },
    }),
  ),
  withTarget(
    noTarget,
    fixed(odd, 'raised to 100 in mid-run', 50, 2000, { change: { afterMs: 31_000, limit: 100 } }),
  ),
  withTarget(
    noTarget,
    fixed(odd, 'up to a second there and back', 50, 10_000, { before: [100, 500], after: [100, 500] }),
  ),
  withTarget(sharedKeyTarget, fixed(sharedKey, '', 600, 60_000, { otherClientShare: 0.2 })),
  withTarget(sharedKeyTarget, fixed(sharedKey, '', 50, 10_000, { otherClientShare: 0.2 })),
  withTarget(sharedKeyTarget, fixed(sharedKey, '', 50, 2000, { otherClientShare: 0.2 })),
  withTarget(
    sharedKeyTarget,
    fixed(sharedKey, 'on the clock', 50, 10_000, { otherClientShare: 0.2, counter: 'on-the-clock' }),
  ),
  withTarget(banTarget, {
    ...fixed(ban, 'no Reset; 403 for 5 min after a 429', 50, 10_000, {
      reset: 'none',
      ban: { above: 0, forMs: 300_000, retryAfter: false },
    }),
  }),
  lived('', 60, 60_000),
  lived('', 600, 60_000),
  lived('', 50, 10_000),
  lived('', 60, 3000),
  lived('on the clock', 50, 10_000, { counter: 'on-the-clock' }),
  lived('a sliding log', 50, 10_000, { counter: 'sliding-log' }),
  lived('a token bucket', 50, 10_000, { counter: 'token-bucket' }),
  lived('Reset as seconds from now', 50, 10_000, { reset: 'delay-up' }),
  lived('headers on 30% of answers', 50, 10_000, { headerShare: 0.3 }),
]
