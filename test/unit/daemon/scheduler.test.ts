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
    expect(decideScheduledRun(night, night + 30_000, { known: false }).state).toBe('waiting')
  })
  test('that was missed is caught up', () => {
    expect(decideScheduledRun(night, night + hour, { known: true }).state).toBe('waiting')
  })
  test('before the schedule was known is not caught up', () => {
    expect(decideScheduledRun(night, night + hour, { known: false }).state).toBe('skipped')
  })
})
