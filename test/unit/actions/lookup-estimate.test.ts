import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { LookupEstimate } from '../../../src/actions/plan/lookup-estimate.ts'

const KINDS = ['email', 'linkedin_url', 'name_company', 'domain'] as const
const lookup = (kind: (typeof KINDS)[number], key: string) => ({ kind, key, input: {} })

test('distinct lookups of a plan are counted like sets', () => {
  const step = fc.record({
    kind: fc.constantFrom(...KINDS),
    key: fc.integer({ min: 0, max: 40 }),
    act: fc.constantFrom('request', 'stored', 'fallback'),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const estimate = new LookupEstimate()
      const [wanted, toRequest, after] = [new Set<string>(), new Set<string>(), new Set<string>()]
      for (const { kind, key, act } of steps) {
        const id = `${kind} ${key}`
        if (act === 'fallback') {
          estimate.addFallback(lookup(kind, String(key)))
          after.add(id)
        } else {
          estimate.add(lookup(kind, String(key)), act === 'request')
          wanted.add(id)
          if (act === 'request') toRequest.add(id)
        }
      }
      expect(estimate.distinct).toBe(wanted.size)
      expect(estimate.requests).toBe(toRequest.size)
      expect(estimate.maxRequests).toBe(new Set([...toRequest, ...after]).size)
      const ofKind = (kind: string): number => [...toRequest].filter((id) => id.startsWith(`${kind} `)).length
      expect(estimate.countsByKind()).toEqual(Object.fromEntries(KINDS.map((kind) => [kind, ofKind(kind)])))
    }),
  )
})

test('more distinct lookups than fit are estimated from a sample', () => {
  const estimate = new LookupEstimate(1 << 14)
  const COUNT = 300_000
  let exact: { readonly isSampled: boolean; readonly distinct: number } | null = null
  for (let n = 0; n < COUNT; n++) {
    const kind = KINDS[n % 4] ?? 'email'
    // A third of them twice, the second time as a fallback too.
    for (let again = 0; again < (n % 3 === 0 ? 2 : 1); again++)
      estimate.add(lookup(kind, String(n)), n % 2 === 0)
    if (n % 5 === 0) estimate.addFallback(lookup(kind, String(n)))
    if (n === 12_000) exact = { isSampled: estimate.isSampled, distinct: estimate.distinct }
  }
  expect(exact).toEqual({ isSampled: false, distinct: 12_001 })
  const isNear = (value: number, expected: number): void => {
    expect(value / expected).toBeGreaterThan(0.93)
    expect(value / expected).toBeLessThan(1.07)
  }
  expect(estimate.isSampled).toBe(true)
  isNear(estimate.distinct, COUNT)
  isNear(estimate.requests, COUNT / 2)
  isNear(estimate.maxRequests, COUNT / 2 + COUNT / 10)
  isNear(estimate.countsByKind().email, COUNT / 4)
  expect(estimate.countsByKind().linkedin_url).toBe(0)
  expect(Object.values(estimate.countsByKind()).reduce((sum, count) => sum + count, 0)).toBe(
    estimate.requests,
  )
})

test('a distinct lookup costs a plan less than 100 bytes of memory', () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const used = (): number => {
    collect()
    const { heapUsed, arrayBuffers } = process.memoryUsage()
    return heapUsed + arrayBuffers
  }
  const COUNT = 200_000
  const before = used()
  const estimate = new LookupEstimate()
  for (let n = 0; n < COUNT; n++) estimate.add(lookup('email', `person.number${n}@example.com`), true)
  const cost = (used() - before) / COUNT
  expect(estimate.distinct).toBe(COUNT)
  expect(estimate.requests).toBe(COUNT)
  // Texts in sets take 206; the rest allows for garbage of other tests.
  expect(cost).toBeLessThan(100)
})
