import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  foldNames,
  formatCount,
  pluralize,
  relativeTime,
  formatDuration,
  formatPercent,
  formatPerSecond,
} from '../../../src/util/text.ts'

test('names are folded after a few', () => {
  expect(foldNames(['contacts'])).toBe('contacts')
  expect(foldNames(['contacts', 'accounts', 'leads'])).toBe('contacts, accounts, leads')
  const twelve = ['contacts', 'accounts', ...Array.from({ length: 10 }, (_, n) => `s${n}`)]
  expect(foldNames(twelve)).toBe('contacts, accounts and 10 more')
})

test('counts', () => {
  expect([0, 999, 1_234, 5_000_000].map(formatCount)).toEqual(['0', '999', '1,234', '5,000,000'])
  expect([pluralize(1, 'row'), pluralize(2, 'row'), pluralize(0, 'reply', 'replies')]).toEqual([
    '1 row',
    '2 rows',
    '0 replies',
  ])
})

test.each([
  [0, '0 ms'],
  [40, '40 ms'],
  [400, '0.4 s'],
  [2_000, '2 s'],
  [2_345, '2.3 s'],
  [9_949, '9.9 s'],
  [9_950, '10 s'],
  [41_234, '41 s'],
  [59_600, '1 min'],
  [60_000, '1 min'],
  [252_000, '4 min 12 s'],
  [3_600_000, '1 h'],
  [3_900_000, '1 h 05 min'],
  [86_400_000, '1 d'],
  [273_600_000, '3 d 04 h'],
])('%i ms last %s', (ms, text) => {
  expect(formatDuration(ms)).toBe(text)
})

describe('a share', () => {
  test.each([
    [0, '0%'],
    [0.0001, '<0.1%'],
    [0.08, '8.0%'],
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

test('speeds', () => {
  expect([0, 0.5, 4.82, 9.96, 48.2, 1_500].map(formatPerSecond)).toEqual([
    '0/s',
    '0.5/s',
    '4.8/s',
    '10/s',
    '48/s',
    '1,500/s',
  ])
})

test('relative times show only their largest unit', () => {
  const now = Date.UTC(2026, 2, 1, 12)
  const at = (ms: number): string => relativeTime(new Date(now + ms), now)
  expect(at(-400)).toBe('now')
  expect(at(-12_000)).toBe('12 s ago')
  expect(at(-252_000)).toBe('4 min ago')
  expect(at(5 * 3_600_000 + 60_000)).toBe('in 5 h')
  expect(at(-3 * 86_400_000 - 3_600_000)).toBe('3 d ago')
  expect(at(90 * 86_400_000 - 1_000)).toBe('in 90 d')
  expect(at(-59.6 * 60_000)).toBe('1 h ago')
})
