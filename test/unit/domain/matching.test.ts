import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { matchResults } from '../../../src/domain/matching.ts'

const emails = ['a@x.example', 'b@x.example', 'c@x.example']
const result = (requestId: string | null, email: string | null = null) => ({ requestId, email })

describe('a result is tied to its input by', () => {
  test('the identifiers that the 202 gave, as a list or as a map', () => {
    const results = [result('r3'), result('r1'), result('r2')]
    expect(matchResults(emails, ['r1', 'r2', 'r3'], results)).toEqual([2, 0, 1])
    const map = { 'a@x.example': 'r1', 'B@x.example': 'r2', 'c@x.example': 'r3' }
    expect(matchResults(emails, map, results)).toEqual([2, 0, 1])
  })
  test('the email itself as identifier, in any case', () => {
    expect(matchResults(emails, null, [result('C@X.example'), result('a@x.example')])).toEqual([2, 0])
  })
  test('the email in its data', () => {
    expect(matchResults(emails, null, [result('x', 'b@x.example'), result('y', 'a@x.example')])).toEqual([
      1, 0,
    ])
  })
  test('its place, where the counts are equal and nothing contradicts', () => {
    expect(matchResults(emails, null, [result('x'), result('y', 'b@x.example'), result('z')])).toEqual([
      0, 1, 2,
    ])
  })
  test('a number that counts the inputs, from 0 or from 1, in any order', () => {
    expect(matchResults(emails, null, [result('2'), result('0'), result('1')])).toEqual([2, 0, 1])
    expect(matchResults(emails, null, [result('3'), result('1'), result('2')])).toEqual([2, 0, 1])
  })
})

describe('a result is not tied by its place', () => {
  test('where one that is known stands elsewhere', () => {
    expect(matchResults(emails, null, [result('x', 'b@x.example'), result('y'), result('z')])).toEqual([
      1,
      null,
      null,
    ])
  })
  test('where one names somebody who was never asked', () => {
    expect(matchResults(emails, null, [result('x', 'z@z.example'), result('y'), result('z')])).toEqual([
      null,
      null,
      null,
    ])
  })
  test('where the counts differ, or the delivery is another job', () => {
    expect(matchResults(emails, null, [result('x'), result('y')])).toEqual([null, null])
    expect(matchResults(emails, null, [result('x'), result('y'), result('z')], false)).toEqual([
      null,
      null,
      null,
    ])
  })
})

test('no input gets two results, whatever is delivered', () => {
  const identifier = fc.oneof(fc.constantFrom(...emails, '0', '1', '2', 'r1', 'r2'), fc.constant(null))
  fc.assert(
    fc.property(
      fc.array(fc.record({ requestId: identifier, email: fc.constantFrom(...emails, 'z@z.example', null) }), {
        maxLength: 6,
      }),
      fc.constantFrom(null, ['r1', 'r2', 'r3'], { 'a@x.example': 'r2' }),
      fc.boolean(),
      (results, requestIds, byPlace) => {
        const places = matchResults(emails, requestIds, results, byPlace).filter((place) => place !== null)
        expect(new Set(places).size).toBe(places.length)
        expect(places.every((place) => place >= 0 && place < emails.length)).toBe(true)
      },
    ),
  )
})
