import { expect, test } from 'vitest'
import { formatProgress } from '../../../../src/cli/views/progress.ts'
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

test('the progress of a run shows speed, why it is stalled, and work done', () => {
  expect(formatProgress(progress)).toBe(
    '1 min 05 s; 3,104 of 5,000 rows (62%), 48/s, 40 s left; waiting for the next window; ' +
      '1,204 looked up, 300 in jobs, 3 jobs out, 2,911 cells written',
  )
})
