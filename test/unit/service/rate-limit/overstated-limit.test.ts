import { describe, expect, test } from 'vitest'
import { plainService } from '../../../../bench/rate/virtual/cases.ts'
import { findOverstated } from '../../../../src/service/rate-limit/endpoint-models.ts'
import { isEachCasePlayed, someOf } from '../../../support/quota-runs.ts'
import type { ServiceSettings } from '../../../support/simulated-service/service.ts'
import {
  type Outcome,
  plainSimulation,
  type SimulationSettings,
  simulate,
} from '../../../support/simulated-service/simulate.ts'

const MINUTE = 60_000
const counters = ['first-request', 'on-the-clock', 'sliding-log', 'token-bucket'] as const
const waits = ['seconds', 'none'] as const
type Case = Pick<ServiceSettings, 'counter' | 'limit' | 'retryAfter'>

const cases: readonly Case[] = counters.flatMap((counter) =>
  [5, 60, 600, 10_000].flatMap((limit) =>
    (limit < 10_000 || isEachCasePlayed ? waits : (['none'] as const)).map((retryAfter) => ({
      counter,
      limit,
      retryAfter,
    })),
  ),
)

/** Minutes of a service that states no limit; the first call comes somewhere in a window. */
function play(
  { limit, ...rest }: Case,
  factor: number,
  more: Partial<SimulationSettings> & Pick<Partial<ServiceSettings>, 'change'> = {},
): Outcome {
  const { change = null, ...settings } = more
  const startMs = rest.counter === 'on-the-clock' ? (limit % 7) * 8_000 : 0
  return simulate({
    ...plainSimulation,
    concurrency: limit > 1_000 ? 256 : 64,
    pauses: startMs === 0 ? [] : [[0, startMs]],
    durationMs: startMs + (limit > 1_000 ? 8 : 14) * MINUTE,
    documented: [{ calls: Math.round(limit * factor), windowMs: MINUTE, endpoint: null }],
    ...settings,
    service: { ...plainService, ...rest, limit, windowMs: MINUTE, headerShare: 0, reset: 'none', change },
  })
}

/** How many calls were refused from then on, in milliseconds since the first call. */
function refusedFrom({ timeline }: Outcome, ms: number): number {
  const first = timeline.entries[0]?.sentAt ?? 0
  return timeline.entries.filter(({ arrival, sentAt }) => arrival?.status === 429 && sentAt >= first + ms)
    .length
}

const factors = [6, 2, 1.2]

describe.each(cases)('a limit that is stated too high: %o', (one) => {
  test.each(isEachCasePlayed ? factors : someOf(factors, cases.indexOf(one)))(
    '%d times: it is found within three windows, and used',
    (factor) => {
      const outcome = play(one, factor)
      expect(outcome.steadyUtilisation).toBeGreaterThan(0.9)
      // A probe in flight, and few at that, at most once a window.
      expect(refusedFrom(outcome, 3 * MINUTE)).toBeLessThan(14 + one.limit / 100)
      const learnt = outcome.model.learnt ?? { calls: 0, windowMs: 1 }
      expect((learnt.calls / learnt.windowMs) * MINUTE).toBeGreaterThanOrEqual(0.8 * one.limit)
      expect((learnt.calls / learnt.windowMs) * MINUTE).toBeLessThan(1.25 * one.limit)
    },
  )
})

describe.each(counters)('what is learnt of a limit of calls counted by %s', (counter) => {
  const one = { counter, limit: 100, retryAfter: 'none' } as const

  test('is kept by the next leader', () => {
    const restarts = [4.3 * MINUTE, 8.6 * MINUTE]
    const outcomes = [1, 2, 3].map((seed) => play(one, 6, { restarts, seed }))
    const refused = outcomes.reduce((sum, outcome) => sum + refusedFrom(outcome, 3 * MINUTE), 0)
    // A bucket refuses 9 to 13, by how its calls come.
    expect(refused / outcomes.length).toBeLessThan(12)
    // Two take-overs, and what was noted ahead of each.
    for (const { accepted } of outcomes) expect(accepted).toBeGreaterThan(0.8 * 14 * one.limit)
  })

  test('rises when the service grants more', () => {
    const raisedAt = 4 * MINUTE
    const change = { afterMs: raisedAt, limit: 600, isAtOnce: true }
    const outcome = play(one, 6, { change, durationMs: 24 * MINUTE })
    const { startedAt, timeline } = outcome
    const late = timeline.entries.filter(({ sentAt }) => sentAt >= startedAt + 19 * MINUTE)
    const accepted = late.filter(({ arrival }) => arrival !== null && arrival.status !== 429)
    expect(accepted.length).toBeGreaterThan(0.8 * 5 * 600)
    expect(refusedFrom(outcome, raisedAt)).toBeLessThan(24)
  })
})

describe('what is stated too high', () => {
  const documented = [
    { calls: 600, windowMs: MINUTE, endpoint: null },
    { calls: 50_000, windowMs: 86_400_000, endpoint: null },
  ]

  test('is the limit with the window that was learnt', () => {
    expect(findOverstated({ calls: 100, windowMs: 61_000 }, documented)).toMatchObject({
      calls: 600,
      granted: 98,
    })
    expect(findOverstated({ calls: 5_000, windowMs: 86_000_000 }, documented)).toMatchObject({
      calls: 50_000,
    })
  })

  test('is nothing where as many calls are granted in shorter windows', () => {
    expect(findOverstated({ calls: 10, windowMs: 1_000 }, documented)).toBeNull()
    expect(findOverstated({ calls: 10, windowMs: 1_000 }, [])).toBeNull()
  })
})
