import pino from 'pino'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { sharedBatchSize } from '../../../src/pipeline/batch-size.ts'
import type { Deps } from '../../../src/pipeline/deps.ts'
import { RunCounters } from '../../../src/runs/counters.ts'
import { Writers } from '../../../src/runs/writers.ts'
import type { Source } from '../../../src/sources/source-model.ts'

/** A write-back queue: entries stay in it until their batch has ended. */
let unclaimed = 0
let underWay = 0
/** Rows of each batch that was claimed. */
let batches: number[] = []
vi.mock(import('../../../src/pipeline/write-back.ts'), () => ({
  writeBackBatch: async (_, source) => {
    const most = sharedBatchSize(source).rows
    const rows = Math.min(most, unclaimed)
    const nothing = { rows: 0, enriched: 0, cells: 0, deferred: 0, more: false }
    if (unclaimed + underWay === 0) return nothing
    batches.push(rows)
    unclaimed -= rows
    underWay += rows
    await new Promise((resolve) => setTimeout(resolve, 10 + rows / 10))
    underWay -= rows
    return { ...nothing, rows, cells: rows, more: rows >= most / 2 && rows > 0 }
  },
}))

beforeEach(() => {
  vi.useFakeTimers()
  unclaimed = underWay = 0
  batches = []
})
afterEach(() => void vi.useRealTimers())

/** @returns what was done when each run was told that it may be complete */
async function write(
  act: (writers: Writers, store: (rows: number, counted?: number) => void) => Promise<void>,
): Promise<number[]> {
  const stop = new AbortController()
  const counters = new RunCounters()
  const left: number[] = []
  vi.spyOn(counters.maybeComplete, 'notify').mockImplementation(() => {
    left.push(unclaimed + underWay)
  })
  const source = { name: 'contacts' } as Source
  // The table is fast: batches have their full size.
  for (const rows of [1_000, 2_000]) sharedBatchSize(source).onBatch(rows, 1)
  const deps = { log: pino({ level: 'silent' }) } as unknown as Deps
  const options = { sources: [source], signal: stop.signal }
  const writers = new Writers(deps, options, (count) => count(counters))
  const tasks = writers.tasks().map(({ start }) => start())
  await vi.advanceTimersByTimeAsync(0)
  await act(writers, (rows, counted = rows) => {
    unclaimed += rows
    writers.onAnswers(counted, 'sync')
  })
  stop.abort()
  await vi.advanceTimersByTimeAsync(0)
  await Promise.all(tasks)
  return left
}

test('full batches follow each other at once, and a run is told when nothing is left', async () => {
  const left = await write(async (_, store) => {
    store(6_000)
    await vi.advanceTimersByTimeAsync(640)
    expect(unclaimed + underWay).toBe(0)
  })
  expect(batches).toEqual([4_000, 2_000])
  expect(left).toEqual([0])
})

test('a few answers are written within a moment, and gather in it', async () => {
  await write(async (_, store) => {
    store(100)
    await vi.advanceTimersByTimeAsync(50)
    expect(batches).toEqual([100])
    store(100)
    await vi.advanceTimersByTimeAsync(50)
    store(100)
    await vi.advanceTimersByTimeAsync(250)
  })
  expect(batches).toEqual([100, 200])
})

test('rows that no one has counted are written all the same', async () => {
  const left = await write(async (_, store) => {
    // Several rows wait for one answer.
    store(9_000, 3_000)
    await vi.advanceTimersByTimeAsync(3_000)
    expect(unclaimed + underWay).toBe(0)
  })
  expect(left.at(-1)).toBe(0)
})

test('answers that no row waits for do not keep the writers busy', async () => {
  await write(async (_, store) => {
    store(500, 5_000)
    await vi.advanceTimersByTimeAsync(3_000)
  })
  expect(batches.length).toBeLessThan(5)
})

test('the last answers wait for no others', async () => {
  await write(async (writers, store) => {
    store(100)
    await vi.advanceTimersByTimeAsync(50)
    unclaimed += 100
    writers.onAnswers(100, 'last')
    await vi.advanceTimersByTimeAsync(50)
  })
  expect(batches).toEqual([100, 100])
})
