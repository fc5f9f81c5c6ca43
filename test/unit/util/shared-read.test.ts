import { expect, test } from 'vitest'
import { sharedRead } from '../../../src/runs/writers.ts'

test('each caller gets what was read after its call, and callers at the same time share one read', async () => {
  const ends: ((value: number) => void)[] = []
  const read = sharedRead(() => new Promise<number>((end) => ends.push(end)))
  const first = read()
  const others = [read(), read(), read()]
  expect(ends).toHaveLength(1)
  ends[0]?.(1)
  expect(await first).toBe(1)
  await Promise.resolve()
  expect(ends).toHaveLength(2)
  ends[1]?.(2)
  expect(await Promise.all(others)).toEqual([2, 2, 2])
  const later = read()
  ends[2]?.(3)
  expect(await later).toBe(3)
})

test('a read that fails, fails for those that share it alone', async () => {
  let calls = 0
  const read = sharedRead(() => (++calls === 1 ? Promise.reject(new Error('away')) : Promise.resolve(calls)))
  const first = read()
  const second = read()
  await expect(first).rejects.toThrow('away')
  expect(await second).toBe(2)
})
