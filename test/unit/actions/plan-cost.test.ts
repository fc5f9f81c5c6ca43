import fc from 'fast-check'
import { expect, test } from 'vitest'
import { countPayable, estimateMatches } from '../../../src/actions/plan/plan.ts'

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

test('what a budget pays is shared over the sources, and adds up', () => {
  const none = { email: 0, linkedin_url: 0, name_company: 0, domain: 0 }
  const people = { ...none, email: 300, linkedin_url: 100 }
  const companies = { ...none, domain: 20 }
  expect(countPayable([people, companies], 30)).toEqual({ ...none, email: 11, linkedin_url: 4, domain: 15 })
  expect(countPayable([people, companies], 100)).toEqual({ ...none, email: 60, linkedin_url: 20, domain: 20 })
  expect(countPayable([people, companies], Number.POSITIVE_INFINITY)).toEqual({ ...people, domain: 20 })
  fc.assert(
    fc.property(
      fc.array(
        fc.record({
          email: fc.nat(50),
          linkedin_url: fc.nat(50),
          name_company: fc.nat(9),
          domain: fc.nat(9),
        }),
      ),
      fc.nat(200),
      (requests, budget) => {
        const sum = (counts: object): number =>
          Object.values(counts).reduce((all: number, n: number) => all + n, 0)
        const all = requests.reduce((total, counts) => total + sum(counts), 0)
        const paid = countPayable(requests, budget)
        expect(sum(paid)).toBe(Math.min(all, budget))
        for (const kind of ['email', 'linkedin_url', 'name_company', 'domain'] as const)
          expect(paid[kind]).toBeLessThanOrEqual(requests.reduce((total, counts) => total + counts[kind], 0))
      },
    ),
  )
})
