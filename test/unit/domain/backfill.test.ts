import { expect, test } from 'vitest'
import { describeBackfill, foreseeBackfill } from '../../../src/domain/backfill.ts'

const now = Date.parse('2026-12-01T06:00:00Z')
const hoursAgo = (hours: number) => new Date(now - hours * 3_600_000)

test('a backfill ends when what remains is picked at the pace of the last week', () => {
  const backfill = foreseeBackfill(
    { picked: 10_000, eligible: 60_000 },
    { picked: 10_000, since: hoursAgo(24 + 4) },
    now,
  )
  expect(backfill).toEqual({
    picked: 10_000,
    eligible: 60_000,
    per_day: 5_000,
    done_at: new Date('2026-12-11T06:00:00Z'),
  })
  expect(backfill && describeBackfill(backfill)).toBe(
    '10,000 of 60,000 rows picked, done by 2026-12-11 at this pace',
  )
})

test('nothing is foreseen on the first day: one run is no pace', () => {
  for (const hours of [0.1, 1, 24])
    expect(
      foreseeBackfill({ picked: 4_100, eligible: 8_200 }, { picked: 4_100, since: hoursAgo(hours) }, now),
    ).toMatchObject({ per_day: null, done_at: null })
})

test('an unknown pace foresees nothing, and a pace of nearly nothing no date beyond the calendar', () => {
  const counts = { picked: 5, eligible: 10 }
  const unknown = { ...counts, per_day: null, done_at: null }
  expect(foreseeBackfill(counts, { picked: 0, since: hoursAgo(5) }, now)).toEqual(unknown)
  expect(foreseeBackfill(counts, { picked: 5, since: null }, now)).toEqual(unknown)
  const slow = { picked: 1, since: hoursAgo(160) }
  expect(foreseeBackfill({ picked: 5, eligible: Number.MAX_SAFE_INTEGER }, slow, now)?.done_at).toBeNull()
  expect(describeBackfill(unknown)).toBe('5 of 10 rows picked')
})

test('nothing is foreseen of a source whose rows were all picked', () => {
  expect(foreseeBackfill({ picked: 10, eligible: 10 }, { picked: 10, since: hoursAgo(5) }, now)).toBeNull()
})
