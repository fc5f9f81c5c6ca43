import fc from 'fast-check'
import { expect, test } from 'vitest'
import { payWanted, type Account, type WantedStep } from '../../../src/actions/plan/budgets.ts'
import { costServices } from '../../../src/actions/plan/plan.ts'
import { sumOf } from '../../../src/actions/plan/lookup-estimate.ts'
import { byKind, readCredits } from '../../../src/domain/service/service.ts'

const none = byKind(() => 0)
const openAccount = (budget = Infinity, each = 1): Account => {
  const charge = byKind(() => each)
  return { budget, most: charge, least: charge }
}

/** What a source wants of some services: of each, lookups by email that are certain, and the most. */
type Wanted = readonly (readonly [certain: number, max: number])[]
const sourceOf = (accounts: readonly Account[], wanted: Wanted): WantedStep[] =>
  accounts.map((account, n) => {
    const [certain = 0, max = 0] = wanted[n] ?? []
    return { account, certain: { ...none, email: certain }, more: max - certain }
  })

const pay = (wanted: readonly WantedStep[], accounts: readonly Account[], total = Infinity) => {
  const { paid, max } = payWanted(wanted, accounts, total)
  return { services: paid.map((one) => ({ certain: sumOf(one.certain), max: one.max })), max }
}
const THREE: Wanted = [
  [1_000, 1_000],
  [0, 1_000],
  [0, 1_000],
]
const payThree = (budgets: readonly number[], total = Infinity) => {
  const accounts = THREE.map((_, n) => openAccount(budgets[n]))
  const { services, max } = pay(sourceOf(accounts, THREE), accounts, total)
  return { each: services.map((service) => service.max), max }
}

test('each budget bounds what it pays: of a service and of all', () => {
  expect(payThree([500, Infinity, 50])).toEqual({ each: [500, 1_000, 50], max: 1_550 })
  expect(payThree([], 1_300)).toEqual({ each: [1_000, 300, 300], max: 1_300 })
  expect(payThree([], 600).max).toBe(600)
})

test('of a budget in money each lookup takes its own price', () => {
  const accounts = [openAccount(Infinity, 0.02), openAccount()]
  const wanted: Wanted = THREE.slice(0, 2)
  expect(pay(sourceOf(accounts, wanted), accounts, 120).services).toEqual([
    { certain: 1_000, max: 1_000 },
    { certain: 0, max: 100 },
  ])
})

test('a budget that does not pay all that is certain pays a part of it, to the last credit', () => {
  const account = openAccount()
  const wanted = [
    { ...none, email: 300, linkedin_url: 100 },
    { ...none, domain: 20 },
  ].map((certain) => ({ account, certain, more: 0 }))
  const [paid] = payWanted(wanted, [account], 210).paid
  expect(paid).toEqual({ certain: { ...none, email: 210 }, max: 210 })
  // In binary fractions, 3 / 0.1 is less than 30, and 0.3 / 0.1 less than 3.
  const emails = (wanted: number, budget: number, each: number): number | undefined => {
    const one = openAccount(Infinity, each)
    return pay(sourceOf([one], [[wanted, wanted]]), [one], budget).services[0]?.certain
  }
  expect([emails(100, 3, 0.1), emails(100, 1, 0.3), emails(7, 20, 0.5)]).toEqual([30, 3, 7])
  fc.assert(
    fc.property(fc.nat(500), fc.nat(100), fc.integer({ min: 1, max: 30 }), (wanted, budget, tenths) => {
      expect(emails(wanted, budget, tenths / 10)).toBe(Math.min(wanted, Math.floor((budget * 10) / tenths)))
    }),
  )
})

test('what is paid is within the budgets of all and of each service', () => {
  const budget = fc.option(fc.nat(2_000), { nil: Infinity })
  const step = fc.tuple(fc.nat(500), fc.nat(500)).map(([certain, more]) => [certain, certain + more] as const)
  const source = fc.record({ wanted: fc.tuple(step, step), isTurned: fc.boolean() })
  fc.assert(
    fc.property(fc.array(source, { maxLength: 3 }), fc.tuple(budget, budget), budget, (all, own, total) => {
      const accounts = own.map((one) => openAccount(one))
      const steps = all.flatMap(({ wanted, isTurned }) =>
        sourceOf(isTurned ? accounts.toReversed() : accounts, wanted),
      )
      const { services, max } = pay(steps, accounts, total)
      const certain = services.reduce((sum, one) => sum + one.certain, 0)
      expect(certain).toBeLessThanOrEqual(max)
      expect(max).toBeLessThanOrEqual(total)
      for (const [n, one] of services.entries()) {
        expect(one.certain).toBeLessThanOrEqual(one.max)
        expect(one.max).toBeLessThanOrEqual(own[n] ?? 0)
      }
      // With one service, nothing is left of a budget while a lookup is wanted.
      for (const { wanted } of all) {
        const [sure, most] = wanted[0].map((count) => Math.min(count, own[0], total))
        const alone = accounts.slice(0, 1)
        const paid = pay(sourceOf(alone, wanted.slice(0, 1)), alone, total)
        expect(paid).toEqual({ services: [{ certain: sure, max: most }], max: most })
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
    const total = mixed ? 16 : (budget ?? Infinity)
    const { paid, max } = payWanted(sourceOf(accounts, wanted), accounts, total)
    const services = [0.1, 0.5].map((each, n) => {
      const [certain, most] = wanted[n] ?? [0, 0]
      const requests = {
        certain: { ...none, email: certain },
        possible: { ...none, email: most - certain },
      }
      const adapter = { credits: readCredits(), rateLimits: [], bulk: null, companyBulk: null }
      const policy = { price: { currency: 'EUR', person: each, company: each }, bulk: { minimum: null } }
      return {
        name: `service ${n}`,
        deps: { adapter, policy },
        account: accounts[n],
        paid: paid[n],
        estimate: { requests },
        budget: null,
        knownLimit: null,
      }
    })
    const options = { budget, mixed, route: 'sync' }
    const [all, own] = [services, options] as unknown as Parameters<typeof costServices>
    return costServices(all, own, 26, max).cost
  }
  const euros = (amount: number) => ({ amount, currency: 'EUR' })
  expect(costOf(60)).toMatchObject({ lookups: 26, max_lookups: 60, max_amount: euros(23), beyond_budget: 0 })
  expect(costOf(16, 8)).toMatchObject({ max_lookups: 70, max_amount: euros(8) })
  expect(costOf(null)).toMatchObject({ max_lookups: 120, max_amount: euros(36) })
})
