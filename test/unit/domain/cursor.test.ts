import { describe, expect, test } from 'vitest'
import { advanceCursor, readSince, type SourceCursor, type PassStart } from '../../../src/domain/cursor.ts'

const MINUTE = 60_000
const DAY = 24 * 60 * MINUTE
const now = new Date('2026-11-22T12:00:00Z')
const ago = (ms: number): Date => new Date(now.getTime() - ms)

const cursor: SourceCursor = {
  changedUntil: ago(DAY + 5 * MINUTE),
  startedAt: ago(DAY),
  snapshotXmax: 100n,
  fullPassAt: ago(3 * DAY),
}
const start: PassStart = {
  now,
  oldestTransactionAt: null,
  hasHidden: false,
  snapshotXmin: 200n,
  snapshotXmax: 200n,
}

describe('where a pass starts to read changes', () => {
  test('from the cursor, less ten minutes for the clocks of applications', () => {
    expect(readSince(cursor, now)).toEqual(ago(DAY + 15 * MINUTE))
  })
  test.each([
    ['there is no cursor', null],
    ['the cursor is in the future', { ...cursor, changedUntil: ago(-1) }],
    ['the last whole pass is in the future', { ...cursor, fullPassAt: ago(-1) }],
    ['the last whole pass is a week old', { ...cursor, fullPassAt: ago(7 * DAY) }],
  ])('the whole table is read: %s', (_, given) => {
    expect(readSince(given, now)).toBeNull()
  })
})

describe('how far a pass has read', () => {
  test('up to its start if no transaction is open', () => {
    expect(advanceCursor(start, cursor)).toEqual(now)
    expect(advanceCursor(start, null)).toEqual(now)
  })
  test('up to the start of the oldest open transaction', () => {
    const open = { ...start, oldestTransactionAt: ago(40 * MINUTE), snapshotXmin: 150n }
    expect(advanceCursor(open, cursor)).toEqual(ago(40 * MINUTE))
  })

  const hidden = { ...start, hasHidden: true }
  test('up to its start if hidden sessions write nothing', () => {
    expect(advanceCursor(hidden, cursor)).toEqual(now)
  })
  test('up to the start of the previous pass if a hidden transaction started writing since', () => {
    expect(advanceCursor({ ...hidden, snapshotXmin: 100n }, cursor)).toEqual(cursor.startedAt)
  })
  test('no further than before if a hidden transaction has been writing since before the previous pass', () => {
    expect(advanceCursor({ ...hidden, snapshotXmin: 99n }, cursor)).toEqual(cursor.changedUntil)
  })
  test('unknown after a first pass beside a hidden writing transaction', () => {
    expect(advanceCursor({ ...hidden, snapshotXmin: 99n }, null)).toBeNull()
  })
  test('the oldest visible transaction bounds it too', () => {
    const both = { ...hidden, snapshotXmin: 100n, oldestTransactionAt: ago(2 * DAY) }
    expect(advanceCursor(both, cursor)).toEqual(ago(2 * DAY))
  })
})
