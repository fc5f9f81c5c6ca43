import { expect, test } from 'vitest'
import {
  LengthBounds,
  padded,
  roundestBelow,
  roundestBetween,
  snapToRound,
} from '../../../../src/service/rate-limit/length-bounds.ts'

test('bounds only narrow, and are empty once they cross', () => {
  const bounds = new LengthBounds()
  bounds.raiseMin(900)
  bounds.raiseMin(800)
  bounds.lowerMax(1100)
  bounds.lowerMax(1200)
  expect(bounds).toMatchObject({ min: 900, max: 1100, isEmpty: false })
  bounds.lowerMax(899)
  expect(bounds.isEmpty).toBe(true)
})

test('a length within the bounds is taken for the longest round one, or the maximum if there is none', () => {
  expect(snapToRound({ min: 900, max: 1037 }, 100)).toBe(1000)
  expect(snapToRound({ min: 1010, max: 1037 }, 100)).toBe(1037)
  expect(snapToRound({ min: 0, max: 80 }, 100)).toBe(80)
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
