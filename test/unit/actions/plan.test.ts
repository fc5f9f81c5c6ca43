import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { estimateTime } from '../../../src/actions/plan/duration.ts'
import { readDocumentedLimits } from '../../../src/domain/service/documented-limit.ts'
import { countPayable, estimateCalls } from '../../../src/actions/plan/estimates.ts'

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

test('a budget pays lookups that cost parts of a credit to the last part', () => {
  const none = { email: 0, linkedin_url: 0, name_company: 0, domain: 0 }
  const payable = (emails: number, budget: number, each: number): number =>
    countPayable([{ ...none, email: emails }], budget, [], { ...none, email: each }).email
  // In binary fractions, 3 / 0.1 is less than 30, and 0.3 / 0.1 less than 3.
  expect([payable(100, 3, 0.1), payable(100, 1, 0.3), payable(100, 20, 0.5), payable(7, 20, 0.5)]).toEqual([
    30, 3, 40, 7,
  ])
  fc.assert(
    fc.property(fc.nat(500), fc.nat(100), fc.integer({ min: 1, max: 30 }), (emails, budget, tenths) => {
      expect(payable(emails, budget, tenths / 10)).toBe(Math.min(emails, Math.floor((budget * 10) / tenths)))
    }),
  )
})

describe('call estimates match the calls of a run', () => {
  const toRequest = (email: number) => ({ email, linkedin_url: 2, name_company: 1, domain: 4 })
  const emails = { kinds: ['email'], size: 100, results: 'webhook', needsWebhook: true } as const
  const auto = { route: 'auto', usesWebhook: true, firstPollMs: null, bulkCalls: [emails] } as const
  test('jobs of 100, the last one from the minimum on, the rest by single calls', () => {
    expect(estimateCalls(toRequest(250), auto, 50)).toEqual({
      person: 3,
      company: 4,
      bulk: 3,
      polls: 0,
      total: 10,
    })
    expect(estimateCalls(toRequest(249), auto, 50)).toEqual({
      person: 3 + 49,
      company: 4,
      bulk: 2,
      polls: 0,
      total: 58,
    })
    expect(estimateCalls(toRequest(49), auto, 50)).toEqual({
      person: 52,
      company: 4,
      bulk: 0,
      polls: 0,
      total: 56,
    })
  })
  test('jobs of another size, and none below a minimum above it', () => {
    const ten = { ...auto, bulkCalls: [{ ...emails, size: 10 }] }
    expect(estimateCalls(toRequest(42), ten, 2)).toMatchObject({ person: 3, bulk: 5 })
    expect(estimateCalls(toRequest(41), ten, 2)).toMatchObject({ person: 4, bulk: 4 })
    expect(estimateCalls(toRequest(42), ten, 50)).toMatchObject({ person: 45, bulk: 0 })
  })
  test('jobs that are fetched, once each at least', () => {
    const polled = { ...emails, results: 'poll', needsWebhook: false } as const
    const fetched = { ...auto, bulkCalls: [polled], firstPollMs: 10_000 }
    expect(estimateCalls(toRequest(250), fetched, 50)).toMatchObject({ bulk: 3, polls: 3, total: 13 })
    expect(estimateCalls(toRequest(49), fetched, 50)).toMatchObject({ bulk: 0, polls: 0 })
  })
  test('jobs of any person, and jobs of companies, each in its own size and from its own minimum', () => {
    const people = { ...emails, kinds: ['email', 'linkedin_url', 'name_company'], size: 25 } as const
    const answered = { kinds: ['domain'], size: 10, results: 'answer', needsWebhook: false } as const
    const both = { ...auto, bulkCalls: [people, answered] }
    const toAsk = { email: 20, linkedin_url: 20, name_company: 23, domain: 32 }
    // 25, 25 and 13; 10, 10, 10 and 2.
    expect(estimateCalls(toAsk, both, null)).toEqual({
      person: 0,
      company: 0,
      bulk: 3 + 4,
      polls: 0,
      total: 7,
    })
    const less = { ...toAsk, name_company: 22, domain: 31 }
    expect(estimateCalls(less, both, null)).toMatchObject({ person: 12, company: 1, bulk: 2 + 3 })
    // Nothing is delivered: people go singly.
    const undelivered = { ...both, usesWebhook: false }
    expect(estimateCalls(toAsk, undelivered, null)).toMatchObject({ person: 63, company: 0, bulk: 4 })
    const all = { ...both, route: 'bulk' } as const
    expect(estimateCalls({ ...less, domain: 1 }, all, null)).toMatchObject({
      person: 0,
      company: 0,
      bulk: 3 + 1,
    })
  })
  test('polls take their share of a limit of all calls or of bulk calls, and the last job its time', () => {
    const calls = { person: 0, company: 0, bulk: 90, polls: 90, total: 180 }
    const limits = { knownLimit: null, documented: readDocumentedLimits('60 per minute') }
    expect(estimateTime(calls, calls, { ...limits, firstPollMs: 10_000 }).ms).toBe(120_000)
    expect(estimateTime(calls, calls, { ...limits, firstPollMs: 600_000 }).ms).toBe(600_000)
    const ofBulk = { ...limits, documented: readDocumentedLimits({ bulk: '60 per minute' }) }
    expect(estimateTime(calls, calls, { ...ofBulk, firstPollMs: 10_000 }).ms).toBe(120_000)
    const ofPolls = readDocumentedLimits({ bulk: '60 per minute', poll: '15 per minute' })
    expect(estimateTime(calls, calls, { ...limits, documented: ofPolls, firstPollMs: 10_000 }).ms).toBe(
      300_000,
    )
    const none = { knownLimit: null, documented: [], firstPollMs: 10_000 }
    expect(estimateTime(calls, calls, none).ms).toBeNull()
  })
  test('the most calls count as they would be made: jobs of a later service are no single calls', () => {
    const none = { person: 0, company: 0, bulk: 0, polls: 0, total: 0 }
    const jobs = { ...none, bulk: 20, polls: 20, total: 40 }
    const knownLimit = { limit: 10, windowMs: 60_000, isLearnt: false, observedAt: 0 }
    const time = estimateTime(none, jobs, { knownLimit, documented: [], firstPollMs: 10_000 })
    expect(time).toMatchObject({ ms: 0, max_ms: 180_000 })
    const documented = readDocumentedLimits({ person: '1 per minute', bulk: '40 per minute' })
    const stated = estimateTime(none, jobs, { knownLimit: null, documented, firstPollMs: 10_000 })
    expect(stated).toMatchObject({ ms: 0, max_ms: 10_000 })
  })
  test('all single, or all in bulk, on request', () => {
    expect(estimateCalls(toRequest(250), { ...auto, route: 'sync' }, 50).person).toBe(253)
    expect(estimateCalls(toRequest(1), { ...auto, route: 'bulk' }, 50)).toMatchObject({ person: 3, bulk: 1 })
  })
})
