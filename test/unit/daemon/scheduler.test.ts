import { describe, expect, test } from 'vitest'
import { scheduleName } from '../../../src/config/cron.ts'
import { decideScheduledRun } from '../../../src/domain/schedule.ts'

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
