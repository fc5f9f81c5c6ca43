import { describe, expect, test } from 'vitest'
import { Probes, type ProbeContext } from '../../../../src/service/rate-limit/probes.ts'

/** A window that began at 0, of which nothing is known. */
const unknown: ProbeContext = {
  limit: 100,
  window: 1,
  windowStart: 0,
  firstSentAt: 0,
  min: 0,
  max: Number.POSITIVE_INFINITY,
  observedMax: Number.POSITIVE_INFINITY,
  maxIfRequestStarts: Number.POSITIVE_INFINITY,
  earliestReset: Number.NEGATIVE_INFINITY,
  latestReset: Number.POSITIVE_INFINITY,
  headerShare: 1,
  hasFewSamples: false,
  lastHeaderAt: Number.NEGATIVE_INFINITY,
  warmGuess: null,
}

/** The moments of all probes of one window. */
function momentsOf(changes: Partial<ProbeContext>, probes = new Probes()): number[] {
  const context = { ...unknown, ...changes }
  const moments: number[] = []
  for (let at = probes.nextAt(context, 1); at !== null && moments.length < 20;) {
    moments.push(at)
    probes.consume(at)
    at = probes.nextAt(context, Math.max(1, at))
  }
  return moments
}

const reserved = (changes: Partial<ProbeContext>): number =>
  new Probes().reserved({ ...unknown, ...changes }, 1)

describe('reserved calls', () => {
  test('are as many for each probe as it takes for one header', () => {
    expect(reserved({ headerShare: 0.5, limit: 1000 })).toBe(12)
    expect(reserved({ headerShare: 0.1, limit: 1000 })).toBe(24)
  })

  test('become free once an answer has shown what the probe was for', () => {
    const probes = new Probes()
    const context = {
      ...unknown,
      headerShare: 0.3,
      min: 500,
      maxIfRequestStarts: 2000,
      max: 2000,
      observedMax: 2000,
    }
    const at = probes.nextAt(context, 600) ?? 0
    probes.consume(at)
    expect(probes.nextAt(context, at)).toBe(at + 1)
    expect(probes.nextAt({ ...context, lastHeaderAt: at }, at)).not.toBe(at + 1)
  })
})

describe('the lengths that are tried', () => {
  test('begin with what an earlier run or a policy says, within Reset', () => {
    expect(momentsOf({ warmGuess: 3000 })).toContain(3000 - 60)
    expect(momentsOf({ warmGuess: 3000, latestReset: 2500 })).not.toContain(3000 - 60)
  })

  test('take a volley if a round length is close to the longest', () => {
    const bounds = { min: 900, max: 1100, observedMax: 1100, maxIfRequestStarts: 1100 }
    expect(momentsOf(bounds)).toEqual([940, 1004, 1012, 1020, 1028, 1036])
  })

  test('are shorter every other time, after a roundest one was tried in vain', () => {
    const probes = new Probes()
    const bounds = { min: 900, max: 2300, observedMax: 2300, maxIfRequestStarts: 2300 }
    const lengths = [1, 2, 3].map((window) => momentsOf({ ...bounds, window }, probes)[0])
    expect(lengths).toEqual([1940, 940, 1940])
  })

  test('show the window still open when the clock starts it and no shorter length is possible', () => {
    expect(momentsOf({ min: 1200, max: 2000, observedMax: 2000, maxIfRequestStarts: 1100 })).toEqual([1750])
  })
})

describe('probes', () => {
  const bounds = { min: 1500, max: 2000, observedMax: 2000, maxIfRequestStarts: 2000 }

  test('take several calls, one after the other, if headers are missing', () => {
    expect(momentsOf({ ...bounds, headerShare: 0.5 })).toEqual([1940, 1941])
    const long = { min: 7500, max: 10_000, observedMax: 10_000, maxIfRequestStarts: 10_000, headerShare: 0.5 }
    expect(momentsOf(long)).toEqual([9380, 9500, 9850, 9890])
  })

  test('wait until the window has begun', () => {
    expect(new Probes().nextAt({ ...unknown, windowStart: null }, 1)).toBe(null)
  })

  test('become rarer if nothing is learnt, and not after an idle time', () => {
    const count = (onIdle: boolean): number => {
      const probes = new Probes()
      const tried = Array.from({ length: 32 }, (_, index) => {
        if (onIdle) probes.onIdle()
        return probes.reserved({ ...unknown, ...bounds, window: index + 2 }, 1) > 0
      })
      return tried.filter(Boolean).length
    }
    expect(count(false)).toBe(9)
    expect(count(true)).toBe(32)
  })
})
