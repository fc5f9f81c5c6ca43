import { describe, expect, test } from 'vitest'
import { plainService } from '../../../../bench/rate/virtual/cases.ts'
import { readRateHeaders } from '../../../../src/service/rate-limit/headers.ts'
import type { ServiceSettings } from '../../../support/simulated-service/service.ts'
import { plainSimulation, simulate } from '../../../support/simulated-service/simulate.ts'

const NOW = Date.UTC(2026, 10, 22, 12, 0, 0)
const DATE = new Date(NOW).toUTCString()
const inSeconds = (seconds: number): number => NOW / 1000 + seconds

const read = (headers: Record<string, string>) => readRateHeaders({ date: DATE, ...headers }, NOW)
const readReset = (reset: string) =>
  read({ 'x-ratelimit-limit': '50', 'x-ratelimit-remaining': '7', 'x-ratelimit-reset': reset }).reset

describe('the rate headers of one answer', () => {
  test.each([
    ['seconds', String(inSeconds(60))],
    ['milliseconds', String(inSeconds(60) * 1e3)],
    ['microseconds', String(inSeconds(60) * 1e6)],
    ['nanoseconds', `${inSeconds(60)}000000000`],
  ])('Reset in %s since the epoch is recognized by its magnitude', (_, reset) => {
    expect(readReset(reset)).toEqual({ kind: 'instant', at: NOW + 60_000, precision: 1000 })
  })

  test.each([
    ['the year 2100', '4102444800'],
    ['31 years', '999999999'],
    ['two days', String(inSeconds(2 * 86_400))],
    ['two days as a delay', String(2 * 86_400)],
    ['a number beyond the calendar', '9'.repeat(40)],
  ])('Reset more than a day ahead is ignored: %s', (_, reset) => {
    expect(readReset(reset)).toBe(null)
  })

  test('a window of a day is accepted', () => {
    expect(readReset(String(inSeconds(86_400)))).toMatchObject({ at: NOW + 86_400_000 })
  })

  test.each(['0', '-1'])('a limit of %s is no limit, and has no Remaining', (limit) => {
    expect(read({ 'x-ratelimit-limit': limit, 'x-ratelimit-remaining': limit })).toMatchObject({
      limit: null,
      remaining: null,
    })
  })

  test('a count below 0 is none left', () => {
    expect(read({ 'x-ratelimit-limit': '50', 'x-ratelimit-remaining': '-3' })).toMatchObject({
      limit: 50,
      remaining: 0,
    })
  })

  const policies = { 'ratelimit-policy': '"burst";q=10;w=1, "daily";q=1000;w=86400' }

  test('of two policies the one with the least left counts, with its own Limit, Reset and w=', () => {
    expect(read({ ...policies, ratelimit: '"burst";r=5;t=1, "daily";r=900;t=7200' })).toMatchObject({
      limit: 10,
      remaining: 5,
      windowMs: 1000,
      reset: { kind: 'delay', ms: 1000 },
    })
    expect(read({ ...policies, ratelimit: '"burst";r=5;t=1, "daily";r=2;t=7200' })).toMatchObject({
      limit: 1000,
      remaining: 2,
      windowMs: 86_400_000,
      reset: { kind: 'delay', ms: 7_200_000 },
    })
  })

  test('of two families the one with the least left counts: one may be of a day and the other of a minute', () => {
    const day = {
      'x-ratelimit-limit': '100000',
      'x-ratelimit-remaining': '98980',
      'x-ratelimit-reset': '64800',
    }
    const minute = { 'ratelimit-limit': '60', 'ratelimit-remaining': '12', 'ratelimit-reset': '30' }
    expect(read({ ...day, ...minute })).toMatchObject({ limit: 60, remaining: 12, reset: { ms: 30_000 } })
  })

  test('numbers of a policy that is not named are not mixed with those of another', () => {
    expect(read({ ...policies, ratelimit: '"other";r=5;t=1' })).toMatchObject({ limit: null, windowMs: null })
    expect(read({ ...policies, 'ratelimit-limit': '10', 'ratelimit-remaining': '5' })).toMatchObject({
      limit: 10,
      windowMs: 1000,
    })
  })

  test('two limits that a proxy joined are not mixed', () => {
    const joined = {
      'x-ratelimit-limit': '10, 1000',
      'x-ratelimit-remaining': '5, 3',
      'x-ratelimit-reset': '1, 3600',
    }
    expect(read(joined)).toMatchObject({ limit: 1000, remaining: 3, reset: { ms: 3_600_000 } })
  })
})

