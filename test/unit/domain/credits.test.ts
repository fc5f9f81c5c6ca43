import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { CreditsDefinition } from '../../../src/domain/service/adapter.ts'
import { shareCredits, withStatedCredits, createService } from '../../../src/domain/service/service.ts'
import { roundCredits } from '../../../src/domain/spend.ts'

const person = { path: '/person' } as const
const creditsOf = (credits: CreditsDefinition) =>
  createService({
    name: 'any',
    person,
    credits,
    fields: { person: { title: 'text', phone: 'text' } },
  }).credits

describe('parts of a credit', () => {
  test('cost what `of` says of a record, and at most what `most` says', () => {
    const { isFlat, most, least, of } = creditsOf({
      most: 0.7,
      of: (_, record) => (record === null ? 0 : 0.1 + (record['title'] ? 0.2 : 0)),
    })
    expect({ isFlat, most: most.email, least: least.email }).toEqual({ isFlat: false, most: 0.7, least: 0 })
    expect([of('email', { title: 'analyst' }), of('email', {}), of('email', null)]).toEqual([0.3, 0.1, 0])
  })

  test('cost the same whatever is found where nothing says it', () => {
    const { most, of } = creditsOf({ most: (kind) => (kind === 'domain' ? 3 : 0.5) })
    expect([most.email, of('email', {}), of('email', null), of('domain', {})]).toEqual([0.5, 0.5, 0.5, 3])
    expect([creditsOf({ most: 0.5 }).isFlat, creditsOf({ most: 1 }).isFlat]).toEqual([false, true])
    expect(createService({ name: 'any', person }).credits.isFlat).toBe(true)
  })

  test('a miss may cost by what was in the request, and an answer more than the most', () => {
    const { of } = creditsOf({ most: 1, of: (kind, record) => (record ? 4 : kind === 'email' ? 1 : 0) })
    expect([of('email', null), of('linkedin_url', null), of('email', {})]).toEqual([1, 0, 4])
  })

  test.each([
    ['throws', () => JSON.parse('{') as number],
    ['gives no number', () => Number.NaN],
    ['gives less than nothing', () => -1],
    ['gives nothing', () => undefined as never],
  ])('are the most where `of` %s', (_, wrong) => {
    expect(creditsOf({ most: 2, of: wrong }).of('email', {})).toBe(2)
  })

  test('any number of them, in any order, are the same sum', () => {
    const tenths = fc.integer({ min: 0, max: 1_000_000 }).map((n) => n / 1_000)
    fc.assert(
      fc.property(fc.array(tenths, { maxLength: 50 }), (parts) => {
        const add = (sum: number, part: number): number => roundCredits(sum + part)
        const sum = parts.reduce(add, 0)
        expect(parts.toReversed().reduce(add, 0)).toBe(sum)
        expect(sum).toBe(parts.reduce((total, part) => total + Math.round(part * 1_000), 0) / 1_000)
      }),
    )
  })
})

describe('a sum that is shared', () => {
  const credits = fc.oneof(
    fc.integer({ min: -1_000, max: 100_000 }),
    fc.integer({ min: -1_000, max: 100_000 }).map((tenths) => tenths / 10),
    fc.integer({ min: 0, max: 100_000_000 }).map((parts) => parts / 1_000_000),
  )
  test('has parts that add up to it, none further from its share than the finest part of the sum', () => {
    fc.assert(
      fc.property(
        credits,
        fc.array(fc.constantFrom<number[]>(0, 0, 0.1, 0.5, 1, 3, 10), { minLength: 1, maxLength: 100 }),
        (sum, weights) => {
          const shares = shareCredits(sum, weights)
          expect(shares.reduce((total, share) => roundCredits(total + share), 0)).toBe(sum)
          const of = weights.reduce((total, weight) => total + weight, 0)
          const unit = Number.isInteger(sum) ? 1 : Number.isInteger(roundCredits(sum * 10)) ? 0.1 : 0.01
          const distances = shares.map((share, n) =>
            Math.abs(share - (of === 0 ? sum / weights.length : (sum * (weights[n] ?? 0)) / of)),
          )
          expect(Math.max(...distances)).toBeLessThan(unit + 1e-6)
        },
      ),
    )
  })

  test('is in whole credits where it is whole, and goes to those that cost something', () => {
    expect(shareCredits(3, [1, 0, 1, 1])).toEqual([1, 0, 1, 1])
    expect(shareCredits(2, [1, 1, 1])).toEqual([1, 1, 0])
    expect(shareCredits(0.5, [1, 1])).toEqual([0.3, 0.2])
    expect(shareCredits(2, [0, 0])).toEqual([1, 1])
    expect(shareCredits(0, [1, 1])).toEqual([0, 0])
  })
})

describe('what a reader states', () => {
  const stated = (delivery: Parameters<typeof withStatedCredits>[0]) => withStatedCredits(delivery).stated

  test('is read of the job and of each result, by name or in a map', () => {
    const results = [
      { request_id: 'a', data: {}, credits: 0.1 },
      { request_id: 'b', data: null },
      { data: null, credits: 0 },
    ]
    expect(stated({ results, credits: 2 })).toEqual({ job: 2, results: [0.1, null, 0] })
    expect(stated({ results: { a: { data: {}, credits: 3 }, b: { data: {} } } })).toEqual({
      job: null,
      results: [3, null],
    })
  })

  test('is no field of a record', () => {
    expect(stated({ results: { a: { title: 'analyst', credits: 480 } } })).toBeUndefined()
    expect(stated({ results: [{ title: 'analyst', credits: 480 }], credits: null })).toBeUndefined()
  })

  test.each([-1, Number.NaN, Number.POSITIVE_INFINITY, '3', {}])('is no number of credits: %s', (credits) => {
    expect(() => withStatedCredits({ results: [], credits: credits as number })).toThrow(TypeError)
    expect(() => withStatedCredits({ results: [{ data: null, credits }] })).toThrow(TypeError)
  })
})
