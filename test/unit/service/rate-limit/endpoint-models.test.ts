import { describe, expect, test } from 'vitest'
import type { ExhaustedFor, PreviousLeader } from '../../../../src/domain/rate-status.ts'
import { EndpointModels, type ModelOptions } from '../../../../src/service/rate-limit/endpoint-models.ts'
import { plainService } from '../../../../bench/rate/virtual/cases.ts'
import { isEachCasePlayed, someOf } from '../../../support/quota-runs.ts'
import {
  simulateEndpoints,
  type EndpointOutcome,
  type EndpointWork,
} from '../../../support/simulated-service/simulate-endpoints.ts'

type Limit = readonly [calls: number, windowMs: number]

const networks = [
  { concurrency: 4, transit: [5, 60] },
  { concurrency: 32, transit: [2, 10] },
  { concurrency: 64, transit: [20, 120] },
] as const

/** When the second endpoint is called first, in milliseconds since the first one was. */
const starts = [0, 3, 7_700]

const seeds = isEachCasePlayed ? [1, 2, 3, 4, 5, 6, 7, 8] : [1]

/** Twelve windows of a minute show what more do. */
const windowsOf = (all: number, [, windowMs]: Limit): number =>
  isEachCasePlayed || windowMs < 60_000 ? all : 12

const counters = ['first-request', 'on-the-clock', 'sliding-log', 'token-bucket'] as const

const fromBoth = (from: number) => ({
  person: { limit: 'person', from: 0 },
  company: { limit: 'company', from },
})

describe.each(counters)('several endpoints are called, and the service counts as %s', (counter) => {
  let turn = counters.indexOf(counter)

  function play(
    limits: Readonly<Record<string, Limit>>,
    durationMs: number,
    endpointsFrom: (from: number) => Readonly<Record<string, EndpointWork>>,
    reset = plainService.reset,
  ): EndpointOutcome[] {
    const services = Object.entries(limits).map(([name, [limit, windowMs]]) => [
      name,
      { ...plainService, counter, reset, limit, windowMs },
    ])
    const common = { durationMs, limits: Object.fromEntries(services) }
    turn++
    return networks.flatMap((network, n) =>
      seeds.flatMap((seed) =>
        someOf(starts, n + turn).map((from) =>
          simulateEndpoints({ ...common, ...network, seed, endpoints: endpointsFrom(from) }),
        ),
      ),
    )
  }

  test.each([
    [[50, 5000], [5, 5000], 0.6],
    // Four calls in 2 s where a bucket stays possible.
    [[100, 10_000], [7, 2000], 0.55],
    [[600, 60_000], [30, 60_000], 0.8],
    // Limits that look the same are told apart late.
    [[50, 5000], [50, 5000], 0],
  ] as const)('%o to people and %o to companies: no call is refused', (person, company, least) => {
    const durationMs = windowsOf(14, person) * person[1]
    const outcomes = play({ person, company }, durationMs, fromBoth)
    const share = (accepted = 0, [calls, windowMs]: Limit): number =>
      ((accepted / calls) * windowMs) / (durationMs / 2)
    for (const { rejected, accepted, models } of outcomes) {
      expect(rejected).toBe(0)
      expect(models.isByEndpoint || least === 0).toBe(true)
      expect(share(accepted.person, person)).toBeGreaterThan(least)
      expect(share(accepted.company, company)).toBeGreaterThan(least)
    }
  })

  test.each(['up', 'down', 'delay-up'] as const)(
    '100 in 1 s to people and 5 in 1 h to companies: people do not wait an hour, Reset %s',
    (reset) => {
      const outcomes = play({ person: [100, 1000], company: [5, 3_600_000] }, 40_000, fromBoth, reset)
      for (const { rejected, accepted } of outcomes) {
        expect(rejected).toBe(0)
        // As many as the slowest network lets through.
        expect(accepted.person).toBeGreaterThan(1100)
      }
    },
  )

  test.each([[[50, 10_000], 0.78] as const, [[50, 2000], 0.55] as const, [[600, 60_000], 0.85] as const])(
    'one limit for all, %o: it is used, and no call is refused',
    (all, least) => {
      const durationMs = windowsOf(20, all) * all[1]
      const outcomes = play({ all }, durationMs, (from) => ({
        bulk: { limit: 'all', from: 0 },
        person: { limit: 'all', from },
      }))
      for (const { rejected, accepted, models } of outcomes) {
        expect({ rejected, isByEndpoint: models.isByEndpoint }).toEqual({ rejected: 0, isByEndpoint: false })
        const used = (accepted.bulk ?? 0) + (accepted.person ?? 0)
        expect((used / all[0]) * all[1]).toBeGreaterThan((least * durationMs) / 2)
      }
    },
  )
})

const openModels = (options: Omit<ModelOptions, 'onPersisted'>): EndpointModels =>
  new EndpointModels({ onPersisted: () => {}, ...options })

