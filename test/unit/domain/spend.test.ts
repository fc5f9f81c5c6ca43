import fc from 'fast-check'
import { expect, test } from 'vitest'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import { costOf, shareOfHighest, sumSpend, toUnits, type Price } from '../../../src/domain/spend.ts'
import { RunBudget } from '../../../src/pipeline/pick/budget.ts'
import { formatMoney } from '../../../src/util/text.ts'

const price: Price = { currency: 'EUR', person: 0.1, company: 0.02 }

test('lookups of people, in bulk too, and of companies have their price; calls and those in doubt have none', () => {
  const counts = { calls: 1, retried: 0, throttled: 0, in_doubt: 2 }
  const parts = [
    { endpoint: 'person' as const, ...counts, lookups: 3 },
    { endpoint: 'bulk' as const, ...counts, lookups: 100 },
    { endpoint: 'company' as const, ...counts, lookups: 10 },
  ]
  expect(sumSpend(parts, price)).toEqual({
    calls: 3,
    lookups: 113,
    in_doubt: 6,
    cost: { amount: 10.5, currency: 'EUR' },
  })
  expect(sumSpend(parts, null).cost).toBeNull()
})

test('a sum of money has no rest of binary fractions', () => {
  expect(costOf({ person: 3, company: 0 }, price)?.amount).toBe(0.3)
  expect(formatMoney({ amount: 1234.5, currency: 'EUR' })).toBe('1,234.50 EUR')
  expect(formatMoney({ amount: 0.0042, currency: 'USD' })).toBe('0.0042 USD')
  expect(formatMoney({ amount: 0, currency: 'USD' })).toBe('0.00 USD')
})

test('a source is paid within its share, the budget of its service and the budget of the run', () => {
  const budget = new RunBudget(100, BUILT_IN_SERVICE.credits, 70)
  const spent = (all: number, own = all) => ({ spent: all, own, costs: {} })
  budget.startShare(0, 2)
  expect(budget.remaining(spent(10))).toBe(40)
  budget.endShares()
  expect(budget.remaining(spent(95, 10))).toBe(5)
  expect(budget.remaining(spent(40))).toBe(30)
})

test('what lookups take of a budget in money is never more than it, and at most a millionth less', () => {
  const price = fc.integer({ min: 1, max: 5_000_000 }).map((n) => n / 1e6)
  fc.assert(
    fc.property(price, price, fc.integer({ min: 1, max: 100_000 }), (one, other, lookups) => {
      const highest = Math.max(one, other)
      const mixed = { amount: lookups * one, currency: 'EUR', highest }
      const weight = shareOfHighest({ currency: 'EUR', person: one, company: other }, mixed)?.person ?? 0
      const paid = Math.floor(toUnits(mixed.amount, mixed) / weight + 1e-9)
      expect(paid * one).toBeLessThanOrEqual(mixed.amount * (1 + 1e-9))
      expect(paid).toBeGreaterThanOrEqual(Math.floor(lookups * (1 - 1e-6 / weight)) - 1)
    }),
    // Rounded to nine decimals, the share of the cheap one was too little.
    { examples: [[0.000007, 0.349992, 43_748]] },
  )
})
