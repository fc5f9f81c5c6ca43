import fc from 'fast-check'
import type { ServiceSettings } from './service.ts'
import { plainSimulation } from './simulate.ts'
import type { SimulationSettings } from './simulate.ts'

/** Windows as real services set them: mostly whole and half seconds, and tenths where they are short. */
const windowMs = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.constantFrom(500, 1000, 1500, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 3_600_000),
  },
  { weight: 1, arbitrary: fc.integer({ min: 5, max: 50 }).map((tenths) => tenths * 100) },
  { weight: 1, arbitrary: fc.integer({ min: 10, max: 120 }).map((halves) => halves * 500) },
)

const limit = fc.oneof(
  fc.constantFrom(1, 2, 3, 4, 5, 10, 50, 100),
  fc.integer({ min: 1, max: 200 }),
  fc.constantFrom(1000, 5000, 10_000),
)

/** A minute's skew and a fraction of a second's; without a Date only the difference of accurate clocks. */
const clock = fc.oneof(
  fc.record({ date: fc.constant(true), skewMs: fc.integer({ min: -300_000, max: 300_000 }) }),
  fc.record({ date: fc.constant(true), skewMs: fc.integer({ min: -900, max: 900 }) }),
  fc.record({ date: fc.constant(false), skewMs: fc.integer({ min: -900, max: 900 }) }),
)

const reset = fc.constantFrom<ServiceSettings['reset'][]>(
  'up',
  'up',
  'down',
  'round',
  'ms',
  'iso',
  'delay-up',
  'delay-down',
)

const faults = fc.record({
  faultShare: fc.constantFrom(0, 0, 0.05),
  faults: fc.constantFrom<ServiceSettings['faults'][]>('counted', 'uncounted', 'before the limiter'),
})

const misses = fc.record({
  missShare: fc.constantFrom(0, 0.125, 0.125, 1),
  misses: fc.constantFrom<ServiceSettings['misses'][]>('counted', 'counted', 'counted', 'uncounted'),
})

const range = (least: number, most: number) =>
  fc
    .tuple(fc.integer({ min: least, max: most }), fc.integer({ min: 0, max: most }))
    .map(([from, length]): readonly [number, number] => [from, from + length])

/** Every kind of service without another client, behind every kind of network. */
export const service: fc.Arbitrary<ServiceSettings> = fc
  .record({
    counter: fc.constantFrom<ServiceSettings['counter'][]>(
      'first-request',
      'first-request',
      'on-the-clock',
      'sliding-log',
      'token-bucket',
    ),
    limit,
    windowMs,
    clock,
    reset,
    headerShare: fc.constantFrom(1, 1, 1, 0.7, 0.3),
    faults,
    misses,
    retryAfter: fc.constantFrom<ServiceSettings['retryAfter'][]>('seconds', 'date', 'none'),
  })
  .map(({ clock, faults, misses, headerShare, ...rest }) => ({
    ...rest,
    // Windows on the clock are whole or half seconds.
    windowMs: rest.counter === 'on-the-clock' ? Math.ceil(rest.windowMs / 500) * 500 : rest.windowMs,
    ...clock,
    ...faults,
    ...misses,
    misses: rest.limit < 20 ? 'counted' : misses.misses,
    // A limit of a few calls can be used up before the first header states it.
    headerShare: rest.limit < 20 ? 1 : headerShare,
    change: null,
  }))

/** A run of several windows, and of a bounded number of calls. */
export const simulation: fc.Arbitrary<SimulationSettings> = fc
  .record({
    service,
    seed: fc.integer({ min: 1, max: 1_000_000 }),
    windows: fc.integer({ min: 5, max: 14 }),
    concurrency: fc.constantFrom(1, 4, 32, 64, 256),
    before: range(0, 150),
    after: range(1, 150),
    lag: range(0, 20),
    lostShare: fc.constantFrom(0, 0, 0, 0.02),
    pause: fc.option(
      fc.tuple(fc.float({ min: 0, max: 8, noNaN: true }), fc.float({ min: 0, max: 3, noNaN: true })),
      { freq: 3 },
    ),
  })
  .map(({ windows, pause, lostShare, ...rest }) => ({
    ...plainSimulation,
    ...rest,
    // A limit of a few calls can be used up by calls before any answer states it.
    lostShare: rest.service.limit < 20 ? 0 : lostShare,
    durationMs: durationOf(rest.service, windows),
    mostCalls: 2.5 * mostCalls,
    pauses:
      pause === null
        ? []
        : [[pause[0] * rest.service.windowMs, (pause[0] + pause[1]) * rest.service.windowMs] as const],
  }))

const mostCalls = 6000

function durationOf({ limit, windowMs }: ServiceSettings, windows: number): number {
  return windowMs * Math.max(2.2, Math.min(windows, mostCalls / limit))
}
