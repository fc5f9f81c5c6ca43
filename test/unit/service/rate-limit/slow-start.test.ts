import { expect, test } from 'vitest'
import { SlowStart } from '../../../../src/service/rate-limit/unstated-limit.ts'

const answer = (slowStart: SlowStart, times: number): void => {
  for (let count = 0; count < times; count++) slowStart.onAnswer()
}

test('a 429 starts over, doubling up to half of what was in flight, then by one a round trip', () => {
  const slowStart = new SlowStart()
  answer(slowStart, 15)
  slowStart.onRejected(16)
  expect(slowStart.allowed).toBe(1)
  answer(slowStart, 7)
  expect(slowStart.allowed).toBe(8)
  answer(slowStart, 8)
  expect(slowStart.allowed).toBe(8)
  answer(slowStart, 1)
  expect(slowStart.allowed).toBe(9)
})
