import { expect, test } from 'vitest'
import {
  padded,
  roundestBelow,
  roundestBetween,
  snapToRound,
} from '../../../../src/service/rate-limit/counter.ts'

test('a length within the bounds is taken for the longest round one, or the maximum if there is none', () => {
  expect(snapToRound(900, 1037, 100)).toBe(1000)
  expect(snapToRound(1010, 1037, 100)).toBe(1037)
  expect(snapToRound(0, 80, 100)).toBe(80)
})

test('the roundest length between two is the shorter, and below one the longer of equals', () => {
  expect(roundestBetween(1200, 3400)).toBe(2000)
  expect(roundestBelow(1200, 3400)).toBe(3000)
  expect(roundestBetween(1010, 1090)).toBe(null)
  expect(roundestBelow(1010, 1090)).toBe(null)
})

test('a length gets 2 ms and a ten-thousandth for timers and drifting clocks', () => {
  expect(padded(10_000)).toBe(10_003)
})
