import { expect, test } from 'vitest'
import { sumServicePlans } from '../../../src/actions/plan/service-plan.ts'
import type { ServicePlan } from '../../../src/actions/plan/report.ts'

const NONE = { person: 0, company: 0, bulk: 0, polls: 0, total: 0 }
const priceOf = (each: number) => ({ currency: 'EUR', person: each, company: each })
const planOf = (service: string, certain: number, max: number, each: number): ServicePlan => ({
  service,
  lookups: { certain, max },
  calls: NONE,
  cost: {
    amount: { amount: certain * each, currency: 'EUR' },
    max_amount: { amount: max * each, currency: 'EUR' },
    budget: null,
  },
  time: { limit: null, window_ms: null, ms: null, max_ms: null },
})
const plans = [planOf('acme', 26, 60, 0.1), planOf('pdl', 0, 60, 0.5)]
const prices = [priceOf(0.1), priceOf(0.5)]

test('what several services need at most is no more than the budget that they share pays', () => {
  expect(sumServicePlans(plans, prices, 60, null).cost).toMatchObject({
    lookups: 26,
    max_lookups: 60,
    max_amount: { amount: 30, currency: 'EUR' },
  })
  const mixed = { amount: 8, currency: 'EUR', highest: 0.5 }
  expect(sumServicePlans(plans, prices, 16, mixed).cost).toMatchObject({
    max_lookups: 80,
    max_amount: { amount: 8, currency: 'EUR' },
  })
  expect(sumServicePlans(plans, prices, null, null).cost).toMatchObject({
    max_lookups: 120,
    max_amount: { amount: 36, currency: 'EUR' },
  })
})
