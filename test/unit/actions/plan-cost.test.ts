import fc from 'fast-check'
import { expect, test } from 'vitest'
import { sampleEvenly } from '../../../src/pipeline/preview.ts'
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

test('a sample takes evenly from each list, up to its limit', () => {
  const list = (name: string, length: number): string[] => Array.from({ length }, (_, n) => `${name}${n}`)
  expect(sampleEvenly([list('a', 9), list('b', 1), list('c', 9)], 7)).toEqual([
    ...list('a', 3),
    ...list('b', 1),
    ...list('c', 3),
  ])
  fc.assert(
    fc.property(fc.array(fc.nat(30), { minLength: 1, maxLength: 5 }), fc.nat(60), (lengths, most) => {
      const lists = lengths.map((length, n) => list(`${n}:`, length))
      const all = lengths.reduce((sum, length) => sum + length, 0)
      expect(sampleEvenly(lists, most)).toHaveLength(Math.min(all, most))
    }),
  )
})
