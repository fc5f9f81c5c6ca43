import { describe, expect, test } from 'vitest'
import { plainService } from '../../../../bench/rate/virtual/cases.ts'
import { someOf } from '../../../support/quota-runs.ts'
import type { ServiceSettings } from '../../../support/simulated-service/service.ts'
import { plainSimulation, simulate } from '../../../support/simulated-service/simulate.ts'

const counters = ['first-request', 'on-the-clock', 'sliding-log', 'token-bucket'] as const
const limits = [
  [50, 10_000],
  [600, 60_000],
] as const
const services = counters.flatMap((counter) =>
  limits.flatMap(([limit, windowMs]) =>
    (['seconds', 'none'] as const).map((retryAfter) => ({ counter, limit, windowMs, retryAfter })),
  ),
)
type Case = (typeof services)[number]

/** Each seed is another start in a window. */
const seedsOf = (service: Case): readonly number[] => someOf([1, 2, 3], services.indexOf(service))

/** Twelve windows of a service without rate headers; the first call comes at another point of a window with each seed. */
function play(service: Case, seed: number, rest: { readonly otherClientShare?: number } = {}) {
  const { limit, windowMs } = service
  const startMs = ((seed - 1) / 3) * windowMs
  const endMs = startMs + Math.max(300_000, 12 * windowMs)
  const settings: ServiceSettings = { ...plainService, ...service, headerShare: 0, reset: 'none' }
  const { timeline, startedAt, model } = simulate({
    ...plainSimulation,
    seed,
    durationMs: endMs,
    pauses: [[0, startMs]],
    ...rest,
    service: settings,
  })
  // By then a window is known.
  const from = startMs + Math.max(30_000, 4 * windowMs)
  const late = timeline.entries.filter(
    ({ arrival, sentAt }) => arrival !== null && sentAt >= startedAt + from,
  )
  const refused = late.filter(({ arrival }) => arrival?.status === 429).map(({ sentAt }) => sentAt)
  const most = Math.max(
    0,
    ...refused.map((at) => refused.filter((one) => one >= at && one < at + 10_000).length),
  )
  const use = (late.length - refused.length) / ((limit * (endMs - from)) / windowMs)
  return { most, refused: refused.length, use, learnt: model.learnt }
}

describe('a service that states no limit', () => {
  test.each(services)('refuses at most two calls in ten seconds once a window is known: %o', (service) => {
    for (const seed of seedsOf(service)) {
      const { most, refused, use, learnt } = play(service, seed)
      // 25 to 32 in ten seconds, and 86 to 521 in all, while each window was tried anew.
      expect({ seed, most, isLate: refused > 16 }).toEqual({ seed, most: Math.min(most, 2), isLate: false })
      expect(use).toBeGreaterThan(0.9)
      expect(learnt).not.toBe(null)
    }
  })

  test.each(services)('refuses few calls beside another client of the key: %o', (service) => {
    // The other client's calls end beside ours in a long log.
    const most = service.counter === 'sliding-log' ? 3 : 2
    for (const seed of seedsOf(service))
      expect(play(service, seed, { otherClientShare: 0.2 }).most).toBeLessThanOrEqual(most)
  })

  // The calls of the minutes before an outage are no limit: 71 in 5 min were kept to for a quarter of an hour.
  test.each([5_000, 65_000, 130_000])(
    'refuses all calls for %i ms, and is used at full speed again',
    (ms) => {
      const [from, to] = [300_000, 300_000 + ms]
      const edits = Array.from({ length: 900 }, (_, second) => ({ at: second * 1_000, calls: 1 }))
      const night = { at: from + 1_500, calls: 1_000 }
      const service = { ...plainService, limit: 1_000_000, windowMs: 1_000, headerShare: 0, missShare: 0 }
      const { timeline, startedAt } = simulate({
        ...plainSimulation,
        durationMs: 900_000,
        bursts: [...edits, night].toSorted((a, b) => a.at - b.at),
        service: { ...service, refusesAll: [from, to] },
      })
      const accepted = timeline.entries.filter(({ arrival }) => arrival?.status === 200)
      const first = accepted.find(({ sentAt }) => sentAt - startedAt >= to)?.sentAt ?? Number.NaN
      const soon = accepted.filter(({ sentAt }) => sentAt < first + 60_000)
      expect(soon.length).toBeGreaterThan(300 + 1_000)
    },
  )
})
