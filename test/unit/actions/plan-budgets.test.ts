import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Account, payWanted, Purse, type WantedSource } from '../../../src/actions/plan/budgets.ts'
import { costServices } from '../../../src/actions/plan/plan.ts'
import { type KindCounts, sumOf } from '../../../src/actions/plan/lookup-estimate.ts'
import { ALL_LOOKUP_KINDS } from '../../../src/domain/identifiers/kind.ts'
import { byKind, readCredits } from '../../../src/domain/service/credits.ts'

const none = byKind(() => 0)
const openAccount = (budget = Infinity, each = 1): Account => {
  const charge = byKind(() => each)
  const paid = { certain: none, more: 0, cheapest: Infinity }
  return { purse: new Purse(budget), most: charge, least: charge, ...paid }
}
const limitsOf = (accounts: readonly Account[]) =>
  accounts.map(({ certain, more }) => ({ certain: sumOf(certain), max: sumOf(certain) + more }))

/** What a source wants of some services: of each, lookups by email that are certain, and the most. */
type Wanted = readonly (readonly [certain: number, max: number])[]
const sourceOf = (accounts: readonly Account[], wanted: Wanted, budget = Infinity): WantedSource => ({
  kinds: ALL_LOOKUP_KINDS,
  budget,
  steps: accounts.map((account, n) => {
    const [certain = 0, max = 0] = wanted[n] ?? []
    const more = max - certain
    return { account, certain: { ...none, email: certain }, more, free: n === 0 ? more : 0, deepest: 1 }
  }),
})

const limitOne = (wanted: Wanted, budgets: readonly number[], total = Infinity, budget = Infinity) => {
  const accounts = wanted.map((_, n) => openAccount(budgets[n]))
  payWanted([sourceOf(accounts, wanted, budget)], accounts, total)
  return limitsOf(accounts)
}
const THREE: Wanted = [
  [1_000, 1_000],
  [0, 1_000],
  [0, 1_000],
]

test('a budget of one service leaves fewer rows for the next', () => {
  expect(limitOne(THREE, [500, Infinity, 50])).toEqual([
    { certain: 500, max: 500 },
    { certain: 0, max: 500 },
    { certain: 0, max: 50 },
  ])
})

test('a budget that services share is used by those that come first', () => {
  const mostOf = (...limited: Parameters<typeof limitOne>) => limitOne(...limited).map(({ max }) => max)
  expect(mostOf(THREE, [], 1_300)).toEqual([1_000, 300, 300])
  expect(mostOf(THREE, [], 600)).toEqual([600, 0, 0])
  expect(mostOf(THREE, [], Infinity, 1_500)).toEqual([1_000, 500, 500])
  // What is certain for a later service is paid only where the earlier ones need the most.
  const stored: Wanted = [
    [100, 100],
    [60, 160],
  ]
  expect(limitOne(stored, [], 130)).toEqual([
    { certain: 100, max: 100 },
    { certain: 30, max: 30 },
  ])
})

test('of a budget in money each lookup takes its own price', () => {
  const accounts = [openAccount(Infinity, 0.02), openAccount()]
  payWanted([sourceOf(accounts, THREE)], accounts, 120)
  expect(limitsOf(accounts).map(({ max }) => max)).toEqual([1_000, 100])
})

test('sources with opposite orders share what their first services leave', () => {
  const wanted: Wanted = [
    [100, 100],
    [0, 100],
  ]
  const limited = (budget: number, total: number, ofSource = Infinity): number[] => {
    const accounts = [openAccount(budget), openAccount()]
    const sources = [sourceOf(accounts, wanted, ofSource), sourceOf(accounts.toReversed(), wanted)]
    payWanted(sources, accounts, total)
    return limitsOf(accounts).map(({ max }) => max)
  }
  expect(limited(Infinity, 200)).toEqual([100, 100])
  expect(limited(120, Infinity)).toEqual([120, 200])
  expect(limited(Infinity, Infinity, 60)).toEqual([160, 100])
})

