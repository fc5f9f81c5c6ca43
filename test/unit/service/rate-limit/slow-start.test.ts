import { expect, test } from 'vitest'
import { SlowStart } from '../../../../src/service/rate-limit/unstated-limit.ts'

const answer = (slowStart: SlowStart, times: number): void => {
  for (let count = 0; count < times; count++) slowStart.onAnswer()
}

test('begins with one call, and adds one with each answer', () => {
  const slowStart = new SlowStart()
  expect(slowStart.allowed).toBe(1)
  answer(slowStart, 3)
  expect(slowStart.allowed).toBe(4)
})

test('with a limit known recently, allows a quarter of it at once', () => {
  const slowStart = new SlowStart()
  slowStart.capAt(20)
  answer(slowStart, 50)
  expect(slowStart.allowed).toBe(5)
})

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

test('after 100 answers without a limit there is none, unless a call was refused', () => {
  const [unlimited, limited] = [new SlowStart(), new SlowStart()]
  answer(unlimited, 99)
  expect(unlimited.isUnlimited).toBe(false)
  answer(unlimited, 1)
  expect(unlimited.allowed).toBe(Number.POSITIVE_INFINITY)
  limited.onRejected(1)
  answer(limited, 200)
  expect(limited.isUnlimited).toBe(false)
})
