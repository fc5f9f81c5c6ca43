import { expect, test } from 'vitest'
import { selectRows, type ClaimBounds } from '../../../src/pipeline/pick/claim.ts'
import { KeyRangeScan, ReadAhead } from '../../../src/pipeline/pick/pass.ts'

/** Reads a table of the keys 1 to `rows` to its end, and returns them in the order in which they were read. */
function readAll(scan: KeyRangeScan, rows: number): number[] {
  const read: number[] = []
  while (!scan.isDone) {
    const from = Number(scan.range.after ?? 0)
    const until = Math.min(Number(scan.range.until ?? rows), rows, from + scan.rows)
    const isFull = until - from === scan.rows
    for (let key = from + 1; key <= until; key++) read.push(key)
    scan.advance(isFull ? String(until) : null, 0)
  }
  return read
}

test('a scan without splits reads the table in key order', () => {
  expect(readAll(new KeyRangeScan(), 2_500)).toEqual(Array.from({ length: 2_500 }, (_, n) => n + 1))
})

test.each([1, 2, 7, 400])('a scan of key ranges reads every row once (first pages of %i rows)', (rows) => {
  const read = readAll(new KeyRangeScan(['3', '120', '121', '900', '2500'], rows), 2_500)
  expect(read.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 2_500 }, (_, n) => n + 1))
})

const bounds: ClaimBounds = { max: Number.POSITIVE_INFINITY, countsSkipped: false, endsAtBudget: false }
const costs = ['a', null, 'b', 'a', 'c', null, 'b', 'd']

test('rows are selected as far as the budget pays, and rows that cost nothing in any case', () => {
  expect(selectRows(costs, 2, bounds)).toEqual({
    taken: [0, 1, 2, 3, 5, 6],
    skipped: [4, 7],
    considered: 8,
    isAtBudget: false,
  })
})

test('a budget pays ten lookups of a tenth with one credit, and no eleventh', () => {
  const keys = Array.from({ length: 12 }, (_, n) => String(n))
  const { taken } = selectRows(keys, 1, { ...bounds, endsAtBudget: true }, () => 0.1)
  expect(taken).toHaveLength(10)
})

test('a selection that ends at the budget takes nothing after it', () => {
  expect(selectRows(costs, 2, { ...bounds, endsAtBudget: true })).toEqual({
    taken: [0, 1, 2, 3],
    skipped: [],
    considered: 4,
    isAtBudget: true,
  })
})

test.each([
  [false, 5, [0, 1, 2, 3, 5], 6],
  [true, 5, [0, 1, 2, 3], 5],
])('a maximum counts skipped rows: %s', (countsSkipped, max, taken, considered) => {
  expect(selectRows(costs, 2, { ...bounds, countsSkipped, max })).toMatchObject({
    taken,
    considered,
    isAtBudget: false,
  })
})

test('reading on beyond the budget goes as far as it finds rows that cost nothing', () => {
  const readAhead = new ReadAhead()
  readAhead.add(9_999, 0)
  expect(readAhead.isOver).toBe(false)
  readAhead.add(1, 0)
  expect(readAhead.isOver).toBe(true)
  readAhead.add(1_000, 11)
  expect(readAhead.isOver).toBe(false)
})
