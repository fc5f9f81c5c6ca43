import { describe, expect, test } from 'vitest'
import { BatchSize, statementTimeoutMs } from '../../../src/pipeline/batch-size.ts'

describe('batch size', () => {
  test('halves after a cancelled batch, down to one row, and grows again when the table is fast', () => {
    const pace = new BatchSize(1_000)
    pace.halve(1_000)
    expect(pace.rows).toBe(500)
    for (let n = 0; n < 20; n++) pace.halve(pace.rows)
    expect(pace.rows).toBe(1)
    for (let n = 0; n < 20; n++) pace.onBatch(pace.rows, 10)
    expect(pace.rows).toBe(1_000)
  })
  test('settles at batches of one second if the table is slow', () => {
    const pace = new BatchSize(1_000)
    pace.onBatch(1_000, 70_000)
    expect(pace.rows).toBe(14)
    pace.onBatch(14, 980)
    expect(pace.rows).toBe(14)
    pace.onBatch(1, 5_000)
    expect(pace.rows).toBe(1)
  })
  test('is bounded by the bytes of its records', () => {
    const pace = new BatchSize(4_000, 1_000)
    pace.onBatch(1_000, 10, 5 * 2 ** 20)
    expect(pace.rows).toBe(1_000)
    pace.onBatch(1_000, 10, 16 * 2 ** 20)
    expect(pace.rows).toBe(500)
    pace.onBatch(500, 10, 2 ** 20)
    expect(pace.rows).toBe(1_000)
  })
  test('does not grow after a partial batch', () => {
    const pace = new BatchSize(1_000)
    pace.halve(1_000)
    pace.onBatch(3, 1)
    expect(pace.rows).toBe(500)
  })
  test('gives several rows less time than a single row, which cannot be split further', () => {
    expect(statementTimeoutMs(2, 60_000)).toBe(5_000)
    expect(statementTimeoutMs(1, 60_000)).toBe(60_000)
    expect(statementTimeoutMs(2, 1_000)).toBe(1_000)
  })
})
