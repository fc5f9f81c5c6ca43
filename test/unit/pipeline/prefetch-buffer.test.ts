import { expect, test } from 'vitest'
import { PrefetchBuffer } from '../../../src/pipeline/look-up/prefetch-buffer.ts'
import type { LeasedLookup } from '../../../src/store/lookup-leases.ts'

const lookups = (count: number): LeasedLookup[] =>
  Array.from({ length: count }, (_, id) => ({ id, kind: 'email', input: {}, attempts: 0, token: 't' }))

/** A buffer from which this many were taken since 0. */
function handAfter(given: number): PrefetchBuffer {
  const buffer = new PrefetchBuffer(0)
  buffer.push(lookups(given))
  buffer.shift(given)
  return buffer
}

test('returns lookups in lease order, each once', () => {
  const buffer = new PrefetchBuffer(0)
  buffer.push(lookups(5))
  expect(buffer.shift(2).map(({ id }) => id)).toEqual([0, 1])
  expect(buffer.shift(2).map(({ id }) => id)).toEqual([2, 3])
  expect(buffer.drain().map(({ id }) => id)).toEqual([4])
  expect(buffer.size).toBe(0)
})

test('prefetches what is requested in a second', () => {
  const buffer = handAfter(100)
  expect(buffer.refillSize(1_000)).toBe(100)
  buffer.push(lookups(60))
  // Half of it is still there.
  expect(buffer.refillSize(1_000)).toBe(0)
  buffer.shift(20)
  expect(buffer.refillSize(1_000)).toBeGreaterThan(0)
})

test('prefetches nothing if calls are few, and never more than 500', () => {
  const slow = handAfter(5)
  expect(slow.refillSize(10_000)).toBe(0)
  const fast = handAfter(5_000)
  expect(fast.refillSize(100)).toBe(500)
})

test('adapts to a changed pace', () => {
  const buffer = handAfter(1_000)
  expect(buffer.refillSize(1_001)).toBeGreaterThan(400)
  for (let now = 2_000; now <= 20_000; now += 1_000) buffer.refillSize(now)
  expect(buffer.refillSize(20_000)).toBe(0)
})
