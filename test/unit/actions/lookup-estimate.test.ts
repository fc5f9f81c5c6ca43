import fc from 'fast-check'
import { expect, test } from 'vitest'
import { LookupEstimate, sumOf } from '../../../src/actions/plan/lookup-estimate.ts'
import { usedMemory } from '../../support/memory.ts'

const KINDS = ['email', 'linkedin_url', 'name_company', 'domain'] as const
const lookup = (kind: (typeof KINDS)[number], key: string) => ({ kind, key, input: {} })

test('distinct lookups of a plan are counted like sets, each as what counts first', () => {
  const uses = ['certain', 'possible', 'stored'] as const
  const step = fc.record({
    kind: fc.constantFrom(...KINDS),
    key: fc.integer({ min: 0, max: 40 }),
    use: fc.constantFrom(...uses),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const estimate = new LookupEstimate()
      const seen = new Map<string, Set<string>>()
      for (const { kind, key, use } of steps) {
        const id = `${kind} ${key}`
        estimate.add(lookup(kind, String(key)), use)
        seen.set(id, (seen.get(id) ?? new Set()).add(use))
      }
      const as = (use: string): string[] =>
        [...seen].flatMap(([id, all]) => (uses.find((one) => all.has(one)) === use ? [id] : []))
      const isWanted = (all: ReadonlySet<string>): boolean => all.has('certain') || all.has('stored')
      expect(estimate.distinct).toBe([...seen.values()].filter(isWanted).length)
      for (const use of ['certain', 'possible'] as const)
        for (const kind of KINDS)
          expect(estimate.requests[use][kind]).toBe(as(use).filter((id) => id.startsWith(`${kind} `)).length)
    }),
  )
})

test('more distinct lookups than fit are estimated from a sample', () => {
  const estimate = new LookupEstimate(1 << 14)
  const COUNT = 100_000
  let exact: { readonly isSampled: boolean; readonly distinct: number } | null = null
  for (let n = 0; n < COUNT; n++) {
    const kind = KINDS[n % 4] ?? 'email'
    // A third of them twice, the second time as a fallback too.
    for (let again = 0; again < (n % 3 === 0 ? 2 : 1); again++)
      estimate.add(lookup(kind, String(n)), n % 2 === 0 ? 'certain' : 'stored')
    if (n % 5 === 0) estimate.add(lookup(kind, `further ${n}`), 'possible')
    if (n === 10_000) exact = { isSampled: estimate.isSampled, distinct: estimate.distinct }
  }
  expect(exact).toEqual({ isSampled: false, distinct: 10_001 })
  const isNear = (value: number, expected: number): void => {
    expect(value / expected).toBeGreaterThan(0.93)
    expect(value / expected).toBeLessThan(1.07)
  }
  expect(estimate.isSampled).toBe(true)
  isNear(estimate.distinct, COUNT)
  isNear(sumOf(estimate.requests.certain), COUNT / 2)
  isNear(sumOf(estimate.requests.possible), COUNT / 5)
  isNear(estimate.requests.certain.email, COUNT / 4)
  expect(estimate.requests.certain.linkedin_url).toBe(0)
})

test('a distinct lookup costs a plan less than 100 bytes of memory', () => {
  const COUNT = 100_000
  const before = usedMemory()
  const estimate = new LookupEstimate()
  for (let n = 0; n < COUNT; n++) estimate.add(lookup('email', `person.number${n}@example.com`), 'certain')
  const cost = (usedMemory() - before) / COUNT
  expect(estimate.distinct).toBe(COUNT)
  expect(sumOf(estimate.requests.certain)).toBe(COUNT)
  // Texts in sets take 206; the rest allows for garbage of other tests.
  expect(cost).toBeLessThan(100)
})
