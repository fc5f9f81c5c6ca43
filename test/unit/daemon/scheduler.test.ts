import { describe, expect, test } from 'vitest'
import { previousTime, scheduleName, nextTimes } from '../../../src/config/cron.ts'
import { decideScheduledRun } from '../../../src/domain/schedule.ts'

const oslo = (cron: string) => ({ cron, timezone: 'Europe/Oslo' })
const times = (when: ReturnType<typeof oslo>, after: string, count: number): string[] =>
  nextTimes(when, Date.parse(after), count).map((at) => new Date(at).toISOString().slice(0, 16))

describe('the clock of Oslo', () => {
  test('a time skipped by daylight saving runs once, when the gap ends', () => {
    expect(times(oslo('30 2 * * *'), '2026-03-28T00:00Z', 3)).toEqual([
      '2026-03-28T01:30',
      '2026-03-29T01:00',
      '2026-03-30T00:30',
    ])
  })
  test('a time that occurs twice runs once', () => {
    expect(times(oslo('30 2 * * *'), '2026-10-24T12:00Z', 2)).toEqual([
      '2026-10-25T00:30',
      '2026-10-26T01:30',
    ])
  })
  test('every half hour is every half hour on both days', () => {
    expect(times(oslo('*/30 * * * *'), '2026-03-29T00:10Z', 4)).toEqual([
      '2026-03-29T00:30',
      '2026-03-29T01:00',
      '2026-03-29T01:30',
      '2026-03-29T02:00',
    ])
    expect(times(oslo('*/30 * * * *'), '2026-10-24T23:40Z', 4)).toEqual([
      '2026-10-25T00:00',
      '2026-10-25T00:30',
      '2026-10-25T01:00',
      '2026-10-25T01:30',
    ])
  })
  test.each(['30 2 * * *', '0 2 * * *', '*/20 * * * *', '0 3 * * SUN', '15 1-4 * * *'])(
    'previousTime agrees with nextTimes: %s',
    (cron) => {
      for (const day of ['2026-03-28', '2026-10-24']) {
        const start = Date.parse(`${day}T00:00Z`)
        const ticks = nextTimes(oslo(cron), start - 1, 200).filter((at) => at < start + 3 * 86_400_000)
        for (const [n, at] of ticks.entries()) {
          expect(previousTime(oslo(cron), at)).toBe(at)
          expect(previousTime(oslo(cron), (ticks[n + 1] ?? at + 1) - 1)).toBe(at)
        }
      }
    },
  )
})

test('a changed schedule has another name', () => {
  const entry = { cron: '0 2  * * *', timezone: null, sources: ['a', 'b'] }
  expect(scheduleName(entry)).toBe('0 2 * * * | a,b')
  expect(scheduleName({ ...entry, timezone: 'Europe/Oslo' })).toBe('0 2 * * * | Europe/Oslo | a,b')
})

describe('a tick', () => {
  const night = Date.parse('2026-03-01T02:00Z')
  const hour = 3_600_000
  test('is queued when due, also a little late', () => {
    for (const catchUp of [true, false])
      expect(decideScheduledRun(night, night + 30_000, { known: false, catchUp }).state).toBe('waiting')
  })
  test('that was missed is caught up, unless disabled', () => {
    expect(decideScheduledRun(night, night + hour, { known: true, catchUp: true }).state).toBe('waiting')
    expect(decideScheduledRun(night, night + hour, { known: true, catchUp: false }).state).toBe('skipped')
  })
  test('before the schedule was known is not caught up', () => {
    expect(decideScheduledRun(night, night + hour, { known: false, catchUp: true }).state).toBe('skipped')
  })
})
