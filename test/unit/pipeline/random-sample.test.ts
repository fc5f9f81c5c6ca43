import fc from 'fast-check'
import { expect, test } from 'vitest'
import { RandomSample } from '../../../src/pipeline/write-back.ts'
import { seeded } from '../../support/simulated-service/random.ts'

function sampleOf(length: number, max: number, random = seeded(7)): RandomSample<number> {
  const sample = new RandomSample<number>(max, random)
  for (let item = 0; item < length; item++) sample.add(item)
  return sample
}

test('every item has the same chance', () => {
  const random = seeded(11)
  const chosen = Array.from({ length: 10 }, () => 0)
  for (let round = 0; round < 2_000; round++)
    for (const item of sampleOf(100, 10, random).items) chosen[Math.floor(item / 10)]! += 1
  // 2,000 of each tenth are expected, with a standard deviation of about 40.
  for (const count of chosen) expect(Math.abs(count - 2_000)).toBeLessThan(250)
})

test('a sample holds what there is, up to its limit', () => {
  fc.assert(
    fc.property(fc.nat(40), fc.nat(40), (length, max) => {
      const items = sampleOf(length, max).items
      expect(items).toHaveLength(Math.min(length, max))
      expect(new Set(items).size).toBe(items.length)
    }),
  )
})
