import { describe, expect, test } from 'vitest'
import { BatchSize, statementTimeoutMs } from '../../../src/pipeline/batch-size.ts'

describe('the size of a batch', () => {
  test('is halved when one is cut off, down to one row, and grows again when the table is fast', () => {
    const pace = new BatchSize(1_000)
    pace.halve(1_000)
    expect(pace.rows).toBe(500)
    for (let n = 0; n < 20; n++) pace.halve(pace.rows)
    expect(pace.rows).toBe(1)
    for (let n = 0; n < 20; n++) pace.onBatch(pace.rows, 10)
    expect(pace.rows).toBe(1_000)
  })
  test('is that of a batch which holds its locks for a second, where the table is slow', () => {
    const pace = new BatchSize(1_000)
    pace.onBatch(1_000, 70_000)
    expect(pace.rows).toBe(14)
    pace.onBatch(14, 980)
    expect(pace.rows).toBe(14)
    pace.onBatch(1, 5_000)
    expect(pace.rows).toBe(1)
  })
  test('does not grow by a batch that was smaller because there was no more', () => {
    const pace = new BatchSize(1_000)
    pace.halve(1_000)
    pace.onBatch(3, 1)
    expect(pace.rows).toBe(500)
  })
  test('of several rows gets less time than one row alone, which has no smaller batch to go to', () => {
    expect(statementTimeoutMs(2, 60_000)).toBe(5_000)
    expect(statementTimeoutMs(1, 60_000)).toBe(60_000)
    expect(statementTimeoutMs(2, 1_000)).toBe(1_000)
  })
})
