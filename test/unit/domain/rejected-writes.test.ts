import { expect, test } from 'vitest'
import { findNotableRejections, type RunRejections } from '../../../src/domain/rejected-writes.ts'

const since = (minute: number): Date => new Date(Date.UTC(2026, 10, 25, 2, minute))
/** Runs as (rejected, written), the latest first; each began a minute before the one that stands before it. */
const toRuns = (runs: readonly (readonly [number, number])[]): RunRejections[] =>
  runs.map(([rejected, written], n) => ({ rejected, written, since: since(30 - n) }))

test.each<[name: string, runs: [rejected: number, written: number][], minute: number | null]>([
  ['none', [], null],
  ['one odd row', [[1, 0]], null],
  ['four rows, all', [[4, 0]], null],
  ['five rows, all', [[5, 0]], 30],
  ['one in twenty', [[5, 95]], 30],
  ['less than one in twenty', [[5, 96]], null],
  ['a thousand of a million', [[1_000, 999_000]], 30],
  [
    'nearly half of a nightly run, and live sync works',
    [
      [1, 400],
      [89, 111],
    ],
    29,
  ],
  [
    'each row of live sync after a good night',
    [
      [1, 0],
      [1, 0],
      [1, 0],
      [1, 0],
      [1, 0],
      [3, 60_000],
    ],
    26,
  ],
  [
    'odd rows of many runs',
    [
      [1, 100],
      [1, 100],
      [1, 100],
      [1, 100],
      [1, 100],
      [1, 100],
    ],
    null,
  ],
])('%s', (_, runs, minute) => {
  expect(findNotableRejections(toRuns(runs))).toEqual(minute === null ? null : since(minute))
})