describe('once half of a limit is used, calls are made one by one', () => {
  const people = 70
  const START = 1_000_000

  /** Seventy calls to people and one to companies, of a hundred for both. */
  function begin() {
    const models = openModels({ now: () => START })
    let now = START
    let used = 0
    const call = (endpoint: 'person' | 'company'): void => {
      now += 20
      models.onDemand(new Set([endpoint]), now)
      models.grant(endpoint, 1, now)
      const sent = models.sent(endpoint, now)
      const headers = { 'x-ratelimit-limit': '100', 'x-ratelimit-remaining': String(100 - ++used) }
      models.answered(sent, { status: 200, headers }, (now += 20))
    }
    const grantable = (endpoint: 'person' | 'company'): number => models.grantable(endpoint, 10, (now += 20))
    for (let n = 0; n < people; n++) call('person')
    call('company')
    return { models, call, grantable, now: () => now }
  }

  test('until it is seen that the endpoints share it', () => {
    const { models, call, grantable } = begin()
    let calls = 0
    for (; grantable('person') === 1 && calls < 20; calls++) call(calls % 2 === 0 ? 'person' : 'company')
    expect(calls).toBeGreaterThan(0)
    expect(calls).toBeLessThanOrEqual(4)
    expect(grantable('person')).toBeGreaterThan(1)
    expect(models.isByEndpoint).toBe(false)
  })

  test('and a permit that is never used holds the others up for a minute', () => {
    const { models, grantable, now } = begin()
    models.grant('person', 1, now())
    expect(grantable('company')).toBe(0)
    expect(models.nextCheckAt('company', now())).toBe(now() - 20 + 60_000)
    expect(models.grantable('company', 1, now() + 60_000)).toBe(1)
  })
})

describe('while endpoints are undecided', () => {
  const HOUR_S = 3600

  /** Ten people of a hundred an hour, and one company. */
  function begin(companyStatus: number, limit: number, remaining: number) {
    let now = 1_000_000
    const models = openModels({ now: () => now })
    /** Sends a call, and returns how to answer it. */
    const send = (endpoint: 'person' | 'company') => {
      models.onDemand(new Set([endpoint]), (now += 20))
      models.grant(endpoint, 1, now)
      const sent = models.sent(endpoint, now)
      return ([limit, left]: readonly [number, number], status = 200): void => {
        const headers = {
          'x-ratelimit-limit': String(limit),
          'x-ratelimit-remaining': String(left),
          'x-ratelimit-reset': String(HOUR_S),
          ...(status === 429 && { 'retry-after': String(HOUR_S) }),
        }
        models.answered(sent, { status, headers }, (now += 20))
      }
    }
    const call = (endpoint: 'person' | 'company', stated: readonly [number, number], status = 200): void =>
      send(endpoint)(stated, status)
    const grantable = (endpoint: 'person' | 'company'): number => models.grantable(endpoint, 10, (now += 20))
    for (let n = 1; n <= 10; n++) call('person', [100, 100 - n])
    call('company', [limit, remaining], companyStatus)
    return { models, send, call, grantable }
  }

  test.each([
    [200, 0],
    [429, 0],
    [200, 4],
  ])('a limit of 5 that companies state with status %i, %i left, holds no people up', (status, remaining) => {
    const { call, grantable } = begin(status, 5, remaining)
    for (let n = 11; n <= 40; n++) {
      expect(grantable('person')).toBeGreaterThan(0)
      call('person', [100, 100 - n])
    }
    expect(grantable('company') > 0).toBe(remaining > 0)
  })

  test('two companies that state another limit decide, whatever is in flight with them', () => {
    const { models, send, call } = begin(200, 5, 4)
    const answerPerson = send('person')
    const answerCompany = send('company')
    answerPerson([100, 99])
    answerCompany([5, 3])
    // In a new window each answer counts fewer calls of others than the one before.
    for (let n = 0; n < 5; n++) call('person', [100, 99])
    expect(models.isByEndpoint).toBe(true)
  })

  test('a limit that an endpoint has stated before and states no longer is a cut of it', () => {
    const { call, grantable } = begin(200, 100, 89)
    call('person', [50, 0])
    expect([grantable('person'), grantable('company')]).toEqual([0, 0])
  })
})

