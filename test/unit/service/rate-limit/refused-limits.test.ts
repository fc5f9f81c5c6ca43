import { describe, expect, test } from 'vitest'
import type { LimitUsage } from '../../../../src/domain/rate-status.ts'
import { pollsCountAs, readDocumentedLimits } from '../../../../src/domain/service/documented-limit.ts'
import type { CalledEndpoint } from '../../../../src/domain/spend.ts'
import { EndpointModels } from '../../../../src/service/rate-limit/endpoint-models.ts'

const MINUTE = 60_000

/** A leader of a service whose headers state nothing. @param at when it begins */
function lead(limit: Parameters<typeof readDocumentedLimits>[0], usage: LimitUsage | null = null, at = 0) {
  let now = at
  const models = new EndpointModels({
    documented: { limits: readDocumentedLimits(limit), usage },
    onPersisted: () => {},
    now: () => now,
  })
  /** There is always more to call. */
  const wanted = new Set<CalledEndpoint>()
  const grantable = (endpoint: CalledEndpoint, ms = now): number => {
    now = Math.max(now, ms)
    models.onDemand(wanted.add(endpoint), now)
    return models.grantable(endpoint, 100, now)
  }
  const call = (endpoint: CalledEndpoint, status = 200, headers: Record<string, string> = {}): void => {
    models.onDemand(wanted.add(endpoint), (now += 20))
    models.grant(endpoint, 1, now)
    const sent = models.sent(endpoint, now)
    models.answered(sent, { status, headers }, (now += 20))
  }
  const refuse = (endpoint: CalledEndpoint): void => call(endpoint, 429, { 'retry-after': '60' })
  const calls = (endpoint: CalledEndpoint, count: number): void => {
    for (let n = 0; n < count; n++) call(endpoint)
  }
  return { models, grantable, call, calls, refuse, now: () => now }
}

const byEndpoint = { person: '600 per minute', company: '60 per minute' } as const

describe('a refusal that states no limit', () => {
  test('holds up only its endpoint where the description has limits by endpoint', () => {
    const { models, grantable, calls, refuse, now } = lead(byEndpoint)
    calls('person', 20)
    calls('company', 10)
    refuse('company')
    expect(grantable('company')).toBe(0)
    expect(grantable('person')).toBeGreaterThan(0)
    calls('person', 20)
    expect(grantable('company', 62_000)).toBe(1)
    calls('company', 1)
    expect(models.overstated).toEqual({ endpoint: 'company', calls: 60, windowMs: MINUTE, granted: 10 })
    expect(models.reported.learnt).toEqual({ calls: 10, windowMs: MINUTE })
    const learnt = [{ endpoint: 'company', calls: 10, windowMs: MINUTE, stated: 60 }]
    expect(models.documented.usage(now(), 0)).toMatchObject({ learnt })
  })

  test('is about the only endpoint that is called', () => {
    const { models, grantable, calls, refuse } = lead(byEndpoint)
    calls('company', 10)
    refuse('company')
    grantable('company', 61_000)
    calls('company', 1)
    expect(models.overstated).toMatchObject({ endpoint: 'company', granted: 10 })
    calls('person', 30)
    expect(models.overstated).toMatchObject({ endpoint: 'company', granted: 10 })
  })

  test('holds up all calls where it has one limit for all', () => {
    const { models, grantable, calls, refuse } = lead('600 per minute')
    calls('person', 60)
    calls('company', 40)
    refuse('company')
    expect([grantable('company'), grantable('person')]).toEqual([0, 0])
    grantable('person', 64_000)
    calls('person', 1)
    expect(models.overstated).toEqual({ endpoint: null, calls: 600, windowMs: MINUTE, granted: 100 })
    // What companies were granted before is no limit of theirs.
    expect(models.reported.learnt?.calls).toBe(100)
    calls('company', 1)
    expect(models.overstated).toMatchObject({ granted: 100 })
  })

  test('holds for the endpoints that are called later', () => {
    const { models, grantable, calls, refuse } = lead('600 per minute')
    calls('person', 100)
    refuse('person')
    grantable('person', 65_000)
    calls('person', 1)
    calls('company', 1)
    expect(models.overstated).toMatchObject({ endpoint: null, granted: 100 })
    expect(models.reported.learnt?.calls).toBe(100)
  })
})

describe('the next leader', () => {
  /** Ten companies a minute; after a pause of a minute, four were called. */
  function learn(): LimitUsage {
    const { models, grantable, calls, refuse, now } = lead(byEndpoint)
    calls('company', 10)
    refuse('company')
    grantable('company', 61_000)
    calls('company', 4)
    return models.documented.usage(now(), 0)
  }

  test('knows what was learnt, and what was called of it', () => {
    const next = lead(byEndpoint, learn(), 62_000)
    expect(next.models.overstated).toMatchObject({ endpoint: 'company', granted: 10 })
    let made = 0
    for (; next.grantable('company') > 0 && made < 20; made++) next.call('company')
    expect(made).toBe(6)
    expect(next.grantable('person')).toBeGreaterThan(0)
  })

  test('forgets it where the description states another limit by then', () => {
    const next = lead({ ...byEndpoint, company: '10 per minute' }, learn(), 62_000)
    expect(next.models.overstated).toBeNull()
    expect(next.models.reported.learnt).toBeNull()
  })
})

describe('polls', () => {
  test('count against bulk calls, or against a limit of their own', () => {
    expect(pollsCountAs(readDocumentedLimits(['60 per minute', '900 per day']))).toBe('bulk')
    expect(pollsCountAs(readDocumentedLimits({ bulk: '5 per minute' }))).toBe('bulk')
    expect(pollsCountAs(readDocumentedLimits({ person: '5 per minute', poll: '15 per minute' }))).toBe('poll')
  })

  test('and bulk calls do not wait for each other where both have limits', () => {
    const { grantable, calls } = lead({ bulk: '5 per minute', poll: '15 per minute' })
    calls('bulk', 5)
    expect([grantable('bulk'), grantable('poll')]).toEqual([0, 1])
    calls('poll', 15)
    expect(grantable('poll')).toBe(0)
    expect(grantable('bulk', 61_000)).toBeGreaterThan(0)
  })
})
