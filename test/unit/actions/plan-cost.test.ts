import fc from 'fast-check'
import { expect, test } from 'vitest'
import { estimateMatches } from '../../../src/actions/plan/plan.ts'

const soFar = fc
  .tuple(fc.integer({ min: 1, max: 100_000 }), fc.double({ min: 0, max: 1, noNaN: true }))
  .map(([requested, share]) => ({ requested, found: Math.round(requested * share) }))

test('the range of matches contains the share so far, and never exceeds the requests', () => {
  fc.assert(
    fc.property(fc.nat(1_000_000), soFar, (lookups, known) => {
      const range = estimateMatches(lookups, known)
      if (range === null) throw new Error('there is something to go by')
      const middle = (lookups * known.found) / known.requested
      expect(range.min).toBeLessThanOrEqual(Math.ceil(middle))
      expect(range.max).toBeGreaterThanOrEqual(Math.floor(middle))
      expect(range.min).toBeGreaterThanOrEqual(0)
      expect(range.max).toBeLessThanOrEqual(lookups)
    }),
  )
})

test('the range narrows with more data; without data there is none', () => {
  const width = (requested: number): number => {
    const range = estimateMatches(10_000, { requested, found: requested * 0.8 })
    return range === null ? Number.POSITIVE_INFINITY : range.max - range.min
  }
  expect(width(10)).toBeGreaterThan(3_000)
  expect(width(1_000)).toBeLessThan(width(100))
  expect(width(100_000)).toBeLessThan(200)
  expect(estimateMatches(10, { requested: 0, found: 0 })).toBeNull()
})
