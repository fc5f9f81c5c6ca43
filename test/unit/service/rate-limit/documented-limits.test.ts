import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { LimitUsage } from '../../../../src/domain/rate-status.ts'
import type { DocumentedLimit } from '../../../../src/domain/service/documented-limit.ts'
import { DocumentedLimits } from '../../../../src/service/rate-limit/documented-limits.ts'
import { propertyRuns } from '../../../support/quota-runs.ts'
import { service } from '../../../support/simulated-service/arbitrary.ts'
import {
  plainSimulation,
  type SimulationSettings,
  simulate,
} from '../../../support/simulated-service/simulate.ts'

const MINUTE: DocumentedLimit = { calls: 60, windowMs: 60_000, endpoint: null }
const DAY: DocumentedLimit = { calls: 1_000, windowMs: 86_400_000, endpoint: null }
const open = (limits: readonly DocumentedLimit[], usage: LimitUsage | null = null) =>
  new DocumentedLimits({ limits, usage }, 30_000, () => {})

/** A service that counts in any way and states nothing, and whose limit is only documented. */
const undeclared: fc.Arbitrary<SimulationSettings> = fc
  .record({
    service,
    seed: fc.integer({ min: 1, max: 1_000_000 }),
    concurrency: fc.constantFrom(1, 4, 32, 256),
    lostShare: fc.constantFrom(0, 0, 0.02),
    isStated: fc.boolean(),
    restarts: fc.array(fc.double({ min: 0, max: 4, noNaN: true }), { maxLength: 2 }),
  })
  .map(({ service: { limit, windowMs, ...rest }, isStated, restarts, ...settings }) => ({
    ...plainSimulation,
    ...settings,
    service: { ...rest, limit, windowMs, headerShare: isStated ? rest.headerShare : 0, retryAfter: 'none' },
    documented: [{ calls: limit, windowMs, endpoint: null }],
    // A predecessor of a service with headers is another test's.
    restarts: isStated ? [] : restarts.map((windows) => windows * windowMs),
    durationMs: windowMs * 5 + 20_000,
    mostCalls: 2_000,
  }))

describe('a documented limit', () => {
  test('is kept without any header and across restarts: no 429, however the service counts', () => {
    fc.assert(
      fc.property(undeclared, (settings) => {
        const outcome = simulate(settings)
        if (outcome.rejected > 0 || outcome.isDeadlocked)
          throw new Error(
            `${JSON.stringify(settings)}\naccepted ${outcome.accepted}, 429s: ${outcome.rejected}\n${outcome.timeline.print()}`,
          )
      }),
      { numRuns: propertyRuns(250) / 5 },
    )
  })

  test('without it the same service refuses calls', () => {
    const settings: SimulationSettings = {
      ...plainSimulation,
      durationMs: 300_000,
      service: {
        counter: 'sliding-log',
        limit: 60,
        windowMs: 60_000,
        reset: 'none',
        skewMs: 0,
        date: false,
        headerShare: 0,
        faultShare: 0,
        faults: 'counted',
        missShare: 0,
        misses: 'counted',
        retryAfter: 'none',
        change: null,
      },
    }
    expect(simulate(settings).rejected).toBeGreaterThan(0)
    const paced = simulate({ ...settings, documented: [MINUTE] })
    expect(paced.rejected).toBe(0)
    // A window costs what a call takes besides.
    expect(paced.accepted).toBeGreaterThanOrEqual(297)
  })

  test('is one of several, each for all calls or for an endpoint', () => {
    const limits = open([MINUTE, DAY, { calls: 2, windowMs: 1_000, endpoint: 'company' }])
    expect([limits.grantable('person', 0), limits.grantable('company', 0)]).toEqual([60, 2])
    limits.grant('company', 2)
    expect([limits.grantable('person', 0), limits.grantable('company', 0)]).toEqual([58, 0])
    limits.complete('company', 100)
    limits.release('company', 1)
    expect(limits.grantable('company', 200)).toBe(1)
    limits.grant('person', 59)
    expect(limits.nextAt('person', 200)).toBeCloseTo(60_108, 0)
    expect(limits.binding(200)).toMatchObject({ limit: MINUTE, used: 60 })
    for (let n = 0; n < 59; n++) limits.complete('person', 300 + n)
    expect(limits.grantable('person', 60_000)).toBe(0)
    expect(limits.grantable('person', 62_000)).toBe(60)
    expect(limits.binding(62_000)).toMatchObject({ limit: { endpoint: 'company' }, used: 0 })
  })

  test('keeps a share for urgent calls', () => {
    const limits = open([MINUTE])
    expect([limits.grantable(null, 0, 0.1), limits.grantable(null, 0)]).toEqual([54, 60])
  })
})

describe('what the next leader is left', () => {
  test('is every call of each window, and those that were noted ahead as if made now', () => {
    const before = open([MINUTE, DAY])
    before.grant(null, 40)
    for (let n = 0; n < 30; n++) before.complete(null, n * 1_000)
    const usage = before.usage(30_000, 5)
    expect(JSON.stringify(usage).length).toBeLessThan(600)
    // 10 in flight and 5 more may have been made. The stored parts leave together with their latest call.
    const next = open([MINUTE, DAY], usage)
    expect(next.grantable(null, 30_000)).toBe(60 - 30 - 15)
    expect(next.grantable(null, 61_100)).toBeLessThanOrEqual(60 - 15 - 28)
    expect(next.grantable(null, 92_000)).toBe(60)
    expect(next.binding(92_000)?.used).toBe(0)
    // A limit that was not known then: the next longer window has its calls.
    const hourly = open([{ calls: 100, windowMs: 3_600_000, endpoint: null }], usage)
    expect(hourly.grantable(null, 30_000)).toBe(55)
  })

  test('is noted before the calls are made, some ahead, and again after a failure', async () => {
    const notes: { usage: LimitUsage; done: PromiseWithResolvers<void> }[] = []
    const persist = (usage: LimitUsage): Promise<void> => {
      const done = Promise.withResolvers<void>()
      notes.push({ usage, done })
      return done.promise
    }
    let persisted = 0
    const limits = new DocumentedLimits({ limits: [MINUTE], persist }, 0, () => persisted++)
    const limit = (count: number): number => limits.limit(count, null, 0, 0)
    expect([limit(3), limit(3)]).toEqual([0, 0])
    expect(notes.map(({ usage }) => usage.reserved)).toEqual([8])
    notes[0]?.done.resolve()
    await expect.poll(() => persisted).toBe(1)
    expect(limit(3)).toBe(3)
    limits.grant(null, 3)
    expect(limit(9)).toBe(5)
    limits.grant(null, 5)
    // What was granted while it is written is in it as well.
    expect(notes.map(({ usage }) => usage.reserved)).toEqual([8, 16])
    notes[1]?.done.reject(new Error('Postgres is away'))
    await expect.poll(() => persisted).toBe(2)
    expect(limit(1)).toBe(0)
    expect(notes).toHaveLength(3)
  })
})
