import { describe, expect, test } from 'vitest'
import { estimateCalls, estimateTime } from '../../../src/actions/plan/plan.ts'
import { readDocumentedLimits } from '../../../src/domain/service/documented-limit.ts'

describe('call estimates match the calls of a run', () => {
  const toRequest = (email: number) => ({ email, linkedin_url: 2, name_company: 1, domain: 4 })
  const emails = { kinds: ['email'], size: 100, results: 'webhook', needsWebhook: true } as const
  const auto = { route: 'auto', usesWebhook: true, bulkCalls: [emails] } as const
  test('jobs of 100, the last one from the minimum on, the rest by single calls', () => {
    expect(estimateCalls(toRequest(250), auto, 50)).toEqual({
      person: 3,
      company: 4,
      bulk: 3,
      total: 10,
    })
    expect(estimateCalls(toRequest(249), auto, 50)).toEqual({
      person: 3 + 49,
      company: 4,
      bulk: 2,
      total: 58,
    })
    expect(estimateCalls(toRequest(49), auto, 50)).toEqual({
      person: 52,
      company: 4,
      bulk: 0,
      total: 56,
    })
  })
  test('jobs of another size, and none below a minimum above it', () => {
    const ten = { ...auto, bulkCalls: [{ ...emails, size: 10 }] }
    expect(estimateCalls(toRequest(42), ten, 2)).toMatchObject({ person: 3, bulk: 5 })
    expect(estimateCalls(toRequest(41), ten, 2)).toMatchObject({ person: 4, bulk: 4 })
    expect(estimateCalls(toRequest(42), ten, 50)).toMatchObject({ person: 45, bulk: 0 })
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
  test('the most calls count as they would be made: jobs of a later service are no single calls', () => {
    const none = { person: 0, company: 0, bulk: 0, total: 0 }
    const jobs = { ...none, bulk: 40, total: 40 }
    const knownLimit = { limit: 10, windowMs: 60_000, isLearnt: false, observedAt: 0 }
    const time = estimateTime(none, jobs, { knownLimit, documented: [] })
    expect(time).toMatchObject({ ms: 0, max_ms: 180_000 })
    const documented = readDocumentedLimits({ person: '1 per minute', bulk: '40 per minute' })
    const stated = estimateTime(none, jobs, { knownLimit: null, documented })
    expect(stated).toMatchObject({ ms: 0, max_ms: 0 })
  })
  test('all single, or all in bulk, on request', () => {
    expect(estimateCalls(toRequest(250), { ...auto, route: 'sync' }, 50).person).toBe(253)
    expect(estimateCalls(toRequest(1), { ...auto, route: 'bulk' }, 50)).toMatchObject({ person: 3, bulk: 1 })
  })
})