describe('the forms of rate headers', () => {
  const counted = { 'x-ratelimit-limit': '50', 'x-ratelimit-remaining': '7' }

  test('joined limits of which not all state what is left: the least of each', () => {
    const joined = { 'x-ratelimit-limit': '1000, 10', 'x-ratelimit-remaining': '5' }
    expect(read(joined)).toMatchObject({ limit: 10, remaining: 5 })
  })

  test('one header with all three numbers', () => {
    expect(read({ ratelimit: 'limit=100, remaining=50, reset=5' })).toMatchObject({
      limit: 100,
      remaining: 50,
      reset: { kind: 'delay', ms: 5000, precision: 1000 },
    })
  })

  test('a policy of which nothing is said to be left is passed over', () => {
    expect(read({ ratelimit: '"burst";t=1, "daily";r=900;t=3600' })).toMatchObject({
      remaining: 900,
      reset: { ms: 3_600_000 },
    })
  })

  test.each(['50', '50;w=0'])('a policy states no window: %s', (policy) => {
    expect(read({ ...counted, 'ratelimit-policy': policy }).windowMs).toBe(null)
  })

  test('a policy is found by its name, though another has the same limit', () => {
    const policies = { 'ratelimit-policy': '"burst";q=10;w=1, "daily";q=10;w=3600' }
    expect(read({ ...policies, ratelimit: '"daily";r=5;t=60' })).toMatchObject({
      limit: 10,
      windowMs: 3_600_000,
    })
  })

  test('what is no number is ignored', () => {
    expect(read({ ...counted, 'x-ratelimit-remaining': 'unlimited' })).toMatchObject({
      limit: 50,
      remaining: null,
    })
  })

  test.each([
    [new Date(NOW + 60_000).toUTCString(), { kind: 'instant', at: NOW + 60_000, precision: 1000 }],
    [new Date(NOW + 60_120).toISOString(), { kind: 'instant', at: NOW + 60_120, precision: 10 }],
    ['6m0s', { kind: 'delay', ms: 360_000, precision: 1000 }],
    ['20ms', { kind: 'delay', ms: 20, precision: 10 }],
    ['soon', null],
  ])('Reset as %s', (text, reset) => {
    expect(readReset(text)).toEqual(reset)
  })
})

describe('a service with odd headers', () => {
  const play = (changes: Partial<ServiceSettings>) =>
    simulate({
      ...plainSimulation,
      durationMs: 600_000,
      mostCalls: 1500,
      service: { ...plainService, ...changes },
    })

  test.each(['us', 'ns', 'delay-ms'] as const)('is used as fast as any, without a 429: %s', (reset) => {
    const { accepted, rejected, timeline, startedAt } = play({ reset })
    expect({ accepted, rejected }).toEqual({ accepted: 1500, rejected: 0 })
    // 30 windows, of which the last one need not end.
    expect((timeline.entries.at(-1)?.sentAt ?? 0) - startedAt).toBeLessThan(305_000)
  })

  test('with a Reset in the year 2100 is treated as one without a Reset', () => {
    const { accepted, timeline, startedAt } = play({ reset: 'year 2100' })
    expect(accepted).toBeGreaterThan(1490)
    expect((timeline.entries.at(-1)?.sentAt ?? 0) - startedAt).toBeLessThan(330_000)
  })

  test.each(['0', '-1'] as const)('with a limit of %s is called without one', (unlimitedAs) => {
    const { accepted, model, timeline, startedAt } = play({ unlimitedAs })
    expect(accepted).toBe(1500)
    expect(model.state(0)).toBe('unlimited')
    expect((timeline.entries.at(-1)?.sentAt ?? 0) - startedAt).toBeLessThan(20_000)
  })
})