test('what a budget pays is shared over the sources, within a source in proportion, to the last part of a credit', () => {
  const paid = (sources: readonly KindCounts[], total: number, each = 1): KindCounts => {
    const account = openAccount(Infinity, each)
    const wanted = sources.map((certain) => ({ account, certain, more: 0, free: 0, deepest: 0 }))
    const chains = wanted.map((step) => ({ kinds: ALL_LOOKUP_KINDS, budget: Infinity, steps: [step] }))
    payWanted(chains, [account], total)
    return account.certain
  }
  const people = { ...none, email: 300, linkedin_url: 100 }
  const companies = { ...none, domain: 20 }
  expect(paid([people, companies], 30)).toEqual({ ...none, email: 11, linkedin_url: 4, domain: 15 })
  expect(paid([people, companies], 100)).toEqual({ ...none, email: 60, linkedin_url: 20, domain: 20 })
  expect(paid([people, companies], Infinity)).toEqual({ ...people, domain: 20 })
  // In binary fractions, 3 / 0.1 is less than 30, and 0.3 / 0.1 less than 3.
  const emails = (wanted: number, budget: number, each: number): number =>
    paid([{ ...none, email: wanted }], budget, each).email
  expect([emails(100, 3, 0.1), emails(100, 1, 0.3), emails(7, 20, 0.5)]).toEqual([30, 3, 7])
  fc.assert(
    fc.property(fc.nat(500), fc.nat(100), fc.integer({ min: 1, max: 30 }), (wanted, budget, tenths) => {
      expect(emails(wanted, budget, tenths / 10)).toBe(Math.min(wanted, Math.floor((budget * 10) / tenths)))
    }),
  )
})

test('what is paid is within the budgets of all, of each service and of the sources', () => {
  const budget = fc.option(fc.nat(2_000), { nil: Infinity })
  const step = fc.tuple(fc.nat(500), fc.nat(500)).map(([certain, more]) => [certain, certain + more] as const)
  const source = fc.record({ wanted: fc.tuple(step, step), budget, isTurned: fc.boolean() })
  fc.assert(
    fc.property(fc.array(source, { maxLength: 3 }), fc.tuple(budget, budget), budget, (all, own, total) => {
      const accounts = own.map((one) => openAccount(one))
      const sources = all.map(({ wanted, isTurned, ...one }) =>
        sourceOf(isTurned ? accounts.toReversed() : accounts, wanted, one.budget),
      )
      const more = payWanted(sources, accounts, total)
      const certain = limitsOf(accounts).reduce((sum, one) => sum + one.certain, 0)
      expect(certain + more).toBeLessThanOrEqual(total)
      expect(certain).toBeLessThanOrEqual(all.reduce((sum, one) => sum + one.budget, 0))
      for (const [n, { max }] of limitsOf(accounts).entries()) expect(max).toBeLessThanOrEqual(own[n] ?? 0)
      // With one service, nothing is left of a budget while a lookup is wanted.
      for (const { wanted, budget: ofSource } of all) {
        const [sure, most] = wanted[0].map((count) => Math.min(count, own[0], total, ofSource))
        expect(limitOne(wanted.slice(0, 1), own, total, ofSource)).toEqual([{ certain: sure, max: most }])
      }
    }),
  )
})

test('what several services cost at most is no more than the budget that they share', () => {
  const costOf = (budget: number | null, amount: number | null = null) => {
    const mixed = amount === null ? null : { amount, currency: 'EUR', highest: 0.5 }
    const wanted: Wanted = [
      [26, 60],
      [0, 60],
    ]
    const accounts = [openAccount(Infinity, mixed ? 0.2 : 1), openAccount()]
    const more = payWanted([sourceOf(accounts, wanted)], accounts, mixed ? 16 : (budget ?? Infinity))
    const services = [0.1, 0.5].map((each, n) => {
      const [certain, most] = wanted[n] ?? [0, 0]
      const requests = {
        certain: { ...none, email: certain },
        possible: { ...none, email: most - certain },
        further: none,
      }
      const adapter = { credits: readCredits(), rateLimits: [], bulk: null, companyBulk: null }
      const policy = { price: { currency: 'EUR', person: each, company: each }, bulkMinimum: null }
      return {
        name: `service ${n}`,
        deps: { adapter, policy },
        account: accounts[n],
        estimate: { requests },
        budget: null,
        knownLimit: null,
      }
    })
    const options = { budget, mixed, route: 'sync' }
    const [all, own] = [services, options] as unknown as Parameters<typeof costServices>
    return costServices(all, own, 26, more).cost
  }
  const euros = (amount: number) => ({ amount, currency: 'EUR' })
  expect(costOf(60)).toMatchObject({ lookups: 26, max_lookups: 60, max_amount: euros(23), beyond_budget: 0 })
  expect(costOf(16, 8)).toMatchObject({ max_lookups: 70, max_amount: euros(8) })
  expect(costOf(null)).toMatchObject({ max_lookups: 120, max_amount: euros(36) })
})
