import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { formatDuration, formatPercent } from '../../../src/util/text.ts'

test.each([
  [40, '40 ms'],
  [400, '0.4 s'],
  [2_345, '2.3 s'],
  [9_950, '10 s'],
  [41_234, '41 s'],
  [252_000, '4 min 12 s'],
  [3_900_000, '1 h 05 min'],
  [273_600_000, '3 d 04 h'],
])('%i ms last %s', (ms, text) => {
  expect(formatDuration(ms)).toBe(text)
})

describe('a share', () => {
  test.each([
    [0, '0%'],
    [0.0001, '<0.1%'],
    [0.9868, '98.7%'],
    [0.9999, '>99.9%'],
    [1, '100%'],
  ])('%d', (share, text) => {
    expect(formatPercent(share)).toBe(text)
  })

  test('is 100% only for all and 0% only for none', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 10_000_000 }), fc.nat(), (whole, part) => {
        const share = Math.min(part, whole) / whole
        const text = formatPercent(share)
        expect(text === '100%').toBe(share === 1)
        expect(text === '0%').toBe(share === 0)
        expect(['100.0%', '0.0%']).not.toContain(text)
      }),
    )
  })
})
