import { describe, expect, test } from 'vitest'
import {
  advanceCursor,
  readSince,
  type RunningTransaction,
  type SourceCursor,
} from '../../../src/store/source-state.ts'

const MINUTE = 60_000
const DAY = 24 * 60 * MINUTE
const now = new Date('2026-11-22T12:00:00Z')
const ago = (ms: number): Date => new Date(now.getTime() - ms)

const cursor: SourceCursor = {
  changedUntil: ago(DAY + 5 * MINUTE),
  startedAt: ago(DAY),
  running: new Map([['3/7', ago(DAY + 5 * MINUTE)]]),
  fullPassAt: ago(3 * DAY),
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
    ['it is not known when an open transaction began', { ...cursor, changedUntil: new Date(0) }],
  ])('the whole table is read: %s', (_, given) => {
    expect(readSince(given, now)).toBeNull()
  })
})

describe('how far a pass has read', () => {
  const hidden = (id: string): RunningTransaction => ({ id, startedAt: null, isPrepared: false })
  const prepared = (id: string): RunningTransaction => ({ ...hidden(id), isPrepared: true })
  test.each<[string, RunningTransaction[], SourceCursor | null, Date]>([
    ['up to its start if no transaction is open', [], cursor, now],
    ['the same in the first pass', [], null, now],
    [
      'up to the start of the oldest open transaction',
      [
        { id: '4/1', startedAt: ago(5 * MINUTE), isPrepared: false },
        { id: '5/1', startedAt: ago(40 * MINUTE), isPrepared: false },
      ],
      cursor,
      ago(40 * MINUTE),
    ],
    [
      'up to the start of the previous pass beside a hidden one that began since',
      [hidden('3/8')],
      cursor,
      ago(DAY),
    ],
    [
      'no further than before beside a hidden one that was open then',
      [hidden('3/8'), hidden('3/7')],
      cursor,
      cursor.changedUntil,
    ],
    [
      'no further than before beside a prepared one, which had another name',
      [prepared('prepared 812')],
      cursor,
      cursor.changedUntil,
    ],
    [
      'not known if the previous pass is in the future',
      [hidden('3/8')],
      { ...cursor, startedAt: ago(-1) },
      new Date(0),
    ],
    ['not known in a first pass beside a hidden one', [hidden('3/8')], null, new Date(0)],
  ])('%s', (_, running, before, until) => {
    expect(advanceCursor({ now, running }, before).changedUntil).toEqual(until)
  })

  test('passes beside hidden transactions that overlap advance, each by one that has ended', () => {
    let at: SourceCursor = { ...cursor, running: new Map() }
    const pass = (minutes: number, ids: readonly string[]): Date => {
      const startedAt = new Date(now.getTime() + minutes * MINUTE)
      at = { ...at, ...advanceCursor({ now: startedAt, running: ids.map(hidden) }, at), startedAt }
      return at.changedUntil
    }
    expect(pass(0, ['1/1'])).toEqual(cursor.startedAt)
    expect(pass(1, ['1/1', '2/1'])).toEqual(cursor.startedAt)
    expect(pass(2, ['2/1', '3/1'])).toEqual(now)
    expect(pass(3, ['3/1'])).toEqual(new Date(now.getTime() + MINUTE))
    expect(pass(4, [])).toEqual(new Date(now.getTime() + 4 * MINUTE))
  })
})
