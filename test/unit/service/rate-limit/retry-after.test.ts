import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseRetryAfter } from '../../../../src/service/rate-limit/headers.ts'

const now = Date.UTC(2030, 0, 1)
const day = 24 * 60 * 60 * 1000

describe('parseRetryAfter', () => {
  test.each([
    ['0', 0],
    ['2', 2_000],
    [' 120 ', 120_000],
    ['1.5', 1_500],
    ['0.0001', 1],
    ['-3', 0],
    ['+3', 3_000],
    ['86401', day],
    ['999999999999999999999999', day],
    ['Tue, 01 Jan 2030 00:00:30 GMT', 30_000],
    ['Tuesday, 01-Jan-30 00:00:30 GMT', 30_000],
    ['Tue Jan  1 00:00:30 2030', 30_000],
    ['2030-01-01T00:00:30Z', 30_000],
    ['2030-01-01T01:00:30.500+01:00', 30_500],
    ['Mon, 31 Dec 2029 23:59:59 GMT', 0],
    ['Fri, 01 Mar 2030 00:00:00 GMT', day],
  ])('%j is %i ms', (header, wait) => {
    expect(parseRetryAfter(header, now)).toBe(wait)
  })

  test.each([
    undefined,
    '',
    'soon',
    '5s',
    '1e3',
    '0x10',
    'Infinity',
    'NaN',
    '1,5',
    '2030',
    'Jan 1',
    '1 2',
    [],
  ])('%j is nothing', (header) => {
    // A bare 2030 is a number of seconds and not a year.
    expect(parseRetryAfter(header, now)).toBe(header === '2030' ? 2_030_000 : null)
  })

  test('of several the longest counts', () => {
    expect(parseRetryAfter(['2', 'soon', '7', '3'], now)).toBe(7_000)
  })

  test('whatever comes, the wait is null or from 0 to a day', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.date().map(String), fc.double().map(String)), (header) => {
        const wait = parseRetryAfter(header, now)
        expect(wait === null || (wait >= 0 && wait <= day)).toBe(true)
      }),
    )
  })
})