describe('the next leader waits', () => {
  const START = 1_000_000
  const HOUR = 3_600_000
  const limits = { person: 100, company: 5 }

  /** A leader whose companies are used up, as two limits or as one; and what the next one is told if it is killed. */
  async function useUp(isShared: boolean) {
    let now = START
    const persisted: ExhaustedFor[] = []
    const lead = (exhaustedFor: ExhaustedFor) => {
      const persistExhaustion = (latest: ExhaustedFor) => Promise.resolve(void persisted.push(latest))
      const models = openModels({ exhaustedFor, persistExhaustion, now: () => now })
      const used = { person: 0, company: 0 }
      const call = (endpoint: 'person' | 'company'): void => {
        models.onDemand(new Set([endpoint]), (now += 20))
        models.grant(endpoint, 1, now)
        const sent = models.sent(endpoint, now)
        used[endpoint]++
        const limit = isShared ? limits.company : limits[endpoint]
        const left = limit - (isShared ? used.person + used.company : used[endpoint])
        const headers = {
          'x-ratelimit-limit': String(limit),
          'x-ratelimit-remaining': String(left),
          'x-ratelimit-reset': String(HOUR / 1000),
        }
        models.answered(sent, { status: 200, headers }, (now += 20))
      }
      const grantable = (endpoint: 'person' | 'company', at = (now += 20)): number =>
        models.grantable(endpoint, 10, at)
      return { models, call, grantable }
    }
    const { models, call, grantable } = lead({})
    for (const endpoint of isShared ? 'pccpc' : 'pcpcpcpcpc') {
      const called = endpoint === 'p' ? 'person' : 'company'
      grantable(called)
      await Promise.resolve()
      call(called)
    }
    await Promise.resolve()
    return { models, persisted: () => persisted.at(-1) ?? {}, lead, now: () => now }
  }

  test('with the calls of the endpoint whose limit is used up, and with no others', async () => {
    const { models, persisted, lead, now } = await useUp(false)
    expect(models.isByEndpoint).toBe(true)
    for (const exhaustedFor of [persisted(), models.exhaustedFor(now())]) {
      expect(exhaustedFor).toEqual({ company: expect.closeTo(HOUR, -4) as number })
      const next = lead(exhaustedFor)
      for (let n = 0; n < 10; n++) {
        expect([next.grantable('company'), next.grantable('person')]).toEqual([0, expect.any(Number)])
        expect(next.grantable('person')).toBeGreaterThan(0)
        next.call('person')
      }
      // What it has not tried itself is passed on.
      expect(next.models.exhaustedFor(now()).company).toBeGreaterThan(HOUR - 60_000)
      expect(next.models.stallReason('company', now())).toMatch(/^company: the previous leader/)
      const until = next.models.nextCheckAt('company', now()) ?? 0
      expect(until - now()).toBeCloseTo(HOUR, -4)
      expect(next.grantable('company', until)).toBe(1)
    }
  })

  test('with all calls if one limit counts them, or may', async () => {
    const { models, persisted, lead, now } = await useUp(true)
    expect(models.isByEndpoint).toBe(false)
    for (const exhaustedFor of [persisted(), models.exhaustedFor(now())]) {
      const next = lead(exhaustedFor)
      expect([next.grantable('company'), next.grantable('person')]).toEqual([0, 0])
    }
  })
})

/** Two minutes of a service that states its day's quota and refuses more than 20 calls a second. @param previous what its leader left */
function playBurst(previous?: PreviousLeader) {
  let now = 0
  const models = new EndpointModels({ onPersisted: () => {}, now: () => now, previous })
  let left = 98_980
  const stated = () => ({ ratelimit: `limit=100000, remaining=${left}, reset=64800` })
  const refusedAt: number[] = []
  const acceptedAt: number[] = []
  let inFlight: { at: number; isRefused: boolean; call: ReturnType<EndpointModels['sent']> }[] = []
  let second = { from: 0, calls: 0 }
  for (; now < 120_000; now += 5) {
    for (const { isRefused, call } of inFlight.filter(({ at }) => at <= now)) {
      const headers = { ...stated(), ...(isRefused && { 'retry-after': '2' }) }
      models.answered(call, { status: isRefused ? 429 : 200, headers }, now)
    }
    inFlight = inFlight.filter(({ at }) => at > now)
    models.onDemand(new Set([null]), now)
    const granted = models.grantable(null, 16 - inFlight.length, now)
    models.grant(null, granted, now)
    for (let n = 0; n < granted; n++) {
      if (now - second.from >= 1_000) second = { from: now, calls: 0 }
      const isRefused = ++second.calls > 20
      left -= Number(!isRefused)
      ;(isRefused ? refusedAt : acceptedAt).push(now)
      inFlight.push({ at: now + 20, isRefused, call: models.sent(null, now) })
    }
  }
  // What was in flight with a refused call is refused with it.
  const refusals = refusedAt.filter((at, n) => at - (refusedAt[n - 1] ?? -1_000) > 500)
  const shareFrom = (from: number): number =>
    acceptedAt.filter((at) => at >= from).length / ((20 * (now - from)) / 1_000)
  return { models, refusals, shareFrom, stated, now }
}

test('a refusal that says how much is left is about a limit that no header states: it is waited out, and learnt', () => {
  const { models, refusals, shareFrom, stated, now } = playBurst()
  expect(refusals.length).toBeLessThanOrEqual(6)
  expect(shareFrom((refusals[2] ?? 0) + 2_000)).toBeGreaterThan(0.93)
  expect(models.reported.isShared).toBe(false)
  expect(models.learnt).toMatchObject({ windowMs: 1_000, isBeside: true })

  // The next process knows it.
  const next = playBurst({ learnt: models.learnt })
  expect(next.refusals.length).toBeLessThanOrEqual(4)
  expect(next.shareFrom(0)).toBeGreaterThan(0.93)

  // A run ends for a longer one, and the next process waits for it.
  models.answered(
    models.sent(null, now),
    { status: 429, headers: { ...stated(), 'retry-after': '39600' } },
    now,
  )
  expect([models.reported.state(now), models.exhaustedFor(now)]).toEqual(['cooldown', { all: 39_600_000 }])
})
