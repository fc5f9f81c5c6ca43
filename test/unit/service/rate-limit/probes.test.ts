import { describe, expect, test } from 'vitest'
import { CallLedger } from '../../../../src/service/rate-limit/call-ledger.ts'
import type { FixedWindow } from '../../../../src/service/rate-limit/fixed-window.ts'
import { Probes, type ProbeContext } from '../../../../src/service/rate-limit/probes.ts'
import { TokenBucket } from '../../../../src/service/rate-limit/counter.ts'

type Known = Pick<
  FixedWindow,
  'id' | 'by' | 'firstSentAt' | 'min' | 'max' | 'maxByRequest' | 'observedMax' | 'isShared'
>
type Changes = Partial<Omit<ProbeContext, 'fixed'>> & Partial<Known>

/** A window that began at 0, of which nothing is known, and what is known beside that. */
function contextOf({
  id = 1,
  by = 0,
  firstSentAt = 0,
  min = 0,
  max = Infinity,
  isShared = false,
  ...more
}: Changes): ProbeContext {
  const { maxByRequest = max, observedMax = max, ...others } = more
  return {
    limit: 100,
    fixed: { id, by, firstSentAt, min, max, maxByRequest, observedMax, isShared } as FixedWindow,
    bucket: null,
    answeredAt: 0,
    isAmbiguous: false,
    earliestReset: Number.NEGATIVE_INFINITY,
    latestReset: Number.POSITIVE_INFINITY,
    headerShare: 1,
    hasFewSamples: false,
    guess: null,
    ...others,
  }
}

/** The moments of all probes of one window. */
function momentsOf(changes: Changes, probes = new Probes()): number[] {
  const context = contextOf(changes)
  const moments: number[] = []
  for (let at = probes.nextAt(context, 1); at !== null && moments.length < 20;) {
    moments.push(at)
    probes.consume()
    at = probes.nextAt(context, Math.max(1, at))
  }
  return moments
}

const reserved = (changes: Changes): number => new Probes().reserved(contextOf(changes), 1)

describe('reserved calls', () => {
  test('are as many for each probe as it takes for one header', () => {
    expect(reserved({ headerShare: 0.5, limit: 1000 })).toBe(12)
    expect(reserved({ headerShare: 0.1, limit: 1000 })).toBe(24)
  })

  test('are none if the length is known, and no more than an eighth of the limit', () => {
    expect(reserved({ min: 1990, max: 2000 })).toBe(0)
    expect(reserved({ limit: 24 })).toBe(3)
    expect(reserved({ limit: 1 })).toBe(0)
  })

  test('are none beside another client, which would spend them, once anything bounds the length', () => {
    expect(reserved({ isShared: true, min: 900, max: 2000 })).toBe(0)
    expect(reserved({ isShared: true })).toBeGreaterThan(0)
  })
})

describe('the lengths that are tried', () => {
  test('begin with what an earlier run or a policy says, within Reset', () => {
    expect(momentsOf({ guess: 3000 })).toContain(3000 - 60)
    expect(momentsOf({ guess: 3000, latestReset: 2500 })).not.toContain(3000 - 60)
  })

  test('take several calls if a round length is close to the longest', () => {
    expect(momentsOf({ min: 900, max: 1100 })).toEqual([940, 1004, 1012, 1020, 1028, 1036])
  })

  test('are tried half-way too while other counters are possible: each counts differently there', () => {
    expect(momentsOf({ min: 900, max: 2000, isAmbiguous: true })[0]).toBe(1000)
  })

  test('are odd where no round one is left that a request starts, and the clock may start longer ones', () => {
    expect(momentsOf({ min: 820, max: 1500, maxByRequest: 850 })).toContain(850 + 4)
    expect(momentsOf({ min: 820, max: 850 })).toEqual([])
  })

  test('are tried between the longest and the next shorter one: which of them is right shows early', () => {
    expect(momentsOf({ min: 2444, max: 4000 })).toEqual([3500, 3940])
    expect(momentsOf({ min: 1200, max: 2000, maxByRequest: 1100 })).toEqual([1940])
  })

  test('are others once Reset says that the window ends before that', () => {
    const probes = new Probes()
    expect(probes.nextAt(contextOf({}), 120_000)).toBeGreaterThan(200_000)
    const stated = contextOf({ earliestReset: 128_000, latestReset: 132_000 })
    expect(probes.nextAt(stated, 120_000)).toBeLessThan(132_000)
  })
})

describe('probes', () => {
  const bounds = { min: 1500, max: 2000 }

  test('take several calls, one after the other, if headers are missing', () => {
    expect(momentsOf({ ...bounds, headerShare: 0.5 })).toEqual([1940, 1941])
  })

  test('wait until the window has begun', () => {
    expect(new Probes().nextAt(contextOf({ by: Number.POSITIVE_INFINITY }), 1)).toBe(null)
  })

  test('become rarer if nothing is learnt, and not after an idle time', () => {
    const count = (onIdle: boolean): number => {
      const probes = new Probes()
      const tried = Array.from({ length: 32 }, (_, index) => {
        if (onIdle) probes.onIdle()
        return probes.reserved(contextOf({ ...bounds, id: index + 2 }), 1) > 0
      })
      return tried.filter(Boolean).length
    }
    expect(count(false)).toBe(9)
    expect(count(true)).toBe(32)
  })

  test('of a bucket are made half-way through a fill, until its length is known well', () => {
    const bucket = new TokenBucket(new CallLedger())
    expect(reserved({ bucket })).toBe(0)
    bucket.max = 10_000
    expect(reserved({ bucket })).toBe(1)
    expect(new Probes().nextAt(contextOf({ bucket, answeredAt: 500 }), 600)).toBe(5500)
    bucket.min = 9_950
    expect(reserved({ bucket })).toBe(0)
  })
})
