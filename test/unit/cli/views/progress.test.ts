import { describe, expect, test } from 'vitest'
import { Throughput, estimateLeft, formatProgress } from '../../../../src/cli/views/progress.ts'
import type { RunProgress } from '../../../../src/runs/counters.ts'

const rate = {
  state: 'spending',
  limit: 200,
  windowMs: 2_000,
  used: 1_052,
  permitted: 1_066,
  utilisation: 0.9868,
  windowUsed: 143,
  nextWindowAt: null,
  nextWindowInMs: 1_200,
  stallReason: null,
  throttled: 0,
  sharedKey: false,
}
const progress: RunProgress = {
  picked: 5_000,
  finished: 3_104,
  requested: 1_204,
  submitted: 300,
  jobsWaiting: 3,
  picking: false,
  written: 2_911,
  rate,
  stallReason: 'waiting for the next window',
  elapsedMs: 65_000,
}

describe('the progress of a run', () => {
  test('shows speed, why it is stalled, and work done', () => {
    expect(formatProgress(progress, 48.2)).toBe(
      '1 min 05 s; 3,104 of 5,000 rows (62%), 48/s, 40 s left; waiting for the next window; ' +
        '1,204 looked up, 300 in jobs, 3 jobs out, 2,911 cells written',
    )
  })
})

describe('the throughput', () => {
  test('is unknown for two seconds, and then covers the last fifteen', () => {
    const throughput = new Throughput()
    throughput.add(0, 0)
    throughput.add(1_900, 19)
    expect(throughput.perSecond).toBeNull()
    throughput.add(2_000, 20)
    expect(throughput.perSecond).toBe(10)
    for (let second = 3; second <= 60; second++) throughput.add(second * 1_000, 20 + (second - 2) * 100)
    expect(throughput.perSecond).toBeCloseTo(100)
  })
})

describe('the time left knows the window', () => {
  const limited = { ...rate, limit: 60, windowMs: 60_000, windowUsed: 60, nextWindowInMs: 50_000 }
  const left = (changes: Partial<RunProgress>, perSecond: number | null = 30): number | null =>
    estimateLeft(
      { ...progress, picked: 200, finished: 60, requested: 60, submitted: 0, ...changes },
      perSecond,
    )

  test('calls that the limit does not permit yet wait for their window', () => {
    // 140 calls, 60 a window: the third of the windows to come ends it.
    expect(left({ rate: limited })).toBe(50_000 + 2 * 60_000)
  })

  test('a slow database counts more than a fast limit', () => {
    expect(left({ rate: { ...limited, windowUsed: 30 }, picked: 120, finished: 60 }, 0.1)).toBe(600_000)
  })
})
