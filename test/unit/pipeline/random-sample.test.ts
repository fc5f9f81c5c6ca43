import fc from 'fast-check'
import { expect, test } from 'vitest'
import { RandomSample, sampleEvenly } from '../../../src/pipeline/preview.ts'

/** Numbers from 0 to 1 that look random and are the same in each test. */
function createRandom(seed: number): () => number {
  let state = seed
  return () => (state = (state * 16_807) % 2_147_483_647) / 2_147_483_647
}

function sampleOf(length: number, max: number, random = createRandom(7)): RandomSample<number> {
  const sample = new RandomSample<number>(max, random)
  for (let item = 0; item < length; item++) sample.add(item)
  return sample
}

test('every item has the same chance, also when only a part of the sample is taken', () => {
  const random = createRandom(11)
  const chosen = Array.from({ length: 10 }, () => 0)
  for (let round = 0; round < 2_000; round++)
    for (const item of sampleOf(100, 20, random).take(10)) chosen[Math.floor(item / 10)]! += 1
  // 2,000 of each tenth are expected, with a standard deviation of about 40.
  for (const count of chosen) expect(Math.abs(count - 2_000)).toBeLessThan(250)
})

test('a sample holds what there is, up to its limit, in the order of the stream', () => {
  fc.assert(
    fc.property(fc.nat(40), fc.nat(40), (length, max) => {
      const items = sampleOf(length, max).take()
      expect(items).toHaveLength(Math.min(length, max))
      expect(items).toEqual([...new Set(items)].toSorted((a, b) => a - b))
    }),
  )
})

test('samples are merged evenly, up to a limit', () => {
  const sizes = (samples: readonly number[], max: number): number[] => {
    const lists = samples.map((length, n) => {
      const sample = new RandomSample<number>(60, createRandom(n + 1))
      for (let item = 0; item < length; item++) sample.add(n)
      return sample
    })
    const merged = sampleEvenly(lists, max)
    return samples.map((_, n) => merged.filter((one) => one === n).length)
  }
  expect(sizes([9, 1, 9], 7)).toEqual([3, 1, 3])
  fc.assert(
    fc.property(fc.array(fc.nat(30), { minLength: 1, maxLength: 5 }), fc.nat(60), (lengths, max) => {
      const all = lengths.reduce((sum, length) => sum + length, 0)
      expect(sizes(lengths, max).reduce((sum, size) => sum + size, 0)).toBe(Math.min(all, max))
    }),
  )
})
