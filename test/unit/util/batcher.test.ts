import { expect, onTestFinished, test, vi } from 'vitest'
import { createBatcher } from '../../../src/util/batcher.ts'

test('batches items that arrive during a write, and loses nothing', async () => {
  const batches: number[][] = []
  let finish = (): void => {}
  const add = createBatcher<number>(async (items) => {
    batches.push(items)
    await new Promise<void>((resolve) => (finish = resolve))
  })
  const all = [add(1), add(2)]
  await expect.poll(() => batches.length).toBe(1)
  all.push(add(3), add(4), add(5))
  finish()
  await expect.poll(() => batches.length).toBe(2)
  finish()
  await Promise.all(all)
  expect(batches).toEqual([
    [1, 2],
    [3, 4, 5],
  ])
})

test('writes each item of a failed batch alone, and rejects only the faulty one', async () => {
  const batches: number[][] = []
  const add = createBatcher<number>(async (items) => {
    batches.push(items)
    if (items.includes(2)) throw new Error('not written')
  })
  await expect(Promise.allSettled([add(1), add(2), add(3)])).resolves.toMatchObject([
    { status: 'fulfilled' },
    { status: 'rejected' },
    { status: 'fulfilled' },
  ])
  expect(batches).toEqual([[1, 2, 3], [1], [2], [3]])
  await expect(add(4)).resolves.toBeUndefined()
})

test('gathers items, until enough wait, their time is over, or one must not wait', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const batches: number[][] = []
  let gatherMs = 50
  const add = createBatcher<number>(async (items) => void batches.push(items), {
    gatherMs: () => gatherMs,
    fullAt: () => 3,
  })
  const first = [add(1), add(2)]
  await vi.advanceTimersByTimeAsync(49)
  expect(batches).toEqual([])
  await vi.advanceTimersByTimeAsync(1)
  await Promise.all(first)
  const second = [add(3), add(4), add(5)]
  await vi.advanceTimersByTimeAsync(0)
  await Promise.all(second)
  const third = [add(6)]
  gatherMs = 0
  third.push(add(7))
  await vi.advanceTimersByTimeAsync(0)
  await Promise.all(third)
  expect(batches).toEqual([
    [1, 2],
    [3, 4, 5],
    [6, 7],
  ])
})

test('limits a batch by bytes too, and writes a larger item alone', async () => {
  const batches: number[][] = []
  const add = createBatcher<number>(async (items) => void batches.push(items), {
    sizeOf: (item) => item,
    maxBytes: 10,
  })
  await Promise.all([4, 4, 4, 25, 1, 9, 1].map((item) => add(item)))
  expect(batches).toEqual([[4, 4], [4], [25], [1, 9], [1]])
})

test('begins another write beside the one in progress, up to its concurrency', async () => {
  const batches: number[][] = []
  const { promise: finished, resolve: finish } = Promise.withResolvers<void>()
  const add = createBatcher<number>(
    async (items) => {
      batches.push(items)
      await finished
    },
    { concurrency: 2 },
  )
  const all = [add(1)]
  await expect.poll(() => batches).toEqual([[1]])
  all.push(add(2))
  await expect.poll(() => batches).toEqual([[1], [2]])
  all.push(add(3))
  await new Promise((resolve) => setTimeout(resolve, 5))
  all.push(add(4))
  finish()
  await Promise.all(all)
  expect(batches).toEqual([[1], [2], [3, 4]])
})
