import pino from 'pino'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { sharedBatchSize } from '../../../src/pipeline/batch-size.ts'
import type { Deps } from '../../../src/pipeline/deps.ts'
import { RunCounters } from '../../../src/runs/counters.ts'
import { Writers } from '../../../src/runs/writers.ts'
import type { Source } from '../../../src/sources/source-model.ts'

/** What the queue has something for, and how often it was asked. */
let queuedSources: ReadonlySet<string> | null = null
let reads = 0
vi.mock(import('../../../src/store/write-back-queue.ts'), async (original) => ({
  ...(await original()),
  listQueuedSources: () => {
    reads++
    return Promise.resolve(queuedSources)
  },
}))

/** A write-back queue: entries stay in it until their batch has ended. */
let unclaimed = 0
let underWay = 0
/** Rows of each batch that was claimed. */
let batches: number[] = []
let claiming: string[] = []
vi.mock(import('../../../src/pipeline/write-back.ts'), () => ({
  writeBackBatch: async (_, source) => {
    claiming.push(source.name)
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
  claiming = []
  queuedSources = null
  reads = 0
})
afterEach(() => void vi.useRealTimers())

const toSource = (name: string): Source => ({ name, mapping: { steps: [] } }) as unknown as Source

/** @returns what was done when each run was told that it may be complete */
async function write(
  act: (writers: Writers, store: (rows: number, counted?: number) => void) => Promise<void>,
  sources = [toSource('contacts')],
): Promise<number[]> {
  const stop = new AbortController()
  const counters = new RunCounters()
  const left: number[] = []
  vi.spyOn(counters.maybeComplete, 'notify').mockImplementation(() => {
    left.push(unclaimed + underWay)
  })
  // The table is fast: batches have their full size.
  for (const source of sources) for (const rows of [1_000, 2_000]) sharedBatchSize(source).onBatch(rows, 1)
  const deps = { log: pino({ level: 'silent' }) } as unknown as Deps
  const options = { sources, signal: stop.signal }
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

test('of many sources, only those that the queue has rows of claim some, and one statement asks for all', async () => {
  const tenants = Array.from({ length: 100 }, (_, n) => toSource(`tenant${n}`))
  queuedSources = new Set(['tenant7'])
  await write(async (_, store) => {
    expect(new Set(claiming)).toEqual(new Set(['tenant7']))
    expect(reads).toBeLessThan(5)
    // More than can be looked at: each tries.
    queuedSources = null
    store(10)
    await vi.advanceTimersByTimeAsync(250)
    expect(new Set(claiming).size).toBe(100)
  }, tenants)
})
